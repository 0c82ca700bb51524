//! What the splitter finds, and what it refuses.

use super::damages;

fn what(text: &str) -> Vec<String> {
    damages("it", text).into_iter().map(|damage| damage.what).collect()
}

#[test]
fn n10_every_operand_is_found_however_deep_it_stands() {
    let text = "SELECT CASE WHEN a = 1 THEN 'one' END FROM k
        WHERE b = 'x AND y' AND (c < f(d, 2) OR e IS NOT NULL AND g IN (SELECT h FROM l WHERE i))";
    let found = [
        "`a = 1` → true",
        "`a = 1` → false",
        "`b = 'x AND y'` → true",
        "`(c < f(d, 2) OR e IS NOT NULL AND g IN (SELECT h FROM l WHERE i))` → true",
        "`c < f(d, 2)` → false",
        "`e IS NOT NULL` → true",
        "`e IS NOT NULL AND g IN (SELECT h FROM l WHERE i)` → false",
        "`g IN (SELECT h FROM l WHERE i)` → true",
        "`i` → true",
    ];
    assert_eq!(what(text), found);
    assert_eq!(
        damages("it", text)[2].text,
        text.replace("b = 'x AND y'", "((b = 'x AND y') OR true)"),
        "the rest stays as it was"
    );
}

#[test]
fn n10_clauses_counters_and_assignments_are_found() {
    let text = "WITH l AS MATERIALIZED (SELECT a FROM k ORDER BY a LIMIT $1 FOR UPDATE SKIP LOCKED)
        UPDATE k SET n = k.n + 1, t = GREATEST(k.t, CASE $2 WHEN 'x' THEN u END) RETURNING 'written' AS verdict";
    let found = [
        "`l AS MATERIALIZED` → not",
        "`ORDER BY a` → gone",
        "`LIMIT $1` → gone",
        "`FOR UPDATE SKIP LOCKED` → gone",
        "`SKIP LOCKED` → gone",
        "`n = k.n + 1` → kept",
        "`k.n + 1` → not counted",
        "`t = GREATEST(k.t, CASE $2 WHEN 'x' THEN u END)` → kept",
        "`k.t` → null",
        "`CASE $2 WHEN 'x' THEN u END` → null",
        "`'x'` → null",
        "`RETURNING 'written' AS verdict` → in any case",
    ];
    assert_eq!(what(text), found);
    let text = "INSERT INTO k (a) SELECT 1 FROM t WHERE b ON CONFLICT (a) DO NOTHING";
    assert_eq!(what(text), ["`b` → true", "`ON CONFLICT (a) DO NOTHING` → gone"]);
    let text = "SELECT 'written' AS verdict FROM u UNION ALL SELECT k.status FROM k";
    assert_eq!(what(text), ["`FROM u` → gone"]);
}

#[test]
fn n10_what_is_the_same_text_twice_is_told_apart() {
    assert_eq!(what("SELECT 1 WHERE a UNION ALL SELECT 2 WHERE a"), ["`a` → true", "`a` → true, no. 2"]);
}

#[test]
#[should_panic(expected = "has to be taught")]
fn n10_what_was_not_taught_is_refused() {
    damages("it", "SELECT 1 WHERE a BETWEEN 1 AND 2");
}
