//! Tables: what agrees, what differs, what is refused.

use super::{MAX_DEPTH, NotCanonical, canonical_json};

fn form(raw: impl AsRef<[u8]>) -> String {
    let raw = raw.as_ref();
    let canonical = canonical_json(raw).unwrap_or_else(|error| panic!("{error}: {}", raw.escape_ascii()));
    String::from_utf8(canonical).unwrap()
}

/// Every spelling has the first one's form, and that form is its own.
#[track_caller]
fn assert_agree(canonical: &str, spellings: &[&str]) {
    for spelling in spellings {
        assert_eq!(form(spelling), canonical, "{spelling}");
    }
    assert_eq!(form(canonical), canonical);
}

#[track_caller]
fn assert_all_differ(values: &[&str]) {
    for (nth, one) in values.iter().enumerate() {
        for other in &values[nth + 1..] {
            assert_ne!(form(one), form(other), "{one} and {other}");
        }
    }
}

#[test]
fn b076_order_space_and_escapes_do_not_matter() {
    assert_agree(
        r#"{"a":{"x":null,"y":[1,2e1]},"b":"Aé/"}"#,
        &[
            r#"{"a":{"x":null,"y":[1,20]},"b":"Aé/"}"#,
            r#"{"b":"\u0041\u00e9\/","a":{"y":[1.0,2E+1],"x":null}}"#,
            "\r\n{\t\"b\" : \"A\\u00E9/\" ,\n \"a\":{ \"y\":[ 1 , 0.2e2 ] , \"x\" : null } } \n",
        ],
    );
    assert_all_differ(&[
        "[1,2]",
        "[2,1]",
        "[[1],2]",
        "[[1,2]]",
        "[]",
        "{}",
        "null",
        "[null]",
        r#"{"":null}"#,
    ]);
    assert_all_differ(&["true", "false", "null", r#""true""#, r#""null""#, "0", r#""0""#, r#""""#]);
}

#[test]
fn b080_f09_numbers_agree_by_exact_value() {
    assert_agree("1", &["1", "1.0", "1e0", "10e-1", "1E+0", "0.1e1", "1.000e-0", "0.001e3", "1000e-3"]);
    assert_agree("-12e2", &["-1200", "-1.2e3", "-1200.00", "-0.12E4", "-12e+02"]);
    assert_agree("5e-1", &["0.5", "0.50", "5e-1", "50e-2", "0.05e1"]);
    assert_agree("3e-1", &["0.3", "0.30", "30E-2"]);
    assert_all_differ(&["0.1", "0.10000000000000001", "1", "-1", "10", "100", "1e-2", "1e1000", "1e-1000"]);
    assert_all_differ(&["0.3", "0.30000000000000004", "0.29999999999999999"]);
}

#[test]
fn b080_f08_large_integers_stay_apart() {
    assert_all_differ(&[
        r#"{"account":9007199254740991}"#,
        r#"{"account":9007199254740992}"#,
        r#"{"account":9007199254740993}"#,
        r#"{"account":9007199254740994}"#,
        r#"{"account":-9007199254740993}"#,
    ]);
    assert_all_differ(&["18446744073709551615", "18446744073709551616", "18446744073709551617"]);
}

#[test]
fn b080_f10_numbers_no_machine_type_holds() {
    let (one, other) = ("123456789012345678901234567890", "123456789012345678901234567891");
    assert_agree("12345678901234567890123456789e1", &[one, "123456789012345678901234567890.000"]);
    assert_all_differ(&[one, other]);
    assert_agree("1e400", &["1e400", "10e399", "0.1E+401", "100.0e00398"]);
    assert_agree("1e-400", &["1e-400", "0.001e-397"]);
    assert_all_differ(&["1e308", "1e309", "1e400", "1e401", "-1e400"]);
}

#[test]
fn f10_exponents_have_no_bound() {
    assert_agree("1e999999999999999999999", &["1e999999999999999999999", "0.1e1000000000000000000000"]);
    assert_all_differ(&["1e999999999999999999999", "1e999999999999999999998", "1e-999999999999999999999"]);

    let nines = "9".repeat(40);
    let power = format!("1{}", "0".repeat(40));
    assert_agree(&format!("1e{power}"), &[&format!("10e{nines}"), &format!("1e+00{power}")]);
    assert_agree(&format!("1e{nines}"), &[&format!("0.1e{power}"), &format!("10e{}8", &nines[1..])]);
    assert_agree(&format!("1e-{nines}"), &[&format!("10e-{power}"), &format!("0.1e-{}8", &nines[1..])]);
    assert_agree(&format!("1e-{power}"), &[&format!("0.1e-{nines}"), &format!("1e-00{power}")]);
    assert_agree("0", &[&format!("0e{nines}"), &format!("-0.00e-{nines}")]);
}

/// Exponents of 30 digits are added as an integer, longer ones digit by digit: both must spell one value alike.
#[test]
fn f10_the_two_ways_to_add_an_exponent_meet() {
    let largest_short = "9".repeat(30);
    let smallest_long = format!("1{}", "0".repeat(30));
    assert_agree(
        &format!("1e{smallest_long}"),
        &[&format!("10e{largest_short}"), &format!("1e{smallest_long}")],
    );
    assert_agree(&format!("1e{largest_short}"), &[&format!("0.1e{smallest_long}")]);
    assert_agree(&format!("1e-{smallest_long}"), &[&format!("0.1e-{largest_short}")]);
    assert_agree(&format!("1e-{largest_short}"), &[&format!("10e-{smallest_long}")]);
}

#[test]
fn f11_a_member_named_twice_is_refused() {
    for body in [
        r#"{"a":1,"a":2}"#,
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"b":2,"\u0061":3}"#,
        r#"{"":1,"":2}"#,
        r#"[{"x":{"a":1,"b":0,"a":2}}]"#,
    ] {
        let refused = canonical_json(body.as_bytes());
        assert!(matches!(refused, Err(NotCanonical::DuplicateName { .. })), "{body}: {refused:?}");
    }
    assert_eq!(canonical_json(br#"{"a":1,"a":2}"#), Err(NotCanonical::DuplicateName { at: 13 }));
    assert_agree(r#"{"a":{"a":1},"b":{"a":1}}"#, &[r#"{"b":{"a":1},"a":{"a":1}}"#]);
}

#[test]
fn f12_strings_are_not_normalised() {
    assert_all_differ(&[r#""A\u030a""#, r#""\u00c5""#, r#""\u212b""#, r#""A""#, r#""a""#, r#""A ""#]);
    assert_agree("\"A\u{30a}\"", &[r#""A\u030a""#, r#""\u0041\u030A""#]);
    assert_agree("\"\u{1f602}\"", &[r#""\ud83d\ude02""#, r#""\uD83D\uDE02""#, "\"\u{1f602}\""]);
    assert_all_differ(&[r#""\u0000""#, r#""""#, r#""\\u0000""#, r#""0""#]);
}

#[test]
fn f12_each_character_has_one_escape() {
    assert_agree(
        r#""\"\\/\b\f\n\r\t\u0000\u001f""#,
        &[
            r#""\"\\\/\b\f\n\r\t\u0000\u001F""#,
            r#""\u0022\u005c\u002f\u0008\u000c\u000a\u000d\u0009\u0000\u001f""#,
        ],
    );
    assert_agree("\"\u{7f}\u{80}\u{2028}\u{feff}\"", &[r#""\u007f\u0080\u2028\ufeff""#]);
}

#[test]
fn f13_members_sort_by_utf16_code_units() {
    assert_agree(
        "{\"\":0,\"\\n\":1,\"1\":2,\"A\":3,\"a\":4,\"aa\":5,\"\u{80}\":6,\"\u{f6}\":7,\"\u{20ac}\":8,\"\u{1f602}\":9,\"\u{fb33}\":1e1}",
        &[
            r#"{"\ufb33":10,"\ud83d\ude02":9,"\u20ac":8,"\u00f6":7,"\u0080":6,"aa":5,"a":4,"A":3,"1":2,"\n":1,"":0}"#,
        ],
    );
}

#[test]
fn f14_minus_zero_is_zero() {
    assert_agree("0", &["0", "-0", "0.0", "-0.0", "0e5", "-0E-99", "0.000e+10"]);
}

#[test]
fn f14_half_a_surrogate_pair_is_refused() {
    for body in [
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\udbff\ud800""#,
        r#""\udc00\ud800""#,
        r#""\ud800x""#,
        r#"{"\ud83d":1}"#,
    ] {
        let refused = canonical_json(body.as_bytes());
        assert!(matches!(refused, Err(NotCanonical::LoneSurrogate { .. })), "{body}: {refused:?}");
    }
    assert_eq!(canonical_json(b"\"\xed\xa0\x80\""), Err(NotCanonical::NotUtf8 { at: 1 }));
}

#[test]
fn f14_f16_what_is_not_json_is_refused() {
    for (body, at) in [
        ("", 0),
        (" ", 1),
        ("{", 1),
        ("[", 1),
        ("[1", 2),
        ("[1,", 3),
        ("[1,]", 3),
        ("[,1]", 1),
        ("[1 2]", 3),
        ("{\"a\"}", 4),
        ("{\"a\":}", 5),
        ("{\"a\":1,}", 7),
        ("{a:1}", 1),
        ("{1:1}", 1),
        ("\"", 1),
        ("\"a", 2),
        ("\"\\", 2),
        ("\"\\x\"", 2),
        ("\"\\u00g0\"", 5),
        ("\"\\u+041\"", 3),
        ("\"\\u004", 6),
        ("\"\n\"", 1),
        ("\"\u{0}\"", 1),
        ("\"\u{1f}\"", 1),
        ("'a'", 0),
        ("NaN", 0),
        ("Infinity", 0),
        ("-Infinity", 1),
        ("nul", 0),
        ("nullx", 4),
        ("True", 0),
        ("01", 1),
        ("-", 1),
        ("+1", 0),
        (".5", 0),
        ("1.", 2),
        ("1.e1", 2),
        ("1e", 2),
        ("1e+", 3),
        ("1e1.5", 3),
        ("0x10", 1),
        ("1_000", 1),
        ("1 1", 2),
        ("{}{}", 2),
        ("[]]", 2),
        ("1\u{0}", 1),
        ("1\u{a0}", 1),
        ("/**/1", 0),
        ("\u{feff}1", 0),
    ] {
        assert_eq!(canonical_json(body.as_bytes()), Err(NotCanonical::Syntax { at }), "{body:?}");
    }
    assert_eq!(canonical_json(b"\"\xff\""), Err(NotCanonical::NotUtf8 { at: 1 }));
    assert_eq!(canonical_json(b"\xfe\xff\0{\0}"), Err(NotCanonical::NotUtf8 { at: 0 }));
}

#[test]
fn f15_nesting_is_bounded() {
    let arrays = |depth: usize| ["[".repeat(depth), "]".repeat(depth)].concat();
    let objects = |depth: usize| [r#"{"a":"#.repeat(depth).as_str(), "1", &"}".repeat(depth)].concat();

    assert_eq!(form(arrays(MAX_DEPTH)), arrays(MAX_DEPTH));
    assert_eq!(form(objects(MAX_DEPTH)), objects(MAX_DEPTH));
    assert_eq!(canonical_json(arrays(MAX_DEPTH + 1).as_bytes()), Err(NotCanonical::TooDeep { at: 128 }));
    assert_eq!(canonical_json(objects(200).as_bytes()), Err(NotCanonical::TooDeep { at: 5 * 128 }));
    assert_eq!(canonical_json(&vec![b'['; 1 << 20]), Err(NotCanonical::TooDeep { at: 128 }));

    // The bound is on depth, not on the number of brackets.
    let wide = format!("[{}[]]", "[[]],".repeat(1000));
    assert_eq!(form(&wide), wide);
}

#[test]
fn f15_the_deepest_body_fits_a_small_stack() {
    let deepest = [r#"[{"a":"#.repeat(MAX_DEPTH / 2).as_str(), "1", &"}]".repeat(MAX_DEPTH / 2)].concat();
    let small = std::thread::Builder::new().stack_size(256 * 1024);
    let same = small.spawn(move || form(&deepest) == deepest).unwrap();
    assert!(same.join().unwrap());
}

#[test]
fn errors_say_where_and_not_what() {
    let refused = canonical_json(br#"{"card":"4242 4242","card":1}"#).unwrap_err();
    assert_eq!(refused.to_string(), "body names an object member twice, in the object that ends at byte 29");
    let refused = canonical_json(br#"{"card": 4242"#).unwrap_err();
    assert_eq!(refused.to_string(), "body is not JSON at byte 13");
    let refused = canonical_json(&[b'['; 200]).unwrap_err();
    assert_eq!(refused.to_string(), "body nests deeper than 128 at byte 128");
}
