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
