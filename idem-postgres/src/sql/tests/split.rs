//! What can be left out of a statement, found in its text.
//!
//! This is no parser of SQL: words, quotes, parentheses and `CASE … END` are enough for the statements of this crate, and
//! what it has not been taught it refuses. Whatever is left out, the rest still is a statement with the same parameters
//! of the same types, since the condition stays in the text as `((…) OR true)`.

mod tests;

use std::{fmt, iter, ops::Range};

/// A statement that lacks one thing.
#[derive(Clone, Debug)]
pub(super) struct Damage {
    pub(super) statement: &'static str,
    /// What it lacks.
    pub(super) what: String,
    /// What is left.
    pub(super) text: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} without {}", self.statement, self.what)
    }
}

/// Everything that can be left out, from top to bottom.
pub(super) fn damages(statement: &'static str, text: &str) -> Vec<Damage> {
    const UNKNOWN: [&str; 12] = [
        "--",
        "/*",
        "\"",
        "$$",
        " BETWEEN ",
        " JOIN ",
        " DISTINCT ",
        " HAVING ",
        " FILTER ",
        " EXCEPT ",
        " INTERSECT ",
        " OVER ",
    ];
    for word in UNKNOWN {
        assert!(!text.contains(word), "{statement}: the splitter has to be taught {word:?} first");
    }
    let mut splitter = Splitter { text, tokens: tokens(text), found: Vec::new() };
    let all = splitter.tokens.len();
    splitter.group(0..all, 0, None);
    for opening in 0..all {
        let Token { word, depth, .. } = splitter.tokens[opening];
        if word == "(" || word == "CASE" {
            splitter.group(opening + 1..splitter.closing(opening), depth + 1, Some(opening));
        }
    }
    splitter.unread_row();
    splitter.found.sort_by_key(|(at, _)| *at);
    let mut damages: Vec<Damage> = Vec::new();
    for (_, (what, text)) in splitter.found {
        let same = damages.iter().filter(|other| other.what.starts_with(&what)).count();
        let what = if same == 0 { what } else { format!("{what}, no. {}", same + 1) };
        damages.push(Damage { statement, what, text });
    }
    damages
}

/// One word, literal or sign; what stands in parentheses or between `CASE` and `END` is deeper than they are.
#[derive(Clone, Copy)]
struct Token<'t> {
    word: &'t str,
    at: usize,
    depth: usize,
}

impl Token<'_> {
    fn end(&self) -> usize {
        self.at + self.word.len()
    }
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let (mut tokens, mut at, mut depth) = (Vec::new(), 0, 0_usize);
    let run = |from: usize, of: fn(char) -> bool| -> usize {
        text[from..].find(|letter| !of(letter)).unwrap_or(text.len() - from)
    };
    while let Some(first) = text[at..].chars().next() {
        let length = match first {
            '\'' => text[at + 1..].find('\'').expect("a quote ends") + 2,
            '(' | ')' | ',' => 1,
            _ if is_of_a_word(first) => run(at, is_of_a_word),
            _ if "<>=+-*".contains(first) => run(at, |letter| "<>=+-*".contains(letter)),
            _ if first.is_whitespace() => {
                at += 1;
                continue;
            }
            _ => panic!("the splitter has to be taught {first:?} first"),
        };
        let word = &text[at..at + length];
        if matches!(word, ")" | "END") {
            depth = depth.checked_sub(1).expect("what ends has begun");
        }
        tokens.push(Token { word, at, depth });
        if matches!(word, "(" | "CASE") {
            depth += 1;
        }
        at += length;
    }
    assert_eq!(depth, 0, "what begins ends");
    tokens
}

fn is_of_a_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_.$:{}[]".contains(letter)
}

/// A part of a clause: the keyword before it, and its tokens that are no deeper.
struct Part {
    keyword: Option<usize>,
    items: Vec<usize>,
}

struct Splitter<'t> {
    text: &'t str,
    tokens: Vec<Token<'t>>,
    /// Where, what is left out, and what is left.
    found: Vec<((usize, usize), (String, String))>,
}

impl Splitter<'_> {
    fn word(&self, index: usize) -> &str {
        self.tokens[index].word
    }

    fn closing(&self, opening: usize) -> usize {
        let depth = self.tokens[opening].depth;
        let after = (opening + 1..self.tokens.len()).find(|index| self.tokens[*index].depth == depth);
        after.expect("what begins ends")
    }

    fn span(&self, items: &[usize]) -> Range<usize> {
        let (first, last) = (items.first().expect("not empty"), items.last().expect("not empty"));
        self.tokens[*first].at..self.tokens[*last].end()
    }

    fn plain(&self, items: &[usize]) -> String {
        self.text[self.span(items)].split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Notes that `items` may be replaced; `shown` is how the table calls that.
    fn replace(&mut self, items: &[usize], by: &str, shown: &str) {
        let what = format!("`{}` → {shown}", self.plain(items));
        let span = self.span(items);
        let left = format!("{}{by}{}", &self.text[..span.start], &self.text[span.end..]);
        self.found.push(((span.start, span.end), (what, left)));
    }

    fn always(&mut self, items: &[usize]) {
        let by = format!("(({}) OR true)", &self.text[self.span(items)]);
        self.replace(items, &by, "true");
    }

    fn never(&mut self, items: &[usize]) {
        let by = format!("(({}) AND false)", &self.text[self.span(items)]);
        self.replace(items, &by, "false");
    }

    fn null(&mut self, items: &[usize]) {
        let value = &self.text[self.span(items)];
        let by = format!("NULLIF({value}, {value})");
        self.replace(items, &by, "null");
    }

    fn gone(&mut self, items: &[usize]) {
        self.replace(items, "", "gone");
    }

    /// Looks through what stands at one depth.
    fn group(&mut self, range: Range<usize>, depth: usize, opening: Option<usize>) {
        let items: Vec<_> = range.filter(|index| self.tokens[*index].depth == depth).collect();
        let in_case = opening.is_some_and(|it| self.word(it) == "CASE");
        let is_searched = in_case && items.first().is_some_and(|it| self.word(*it) == "WHEN");
        let parts = self.parts(&items);
        for part in &parts {
            match part.keyword.map(|it| self.word(it)) {
                Some("WHEN") if !is_searched => self.null(&part.items),
                keyword => {
                    let (is_arm, is_where) = (keyword == Some("WHEN"), keyword == Some("WHERE"));
                    self.condition(&part.items, is_arm || is_where);
                    if is_arm {
                        self.never(&part.items);
                    }
                }
            }
        }
        self.unread_select(&parts);
        self.assignments(&parts);
        self.clauses(&items);
        if opening
            .and_then(|it| it.checked_sub(1))
            .is_some_and(|it| matches!(self.word(it), "GREATEST" | "LEAST"))
        {
            for part in &parts {
                self.null(&part.items);
            }
        }
    }

    fn parts(&self, items: &[usize]) -> Vec<Part> {
        const KEYWORDS: [&str; 21] = [
            ",",
            "WITH",
            "SELECT",
            "FROM",
            "WHERE",
            "SET",
            "VALUES",
            "ORDER",
            "LIMIT",
            "FOR",
            "RETURNING",
            "UNION",
            "ON",
            "USING",
            "WHEN",
            "THEN",
            "ELSE",
            "AS",
            "INSERT",
            "UPDATE",
            "DELETE",
        ];
        let mut parts = vec![Part { keyword: None, items: Vec::new() }];
        for item in items {
            if KEYWORDS.contains(&self.word(*item)) {
                parts.push(Part { keyword: Some(*item), items: Vec::new() });
            } else if let Some(part) = parts.last_mut() {
                part.items.push(*item);
            }
        }
        parts
    }

    /// Each operand of an AND is taken as true, and each of an OR as false.
    fn condition(&mut self, items: &[usize], even_a_single: bool) {
        let arms = self.operands(items, "OR");
        for arm in &arms {
            if arms.len() > 1 {
                self.never(arm);
            }
            let operands = self.operands(arm, "AND");
            if operands.len() > 1 || (even_a_single && arms.len() == 1) {
                for operand in &operands {
                    self.always(operand);
                }
            }
        }
    }

    fn operands(&self, items: &[usize], of: &str) -> Vec<Vec<usize>> {
        items.split(|item| self.word(*item) == of).map(<[_]>::to_vec).collect()
    }

    /// `SELECT 'written' … FROM u` answers only if `u` wrote.
    fn unread_select(&mut self, parts: &[Part]) {
        let mut gone = Vec::new();
        for window in parts.windows(3) {
            let [select, name, from] = window else { continue };
            let keywords = [select, name, from].map(|part| part.keyword.map(|it| self.word(it)));
            let is_literal = select.items.len() == 1 && self.word(select.items[0]).starts_with('\'');
            if keywords == [Some("SELECT"), Some("AS"), Some("FROM")] && is_literal {
                gone.extend(from.keyword.map(|from_word| [&[from_word], &*from.items].concat()));
            }
        }
        for items in gone {
            self.gone(&items);
        }
    }

    /// `UPDATE … RETURNING 'written' …` answers only if it wrote.
    fn unread_row(&mut self) {
        let top = |word| self.tokens.iter().find(|token| token.depth == 0 && token.word == word).copied();
        let (Some(update), Some(returning)) = (top("UPDATE"), top("RETURNING")) else { return };
        let (end, row) = (returning.end(), &self.text[returning.end()..]);
        if row.trim_start().starts_with('\'') {
            let (head, written) = self.text.split_at(update.at);
            let what = format!("`RETURNING{row}` → in any case");
            let left = format!("{head}, unread AS ({written}) SELECT{row}");
            self.found.push(((returning.at, end), (what, left)));
        }
    }

    /// Each `column = value` of a SET leaves the column as it was.
    fn assignments(&mut self, parts: &[Part]) {
        let begin = parts.iter().position(|part| part.keyword.is_some_and(|it| self.word(it) == "SET"));
        let Some(begin) = begin else { return };
        let more = parts[begin + 1..].iter();
        let more =
            more.take_while(|part| part.keyword.is_some_and(|it| self.word(it) == ",")).collect::<Vec<_>>();
        for part in iter::once(&parts[begin]).chain(more) {
            let [column, equals, value @ ..] = &*part.items else { panic!("no assignment") };
            assert_eq!(self.word(*equals), "=");
            let column = self.word(*column);
            let value = &self.text[self.span(value)];
            let by = format!("{column} = CASE WHEN true THEN k.{column} ELSE {value} END");
            self.replace(&part.items, &by, "kept");
        }
    }

    /// Clauses that a statement can do without, and counters that could stand still.
    fn clauses(&mut self, items: &[usize]) {
        for (number, item) in items.iter().enumerate() {
            let rest = &items[number..];
            let next = rest.get(1).map(|it| self.word(*it)).unwrap_or_default().to_owned();
            let until = |words: &[&str]| {
                rest.iter().position(|it| words.contains(&self.word(*it))).unwrap_or(rest.len())
            };
            match self.word(*item) {
                "ON" if next == "CONFLICT" => {
                    let length = until(&["NOTHING"]) + 1;
                    self.gone(&rest[..length]);
                }
                "FOR" if next == "NO" || next == "UPDATE" => self.gone(rest),
                "SKIP" => self.gone(&rest[..2]),
                "ORDER" => {
                    let length = until(&["LIMIT", "FOR", ")"]);
                    self.gone(&rest[..length]);
                }
                "LIMIT" => {
                    let all = format!("LIMIT NULLIF({next}, {next})");
                    self.replace(&rest[..2], &all, "gone");
                }
                "MATERIALIZED" => {
                    let by = format!("{} AS NOT MATERIALIZED", self.word(items[number - 2]));
                    self.replace(&items[number - 2..=number], &by, "not");
                }
                "+" if next == "1" && rest.get(2).is_none_or(|it| self.word(*it) != "*") => {
                    let counted = format!("{} + 0", self.word(items[number - 1]));
                    self.replace(&items[number - 1..number + 2], &counted, "not counted");
                }
                _ => {}
            }
        }
    }
}
