//! Every row of the table of spellings, and what random keys must do.

use proptest::prelude::*;

use super::*;

fn read(mode: Mode, lines: &[&[u8]]) -> Result<Option<String>, Invalid> {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(line).expect("a header value"));
    }
    let key = KeyHeader { mode, ..KeyHeader::default() }.read(&headers)?;
    Ok(key.map(|key| key.as_str().to_owned()))
}

/// One value, and what each mode makes of it: strict, tolerant, raw only. Nothing is "400".
type Row = (&'static [u8], Option<&'static str>, Option<&'static str>, Option<&'static str>);

const ROWS: &[Row] = &[
    (
        br#""8e03978e-40d5-43e8-bc93-6894a57f9324""#,
        Some("8e03978e-40d5-43e8-bc93-6894a57f9324"),
        Some("8e03978e-40d5-43e8-bc93-6894a57f9324"),
        Some(r#""8e03978e-40d5-43e8-bc93-6894a57f9324""#),
    ),
    (
        b"8e03978e-40d5-43e8-bc93-6894a57f9324",
        None,
        Some("8e03978e-40d5-43e8-bc93-6894a57f9324"),
        Some("8e03978e-40d5-43e8-bc93-6894a57f9324"),
    ),
    (
        b"a3f7b9d1-1c8c-4f8c-9e6e-1234abcd5678",
        None,
        Some("a3f7b9d1-1c8c-4f8c-9e6e-1234abcd5678"),
        Some("a3f7b9d1-1c8c-4f8c-9e6e-1234abcd5678"),
    ),
    (b"KG5LxwFBepaKHyUD", None, Some("KG5LxwFBepaKHyUD"), Some("KG5LxwFBepaKHyUD")),
    (b"12345", None, Some("12345"), Some("12345")),
    (b"abc+/=", None, Some("abc+/="), Some("abc+/=")),
    (br#""a b""#, Some("a b"), Some("a b"), Some(r#""a b""#)),
    (b"a b", None, None, Some("a b")),
    (br#""a\"b""#, Some(r#"a"b"#), Some(r#"a"b"#), Some(r#""a\"b""#)),
    (br#""a\"b\\c""#, Some(r#"a"b\c"#), Some(r#"a"b\c"#), Some(r#""a\"b\\c""#)),
    (br#""a\x""#, None, None, Some(r#""a\x""#)),
    (br#""abc"#, None, None, Some(r#""abc"#)),
    (b"'abc'", None, None, Some("'abc'")),
    (br#""""#, None, None, Some(r#""""#)),
    (b"", None, None, None),
    (b"   ", None, None, None),
    (br#""a";v=1"#, Some("a"), Some("a"), Some(r#""a";v=1"#)),
    (br#"  "a"  "#, Some("a"), Some("a"), Some(r#""a""#)),
    (br#""a" ;v=1"#, None, None, Some(r#""a" ;v=1"#)),
    (br#""a" x"#, None, None, Some(r#""a" x"#)),
    (br#""a"x"#, None, None, Some(r#""a"x"#)),
    (br#""a", "b""#, None, None, Some(r#""a", "b""#)),
    (b"a,b", None, None, Some("a,b")),
    (b":aGVsbG8=:", None, Some(":aGVsbG8=:"), Some(":aGVsbG8=:")),
    (b"?1", None, None, Some("?1")),
    (b"@1659578233", None, Some("@1659578233"), Some("@1659578233")),
    (b"\"f\xc3\xbc\"", None, None, None),
    (b"\"f\xfc\"", None, None, None),
    (b"f\xfc", None, None, None),
    (br#"%"f%c3%bc""#, None, None, Some(r#"%"f%c3%bc""#)),
    (b"a\tb", None, None, None),
    (b"\"a\tb\"", None, None, None),
    (b"\t\"a\"", None, None, None),
];

#[test]
fn h03_h05_h13_h14_each_spelling_is_read_as_its_mode_says() {
    for (value, strict, tolerant, raw_only) in ROWS {
        for (mode, expected) in
            [(Mode::Strict, strict), (Mode::Tolerant, tolerant), (Mode::RawOnly, raw_only)]
        {
            let key = read(mode, &[value]);
            let shown = value.escape_ascii();
            match expected {
                Some(expected) => {
                    assert_eq!(key.expect("a key").as_deref(), Some(*expected), "{mode:?} {shown}");
                }
                None => assert!(key.is_err(), "{mode:?} {shown}"),
            }
        }
    }
}

#[test]
fn h04_every_string_that_the_rfc_refuses_is_malformed() {
    for value in
        [&b"\"foo \\,\""[..], b"\"foo \\", b"\"foo", b"\"\x80\"", b"\"fo\xffo\"", b"foo \\\"", b"\"a\"\"b\""]
    {
        assert!(read(Mode::Strict, &[value]).is_err(), "{}", value.escape_ascii());
        assert!(read(Mode::Tolerant, &[value]).is_err(), "{}", value.escape_ascii());
    }
    for control in (0..32_u8).chain([127]).filter(|byte| *byte != b'\t') {
        assert!(HeaderValue::from_bytes(&[b'"', control, b'"']).is_err(), "cannot even be sent");
        assert_eq!(string::parse(&[b'"', control, b'"']), None);
    }
}

#[test]
fn h08_two_lines_are_malformed_even_if_they_agree() {
    for mode in [Mode::Strict, Mode::Tolerant, Mode::RawOnly] {
        let error = read(mode, &[b"\"a\"", b"\"a\""]).expect_err("two lines");
        assert_eq!(error.to_string(), "key must be sent in one header line; seen=2");
    }
    let mut headers = HeaderMap::new();
    headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_static("a"));
    headers.insert("paypal-request-id", HeaderValue::from_static("a"));
    let aliased =
        KeyHeader { aliases: vec![HeaderName::from_static("paypal-request-id")], ..KeyHeader::default() };
    assert!(aliased.read(&headers).is_err(), "two names are two lines");
    headers.remove(IDEMPOTENCY_KEY);
    assert!(aliased.read(&headers).expect("one line").is_some());
}

#[test]
fn h09_an_empty_string_is_legal_syntax_but_no_key() {
    assert_eq!(string::parse(br#""""#).as_deref(), Some(""));
    assert!(read(Mode::Strict, &[br#""""#]).is_err());
}

#[test]
fn h10_a_key_has_at_most_255_decoded_characters() {
    let quoted = |length: usize| format!("\"{}\"", "a".repeat(length));
    let escaped = |length: usize| format!("\"{}\"", "\\\"".repeat(length));
    for mode in [Mode::Strict, Mode::Tolerant] {
        assert!(read(mode, &[quoted(255).as_bytes()]).is_ok());
        assert!(read(mode, &[escaped(255).as_bytes()]).is_ok(), "the decoded length counts");
        for length in [256, 1024, 60_000] {
            assert!(read(mode, &[quoted(length).as_bytes()]).is_err());
        }
    }
    for mode in [Mode::Tolerant, Mode::RawOnly] {
        assert!(read(mode, &["a".repeat(255).as_bytes()]).is_ok());
        let error = read(mode, &["a".repeat(256).as_bytes()]).expect_err("too long");
        assert_eq!(error.to_string(), "key must be 1 to 255 characters; seen=256");
    }
}

#[test]
fn h11_a_published_minimum_and_format_are_enforced() {
    let strict = KeyHeader { length: 20..=36, ..KeyHeader::default() };
    let uuid = KeyHeader {
        format: Some(Arc::new(|text| text.parse::<uuid::Uuid>().is_ok())),
        ..KeyHeader::default()
    };
    let headers =
        |value: &str| HeaderMap::from_iter([(IDEMPOTENCY_KEY, HeaderValue::try_from(value).expect("valid"))]);
    assert!(strict.read(&headers(&"a".repeat(19))).is_err());
    assert!(strict.read(&headers(&"a".repeat(37))).is_err());
    assert!(strict.read(&headers(&"a".repeat(20))).is_ok());
    assert!(uuid.read(&headers("not-a-uuid")).is_err());
    assert!(uuid.read(&headers("8e03978e-40d5-43e8-bc93-6894a57f9324")).is_ok());
}

#[test]
fn h07_an_error_says_what_is_allowed_and_not_what_was_sent() {
    let error = read(Mode::Tolerant, &[b"\"secret-key"]).expect_err("no closing quote");
    assert!(error.to_string().contains("quoted string"), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[test]
fn h19_only_the_header_is_looked_at() {
    assert_eq!(KeyHeader::default().read(&HeaderMap::new()), Ok(None));
}

#[test]
fn h15_the_bare_characters_are_exactly_these() {
    let bare: String = (0..=255_u8).filter(|byte| is_bare(*byte)).map(char::from).collect();
    let refused = "\"\\,;?' `";
    assert!(refused.bytes().all(|byte| !is_bare(byte)));
    assert!(bare.is_ascii());
    assert_eq!(bare.len() + refused.len(), 95, "every visible character is decided");
}

proptest! {
    #[test]
    fn h17_every_bare_uuid_is_a_key(bytes in any::<[u8; 16]>()) {
        let text = uuid::Uuid::from_bytes(bytes).to_string();
        prop_assert_eq!(read(Mode::Tolerant, &[text.as_bytes()]), Ok(Some(text.clone())));
    }

    #[test]
    fn h16_quoted_and_bare_are_the_same_key(text in "[A-Za-z0-9_.~:/+=@!#$%&*^|{}()<>\\[\\]-]{1,40}") {
        let quoted = string::serialise(&text);
        prop_assert_eq!(read(Mode::Tolerant, &[quoted.as_bytes()]), read(Mode::Tolerant, &[text.as_bytes()]));
        prop_assert_eq!(read(Mode::Strict, &[quoted.as_bytes()]), Ok(Some(text)));
    }

    #[test]
    fn h20_an_echoed_key_reads_back(text in "[ -~]{1,255}") {
        let key: Key = text.parse().expect("visible");
        let echoed = KeyHeader::echo(&key).expect("a header value");
        prop_assert_eq!(read(Mode::Strict, &[echoed.as_bytes()]), Ok(Some(text)));
    }

    #[test]
    fn b066_no_header_value_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if HeaderValue::from_bytes(&bytes).is_ok() {
            for mode in [Mode::Strict, Mode::Tolerant, Mode::RawOnly] {
                let _ = read(mode, &[&bytes]);
            }
        }
    }
}
