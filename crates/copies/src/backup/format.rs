//! Every byte of a backup's list, `BACKUP-nnnnnn`. All numbers are little-endian.
//!
//! ```text
//!  offset size
//!       0    8  magic "THCLBKUP"
//!       8    4  format version, 2
//!      12    4  CRC32C of all other bytes
//!      16    8  number of the backup, the one in the name
//!      24   16  id of the database that was backed up
//!      40    8  seqno up to which it has everything, below 2^63
//!      48    8  length of this file
//!      56    8  number of files
//!      64       files, by number; each:
//!                  16  id of the database that wrote it
//!                   8  its number there
//!                   8  its bytes
//!                   8  XXH3-64 of all of them; in version 1: 4 CRC32C of them, 4 of no use any more (`sum`)
//!                   8  of a table: XXH3-64 of its last 64 KiB, or of all of it if it is shorter; of a blob
//!                      file: XXH3-64 of the headers of its records, one behind the other; not in version 1
//!                   1  kind: 1 table, 2 blob file
//!                   7  reserved, 0
//!               the state, as edits up to the end; each:
//!                   4  length n, 1 ..= 64 MiB
//!                   n  an edit, as in a manifest
//! ```
//!
//! A file of a backup lies beside the lists, byte for byte as in the database, under the name
//! `dddddddddddddddddddddddddddddddd-nnnnnn-hhhhhhhhhhhhhhhh.sst` (or `.blob`): 32 hexadecimal digits of the
//! database that wrote it, its number, and the hash of its bytes; `-cccccccc.sst`, with the CRC32C, if a list of version 1 has it.

use std::path::Path;

use thermocline_base::checksum::crc32c;
use thermocline_base::{Error, FileId, Result, SeqNo};
use thermocline_env::File;
use thermocline_version::format::{PAYLOAD_LEN_MAX, Unreadable, decode_edit, encode_edit};
use thermocline_version::{FileKind, State};

use crate::sum::Sum;

const MAGIC: &[u8; 8] = b"THCLBKUP";
const FORMAT_VERSION: u32 = 2;
const CRC_AT: usize = 12;
const LEN_AT: usize = 48;
const HEADER_LEN: usize = 64;

/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 << 10;

/// Bytes at the end of a file that identify it.
pub(crate) const TAIL_BYTES: u64 = 64 << 10;

/// A file of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stored {
    pub file: FileId,
    pub kind: FileKind,
    /// The database that wrote it.
    pub db_id: [u8; 16],
    pub bytes: u64,
    /// Of all its bytes.
    pub sum: Sum,
    /// What tells it from other files without reading all of it; 0 in a list of version 1.
    pub end: u64,
}

impl Stored {
    /// The file's name in the folder of backups.
    pub fn name(&self) -> String {
        let id = u128::from_be_bytes(self.db_id);
        let (file, sum) = (self.file.0, self.sum);
        let kind = match self.kind {
            FileKind::Table => "sst",
            FileKind::Blob => "blob",
        };
        format!("{id:032x}-{file:06}-{sum}.{kind}")
    }

    /// What the name of a file says of its bytes.
    pub fn sum_in(name: &str) -> Option<Sum> {
        let (stem, _) = name.split_once('.')?;
        let (_, sum) = stem.rsplit_once('-')?;
        Sum::parse(sum)
    }

    /// Whether a name in the folder of backups can be that of a file.
    pub fn is_name(name: &str) -> bool {
        let hex =
            |text: &str, len| text.len() == len && text.bytes().all(|b| b.is_ascii_hexdigit());
        let Some((stem, "sst" | "blob")) = name.split_once('.') else {
            return false;
        };
        match stem.split('-').collect::<Vec<_>>()[..] {
            [id, file, sum] => {
                hex(id, 32) && file.parse::<u64>().is_ok() && Sum::parse(sum).is_some()
            }
            _ => false,
        }
    }
}

/// The content of a backup's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub id: u64,
    pub db_id: [u8; 16],
    pub seqno: SeqNo,
    /// Ordered by number.
    pub files: Vec<Stored>,
    pub state: State,
}

const PREFIX: &str = "BACKUP-";

/// The temporary name, from which a rename makes a list.
pub(crate) const LIST_TEMP: &str = "BACKUP.tmp";

/// The name of a backup's list.
pub(crate) fn list_name(id: u64) -> String {
    format!("{PREFIX}{id:06}")
}

/// The number in the name of a list; none for any other name.
pub(crate) fn list_id(name: &str) -> Option<u64> {
    let id = name.strip_prefix(PREFIX)?.parse().ok()?;
    (list_name(id) == name).then_some(id)
}

impl Listed {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN];
        bytes[0..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.id.to_le_bytes());
        bytes[24..40].copy_from_slice(&self.db_id);
        bytes[40..48].copy_from_slice(&self.seqno.0.to_le_bytes());
        bytes[56..64].copy_from_slice(&(self.files.len() as u64).to_le_bytes());
        for file in &self.files {
            bytes.extend_from_slice(&file.db_id);
            bytes.extend_from_slice(&file.file.0.to_le_bytes());
            bytes.extend_from_slice(&file.bytes.to_le_bytes());
            let Sum::Hash(hash) = file.sum else {
                unreachable!("what only a list of version 1 has is copied anew");
            };
            bytes.extend_from_slice(&hash.to_le_bytes());
            bytes.extend_from_slice(&file.end.to_le_bytes());
            bytes.push(match file.kind {
                FileKind::Table => 1,
                FileKind::Blob => 2,
            });
            bytes.extend_from_slice(&[0; 7]);
        }
        for edit in self.state.snapshot() {
            let edit = encode_edit(&edit);
            let len = u32::try_from(edit.len()).expect("an edit is far below 4 GiB");
            bytes.extend_from_slice(&len.to_le_bytes());
            bytes.extend_from_slice(&edit);
        }
        let len = bytes.len() as u64;
        bytes[48..56].copy_from_slice(&len.to_le_bytes());
        let crc = crc_of(&bytes);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the list `id` from `bytes`.
    ///
    /// # Errors
    /// As [`Listed::read`].
    #[cfg(test)]
    pub fn decode(bytes: &[u8], id: u64, path: &Path) -> Result<Listed> {
        let read = &mut |at: usize, into: &mut [u8]| {
            into.copy_from_slice(&bytes[at..at + into.len()]);
            Ok(())
        };
        Listed::read_with(read, bytes.len() as u64, id, path)
    }

    /// Reads the list `id` from its file: twice, first for its checksum. A file may claim any length without having
    /// as many bytes (it may have holes). So no more memory is taken than its entries and its longest edit take, and
    /// for these only if the checksum is right.
    ///
    /// # Errors
    /// [`Error::Corruption`] with the place; [`Error::Unsupported`] if a newer version wrote it; those of
    /// reading.
    pub fn read(file: &dyn File, id: u64) -> Result<Listed> {
        let read = &mut |at: usize, into: &mut [u8]| file.read_exact_at(into, at as u64);
        Listed::read_with(read, file.len()?, id, file.path())
    }

    fn read_with(read: Read<'_>, len: u64, id: u64, path: &Path) -> Result<Listed> {
        let mut fields = Fields {
            read,
            len: usize::try_from(len).unwrap_or(usize::MAX),
            at: 0,
            path,
        };
        let magic: [u8; 8] = fields.array()?;
        fields.must(
            magic == *MAGIC,
            "magic of a backup",
            0,
            magic.escape_ascii(),
        )?;
        let version = fields.u32()?;
        let crc = fields.u32()?;
        let long_enough = fields.len >= HEADER_LEN;
        fields.must(long_enough, "length of a backup", fields.len, len)?;
        fields.at = LEN_AT;
        let noted = fields.u64()?;
        // Checked before the file is summed: a newer version may have the checksum in another place.
        let is_known = (1..=FORMAT_VERSION).contains(&version);
        fields.must(
            !is_known || noted == len,
            "length of a backup",
            LEN_AT,
            noted,
        )?;
        let sound = crc == fields.crc()?;
        let got = format!("{crc:#010x}");
        fields.must(sound, "checksum of a backup", CRC_AT, got)?;
        if !is_known {
            let path = path.display();
            return Err(Error::Unsupported(format!(
                "{path} has format version {version}; this program reads up to version {FORMAT_VERSION}"
            )));
        }
        fields.at = CRC_AT + 4;
        let found = fields.u64()?;
        fields.must(found == id, "number of a backup", 16, found)?;
        let db_id = fields.array()?;
        let seqno = fields.seqno()?;
        fields.at = LEN_AT + 8;
        let files = fields.files(version)?;
        let state = fields.state()?;
        let at = HEADER_LEN;
        let origins = state.origins();
        let mut lengths = files.iter().map(|file| file.bytes);
        let all = lengths.try_fold(0u64, u64::checked_add);
        fields.must(
            all.is_some(),
            "lengths of files of a backup",
            at,
            "too much",
        )?;
        let got = "none that was created";
        fields.must(origins.is_some(), "database of a backup", at, got)?;
        let whose = |file| origins.as_ref().map(|origins| origins.of(file));
        let listed = files.iter().map(|f| (f.file, f.kind, Some(f.db_id)));
        let named = state.version().files();
        let same = listed.eq(named.map(|(file, kind)| (file, kind, whose(file))));
        fields.must(same, "files of a backup", at, "others than its state names")?;
        Ok(Listed {
            id,
            db_id,
            seqno,
            files,
            state,
        })
    }
}

fn crc_of(bytes: &[u8]) -> u32 {
    crc32c(crc32c(0, &bytes[..CRC_AT]), &bytes[CRC_AT + 4..])
}

/// Reads bytes from a place on. They lie within the file.
type Read<'a> = &'a mut dyn FnMut(usize, &mut [u8]) -> Result<()>;

struct Fields<'a> {
    read: Read<'a>,
    len: usize,
    at: usize,
    path: &'a Path,
}

impl Fields<'_> {
    fn must(&self, holds: bool, what: &str, at: usize, got: impl ToString) -> Result<()> {
        if holds {
            return Ok(());
        }
        let place = self.path.display().to_string();
        Err(Error::corruption(
            what,
            place,
            at as u64,
            "what was written",
            got,
        ))
    }

    fn into(&mut self, field: &mut [u8]) -> Result<()> {
        let left = self.len.saturating_sub(self.at);
        self.must(field.len() <= left, "end of a backup", self.at, left)?;
        (self.read)(self.at, field)?;
        self.at += field.len();
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut field = [0; N];
        self.into(&mut field)?;
        Ok(field)
    }

    /// The checksum of the whole file.
    fn crc(&mut self) -> Result<u32> {
        let mut piece = [0; CRC_AT];
        (self.read)(0, &mut piece)?;
        let mut crc = crc32c(0, &piece);
        let mut piece = vec![0; PIECE_BYTES];
        let mut at = CRC_AT + 4;
        while at < self.len {
            let piece = &mut piece[..PIECE_BYTES.min(self.len - at)];
            (self.read)(at, piece)?;
            crc = crc32c(crc, piece);
            at += piece.len();
        }
        Ok(crc)
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn seqno(&mut self) -> Result<SeqNo> {
        let at = self.at;
        let seqno = self.u64()?;
        self.must(seqno < 1 << 63, "seqno of a backup", at, seqno)?;
        Ok(SeqNo(seqno))
    }

    fn files(&mut self, version: u32) -> Result<Vec<Stored>> {
        let count = self.u64()?;
        let mut files = Vec::new();
        // The vector grows as it reads: a wrong count allocates nothing.
        for _ in 0..count {
            files.push(self.file(version)?);
        }
        Ok(files)
    }

    fn file(&mut self, version: u32) -> Result<Stored> {
        let db_id = self.array()?;
        let file = FileId(self.u64()?);
        let bytes = self.u64()?;
        let (sum, end) = match version {
            1 => {
                let crc = self.u32()?;
                self.u32()?;
                (Sum::Crc(crc), 0)
            }
            _ => (Sum::Hash(self.u64()?), self.u64()?),
        };
        let at = self.at;
        let [kind, reserved @ ..]: [u8; 8] = self.array()?;
        self.must(
            reserved == [0; 7],
            "reserved bytes",
            at + 1,
            "others than 0",
        )?;
        let kind = match kind {
            1 => FileKind::Table,
            2 => FileKind::Blob,
            other => {
                return Err(self.must(false, "kind of a file", at, other).unwrap_err());
            }
        };
        Ok(Stored {
            file,
            kind,
            db_id,
            bytes,
            sum,
            end,
        })
    }

    /// Everything that is left.
    fn state(&mut self) -> Result<State> {
        let mut state = State::default();
        let mut bytes = Vec::new();
        while self.at < self.len {
            let at = self.at;
            let len = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
            let possible = (1..=PAYLOAD_LEN_MAX).contains(&len);
            self.must(possible, "length of an edit", at, len)?;
            let left = self.len - self.at;
            self.must(len <= left, "end of a backup", self.at, left)?;
            bytes.resize(len, 0);
            self.into(&mut bytes)?;
            let edit = decode_edit(&bytes).map_err(|why| match why {
                Unreadable::Damaged { what, got, .. } => {
                    self.must(false, what, at, got).unwrap_err()
                }
                Unreadable::Newer(text) => {
                    Error::Unsupported(format!("{}: {text}", self.path.display()))
                }
            })?;
            state.apply(&edit).map_err(|error| match error {
                Error::Corruption { what, got, .. } => {
                    self.must(false, &what, at, got).unwrap_err()
                }
                other => other,
            })?;
        }
        Ok(state)
    }
}

#[cfg(test)]
mod tests;
