//! The normal form of query strings and of `application/x-www-form-urlencoded` bodies.

use std::borrow::Cow;

/// The pairs of `raw`, decoded and sorted, as bytes that can be read back in one way only.
///
/// * Pieces are split at `&`; an empty piece is no pair.
/// * Name and value are percent-decoded once, `+` is a space. The result is bytes: no character set is guessed.
/// * Pairs are sorted by name, byte by byte; pairs of one name keep their order, since `a=1&a=2` and `a=2&a=1`
///   mean different things to anyone who reads the last (or the first).
/// * `a` and `a=` differ. Some readers tell a flag from an empty text, and a needless refusal is the cheaper error.
/// * A name or value with a broken escape (`%zz`, a `%` at the end) is kept as written and marked so: it equals
///   neither its decoded neighbour `%25zz` nor anything else.
/// * Pairs whose decoded name is in `ignored` are left out.
///
/// Each pair is written as name and value, each of them a kind byte and, unless it is absent, its length in
/// eight bytes and its bytes.
///
/// **Source:** the WHATWG URL standard, `application/x-www-form-urlencoded` parsing, except for what is said
/// above about `a=`, broken escapes and character sets, where that parser loses information.
pub(crate) fn canonical_pairs(raw: &[u8], ignored: &[&str]) -> Vec<u8> {
    let pieces = raw.split(|byte| *byte == b'&').filter(|piece| !piece.is_empty());
    let mut pairs: Vec<Pair<'_>> = pieces.map(Pair::read).filter(|pair| !pair.is_ignored(ignored)).collect();
    pairs.sort_by(|one, other| one.name.cmp(&other.name));

    let mut form = Vec::with_capacity(raw.len() + pairs.len() * 18);
    for pair in &pairs {
        pair.name.write(&mut form);
        match &pair.value {
            Some(value) => value.write(&mut form),
            None => form.push(ABSENT),
        }
    }
    form
}

const ABSENT: u8 = 0;
const DECODED: u8 = 1;
const AS_WRITTEN: u8 = 2;

struct Pair<'a> {
    name: Word<'a>,
    value: Option<Word<'a>>,
}

impl<'a> Pair<'a> {
    fn read(piece: &'a [u8]) -> Self {
        let mut halves = piece.splitn(2, |byte| *byte == b'=');
        let name = Word::read(halves.next().unwrap_or_default());
        Self { name, value: halves.next().map(Word::read) }
    }

    fn is_ignored(&self, ignored: &[&str]) -> bool {
        match &self.name {
            Word::Decoded(name) => ignored.iter().any(|other| other.as_bytes() == name.as_ref()),
            Word::AsWritten(_) => false,
        }
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Word<'a> {
    Decoded(Cow<'a, [u8]>),
    AsWritten(&'a [u8]),
}

impl<'a> Word<'a> {
    fn read(raw: &'a [u8]) -> Self {
        if !raw.iter().any(|byte| matches!(byte, b'%' | b'+')) {
            return Self::Decoded(Cow::Borrowed(raw));
        }
        decode(raw).map_or(Self::AsWritten(raw), |decoded| Self::Decoded(Cow::Owned(decoded)))
    }

    fn write(&self, form: &mut Vec<u8>) {
        let (kind, bytes) = match self {
            Self::Decoded(bytes) => (DECODED, bytes.as_ref()),
            Self::AsWritten(bytes) => (AS_WRITTEN, *bytes),
        };
        form.push(kind);
        form.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        form.extend_from_slice(bytes);
    }
}

/// `None` if an escape is broken.
fn decode(raw: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter().copied();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => hex(bytes.next()?)? << 4 | hex(bytes.next()?)?,
            plain => plain,
        });
    }
    Some(decoded)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}
