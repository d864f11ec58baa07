//! Notes of what is being made.

use thermocline_base::checksum::crc32c;

use super::{put, u16_at};

/// Bytes before the first name.
pub const HEADER: usize = 16;
/// Bytes of a record before its name.
pub const RECORD: usize = 6;

fn crc_of(record: &[u8], at: usize) -> u32 {
    let crc = crc32c(0, &record[..2]);
    let crc = crc32c(crc, &(at as u64).to_le_bytes());
    crc32c(crc, &record[RECORD..])
}

/// A note that names these files.
pub fn note(names: &[&str]) -> Vec<u8> {
    let mut bytes = b"THCLNOTE\x01\0\0\0".to_vec();
    bytes.resize(HEADER, 0);
    for name in names {
        bytes.extend(u16::try_from(name.len()).unwrap_or(0).to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(name.as_bytes());
    }
    seal(&mut bytes);
    bytes
}

/// Where each record ends that lies within the bytes, behind the end of the header.
pub fn ends(bytes: &[u8]) -> Vec<usize> {
    let mut ends = vec![HEADER];
    let mut at = HEADER;
    while let Some(len) = u16_at(bytes, at) {
        at += RECORD + len;
        if at > bytes.len() {
            break;
        }
        ends.push(at);
    }
    ends
}

/// Makes all checksums right.
pub fn seal(bytes: &mut [u8]) {
    if bytes.len() < HEADER {
        return;
    }
    let crc = crc32c(0, &bytes[..12]);
    put(bytes, 12, crc);
    for record in ends(bytes).windows(2) {
        let crc = crc_of(&bytes[record[0]..record[1]], record[0]);
        put(bytes, record[0] + 2, crc);
    }
}
