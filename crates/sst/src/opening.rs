//! Opening a table: a state machine that asks for bytes of the file.

use std::sync::Arc;

use thermocline_base::{Error, Result, SeqNo};

use crate::filter::Filter;
use crate::format::coding::{Unreadable, damaged};
use crate::format::footer::Footer;
use crate::format::{FOOTER_LEN, properties, trailer};
use crate::handle::{BlockHandle, BlockKind};
use crate::identity::Identity;
use crate::key::KeyRef;
use crate::properties::IndexUse;
use crate::root::Root;
use crate::table::Table;
use crate::tombstones;

/// A table that is being opened. It needs two pieces of the file: the footer, and what lies before it
/// from the filter on.
#[derive(Debug)]
pub struct Opening {
    identity: Identity,
    name: String,
    file_len: u64,
    footer: Option<Footer>,
}

/// What became of an [`Opening`].
#[derive(Debug)]
pub enum Opened {
    /// It needs another piece.
    Needs(Opening),
    /// The table is open.
    Table(Arc<Table>),
}

impl Opening {
    /// Of the file `name` (for errors), which has `file_len` bytes and should be `identity`.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the file is too short to be a table.
    pub fn new(identity: Identity, name: String, file_len: u64) -> Result<Opening> {
        if file_len < FOOTER_LEN as u64 {
            let what = "length of a table";
            let expected = format!("at least {FOOTER_LEN}");
            return Err(Error::corruption(what, name, 0, expected, file_len));
        }
        Ok(Opening {
            identity,
            name,
            file_len,
            footer: None,
        })
    }

    /// The piece that it needs: offset and length in bytes.
    pub fn needs(&self) -> (u64, u64) {
        let footer_at = self.file_len - FOOTER_LEN as u64;
        match &self.footer {
            None => (footer_at, FOOTER_LEN as u64),
            Some(footer) => (footer.data_end, footer_at - footer.data_end),
        }
    }

    /// Takes the piece.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the file is not a table, or not the one that it should be;
    /// [`Error::Unsupported`] if a newer version wrote it.
    pub fn supply(mut self, piece: &[u8]) -> Result<Opened> {
        let (at, len) = self.needs();
        if piece.len() as u64 != len {
            let e = damaged("length of what was read", 0, len, piece.len());
            return Err(e.into_error(&self.name, at));
        }
        match self.footer {
            None => {
                let bytes = piece.try_into().expect("as long as was asked for");
                let footer = Footer::decode(bytes, &self.identity, self.file_len);
                self.footer = Some(footer.map_err(|e| e.into_error(&self.name, at))?);
                Ok(Opened::Needs(self))
            }
            Some(footer) => self
                .table(&footer, piece)
                .map(|t| Opened::Table(Arc::new(t))),
        }
    }

    fn table(self, footer: &Footer, piece: &[u8]) -> Result<Table> {
        let seed = self.identity.table_seed();
        let [filter, tombstones, index, own] = footer.blocks();
        let own = own.expect("the footer's lengths are checked");
        let open = Piece {
            name: &self.name,
            seed,
            at: footer.data_end,
            bytes: piece,
        };
        let properties = open.block(Some(own), |b| properties::decode(&b, &self.identity))?;
        let filter = open.block(filter, |bytes| Filter::decode(&bytes, seed))?;
        let tombstones = open
            .block(tombstones, tombstones::decode)?
            .unwrap_or_default();
        let root = open.block(index, |bytes| Root::decode(bytes, footer.data_end))?;
        let table = Table {
            seed,
            bytes: self.file_len,
            data_end: footer.data_end,
            root: root.expect("the footer's lengths are checked"),
            filter,
            tombstones,
            properties: properties.expect("it was there"),
            name: self.name,
        };
        check(&table).map_err(|e| e.into_error(&table.name, own.offset))?;
        Ok(table)
    }
}

/// The bytes from the filter to the footer.
struct Piece<'a> {
    name: &'a str,
    seed: u64,
    at: u64,
    bytes: &'a [u8],
}

impl Piece<'_> {
    /// Reads a block, if it is there.
    fn block<T>(
        &self,
        handle: Option<BlockHandle>,
        read: impl FnOnce(Vec<u8>) -> Result<T, Unreadable>,
    ) -> Result<Option<T>> {
        let Some(BlockHandle { offset, len, kind }) = handle else {
            return Ok(None);
        };
        let within = |n: u64| usize::try_from(n).expect("it is in memory");
        let stored = &self.bytes[within(offset - self.at)..][..within(u64::from(len))];
        let payload = trailer::open(stored.into(), kind, self.seed, offset);
        let read = payload.and_then(read);
        read.map(Some).map_err(|e| e.into_error(self.name, offset))
    }
}

/// The index is the one that the properties name.
fn check_index(table: &Table) -> Result<(), Unreadable> {
    let p = &table.properties;
    let (is, said) = match (&table.root, p.index) {
        (Root::Learned(index), IndexUse::Learned) => {
            let blocks = u64::from(index.blocks());
            return match blocks == p.data_blocks {
                true => Ok(()),
                false => Err(damaged("data blocks of an index", 0, p.data_blocks, blocks)),
            };
        }
        (Root::Binary(_), IndexUse::Binary | IndexUse::FellBack) => return Ok(()),
        (Root::Learned(_), _) => ("learned", "binary"),
        (Root::Binary(_), _) => ("binary", "learned"),
    };
    Err(damaged("kind of index in the properties", 0, is, said))
}

/// The parts do not contradict each other.
fn check(table: &Table) -> Result<(), Unreadable> {
    let p = &table.properties;
    if table.root.is_empty() != (p.entries == 0) {
        let what = format!("{} of an empty table", BlockKind::Index);
        return Err(damaged(what, 0, p.entries == 0, table.root.is_empty()));
    }
    check_index(table)?;
    let tombstones = table.tombstones.iter().len() as u64;
    if tombstones != p.range_tombstones {
        return Err(damaged(
            "number of range tombstones",
            0,
            p.range_tombstones,
            tombstones,
        ));
    }
    // Of entries only a check of the whole table knows; these are all in memory.
    let all = &table.tombstones;
    if let (Some(first), Some((end, seqnos))) = (all.iter().next(), all.reach()) {
        let low_high = |(low, high)| low <= *seqnos.start() && *seqnos.end() <= high;
        let first = KeyRef::new(first.start, first.seqno);
        let within = p.seqnos.is_some_and(low_high)
            && p.smallest.as_ref().is_some_and(|s| s.as_ref() <= first)
            && p.largest
                .as_ref()
                .is_some_and(|l| KeyRef::new(end, SeqNo::MAX) <= l.as_ref());
        if !within {
            let what = "bounds of a table over its range tombstones";
            return Err(damaged(what, 0, "all within", "one outside"));
        }
    }
    Ok(())
}
