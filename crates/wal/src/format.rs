//! Every byte of a log. All numbers are little-endian.
//!
//! ```text
//!  log NNNNNN.log
//!       0   64  header
//!      64       zeros to 4096
//!    4096       frames, each at a multiple of 16, one behind the other
//!               whatever lay there before
//!
//!  header, the same shape in every format version
//!       0    8  magic "THCLWLOG"
//!       8    4  format version, 1
//!      12    4  CRC32C of bytes 0..12 and 16..64
//!      16   16  database id
//!      32    8  log id
//!      40    8  nonce, a random number
//!      48   16  reserved, 0
//!
//!  frame
//!       0    4  CRC32C of bytes 4..16, started from seeded(inverted log seed, offset of the frame)
//!       4    4  length of the payload, at least 1
//!       8    4  CRC32C of the payload, started from seeded(log seed, offset of the frame)
//!      12    4  reserved, 0
//!      16       payload, then zeros to a multiple of 16
//! ```
//!
//! ```text
//!  owner, thermocline-<database id>-OWNER, beside logs outside of the database's folder
//!       0 4096  copy; the writings with even numbers
//!    4096 4096  copy; those with odd numbers, of which the first is 1. The higher number counts
//!
//!  copy
//!       0    8  magic "THCLWOWN"
//!       8    4  format version, 1
//!      12    4  CRC32C of bytes 0..12 and 16..64+n
//!      16   16  database id
//!      32    8  number of this writing, from 1 to 2^63 - 1
//!      40    8  the newest chain that the manifest is known to name, 0 if there is none
//!      48    8  its nonce
//!      56    4  length n of the path, at most 4032; 0 if it is longer
//!      60    4  reserved, 0
//!      64    n  absolute path of the database's folder
//! ```
//!
//! The *log seed* is XXH3-64 of database id and log id, under the nonce. A frame's header has a checksum
//! of its own, so that a search for frames looks at a payload only where there is one.

use std::path::Path;

use thermocline_base::checksum::{crc32c, hash64_seeded, seeded};
use thermocline_base::numbers::{u32_at, u64_at};
use thermocline_base::planted::{Bug, active};
use thermocline_base::{Error, Result};

/// The newest format version that this code knows.
pub const FORMAT_VERSION: u32 = 1;
/// Bytes before the first frame: a page, so that no append writes the header again.
pub const HEADER_BYTES: u64 = 4096;
/// Bytes of a frame before its payload.
pub const FRAME_HEADER: usize = 16;
/// What frames begin at a multiple of.
pub(crate) const FRAME_ALIGN: usize = 16;

/// Bytes of the header that are not zero by definition.
pub(crate) const HEADER_LEN: usize = 64;
const MAGIC: [u8; 8] = *b"THCLWLOG";

const _: () = assert!(HEADER_BYTES.is_multiple_of(FRAME_ALIGN as u64));
const _: () = assert!(FRAME_HEADER.is_multiple_of(FRAME_ALIGN));

/// What tells a log from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogId {
    /// The database's id.
    pub db_id: [u8; 16],
    /// Its number, of which no other log of the database ever has the same.
    pub log: u64,
    /// A random number.
    pub nonce: u64,
}

impl LogId {
    /// Seeds the checksums of its frames.
    pub(crate) fn seed(&self) -> u64 {
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&self.db_id);
        bytes[16..].copy_from_slice(&self.log.to_le_bytes());
        hash64_seeded(&bytes, self.nonce)
    }

    /// The header.
    pub(crate) fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.db_id);
        bytes[32..40].copy_from_slice(&self.log.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.nonce.to_le_bytes());
        let crc = header_crc(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the header of the file `path`: whose log it is.
    ///
    /// # Errors
    /// [`Error::Corruption`] if it is none, or is damaged; [`Error::Unsupported`] if a newer version
    /// wrote it.
    pub(crate) fn decode(bytes: &[u8; HEADER_LEN], path: &Path) -> Result<LogId> {
        let damaged = |what: &str, at: u64, expected: String, got: String| {
            Error::corruption(what, path.display().to_string(), at, expected, got)
        };
        if bytes[0..8] != MAGIC {
            let (expected, got) = (hex(&MAGIC), hex(&bytes[0..8]));
            return Err(damaged("this is not a log", 0, expected, got));
        }
        let (crc, stored) = (header_crc(bytes), u32_at(bytes, 12));
        if crc != stored {
            let (expected, got) = (format!("{crc:#010x}"), format!("{stored:#010x}"));
            return Err(damaged("checksum of a log's header", 12, expected, got));
        }
        let version = u32_at(bytes, 8);
        if version > FORMAT_VERSION {
            return Err(Error::Unsupported(format!(
                "log {} has format {version}; this version reads up to {FORMAT_VERSION}",
                path.display()
            )));
        }
        if version != FORMAT_VERSION || bytes[48..].iter().any(|&b| b != 0) {
            let got = format!("version {version}, {}", hex(&bytes[48..]));
            return Err(damaged(
                "header of a log",
                8,
                "version 1, zeros".into(),
                got,
            ));
        }
        let mut db_id = [0; 16];
        db_id.copy_from_slice(&bytes[16..32]);
        Ok(LogId {
            db_id,
            log: u64_at(bytes, 32),
            nonce: u64_at(bytes, 40),
        })
    }
}

/// Whether a file that begins so may be a log of this database. Of a header that a crash has kept from being written there is
/// less, or zeros in its place.
pub(crate) fn may_begin_log_of(found: &[u8], db_id: &[u8; 16]) -> bool {
    let written = found
        .iter()
        .rposition(|&b| b != 0)
        .map_or(0, |last| last + 1);
    let agrees = |at: usize, wanted: &[u8]| {
        let end = written.min(at + wanted.len());
        found
            .get(at..end)
            .is_none_or(|part| wanted.starts_with(part))
    };
    agrees(0, &MAGIC) && agrees(16, db_id)
}

fn header_crc(bytes: &[u8]) -> u32 {
    crc32c(crc32c(0, &bytes[..12]), &bytes[16..])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Bytes of a copy of an [`Owner`].
pub(crate) const OWNER_COPY: usize = 4096;
const OWNER_HEADER: usize = 64;
const OWNER_MAGIC: [u8; 8] = *b"THCLWOWN";
const OWNER_VERSION: u32 = 1;
/// No writing has this number, nor one above: the next one is always there.
pub(crate) const OWNER_NUMBER_END: u64 = 1 << 63;

/// Whose the logs of a database are that lie outside of its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The database's id, which a copy of its folder has, too.
    pub db_id: [u8; 16],
    /// The newest chain that its manifest is known to name.
    pub chain: u64,
    /// That chain's nonce.
    pub nonce: u64,
    /// The absolute path of its folder; empty if it is not known.
    pub folder: Vec<u8>,
}

impl Owner {
    /// A copy, as the writing `number`.
    pub(crate) fn encode(&self, number: u64) -> [u8; OWNER_COPY] {
        let mut bytes = [0; OWNER_COPY];
        let fits = self.folder.len() <= OWNER_COPY - OWNER_HEADER;
        let folder = if fits { &self.folder[..] } else { &[] };
        let len = u32::try_from(folder.len()).unwrap_or(0);
        bytes[0..8].copy_from_slice(&OWNER_MAGIC);
        bytes[8..12].copy_from_slice(&OWNER_VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.db_id);
        bytes[32..40].copy_from_slice(&number.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.chain.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.nonce.to_le_bytes());
        bytes[56..60].copy_from_slice(&len.to_le_bytes());
        bytes[OWNER_HEADER..][..folder.len()].copy_from_slice(folder);
        let crc = header_crc(&bytes[..OWNER_HEADER + folder.len()]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a copy, with the number of its writing; `None` if it is not whole.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if a newer version wrote it.
    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Option<(Owner, u64)>> {
        let len = usize::try_from(u32_at(bytes, 56)).unwrap_or(usize::MAX);
        let end = OWNER_HEADER.saturating_add(len);
        if bytes[0..8] != OWNER_MAGIC || end > bytes.len() {
            return Ok(None);
        }
        if header_crc(&bytes[..end]) != u32_at(bytes, 12) {
            return Ok(None);
        }
        let version = u32_at(bytes, 8);
        if version > OWNER_VERSION {
            return Err(Error::Unsupported(format!(
                "{} has format {version}; this version reads up to {OWNER_VERSION}",
                path.display()
            )));
        }
        let mut db_id = [0; 16];
        db_id.copy_from_slice(&bytes[16..32]);
        let owner = Owner {
            db_id,
            chain: u64_at(bytes, 40),
            nonce: u64_at(bytes, 48),
            folder: bytes[OWNER_HEADER..end].to_vec(),
        };
        let number = u64_at(bytes, 32);
        let is_one = (1..OWNER_NUMBER_END).contains(&number);
        Ok(is_one.then_some((owner, number)))
    }
}

/// Bytes that a payload of `len` bytes takes in a log, header and padding included.
pub fn frame_bytes(len: u64) -> u64 {
    (FRAME_HEADER as u64).saturating_add(len.saturating_add(15) / 16 * 16)
}

/// What a frame's header says, once its checksum holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub len: u32,
    payload_crc: u32,
}

impl FrameHeader {
    /// The header of the frame at `at` that carries `payload`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a payload that is empty or longer than the field.
    pub fn encode(seed: u64, at: u64, payload: &[u8]) -> Result<[u8; FRAME_HEADER]> {
        let len = u32::try_from(payload.len()).ok().filter(|&len| len > 0);
        let len = len.ok_or_else(|| {
            let len = payload.len();
            Error::InvalidArgument(format!(
                "a frame of a log carries 1 to 2^32 - 1 bytes, not {len}"
            ))
        })?;
        let mut bytes = [0; FRAME_HEADER];
        bytes[4..8].copy_from_slice(&len.to_le_bytes());
        let payload_crc = crc32c(seeded(seed, at), payload);
        bytes[8..12].copy_from_slice(&payload_crc.to_le_bytes());
        let crc = crc32c(seeded(!seed, at), &bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        Ok(bytes)
    }

    /// Reads the header of the frame at `at`, if there is one.
    pub fn decode(seed: u64, at: u64, bytes: &[u8]) -> Option<FrameHeader> {
        let header = FrameHeader {
            len: u32_at(bytes, 4),
            payload_crc: u32_at(bytes, 8),
        };
        let sound = header.len > 0
            && u32_at(bytes, 12) == 0
            && u32_at(bytes, 0) == crc32c(seeded(!seed, at), &bytes[4..FRAME_HEADER]);
        sound.then_some(header)
    }

    /// Whether `payload` is what the frame at `at` carries. Padding is not looked at: it says nothing.
    pub fn holds(&self, seed: u64, at: u64, payload: &[u8]) -> bool {
        payload.len() as u64 == u64::from(self.len)
            && self.has_crc(crc32c(self.start(seed, at), payload))
    }

    /// Where the checksum of the payload starts from.
    pub fn start(&self, seed: u64, at: u64) -> u32 {
        seeded(seed, at)
    }

    /// Whether the payload has this checksum.
    pub fn has_crc(&self, crc: u32) -> bool {
        self.payload_crc == crc || active(Bug::SkipFrameChecksum)
    }
}

#[cfg(test)]
mod tests {
    use thermocline_testkit::golden;

    use super::*;

    #[test]
    fn the_bytes_of_a_log_are_those_of_version_1() {
        let id = LogId {
            db_id: [1; 16],
            log: 7,
            nonce: 99,
        };
        let mut bytes = id.encode().to_vec();
        bytes.resize(4096, 0);
        bytes.extend(FrameHeader::encode(id.seed(), 4096, b"first payload").unwrap());
        bytes.extend(b"first payload\0\0\0");
        bytes.extend(FrameHeader::encode(id.seed(), 4128, b"2").unwrap());
        bytes.extend(b"2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        let text = golden::annotate(
            &bytes,
            &[
                (8, "magic"),
                (4, "format version"),
                (4, "crc"),
                (16, "database id"),
                (8, "log"),
                (8, "nonce"),
                (16, "zeros"),
                (4032, "zeros to the page"),
                (4, "frame: crc of the header"),
                (4, "length of the payload"),
                (4, "crc of the payload"),
                (4, "zeros"),
                (13, "payload"),
                (3, "zeros to 16"),
                (4, "frame: crc of the header"),
                (4, "length of the payload"),
                (4, "crc of the payload"),
                (4, "zeros"),
                (1, "payload"),
                (15, "zeros to 16"),
            ],
        );
        golden::check("log", include_str!("../tests/golden/log-v1.txt"), &text);
    }

    #[test]
    fn the_bytes_of_an_owner_are_those_of_version_1() {
        let owner = Owner {
            db_id: [1; 16],
            chain: 7,
            nonce: 99,
            folder: b"/data/db".to_vec(),
        };
        let text = golden::annotate(
            &owner.encode(3)[..96],
            &[
                (8, "magic"),
                (4, "format version"),
                (4, "crc"),
                (16, "database id"),
                (8, "number of the writing"),
                (8, "newest chain"),
                (8, "its nonce"),
                (4, "length of the path"),
                (4, "zeros"),
                (8, "path"),
                (24, "zeros"),
            ],
        );
        golden::check("owner", include_str!("../tests/golden/owner-v1.txt"), &text);
    }

    #[test]
    fn a_newer_format_is_told_from_damage() {
        let id = LogId {
            db_id: [1; 16],
            log: 7,
            nonce: 99,
        };
        let mut bytes = id.encode();
        bytes[8] = 2;
        let error = LogId::decode(&bytes, Path::new("x")).unwrap_err();
        assert_eq!(error.kind(), thermocline_base::ErrorKind::Corruption);
        let crc = header_crc(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        let error = LogId::decode(&bytes, Path::new("x")).unwrap_err();
        assert_eq!(error.kind(), thermocline_base::ErrorKind::Unsupported);
    }
}
