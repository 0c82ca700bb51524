//! Writes values as the one canonical text.

use super::{number::write_number, scan::Value};

/// Appends `value` without white space; its objects are already sorted.
pub(super) fn write(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Literal(word) => out.extend_from_slice(word.as_bytes()),
        Value::Number(number) => write_number(number, out),
        Value::Text(text) => write_string(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (nth, item) in items.iter().enumerate() {
                separate(nth, out);
                write(item, out);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            for (nth, (name, member)) in members.iter().enumerate() {
                separate(nth, out);
                write_string(name, out);
                out.push(b':');
                write(member, out);
            }
            out.push(b'}');
        }
    }
}

fn separate(nth: usize, out: &mut Vec<u8>) {
    if nth > 0 {
        out.push(b',');
    }
}

/// Escapes only what JSON demands, each character in one way: `\n` and its like, else `\u00xx` in lower case.
fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' => out.extend_from_slice(br#"\""#),
            b'\\' => out.extend_from_slice(br"\\"),
            b'\n' => out.extend_from_slice(br"\n"),
            b'\r' => out.extend_from_slice(br"\r"),
            b'\t' => out.extend_from_slice(br"\t"),
            0x08 => out.extend_from_slice(br"\b"),
            0x0c => out.extend_from_slice(br"\f"),
            0x00..=0x1f => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}
