//! Bytes as text and back.
//!
//! Scans print keys and values escaped, so that each entry is one line with one tab: a tab is
//! `\t`, a line's end `\n`, a backslash `\\`, and every byte that is not part of printable UTF-8
//! `\xNN`.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Map, Value};

use crate::fail::{Failure, Outcome, one_line};

/// Escapes `bytes` onto the end of `text`.
pub(crate) fn escape(bytes: &[u8], text: &mut String) {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\t' => text.push_str("\\t"),
                '\n' => text.push_str("\\n"),
                '\\' => text.push_str("\\\\"),
                c if c.is_control() => {
                    let mut buffer = [0; 4];
                    escape_bytes(c.encode_utf8(&mut buffer).as_bytes(), text);
                }
                c => text.push(c),
            }
        }
        escape_bytes(chunk.invalid(), text);
    }
}

/// A name as it is shown: whatever is in it, it is part of a line.
pub(crate) fn name_shown(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    escape(name.as_bytes(), &mut text);
    text
}

/// Names as they are shown, with commas between.
pub(crate) fn names_shown(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().map(|name| name_shown(name)).collect();
    shown.join(", ")
}

/// A path as it is shown: one line, whatever is in it.
pub(crate) fn path_shown(path: &Path) -> String {
    one_line(&path.display().to_string())
}

fn escape_bytes(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "\\x{byte:02x}");
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The bytes that an argument stands for: its own, or those of its hexadecimal digits.
pub(crate) fn bytes_of(argument: &str, is_hex: bool) -> Outcome<Vec<u8>> {
    if !is_hex {
        return Ok(argument.as_bytes().to_vec());
    }
    let digits: Option<Vec<u8>> = argument
        .chars()
        .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    match digits {
        Some(digits) if digits.len().is_multiple_of(2) => {
            Ok(digits.chunks(2).map(|two| two[0] << 4 | two[1]).collect())
        }
        _ => Err(Failure::Usage(format!(
            "'{argument}' is not hexadecimal: with --hex, write two digits for each byte, like \
             00ff2a"
        ))),
    }
}

/// A number of things: `1 row`, `2,000 rows`.
pub(crate) fn count(n: u64, thing: &str) -> String {
    thermocline_bench::counted(n, thing)
}

/// Puts `bytes` into a JSON object: under `name` if they are text, else (and with `--hex` always)
/// under `name_hex` as digits.
pub(crate) fn insert(object: &mut Map<String, Value>, name: &str, bytes: &[u8], is_hex: bool) {
    match std::str::from_utf8(bytes) {
        Ok(text) if !is_hex => object.insert(name.to_string(), Value::from(text)),
        _ => object.insert(format!("{name}_hex"), Value::from(hex(bytes))),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_as_documented() {
        for (bytes, expected) in [
            (b"plain".as_slice(), "plain"),
            (b"a\tb\nc\\d", "a\\tb\\nc\\\\d"),
            (b"\0\x1b\x7f\r", "\\x00\\x1b\\x7f\\x0d"),
            ("Zürich 東京".as_bytes(), "Zürich 東京"),
            ("\u{85}".as_bytes(), "\\xc2\\x85"),
            (b"\xffok\xc3", "\\xffok\\xc3"),
        ] {
            let mut text = String::new();
            escape(bytes, &mut text);
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn things_are_counted_as_people_do() {
        assert_eq!(count(0, "row"), "0 rows");
        assert_eq!(count(1, "row"), "1 row");
        assert_eq!(count(2000, "row"), "2,000 rows");
    }

    #[test]
    fn hexadecimal_reads_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(bytes_of(&hex(&bytes), true).unwrap(), bytes);
        assert_eq!(bytes_of("00fF", true).unwrap(), [0, 255]);
        for bad in ["0", "0x12", "zz", "é0"] {
            assert!(
                matches!(bytes_of(bad, true), Err(Failure::Usage(_))),
                "{bad}"
            );
        }
        assert_eq!(bytes_of("00", false).unwrap(), b"00");
    }
}
