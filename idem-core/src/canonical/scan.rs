//! Reads JSON text into values that borrow from it, and refuses what has no certain value.

use std::{borrow::Cow, cmp::Ordering};

use super::{MAX_DEPTH, NotCanonical};

/// A value as it was written; only strings are decoded, because names are sorted by what they decode to.
pub(super) enum Value<'a> {
    /// `null`, `true` or `false`.
    Literal(&'static str),
    /// The number's text, which follows the grammar.
    Number(&'a str),
    /// The decoded string.
    Text(Cow<'a, str>),
    Array(Vec<Value<'a>>),
    /// Sorted by name; no name occurs twice.
    Object(Vec<Member<'a>>),
}

pub(super) type Member<'a> = (Cow<'a, str>, Value<'a>);

/// Reads exactly one value, with white space around it.
pub(super) fn scan(raw: &[u8]) -> Result<Value<'_>, NotCanonical> {
    let text = str::from_utf8(raw).map_err(|error| NotCanonical::NotUtf8 { at: error.valid_up_to() })?;
    let mut scanner = Scanner { text, at: 0, depth: 0 };
    let value = scanner.value()?;
    scanner.skip_space();
    if scanner.at == text.len() { Ok(value) } else { Err(scanner.syntax()) }
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Scanner<'a> {
    fn value(&mut self) -> Result<Value<'a>, NotCanonical> {
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(Value::Text),
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            _ => Err(self.syntax()),
        }
    }

    /// Enters an array or object, unless that would be one level too many.
    fn nested(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Value<'a>, NotCanonical>,
    ) -> Result<Value<'a>, NotCanonical> {
        if self.depth == MAX_DEPTH {
            return Err(NotCanonical::TooDeep { at: self.at });
        }
        self.at += 1;
        self.depth += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn array(&mut self) -> Result<Value<'a>, NotCanonical> {
        let mut items = Vec::new();
        if self.eat_after_space(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value()?);
            if self.eat_after_space(b']') {
                return Ok(Value::Array(items));
            }
            self.expect(b',')?;
        }
    }

    fn object(&mut self) -> Result<Value<'a>, NotCanonical> {
        let mut members = Vec::new();
        if self.eat_after_space(b'}') {
            return Ok(Value::Object(members));
        }
        loop {
            self.skip_space();
            let name = self.string()?;
            self.skip_space();
            self.expect(b':')?;
            members.push((name, self.value()?));
            if self.eat_after_space(b'}') {
                return self.sorted(members);
            }
            self.expect(b',')?;
        }
    }

    fn sorted(&self, mut members: Vec<Member<'a>>) -> Result<Value<'a>, NotCanonical> {
        members.sort_unstable_by(|(one, _), (other, _)| utf16_order(one, other));
        let repeats = |pair: &[Member<'a>]| matches!(pair, [(one, _), (other, _)] if one == other);
        if members.windows(2).any(repeats) {
            return Err(NotCanonical::DuplicateName { at: self.at });
        }
        Ok(Value::Object(members))
    }

    fn literal(&mut self, word: &'static str) -> Result<Value<'a>, NotCanonical> {
        if !self.rest().starts_with(word.as_bytes()) {
            return Err(self.syntax());
        }
        self.at += word.len();
        Ok(Value::Literal(word))
    }

    fn number(&mut self) -> Result<&'a str, NotCanonical> {
        let start = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            if !self.eat(b'-') {
                self.eat(b'+');
            }
            self.digits()?;
        }
        self.slice_from(start)
    }

    /// One digit or more.
    fn digits(&mut self) -> Result<(), NotCanonical> {
        let run = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += run;
        if run == 0 { Err(self.syntax()) } else { Ok(()) }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, NotCanonical> {
        self.expect(b'"')?;
        let plain = self.plain_run()?;
        if self.eat(b'"') {
            return Ok(Cow::Borrowed(plain));
        }
        let mut decoded = String::from(plain);
        loop {
            self.expect(b'\\')?;
            decoded.push(self.escape()?);
            decoded.push_str(self.plain_run()?);
            if self.eat(b'"') {
                return Ok(Cow::Owned(decoded));
            }
        }
    }

    /// The part of a string up to its end, the next escape, or a control character that may not stand there.
    fn plain_run(&mut self) -> Result<&'a str, NotCanonical> {
        let start = self.at;
        let ends = |byte: &u8| matches!(byte, b'"' | b'\\' | 0x00..=0x1f);
        self.at += self.rest().iter().position(ends).unwrap_or(self.rest().len());
        self.slice_from(start)
    }

    fn escape(&mut self) -> Result<char, NotCanonical> {
        let decoded = match self.peek() {
            Some(plain @ (b'"' | b'\\' | b'/')) => char::from(plain),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.code_point();
            }
            _ => return Err(self.syntax()),
        };
        self.at += 1;
        Ok(decoded)
    }

    /// One `\u` escape, or the two that spell a surrogate pair.
    fn code_point(&mut self) -> Result<char, NotCanonical> {
        let first = self.code_unit()?;
        let is_high = matches!(first, 0xd800..=0xdbff);
        let second = if is_high && self.rest().starts_with(b"\\u") {
            self.at += 2;
            Some(self.code_unit()?)
        } else {
            None
        };
        match char::decode_utf16([first].into_iter().chain(second)).next() {
            Some(Ok(decoded)) => Ok(decoded),
            _ => Err(NotCanonical::LoneSurrogate { at: self.at }),
        }
    }

    fn code_unit(&mut self) -> Result<u16, NotCanonical> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let digit = digit.and_then(|digit| u16::try_from(digit).ok()).ok_or_else(|| self.syntax())?;
            unit = unit << 4 | digit;
            self.at += 1;
        }
        Ok(unit)
    }

    fn skip_space(&mut self) {
        let is_space = |byte: &&u8| matches!(**byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += self.rest().iter().take_while(is_space).count();
    }

    fn eat_after_space(&mut self, byte: u8) -> bool {
        self.skip_space();
        self.eat(byte)
    }

    fn expect(&mut self, byte: u8) -> Result<(), NotCanonical> {
        if self.eat(byte) { Ok(()) } else { Err(self.syntax()) }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn slice_from(&self, start: usize) -> Result<&'a str, NotCanonical> {
        self.text.get(start..self.at).ok_or_else(|| self.syntax())
    }

    fn syntax(&self) -> NotCanonical {
        NotCanonical::Syntax { at: self.at }
    }
}

/// Compares as UTF-16 code units, which puts U+1F602 (a surrogate pair) before U+FB33; bytes would not.
fn utf16_order(one: &str, other: &str) -> Ordering {
    one.encode_utf16().cmp(other.encode_utf16())
}
