//! A structured field Item whose bare item is a String, as RFC 9651 reads it.
//!
//! Parameters are read by its rules and dropped: none is defined for this field, and one that breaks the syntax
//! makes the whole value malformed.

/// The decoded text of `"text"`, or nothing if the value is not exactly one such item.
///
/// **Source:** RFC 9651, sections 4.2, 4.2.3 and 4.2.5.
pub(super) fn parse(value: &[u8]) -> Option<String> {
    let mut rest = Cursor(value);
    rest.skip_spaces();
    let text = rest.string()?;
    rest.parameters()?;
    rest.skip_spaces();
    rest.0.is_empty().then_some(text)
}

/// `text` as a String of RFC 9651, section 4.1.6; it must be visible ASCII, as every key is.
pub(super) fn serialise(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}

struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    fn skip_while(&mut self, accepts: impl Fn(u8) -> bool) -> usize {
        let taken = self.0.iter().take_while(|byte| accepts(**byte)).count();
        self.0 = self.0.get(taken..).unwrap_or_default();
        taken
    }

    fn skip_spaces(&mut self) {
        self.skip_while(|byte| byte == b' ');
    }

    fn string(&mut self) -> Option<String> {
        self.eat(b'"')?;
        let mut text = String::new();
        loop {
            match self.next()? {
                b'"' => return Some(text),
                b'\\' => match self.next()? {
                    escaped @ (b'"' | b'\\') => text.push(char::from(escaped)),
                    _ => return None,
                },
                plain @ b' '..=b'~' => text.push(char::from(plain)),
                _ => return None,
            }
        }
    }

    fn parameters(&mut self) -> Option<()> {
        while self.peek() == Some(b';') {
            self.next();
            self.skip_spaces();
            self.next().filter(|first| matches!(first, b'a'..=b'z' | b'*'))?;
            self.skip_while(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*'));
            if self.peek() == Some(b'=') {
                self.next();
                self.bare_item()?;
            }
        }
        Some(())
    }

    fn bare_item(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.string().map(drop),
            b'-' | b'0'..=b'9' => self.number().map(drop),
            b'*' | b'a'..=b'z' | b'A'..=b'Z' => {
                self.skip_while(is_token);
                Some(())
            }
            b':' => {
                self.next();
                self.skip_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
                self.eat(b':')
            }
            b'?' => {
                self.next();
                self.next().filter(|flag| matches!(flag, b'0' | b'1')).map(drop)
            }
            b'@' => {
                self.next();
                self.number().filter(|whole| *whole).map(drop)
            }
            b'%' => self.display_string(),
            _ => None,
        }
    }

    /// Says whether the number was an integer.
    fn number(&mut self) -> Option<bool> {
        if self.peek() == Some(b'-') {
            self.next();
        }
        let digits = self.skip_while(|byte| byte.is_ascii_digit());
        if self.peek() != Some(b'.') {
            return (1..=15).contains(&digits).then_some(true);
        }
        self.next();
        let decimals = self.skip_while(|byte| byte.is_ascii_digit());
        ((1..=12).contains(&digits) && (1..=3).contains(&decimals)).then_some(false)
    }

    fn display_string(&mut self) -> Option<()> {
        self.eat(b'%')?;
        self.eat(b'"')?;
        let mut text = Vec::new();
        loop {
            match self.next()? {
                b'"' => return String::from_utf8(text).ok().map(drop),
                b'%' => {
                    let (high, low) = (hex(self.next()?)?, hex(self.next()?)?);
                    text.push(high << 4 | low);
                }
                plain @ b' '..=b'~' => text.push(plain),
                _ => return None,
            }
        }
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn second_reading(value: &[u8]) -> Option<String> {
        let item: sfv::Item = sfv::Parser::new(value).parse().ok()?;
        item.bare_item.as_string().map(|text| text.as_str().to_owned())
    }

    #[test]
    fn h06_parameters_are_read_by_the_rules_and_dropped() {
        let good = [
            "a",
            "a=1",
            "*a-b_c.d=-999999999999999",
            "a=1.5;b",
            "a=\"x;y\"",
            "a=tok/en:",
            "a=:aGk=:",
            "a=?1",
            "a=@1",
            " a",
        ];
        for parameters in good {
            let value = format!("\"k\";{parameters}");
            assert_eq!(parse(value.as_bytes()).as_deref(), Some("k"), "{value}");
        }
        let bad = [
            "",
            "A",
            "1",
            "a=",
            "a=-",
            "a=1.",
            "a=1234567890123456",
            "a=1.2345",
            "a=?2",
            "a=@1.5",
            "a=:x",
            "a=%\"%C3\"",
            "a=\"x",
        ];
        for parameters in bad {
            let value = format!("\"k\";{parameters}");
            assert_eq!(parse(value.as_bytes()), None, "{value}");
            assert_eq!(second_reading(value.as_bytes()), None, "{value}");
        }
    }

    #[test]
    fn h10_the_parser_reads_1024_characters_and_more() {
        for length in [1024, 100_000] {
            let text = "a".repeat(length);
            assert_eq!(parse(format!("\"{text}\"").as_bytes()), Some(text));
        }
    }

    proptest! {
        #[test]
        fn h02_agrees_with_a_second_reading_of_the_rfc(
            value in prop_oneof![
                "[ ]{0,2}\"[ -~]{0,12}\"[ ]{0,2}(;[ ]?[a-z*][a-z0-9]{0,3}(=([0-9.-]{1,6}|\\?[012]|[a-z]{1,4}|\"[a-z\\\\\"]{0,4}\"|@[0-9]{1,3}))?){0,2}[ ]{0,2}",
                "[\"\\\\a;= ?%@:.,']{0,12}",
            ],
        ) {
            prop_assert_eq!(parse(value.as_bytes()), second_reading(value.as_bytes()));
        }

        #[test]
        fn h20_what_is_serialised_reads_back(text in "[ -~]{0,40}") {
            prop_assert_eq!(parse(serialise(&text).as_bytes()), Some(text));
        }

        #[test]
        fn b066_no_bytes_make_it_panic(value in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse(&value);
        }
    }
}
