//! The write path: how records lie in persistent memory, how they get there, and how they are found
//! again (LogFree §3.1-3.2, FlatLSM §4.2).
//!
//! # Vocabulary
//! A **record** is one change of one key, or of all keys of a range. An **item** is a group of records that become durable
//! together. A **chain** is the sequence of items that one incarnation writes into one memtable;
//! it fills zone after zone. An **incarnation** is one opening of the database for writing. A
//! **memtable** is what is indexed, sealed and flushed together; it has a number, and one chain for
//! every incarnation that wrote into it. A **merged index** leads to the records of several sealed
//! memtables; readers use it like a memtable, and so [`Memtable`] is the type of both. **Cut** is the
//! last seqno of a chain, once the manifest says so.
//!
//! # Committing without a log
//! The data is the log. An item is written once, where it stays, with one persist; the index is in
//! DRAM and is rebuilt from the items. LogFree keeps a chain per subtable and needs an undo half in
//! each write position and a global commit id, three ordered persists, to make a group atomic over
//! several; here a memtable has one chain for all column families, so a group is one item, atomic
//! by its checksum.
//!
//! # Invariants
//! 1. **One item, one persist.** An item is valid exactly when its header's CRC (over header, record
//!    headers and keys) and its records' CRCs (over keys and values) hold. All of them start from
//!    the chain's seed and the item's offset, so nothing else can look like it: not bytes of an
//!    earlier life of the zone, not a user's value.
//! 2. **`published` is a promise.** An item's `published` is a seqno that was durable when the item
//!    was built: every item up to it had been persisted. So whoever sees a valid item with
//!    `published >= s` knows that a missing item of seqno `s` was lost, not torn.
//! 3. **Sequence.** Within a chain the first seqno of an item follows the last of the item before;
//!    the first chain of an incarnation starts at the base that the manifest gives, its next chains
//!    follow on.
//! 4. **Readers see published records only.** A record's offset enters the index after its item is
//!    stored (and, unless that was deferred, durable); it becomes visible when the store's `visible` seqno reaches it. Record bytes never
//!    change from then on.
//! 5. **The newest version that a reader may see stays.** An insert keeps, of each key, the newest
//!    version at or below `visible` and below every registered reader (`art::versions`), and where that is an operand,
//!    what it is on.
//! 6. **Range tombstones are in the order of records.** Each has its seqno, like a record of a key; of a key in
//!    this memtable whichever is newer counts, and older memtables are hidden (`tombstones`).
//! 7. **What is needed stays.** A memtable may go once nobody needs a version in it (`needed`), and
//!    nobody else holds its [`Home`].
//!
//! # Crash argument of the append
//! The item's lines are stored and fenced; only then is anything acknowledged or published. A crash
//! before the fence leaves any mixture of words: the item is valid only if all of its words arrived.
//! The walk (`walk`) takes it then, and recovery persists it again before anything builds on it
//! (rule 3 of recovery, by storing it again); else it is the first bad item, not covered by any `published`, and is
//! cut. After the fence it is found in every image.
//!
//! # Why keys are covered twice
//! The item's CRC covers keys although the records' CRCs do too. At open, values of items known to
//! be durable are not read (256 MiB would be); their keys are, and a rotten key would silently
//! vanish under another name. So keys are checked at open, values when they are read.
#![deny(unsafe_code)]

#[expect(unsafe_code, reason = "stores items")]
mod append;
mod blobs;
mod chain;
mod copied;
#[expect(unsafe_code, reason = "stores descriptors and floors")]
mod descriptor;
#[cfg(test)]
#[expect(unsafe_code, reason = "damages what is stored")]
mod fixture;
mod format;
mod gaps;
mod get;
mod habit;
mod home;
mod image;
mod indexes;
mod insert;
#[expect(unsafe_code, reason = "stores items again")]
mod keep;
mod merge;
mod needed;
mod operands;
mod record;
mod replay;
mod scan;
mod stage;
mod table;
mod tombstones;
mod trail;
mod walk;

pub use append::{ChainWriter, Grant, ItemBuilder, Persist, WriterState};
pub use blobs::BlobUse;
pub use chain::{Chain, ChainPlan, Segment};
pub use copied::{ItemCopy, ItemRecords};
pub use descriptor::Descriptor;
pub use format::{ITEM_HEADER, RECORD_HEADER, item_bytes};
pub use gaps::GapList;
pub use get::Lookup;
pub use home::Home;
pub use image::ItemImage;
pub use keep::keep_again;
pub use merge::{Merging, Without};
pub use needed::{Checked, NeededCheck, Neighbours, Position, Readers};
pub use operands::Operands;
pub use record::RecordRef;
pub use replay::{Admit, Stretch, replay};
pub use scan::{Direction, ScanEntry, Versions};
pub use stage::{Stage, Staged};
pub use table::Memtable;
pub use thermocline_art::{OPERANDS_A_BLOCK, Reckoning};
pub use thermocline_base::blob_ref::{BLOB_REF_LEN, decode_blob_ref, encode_blob_ref};
pub use tombstones::{Cover, Fragment};
pub use trail::{Mark, Trail};
pub use walk::{ChainEnd, ItemRef, WalkOutcome, walk_incarnation};

thermocline_base::sites! {
    /// An item's records are durable.
    SITE_ITEM = "memtable: item durable";
    /// Items whose write-back was deferred are durable, and with them all before.
    SITE_DEFERRED = "memtable: deferred items durable";
    /// What recovery keeps is durable, even if a killed process had not persisted it.
    SITE_REPERSIST = "memtable: kept items durable";
    /// A memtable's descriptor is durable.
    SITE_DESCRIPTOR = "memtable: descriptor durable";
    /// One copy of a memtable's floor is durable: its last seqno.
    SITE_FLOOR = "memtable: floor durable";
}

/// Every durability site of this crate.
pub const SITES: &[thermocline_base::Site] = ALL;
