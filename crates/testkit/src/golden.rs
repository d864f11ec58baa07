//! Goldens: bytes at rest as annotated text, kept for every released version of a format.

use std::fmt::Write as _;

/// Draws `bytes` as text, one line for each field: offset, hexadecimal bytes, name. `fields` are
/// (length, name) in order; a long run of zeros is cut short.
pub fn annotate(bytes: &[u8], fields: &[(usize, &str)]) -> String {
    let mut text = String::new();
    let mut at = 0;
    for (len, name) in fields {
        let field = &bytes[at..at + len];
        let zeros = field.iter().all(|&b| b == 0) && *len > 16;
        let drawn = if zeros {
            format!("00 × {len}")
        } else {
            field
                .iter()
                .map(|b| format!("{b:02x}"))
                .collect::<Vec<_>>()
                .join(" ")
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{at:6}  {drawn}  ; {name}");
        at += len;
    }
    assert_eq!(at, bytes.len(), "every byte has a name");
    text
}

/// Compares `text` with the golden file's contents and says how to rewrite it on purpose.
///
/// # Panics
/// If they differ.
pub fn check(name: &str, golden: &str, text: &str) {
    assert!(
        golden == text,
        "{name} differs from its golden. A released format never changes; a new version gets a \
         golden of its own. The bytes now:\n{text}"
    );
}

/// The bytes of what [`annotate`] drew.
///
/// # Panics
/// If it is no such text.
pub fn bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in text.lines() {
        let drawn = line.split(" ; ").next().unwrap_or_default();
        let mut words = drawn.split_whitespace();
        let offset = words.next().expect("an offset");
        assert_eq!(offset.parse(), Ok(bytes.len()), "{line}");
        let words: Vec<_> = words.collect();
        match words[..] {
            ["00", "×", n] => {
                let n: usize = n.parse().expect("a number of zeros");
                bytes.resize(bytes.len() + n, 0);
            }
            _ => bytes.extend(words.iter().map(|word| byte(word))),
        }
    }
    bytes
}

/// The bytes of a listing: lines of offset (four hexadecimal digits and a colon), bytes, and a comment
/// behind `#`. If it goes on with another file, those of the first one.
///
/// # Panics
/// If it is no such text.
pub fn listed(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in text.lines() {
        let drawn = line.split('#').next().unwrap_or_default();
        let Some((offset, words)) = drawn.split_once(": ") else {
            continue;
        };
        let at = usize::from_str_radix(offset, 16).expect("an offset");
        if at == 0 && !bytes.is_empty() {
            break;
        }
        assert_eq!(at, bytes.len(), "{line}");
        bytes.extend(words.split_whitespace().map(byte));
    }
    bytes
}

fn byte(word: &str) -> u8 {
    u8::from_str_radix(word, 16).expect("a byte in hexadecimal digits")
}
