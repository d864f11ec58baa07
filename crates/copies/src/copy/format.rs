//! Every byte of a note. It is `COPYING` in a folder in which a copy of a database is being made, and `BACKING-UP` in
//! a folder of backups while a backup is being made. It names the files that may be removed if the work is not
//! completed. All numbers are little-endian.
//!
//! ```text
//!  offset size
//!       0    8  magic "THCLNOTE"
//!       8    4  format version, 1
//!      12    4  CRC32C of the 12 bytes before
//!      16       names of files in this folder, each:
//!                   2  length n, 1 ..= 255
//!                   4  CRC32C of n (2 bytes), this record's offset (8 bytes) and the name
//!                   n  the name, in UTF-8
//! ```
//!
//! The first record that does not verify ends the names: it was being written when the process ended, and its file
//! was not yet made. A note of up to 16 zeros, or of no bytes, was itself being made.

use thermocline_base::checksum::crc32c;

const MAGIC: &[u8; 8] = b"THCLNOTE";
const FORMAT_VERSION: u32 = 1;

/// Bytes before the first name.
pub(super) const HEADER_LEN: usize = 16;

const RECORD_HEADER_LEN: usize = 6;
const NAME_LEN_MAX: usize = 255;

/// The beginning of every note.
pub(super) fn encode_header() -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    let crc = crc32c(0, &header[..12]);
    header[12..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// The record of a name at `offset`.
///
/// # Panics
/// If the name is empty or longer than a file's name can be: names are of our own making.
pub(super) fn encode_name(name: &str, offset: u64) -> Vec<u8> {
    let len = u16::try_from(name.len()).unwrap_or(0);
    assert!(
        (1..=NAME_LEN_MAX).contains(&name.len()),
        "the name {name:?}"
    );
    let mut record = len.to_le_bytes().to_vec();
    record.extend(crc_of(name.as_bytes(), offset).to_le_bytes());
    record.extend(name.as_bytes());
    record
}

/// The names of a note; `None` if these bytes are no note.
pub fn decode(bytes: &[u8]) -> Option<Vec<String>> {
    if bytes.len() <= HEADER_LEN && bytes.iter().all(|&byte| byte == 0) {
        return Some(Vec::new());
    }
    if !bytes.starts_with(&encode_header()) {
        return None;
    }
    let mut names = Vec::new();
    let mut at = HEADER_LEN;
    while let Some(name) = name_at(bytes, at) {
        at += RECORD_HEADER_LEN + name.len();
        names.push(name);
    }
    Some(names)
}

fn name_at(bytes: &[u8], at: usize) -> Option<String> {
    let header = bytes.get(at..at + RECORD_HEADER_LEN)?;
    let len = usize::from(u16::from_le_bytes([header[0], header[1]]));
    let crc = u32::from_le_bytes([header[2], header[3], header[4], header[5]]);
    let name = bytes.get(at + RECORD_HEADER_LEN..)?.get(..len)?;
    let whole = (1..=NAME_LEN_MAX).contains(&len) && crc == crc_of(name, at as u64);
    let name = std::str::from_utf8(name).ok().filter(|_| whole)?;
    // Only a possible name of a file in this folder is taken for one.
    let is_one = !name.contains(['/', '\0']) && !matches!(name, "." | "..");
    is_one.then(|| name.to_string())
}

fn crc_of(name: &[u8], offset: u64) -> u32 {
    let len = u16::try_from(name.len()).unwrap_or(0);
    let crc = crc32c(0, &len.to_le_bytes());
    crc32c(crc32c(crc, &offset.to_le_bytes()), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(names: &[&str]) -> Vec<u8> {
        let mut bytes = encode_header().to_vec();
        for name in names {
            let at = bytes.len() as u64;
            bytes.extend(encode_name(name, at));
        }
        bytes
    }

    #[test]
    fn a_note_is_byte_for_byte_what_it_was() {
        let bytes = note(&["000007.sst", "CURRENT"]);
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, GOLDEN);
        assert_eq!(decode(&bytes).unwrap(), ["000007.sst", "CURRENT"]);
    }

    /// The header; length, checksum and name of the first record, and of the second one.
    const GOLDEN: &str = concat!(
        "5448434c4e4f5445010000003d4d4212",
        "0a003b1d48a2",
        "3030303030372e737374",
        "0700f1ffb08c",
        "43555252454e54",
    );

    #[test]
    fn what_no_file_of_the_folder_can_be_called_ends_the_names() {
        for name in [".", "..", "../a", "a/b", "/a", "a\0"] {
            assert_eq!(decode(&note(&["a", name, "b"])).unwrap(), ["a"], "{name:?}");
        }
        assert_eq!(decode(&note(&["...", ".a"])).unwrap(), ["...", ".a"]);
    }

    #[test]
    fn every_cut_and_every_flip_gives_fewer_names_or_none() {
        let names = ["000007.sst", "a", "CURRENT"];
        let bytes = note(&names);
        assert_eq!(decode(&bytes).unwrap(), names);
        assert_eq!(decode(b"").unwrap(), [""; 0]);
        assert_eq!(decode(&[0; HEADER_LEN]).unwrap(), [""; 0]);
        assert_eq!(decode(b"GNU GENERAL PUBLIC LICENSE"), None);
        assert_eq!(decode(&[0; HEADER_LEN + 1]), None);
        for len in 1..bytes.len() {
            let found = decode(&bytes[..len]);
            assert!(found.is_none_or(|found| found.iter().zip(names).all(|(a, b)| a == b)));
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x41;
            let found = decode(&damaged);
            assert!(found.is_none_or(|found| {
                found.len() < names.len() && found.iter().zip(names).all(|(a, b)| a == b)
            }));
        }
        // A record in another's place is none.
        let mut moved = encode_header().to_vec();
        moved.extend(encode_name("a", 17));
        assert_eq!(decode(&moved).unwrap(), [""; 0]);
    }
}
