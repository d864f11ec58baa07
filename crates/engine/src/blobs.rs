//! Long values: each lies in a blob file, and its record says where.
//!
//! A value over `blob.inline_bytes_max` would fill persistent memory and be written again by every compaction.
//! So it goes to the SSD at once, into a *blob file* (`sst::blob`), and what is granted, stored, logged,
//! flushed and compacted is a *reference* of twenty bytes: file, offset, length. To all that handles records a
//! reference is a value ([`Kind::PutBlob`](thermocline_base::Kind)); to tables it is an entry whose value
//! lies elsewhere. Metadata of families is never long.
//!
//! # Steps of a write ([`write`])
//! 1. A number for a file is reserved and pinned, and the file *held* in [`Blobs`].
//! 2. All long values of the batch go into that one file, straight from where the caller has them. It is synced, then the
//!    folder.
//! 3. One edit names the file. It is not pinned any more.
//! 4. The batch, with references in place of long values, is written like any other: alone or staged, whatever
//!    durability was asked for. Its memtable notes what it refers to (`memtable::BlobUse`).
//! 5. The file is not held any more.
//!
//! # Who keeps a file
//! | who | by what | from | until |
//! |---|---|---|---|
//! | the write that made it | held | before it is named | its memtable has noted it, or it failed |
//! | a memtable with a record that refers to it | `BlobUse` of its home | before its write is finished | the edit that drops it |
//! | a table | bytes in its reference in the version | the edit that names the table | the edit that removes it |
//! | a change feed's group | held | it is given, when its memtable has noted it | it goes |
//! | whoever reads tables, or copies | a version that names it | | it goes |
//!
//! # Invariants
//! 1. *Durable before the grant.* A reference gets a seqno only after step 3. So whatever a crash leaves of the
//!    write, the file that its records refer to is whole, and named; also of a `Buffered` one, of
//!    one in a log, and of a staged one.
//! 2. *One batch.* A file has values of one batch, which is seen whole or not at all, as ever: its long values lie
//!    in the file before any of it is seen.
//! 3. *Named while needed.* The edit that removes a file is appended only when no table refers to it, no memtable
//!    that the manifest names does, and nobody holds it ([`remove`] has the argument, and the race with
//!    writers). An edit cannot name a table that refers to a file that is not named (`version`), so that a
//!    mistake here is an error, not a loss.
//! 4. *Kept while read.* Who reads a reference in a memtable has a view that holds the memtable's home, so that
//!    the memtable stays named, and by 3 the file. Who reads one in a table has the version, which
//!    names the file: it is not obsolete (`version::version_set`). Who reads on after the store was closed
//!    holds its folder, and nothing is unlinked until he has gone (`reclaim`).
//! 5. *Never other bytes.* A value is returned only if database, file, offset, length and checksum are those that
//!    were written, and key and family are those of the record that refers to it. One that is not is an error that names file and offset, of this key alone.
//! 6. *Closing* waits for whoever makes or removes a file, a table's, too, or removes PM tables: they hold [`Blobs::gate`] shared. Behind it
//!    nobody removes a file, since another database may be in the folder by then (`sweep`). (Files of tables that a job makes it waits
//!    for by the job.)
//! 7. *Bounded garbage above tables.* References are short: without more, values that are overwritten would gather
//!    until as many references fill persistent memory. So a memtable is sealed at
//!    `blob.generation_bytes`, and sealed ones that refer to as much together are flushed; flushing leaves out
//!    what was overwritten. In tables a file stays until compaction has dropped the last reference to it, or moved what is
//!    left (below).
//!
//! # Values that jobs write apart
//! From `blob.value_bytes_min` on, values go into blob files when a flush or a compaction writes them into tables
//! (`jobs::sink`), so that compactions write references again and no values. Such a file is pinned while its job runs, and
//! named by the edit that names the tables. No write or memtable ever refers to it, so that the first two rows of the table
//! above are empty; the rest holds as it stands.
//!
//! Garbage in all files is counted by edits, and collected within `blob.space_percent_max` (`compact::collect` has
//! the argument, `policy::collect` the choice). Who keeps a file keeps it from that, too: values move, and the file stays until
//! the last reference has gone.
//!
//! # What a crash leaves
//! | a crash | finds |
//! |---|---|
//! | before the edit of step 3 | perhaps a file that nobody names: removed |
//! | after it, before the write is durable | a named file that nothing refers to: the open takes its name away, and removes it |
//! | after that | records that refer to it |
//! | after the edit that removes it | perhaps the file: removed |
//!
//! An open that finds a reference to a file that is not named refuses: the manifest has lost an edit. So does one
//! that finds a named file missing, as with tables: a store that opened all the same would look whole until
//! somebody asks for that very key, and its next checkpoint or backup would have lost the file for good; and
//! whoever moved the file can put it back. Files are not read at open, so damage within one is an error of its keys
//! ([`verify`](crate::Engine::verify) finds it).
//!
//! # Older programs
//! A program that does not know records with references would take one for the torn end of its chain, and cut off what
//! comes behind it. So the edit that names the first blob file says that there may be some
//! ([`Change::LongValues`](thermocline_version::Change)), for good, since a record may outlive all blob files:
//! those of a family that was dropped do. Such a program refuses the manifest.
//!
//! # Memory
//! Values are written from the caller's memory, in pieces; only a record's header and key, and a last piece, are
//! copied. A value that is read is read once, into the memory that the caller gets. Neither goes through the
//! cache of blocks.
//!
//! # Rejected
//! - *One file for many batches*: writers would wait for each other's syncs, a file would live as long as its longest-lived
//!   value, or until it is collected. Three syncs cost less than
//!   writing a mebibyte twice.
//! - *Naming files when a reference is flushed*: spares the edit of step 3, but then the open has to tell a file
//!   that records need from one that nobody does by reading all records first, and a lost record would
//!   look like garbage.
//! - *Counting references to a file in memory*: versions that live and die would each touch the counts. What
//!   memtables refer to is asked of the few that there are.

pub(crate) mod remove;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeMap;

use thermocline_base::FileId;

use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, lock};
use crate::turns::Gate;
pub(crate) use write::Separated;

/// The blob files that writes are about to refer to, or that groups of changes do.
#[derive(Debug, Default)]
pub(crate) struct Blobs {
    /// Held shared by whoever makes or removes a file, so that closing can wait for that; a table's, too, if he removes it. Before the writer's
    /// lock, and not taken twice.
    pub gate: Gate,
    /// How often each is held.
    held: Mutex<BTreeMap<FileId, usize>>,
    /// Bytes of values that are being written.
    coming: AtomicU64,
    /// Whether there may be any. Relaxed: who makes one, or opens the store, looks again later.
    any: AtomicBool,
}

/// Keeps a blob file, until it is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    blobs: Arc<Blobs>,
    file: FileId,
}

impl Blobs {
    /// Of a store that has some blob files, or none.
    pub fn new(any: bool) -> Arc<Blobs> {
        Arc::new(Blobs {
            any: AtomicBool::new(any),
            ..Blobs::default()
        })
    }

    /// Holds a file that is not named yet, or that a memtable has noted whose home the caller holds.
    pub fn hold(self: &Arc<Blobs>, file: FileId) -> Hold {
        self.any.store(true, Ordering::Relaxed);
        *lock(&self.held).entry(file).or_default() += 1;
        Hold {
            blobs: self.clone(),
            file,
        }
    }

    /// A job has made some, which its edit names.
    pub fn note_any(&self) {
        self.any.store(true, Ordering::Relaxed);
    }

    /// The files that are held.
    pub fn held(&self) -> Vec<FileId> {
        lock(&self.held).keys().copied().collect()
    }

    fn is_held(&self, file: FileId) -> bool {
        lock(&self.held).contains_key(&file)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = lock(&self.blobs.held);
        if let Some(times) = held.get_mut(&self.file) {
            *times -= 1;
            if *times == 0 {
                held.remove(&self.file);
            }
        }
    }
}
