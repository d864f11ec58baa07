//! What is kept of the bytes of a file, to know it again.
//!
//! # Why not a CRC
//! A table and a blob file are pieces of which each ends with its own CRC. What a CRC makes of a piece and its CRC depends
//! on nothing but the piece's length: that is how a receiver checks one. So the CRC32C of such a file says whether bits have changed since it was
//! written, but is the same for any two files of the same lengths. Lists of version 1 had that. Now it is XXH3-64, which has
//! no such law.

use std::fmt;
use std::path::Path;

use thermocline_base::Result;
use thermocline_base::checksum::{Hasher64, crc32c};
use thermocline_env::{File, OpenMode, Storage};

/// Bytes that are read at once.
const PIECE_BYTES: u64 = 1 << 20;

/// Of all bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sum {
    /// Their CRC32C.
    Crc(u32),
    /// Their XXH3-64.
    Hash(u64),
}

impl fmt::Display for Sum {
    /// As in the name of a file of a backup.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sum::Crc(crc) => write!(f, "{crc:08x}"),
            Sum::Hash(hash) => write!(f, "{hash:016x}"),
        }
    }
}

impl Sum {
    /// What [`Sum`]'s `Display` has written.
    pub fn parse(text: &str) -> Option<Sum> {
        let is_hex = text.bytes().all(|b| b.is_ascii_hexdigit());
        match (text.len(), is_hex) {
            (8, true) => u32::from_str_radix(text, 16).ok().map(Sum::Crc),
            (16, true) => u64::from_str_radix(text, 16).ok().map(Sum::Hash),
            _ => None,
        }
    }
}

/// Both, while the bytes pass.
#[derive(Debug)]
pub(crate) struct Summing {
    crc: u32,
    hash: Hasher64,
}

impl Summing {
    pub fn new() -> Summing {
        Summing {
            crc: 0,
            hash: Hasher64::new(),
        }
    }

    /// The next bytes.
    pub fn add(&mut self, piece: &[u8]) {
        self.crc = crc32c(self.crc, piece);
        self.hash.add(piece);
    }

    /// Their XXH3-64.
    pub fn hash64(&self) -> u64 {
        self.hash.value()
    }

    /// The same, as a sum.
    pub fn hash(&self) -> Sum {
        Sum::Hash(self.hash64())
    }

    /// Of the kind that `sum` is.
    pub fn like(&self, sum: Sum) -> Sum {
        match sum {
            Sum::Crc(_) => Sum::Crc(self.crc),
            Sum::Hash(_) => self.hash(),
        }
    }
}

/// Sums the bytes of a file from `at` on.
pub(crate) fn sum_from(storage: &dyn Storage, path: &Path, at: u64) -> Result<Summing> {
    sum_of(&*storage.open(path, OpenMode::Read)?, at)
}

/// As [`sum_from`], of a file that is open.
pub(crate) fn sum_of(file: &dyn File, at: u64) -> Result<Summing> {
    sum_with(file, at, &mut |_| {})
}

/// As [`sum_of`]; and behind each piece it tells `passed` how many bytes that had.
pub(crate) fn sum_with(
    file: &dyn File,
    mut at: u64,
    passed: &mut dyn FnMut(u64),
) -> Result<Summing> {
    let len = file.len()?;
    let mut sums = Summing::new();
    let mut piece = Vec::new();
    while at < len {
        piece.resize(usize::try_from((len - at).min(PIECE_BYTES)).unwrap_or(0), 0);
        file.read_exact_at(&mut piece, at)?;
        sums.add(&piece);
        at += piece.len() as u64;
        passed(piece.len() as u64);
    }
    Ok(sums)
}
