//! Copies of a store: the common part of checkpoints, backups and restored databases.
//!
//! # Whose is what
//! Tables and blob files are sealed to the database that wrote them and to their number there (`sst::identity`), and
//! a copy shares them, or takes them over byte for byte. Yet a copy is **a database of its own**. It gets a new
//! database id, a new region id and a manifest of its own. The manifest remembers which database wrote the files that
//! were taken over (`version::Origins`: all with ids below the one from which the copy numbers on). So:
//!
//! 1. *Nothing of one is taken for the other's.* Both number files, chains and memtables on from the same ids, and
//!    give out the same seqnos. But everything that either writes from now on is sealed with its own id: a table,
//!    manifest, descriptor or region of one in the other's place does not verify. That holds between two copies of
//!    one database, too, and for copies of copies.
//! 2. *Older files are both's.* A file that both have is the same bytes, never changed again, so it does not matter
//!    by which name it is read.
//! 3. *A copy has no region.* The live data in persistent memory is written into ordinary tables of the copy's own.
//!    Its manifest names no memtable. By that the first open for writing knows that the region has yet to be made, in
//!    the place that is wanted then; the place of the original's is not passed on. Until then a read-only open reads
//!    the copy with an empty region in memory. If the original has its records in DRAM and in logs, so has the copy,
//!    which begins without a log as it does without a region.
//!
//! Rejected: *one database id for both, and another region id*. It needs no word in the manifest. But tables that
//! both write after the copy would have equal ids and equal seeds, and one in the other's place would be believed.
//! *Sealing all tables anew* would need no word either, but rules out hard links.
//!
//! # What it has
//! Every file of a held moment, and tables of its own with everything else that a reader at that moment sees
//! ([`Captured`](crate::Captured)). The store has the argument that each record is in one of both. Both are below
//! everything that the copy writes from then on. Nothing in the copy can be lost to the original in a crash:
//! everything up to the moment was made durable first. (Who only reads the original makes nothing durable there. Behind a kill the
//! copy may then have records that the original loses with the power, and the original says so to who follows it from the copy on:
//! `feed`, 6.)
//!
//! Its manifest says the seqno of the moment, as what memtables were flushed up to (`FlushedUpTo`). So it goes on behind that, even
//! where no table has the last records, which were deletes of nothing, or of families that were dropped. A list of backups has the
//! seqno itself, and the restored database says it.
//!
//! # How a copy comes to be (`target`)
//! | step | durable after it |
//! |---|---|
//! | make the folder, lock it, note that a copy is being made | the note: the folder is no database |
//! | write down each name before a file gets it (`note`); link, copy and write files, and sync each | what may go, were the copy not completed; the bytes |
//! | make the manifest (`version::manifest`), which syncs the folder twice | first all names, then `CURRENT`: the copy exists |
//! | remove the note | nothing needed: whoever opens the copy removes it |
//!
//! A crash before `CURRENT` leaves a folder that no open takes for a database, nor for an empty one. The next copy to
//! that place clears it. A failure clears it at once, as far as it can; `CURRENT` goes first, durably, so that a half
//! cleared folder is no database. Only files that the note names go. If there is anything else, the next copy is
//! refused.
//!
//! Rejected: *a temporary folder that is renamed*. `CURRENT` is the commit of a database anyway, and a database under
//! a temporary name would be one, too. A rename does not refuse an empty folder that another process made there
//! meanwhile.

mod apart;
mod files;
mod format;
pub(crate) mod note;
pub(crate) mod sites;
mod state;
mod target;

pub(crate) use apart::{check_apart, lies_in};
pub(crate) use files::{copy_file, copy_open_file, is_gone, link_or_copy, open_captured};
pub use format::decode as noted_names;
pub(crate) use state::{behind, draw_ids, write_state};
pub(crate) use target::Target;
pub use target::{forget_note, is_unfinished};
