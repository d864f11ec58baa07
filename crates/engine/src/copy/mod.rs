//! Copies of a store: what all of checkpoint, backup and restore have in common.
//!
//! # Whose is what
//! Tables and blob files are sealed to the database that wrote them and to their number there
//! (`sst::identity`), and a copy is to share them, or take them over byte for byte. Yet a copy is **a
//! database of its own**: it gets a new database id, a new region id and a manifest of its own, and its
//! manifest remembers which database wrote the files that it took over (`version::Origins`: all with
//! ids below the one from which the copy numbers on). So:
//!
//! 1. *Nothing of one is taken for the other's.* Both number files, chains and generations on from the
//!    same ids, and give out the same seqnos; but everything that either writes from now on is sealed
//!    with its own id: a table, manifest, descriptor or region of one in the other's place does not verify.
//!    That holds between two copies of one database, too, and for copies of copies.
//! 2. *What was there is both's.* A file that both have is the same bytes, never changed again, so it does
//!    not matter by which name it is read.
//! 3. *A copy has no region.* What lives in persistent memory is written into ordinary tables of the
//!    copy's own. Its manifest names no generation, by which the first open for writing knows that the
//!    region has yet to be made (`create::make_region`), wherever it is wanted then; where the
//!    original's lies is not passed on. Until then a read-only open reads it with an empty region in
//!    memory. Where the original has its records in DRAM and in logs, so has the copy, which begins without
//!    a log as it does without a region.
//!
//! Rejected: *one database id for both, and another region id*. It needs no word in the manifest; but the
//! tables that both write after the copy would have equal ids and equal seeds, and one in the other's
//! place would be believed. *Sealing all tables anew* would need no word either, and no hard links.
//!
//! # The moment of a copy (`capture`)
//! Under the writer's lock and the manifest's: a snapshot at what is visible, the manifest's state, a hold of
//! its version, and the generations of the view, but for those that were flushed. Then everything up to the
//! snapshot's seqno s is made durable, so that the copy has nothing that the original may lose. All later
//! steps read what those hold, beside writers, flushes and compactions.
//!
//! The copy has every file of the version, and of the generations that are in no table yet what a reader at s
//! sees, as tables of level 0 (`stream`): of each key the newest record at or below s, and what lies over it of
//! range tombstones. It is the store at s:
//!
//! 1. *Each record is in one of both.* A flush names its tables, and marks its generations as flushed, under
//!    the writer's lock, and a crash between that and their drop leaves generations that the next open knows
//!    as flushed. So what the capture finds unflushed is in no table of its version, and what it finds
//!    flushed is. A flush that is installed later changes neither the version that is held nor the list of
//!    generations. (Were a record in both, it would be the same record with the same seqno, and so would any
//!    that it hides; but the law of age forbids two tables of one seqno.)
//!    Where an evacuation has not come to its end (`flush::evacuate`), what lies before its front is in tables of the
//!    version, and what lies behind it is taken of the generations: the snapshot's view has the front of just that
//!    version, since both change under the writer's lock.
//! 2. *The law of age.* Generations that were not flushed are newer than all tables (`flush`, invariant 1), along each key.
//!    So that they are table by table, too, a table ends at the front: before it lie only younger records.
//! 3. *Nothing that is needed has gone.* The snapshot is registered, so neither writers nor flushes trim what
//!    it sees in generations. A compaction that was installed before had a horizon at or below s
//!    (`compact::outputs`), so what it left out nobody at s needs; one that is installed later does not touch
//!    the version that is held, nor its files (`version::version_set`).
//! 4. *Nothing newer shows.* Tables have nothing above what was visible (what is ingested becomes visible
//!    before the writer's lock is let go), so nothing above s; of generations nothing above s is read.
//! 5. *Deletes stay.* A tombstone, of a key or of a range, goes only where no table of the version may have
//!    anything below it (`compaction::retain`).
//!
//! Records of families that were dropped before stay behind; one that is dropped later is in the copy.
//!
//! # How a copy comes to be (`target`)
//! | step | durable after it |
//! |---|---|
//! | make the folder, lock it, note that a copy is being made | the note: the folder is no database |
//! | write down each name before a file gets it (`note`); link, copy and write files, and sync each | what may go, were the copy not completed; the bytes |
//! | make the manifest (`version::manifest`), which syncs the folder twice | first all names, then `CURRENT`: the copy exists |
//! | remove the note | nothing needed: whoever opens the copy removes it |
//!
//! A crash before `CURRENT` leaves a folder that no open takes for a database, nor for an empty one, and
//! that the next copy to that place clears. A failure clears it at once, as far as it can; `CURRENT`
//! first, durably, so that what is half cleared is no database. Nothing goes but what the note names; where
//! there is anything else, the next copy is refused.
//!
//! Rejected: *a temporary folder that is renamed*: `CURRENT` is the commit of a database anyway, a
//! database under a temporary name would be one, too, and a rename does not refuse an empty folder that
//! somebody made there meanwhile.

mod capture;
mod files;
mod format;
pub(crate) mod note;
pub mod sites;
mod stream;
mod target;

pub(crate) use capture::Capture;
pub(crate) use files::{copy_file, link_or_copy};
pub(crate) use stream::stream;
pub(crate) use target::{COPYING_NAME, Target};
