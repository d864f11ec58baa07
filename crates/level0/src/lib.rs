//! What stays in persistent memory below the memtables: the PM table (PM-Blade §IV-A).
//!
//! A **PM table** is an immutable, sorted set of entries in zones of its own: the level 0 that is neither
//! kept in DRAM as an index over records, nor written to the SSD. An **entry** is a user key of a column
//! family, a seqno, a kind (put, delete, merge) and a value, inline or in a blob file. Range deletes lie
//! apart, as **range tombstones**, cut by the caller at the bounds of what the table holds. The bytes are
//! drawn in `format.rs`, and told in `FORMATS.md`.
//!
//! # Three layers
//! - **Meta**: *runs* of keys that share a column family and their beginning (a table's id, say), which is
//!   written once. Runs are found from the data. Opening reads them into DRAM: some bytes for each piece.
//! - **Prefix**: for each *group* of 8 or 16 entries a prefix of fixed length and where the group is.
//!   Searched by bisection, without touching anything else. How long prefixes are follows from the data.
//! - **Entry**: groups, which are passed over in order. Of each key stands there what it does not share
//!   with the one before; of a group's first key what run and prefix do not say.
//!
//! The global index over memtables' records is made of memtables, and lives with those (`memtable::merge`).
//!
//! | what | how |
//! |---|---|
//! | write a table | [`PmTableWriter`]: add in order, finish; gives a [`PmTableMeta`] and zones |
//! | open one | [`PmTable::open`] |
//! | read one | [`PmPart`] (all of a family, or within limits): [`PmPart::get`], [`PmCursor`] |
//! | check everything | [`verify_table`], [`verify_table_with`] |
//!
//! ```
//! use std::sync::Arc;
//! use thermocline_base::{CfId, Kind, SeqNo, Steps};
//! use thermocline_halloc::{Space, SpaceSpec};
//! use thermocline_level0::*;
//! use thermocline_pm::{Emulation, Place, Region, RegionSpec, SimPm};
//!
//! let spec = RegionSpec {
//!     env: thermocline_env::Env::real(),
//!     place: Place::Sim(SimPm::new(1 << 20, Steps::new())),
//!     demand: Default::default(),
//!     capacity: 1 << 20,
//!     emulation: Emulation::None,
//!     read_only: false,
//! };
//! let of = SpaceSpec { part_bytes_first: 1 << 20, pm: 1 << 20 };
//! let space = Arc::new(Space::create(Region::create(&spec, 1 << 20)?, &[1; 16], of)?);
//!
//! let identity = TableIdentity::new(*b"the database's i", 7);
//! let mut table = PmTableWriter::new(space.clone(), identity, WriteOptions::default());
//! table.add(CfId(0), b"a", SeqNo(3), Kind::Put, Value::Inline(b"new"))?;
//! table.add(CfId(0), b"a", SeqNo(1), Kind::Put, Value::Inline(b"old"))?;
//! let written = table.finish()?.expect("it has entries");
//! // Now an edit may name it.
//! let table = PmTable::open(space.region(), identity.db_id, written.meta, &written.zones)?;
//! let found = PmPart::whole(table, CfId(0)).get(b"a", SeqNo(2), true)?.unwrap();
//! assert!(matches!(found.value, FoundValue::Inline(value) if *value == *b"old"));
//! # Ok::<(), thermocline_base::Error>(())
//! ```
//!
//! # What always holds
//! 1. **Whole or not named.** See `writer`, 1: an edit can name a table only when all of it is durable.
//! 2. **In its place or not at all.** Checksums start from database, table, zone generation and offset.
//! 3. **Checked before used.** With `verify`, no answer depends on a byte whose checksum was not compared:
//!    neither what is found nor that nothing is (`search`). Meta layer and range tombstones are checked when the
//!    table is opened, and read from DRAM then.
//! 4. **Foreign bytes are an error.** Offsets and lengths are checked against the piece, counts against
//!    bytes, before anything is read or allocated, checksums or not.
//! 5. **The newest wins.** [`PmPart::get`] answers with the newest of entry and range tombstone at or below
//!    the asked seqno. No entry has seqno [`SeqNo::MAX`](thermocline_base::SeqNo::MAX), so as a target it
//!    stands before all versions of its key.
//! 6. **A part is a table of its own.** Through a [`PmPart`] no key outside of its limits is seen, by any
//!    move, and range tombstones are cut.
//! 7. **Held while read.** [`PmTable`], cursors and values hold the table; whoever releases its zones waits
//!    until nobody does.
//!
//! # Departures from the paper
//! - *Pieces.* The paper's layers span a table; here each zone has its own three, and the meta layer in
//!   DRAM leads to the right one. A table need not be contiguous, and its writer keeps one piece's keys. A zone that was
//!   made wider by those behind it, for a large value, has one piece (decision 184).
//! - *Values apart.* The paper's entries are keys and values in turn. Passing over a group would touch a
//!   line for each of its values; here those over 32 bytes lie elsewhere in the piece, with a checksum of
//!   their own in the entry, so that a lookup reads keys in a row and one value.
//! - *Front coding* within a group, not only prefixes taken off: groups are passed over in order anyhow.
//! - *Checksums*, versions, tombstones: the paper has none.
//!
//! # Rejected
//! - *One offset for each entry* (the array of MatrixKV): four bytes an entry, and each step of a bisection
//!   touches two places. Measured by `thermocline reproduce pm-blade fig-6`.
//! - *A general compressor over groups*: as small only where values are alike, and reading one entry means
//!   decompressing a group. Measured there, too.
//! - *A filter for each table*: a miss costs about one group's read, as a filter's probes do in memory as
//!   slow as this; it may pay over many unsorted tables.
#![deny(unsafe_code)]

mod cursor;
mod format;
mod get;
mod identity;
mod meta;
#[expect(unsafe_code, reason = "stores pieces")]
mod output;
mod piece;
mod plan;
mod search;
mod table;
mod tombstones;
mod value;
mod verify;
mod writer;

pub use cursor::PmCursor;
pub use format::{BLOB_FILES_MAX, FORMAT_VERSION, TOMBSTONES_LEN_MAX};
pub use identity::TableIdentity;
pub use table::{PmPart, PmTable};
pub use thermocline_base::{PmBlob, PmFamily, PmTableMeta};
pub use value::{Found, FoundValue, Pinned, Value};
pub use verify::{NoteBlob, Verified, verify_table, verify_table_with};
pub use writer::{GroupSize, PmTableWriter, WriteOptions, Written};

thermocline_base::sites! {
    /// A piece of a PM table is durable.
    SITE_TABLE = "level0: piece of a table durable";
    /// What an unfinished PM table has stored will not arrive any more.
    SITE_ABANDONED = "level0: unfinished table left";
}

/// Every durability site of this crate.
pub const SITES: &[thermocline_base::Site] = ALL;
