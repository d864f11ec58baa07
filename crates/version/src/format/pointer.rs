//! The bytes of a pointer, the record by which one manifest names the next. It is no edit: it says nothing of the database.

use super::fields::{Fields, Unreadable, damaged, len32};

/// As the tag of a change that must be known: who does not know it refuses the manifest as a newer one's.
const CONTINUED_IN: u8 = 0x9a;
const HEADER_LEN: usize = 5;

/// The payload of a pointer: the manifest that goes on.
pub fn encode_pointer(file_no: u64) -> Vec<u8> {
    let mut bytes = vec![CONTINUED_IN];
    bytes.extend_from_slice(&len32(size_of::<u64>()).to_le_bytes());
    bytes.extend_from_slice(&file_no.to_le_bytes());
    bytes
}

/// The manifest that a payload says goes on, if it is a pointer.
///
/// # Errors
/// What is wrong with it.
pub fn decode_pointer(bytes: &[u8]) -> Result<Option<u64>, Unreadable> {
    if bytes.first() != Some(&CONTINUED_IN) {
        return Ok(None);
    }
    let file_no = Fields {
        bytes,
        at: HEADER_LEN,
    }
    .u64()?;
    // There is one way to write it: the rest of the check is to write it.
    if encode_pointer(file_no) != bytes {
        let got = bytes.len();
        return Err(damaged(
            "a pointer to another manifest",
            0,
            "nothing but it",
            got,
        ));
    }
    Ok(Some(file_no))
}
