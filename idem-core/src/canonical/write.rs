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

/// Escapes only what JSON demands, and copies the runs between.
fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for run in text.as_bytes().split_inclusive(|byte| must_escape(*byte)) {
        match run.split_last() {
            Some((last, plain)) if must_escape(*last) => {
                out.extend_from_slice(plain);
                write_escape(*last, out);
            }
            _ => out.extend_from_slice(run),
        }
    }
    out.push(b'"');
}

fn must_escape(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0x00..=0x1f)
}

/// Each character has one escape: the short one where JSON has it, else `\u00xx` in lower case.
fn write_escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        b'"' | b'\\' => byte,
        _ => return out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
    };
    out.extend_from_slice(&[b'\\', short]);
}
