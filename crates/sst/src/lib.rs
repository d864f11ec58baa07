//! Tables and blob files on SSD: blocks, filters, index, writer and reader.
//!
//! A **table** is an immutable file of sorted entries. An **entry** is an internal key (user key,
//! seqno) with a kind (put, delete, merge) and a value, inline or in a **blob file**. Range deletes
//! lie apart, as **range tombstones**. A table belongs to *one column family*, whose id stands in its
//! properties: families are dropped, compacted, ordered and compressed apart from each other, so a
//! shared table would be rewritten for the sake of one of them. In a family whose keys descend, tables
//! ascend all the same: the direction is the cursor's above. The bytes are drawn in
//! `format.rs` and `blob/format.rs`, and told in `FORMATS.md`.
//!
//! | what | how |
//! |---|---|
//! | write a table | [`TableWriter`]: create, add in order, finish; gives a [`TableMeta`] |
//! | open one | [`open_table`], or [`Opening`] where the caller reads; [`open_table_to_scan`] without its filter |
//! | read one | [`TablePart`] (all of it or within limits), [`get`], [`SyncCursor`] |
//! | the same without I/O | [`Get`] and [`Cursor`] answer or say which block they [need](Step::Need) |
//! | know in which block a key is | [`TableKeys`], for [`Get::start_in`] |
//! | put a cache in between | [`BlockCache`], a [`BlockSource`] with a budget in bytes for all stores of a process |
//! | end tables where range tombstones fit | [`tombstone_cuts`] |
//! | have a smaller index, or say that none fitted | [`IndexKind::Learned`], [`IndexUse`] |
//! | separate large values | [`BlobWriter`], [`BlobFile`], [`read_blob`] |
//! | check everything | [`verify_table`], [`verify_blobs`] |
//!
//! ```
//! use std::{path::Path, sync::Arc};
//! use thermocline_base::{CfId, FileId, Kind, SeqNo, Steps};
//! use thermocline_env::{OpenMode, Storage, sim::SimFs};
//! use thermocline_sst::*;
//!
//! let disk = SimFs::new(Steps::new());
//! let identity = Identity::new(*b"the database's i", FileId(7));
//! let path = Path::new("/000007.sst");
//! let mut table = TableWriter::create(&disk, path, identity, CfId(0), WriteOptions::default())?;
//! table.add(KeyRef::new(b"a", SeqNo(3)), Kind::Put, Value::Inline(b"new"))?;
//! table.add(KeyRef::new(b"a", SeqNo(1)), Kind::Put, Value::Inline(b"old"))?;
//! assert_eq!(table.finish()?.properties.entries, 2);
//! disk.sync_dir(Path::new("/"), sites::FILE_NAMED)?;
//!
//! let file = disk.open(path, OpenMode::Read)?;
//! let part = TablePart::whole(open_table(&*file, identity)?);
//! let found = get(&part, b"a", SeqNo(2), &FileSource(file))?.unwrap();
//! assert!(matches!(found.value, FoundValue::Inline(value) if *value == *b"old"));
//! # Ok::<(), thermocline_base::Error>(())
//! ```
//!
//! # What always holds
//!
//! 1. **Whole or not a table.** A file opens only if its last 80 bytes are a footer whose checksum
//!    holds and which names the file's length: a table that was not finished, or is cut or extended
//!    anywhere, does not open. [`TableWriter::finish`] gives the table's metadata only after its bytes
//!    are durable. The order is: bytes ([`sites::TABLE_WRITTEN`]), name ([`sites::FILE_NAMED`], the
//!    caller's, once for all files of a job), edit. A crash before the edit leaves a file that nobody
//!    names and open removes.
//! 2. **In its place or not at all.** Checksums of blocks and blob records start from database id, file
//!    id and offset; footer and properties name database and file. A block in another's place, or a
//!    file in another's, does not verify. File ids are never reused.
//! 3. **Checked before used.** No byte of a block is used before its checksum holds and, for foreign
//!    bytes with right checksums, before the whole block is checked (`block.rs`): what a cursor walks
//!    over is well-formed, so cursors cannot fail or loop, and the keys of a block ascend. A move that
//!    goes on to the next block compares the two: so what a walk comes to ascends, a seek has not passed what it seeks, or it ends with an error. A
//!    decompressed length is bounded by kind of block before anything is allocated.
//! 4. **The index finds.** The separator of a data block is not below any entry of it and below every
//!    entry behind it, as *internal* keys: where versions of one user key lie in several blocks the
//!    separators are those versions themselves. So the first block whose separator is not below
//!    (key, seqno) has the newest version of the key at or below seqno, or none has: a lookup reads
//!    one data block. (If the block ends before the target, the next entry is of another user key,
//!    since only then is a separator shortened.) A learned index leads to the first block that can have the
//!    key, and says whether the next one can, too (`learned.rs`); what is there is found in one read all the
//!    same, unless versions of one key fill several blocks.
//! 5. **The filter denies only what is not there.** It is over all distinct user keys of entries. Range
//!    tombstones are not in it: they are asked in memory, always.
//! 6. **The newest wins.** [`get`] answers with the newest of entry and range tombstone at or below the
//!    asked seqno. No entry has seqno [`SeqNo::MAX`](thermocline_base::SeqNo::MAX), so as a target it
//!    stands before all versions of its key, and as a largest key it says that the key itself is not
//!    in the table.
//! 7. **A part is a table of its own.** Through a [`TablePart`] no key outside of its limits is seen, by
//!    any move, and range tombstones are cut.
//! 8. **Errors name the place.** A damaged file is [`Corruption`](thermocline_base::Error::Corruption)
//!    with file and offset (of a compressed block: of the block), a newer one
//!    [`Unsupported`](thermocline_base::Error::Unsupported). A failed write or sync is an error naming
//!    the file, and every later call of that writer fails.
//!
//! # Blocks on the device
//!
//! A data block of the default size takes at most 4 KiB as stored, trailer included (unless it holds a
//! single larger entry), and a block that would lie on one 4-KiB page more than it must begins on the
//! next page, behind zeros, as long as no more than a sixteenth of the table is such zeros. So without
//! compression, and as long as what is left over of a page behind its block is no more than those zeros
//! may be, one random read is one aligned page. That is so for entries of up to some 250 bytes; of
//! larger ones a share of the blocks lies on two pages (by calculation 43 % with 512 bytes an entry, 55 % with
//! 1,040), still in one read. With
//! compression two or three blocks share a page, and a block lies on at most one page more than it
//! must: direct I/O then reads one or two pages, still in one read. Blocks are not stretched to pages,
//! which would undo compression. Whoever reads with direct I/O rounds a handle's range to pages; the
//! writer hands over pieces of 256 KiB at offsets that are multiples of it, except the last one.
//!
//! Index blocks of level 0 are written between data blocks as they fill, so a writer's memory does not
//! grow with the table except for the root, 8 bytes per distinct user key, and range tombstones. For a
//! learned index it keeps the first and last key of each data block, up to 8 MiB of them; a table that falls back then
//! has its lower index blocks behind all data blocks.
//!
//! # Rejected
//!
//! - *Hash index within data blocks*: saves a bisection of some 100 ns where the block's read costs
//!   80 µs.
//! - *Range tombstones cut into disjoint fragments* as they are read: fragments of n nested tombstones
//!   can number n². A tree over what was written stays linear.
//! - *Checking entries as they are walked over* instead of once: each step of every cursor could fail.
//! - *Blob files with an index*: a reference says all, and a file that is appended to for long and may
//!   be cut by a crash would need its index anew.
#![forbid(unsafe_code)]

mod blob;
mod block;
mod cache;
mod compress;
mod cursor;
mod cuts;
mod filter;
mod foreign;
mod format;
mod get;
mod handle;
mod identity;
mod index;
mod indexing;
mod key;
mod keys;
mod learned;
mod name;
mod opening;
mod options;
mod output;
mod placement;
mod properties;
mod root;
pub mod sites;
mod sync;
mod table;
mod tombstones;
mod value;
mod verify;
mod writer;

pub use blob::{
    BLOB_FORMAT_VERSION, BLOB_HEADER_LEN, BlobEntry, BlobFile, BlobMeta, BlobRecords, BlobWriter,
    RECORD_HEADER_LEN, hash_record_headers, read_blob, read_blob_of, verify_blobs,
    verify_blobs_with,
};
pub use block::Block;
pub use cache::source::CachedSource;
pub use cache::{BlockCache, CacheUse, StoreCache};
pub use compress::Compression;
pub use cursor::{Cursor, Move};
pub use cuts::tombstone_cuts;
pub use filter::FILTER_KEYS_MAX;
pub use foreign::{identity_of, is_blobs_of};
pub use format::{
    BLOB_FILES_MAX, DATA_LEN_MAX, FOOTER_LEN, FORMAT_VERSION, INDEX_LEN_MAX, PAGE_BYTES,
    PROPERTIES_LEN_MAX, RUN_LEN_MAX, TOMBSTONES_LEN_MAX, TRAILER_LEN,
};
pub use get::{Get, Step};
pub use handle::{BlockHandle, BlockKind};
pub use identity::Identity;
pub use key::{InternalKey, KeyRef};
pub use keys::{TableKeys, Where};
pub use name::{FileName, blob_name, table_name};
pub use opening::{Opened, Opening};
pub use options::WriteOptions;
pub use properties::{BlobUse, Creation, IndexUse, Properties};
pub use sync::{
    BlockSource, FileSource, SyncCursor, get, offset_of, open_table, open_table_to_scan,
};
pub use table::{Table, TablePart};
pub use thermocline_base::{Codec, IndexKind};
pub use value::{Found, FoundValue, Pinned, Value};
pub use verify::{CheckBlob, FAULTS_MAX, Verified, verify_table, verify_table_with};
pub use writer::{TableMeta, TableWriter};
