//! Keys in messages for people.

/// Bytes of a key that a message shows.
const SHOWN_MAX: usize = 64;

/// A key for people: its first bytes, as text where they are text.
pub fn shown(key: &[u8]) -> String {
    let begin = &key[..key.len().min(SHOWN_MAX)];
    let more = if key.len() > SHOWN_MAX { "…" } else { "" };
    match std::str::from_utf8(begin) {
        Ok(text) if !text.contains(char::is_control) => format!("{text}{more}"),
        _ => format!("{}{more}", begin.escape_ascii()),
    }
}
