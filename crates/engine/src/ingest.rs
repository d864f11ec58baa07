//! Ingesting: tables that were written outside become a part of the store, in one step.
//!
//! # What may be ingested
//! Tables of any database, or of none ([`IngestWriter`](crate::IngestWriter)). Each is verified wholly, then
//! its entries are *copied* into tables of the store's own: they get the store's seals and all the same
//! new seqno. Of several versions of a key only the newest counts, unless a range tombstone of its table is
//! newer still. Range tombstones get the same seqno as what they left of their table, and hide nothing of that:
//! a range tombstone hides what is older than it. Those that overlap become one, since nothing tells them
//! apart any more. Tables of one call must not overlap, range tombstones included.
//! (Rejected: *linking the file*, with a word in the manifest that says whose it is and which seqno to
//! read in place of its own: every reader of tables would have to know that.)
//!
//! # The seqno
//! It must be above everything older, but tables are written before they are installed, beside writers.
//! So it lies [`AHEAD`] above what was given out when the call began: what writers take meanwhile stays
//! below. Whoever installs looks whether that is still so. The store goes on behind it; the seqnos between
//! are never used. (An open after a crash leaves such gaps, too.)
//!
//! # Steps
//! 1. *Check* every table, one after the other: of thousands none stays open.
//! 2. *Copy* (no lock held but `ingesting`): entries into pinned files; sync each, then the folder.
//! 3. *Flush* what is in persistent memory, as often as that is much: writers go on meanwhile.
//! 4. Under the lock of flushing, and the writer's: *seal* the active generation, *flush* the little that
//!    came since, so that no record is left in persistent memory. **One edit is the commit**: it cuts the
//!    chains before, drops the generation that the seal has made active and nobody used, names the tables,
//!    and opens a new generation whose chain begins behind their seqno.
//! 5. *Publish*: the view with both, then `visible` and `durable` move over the seqno at once, as over
//!    any group.
//!
//! # Invariants
//! 1. *Law of age.* At the edit all older data is in tables with lower seqnos, or in generations that were
//!    flushed; all newer data will be in the new generation, or behind. The lock is held throughout.
//! 2. *Flushed is known* (`flush`, invariant 2): the tables' seqno lies above the bases of exactly those
//!    generations that were flushed, and the edit says so. Else compactions could forget a record, and
//!    the tombstone that was ingested over it, while the generation that had it is still named.
//! 3. *All or nothing*, for crashes because of the one edit, for readers because `visible` moves over the
//!    seqno when the view has all tables. A snapshot from before has a lower seqno, whatever view it
//!    comes to hold. A `get`, which is not registered, asks tables for no more than what is visible.
//! 4. *The gap can be crossed*: the new chain has a base of its own, and the chain before it is cut, in
//!    the same edit, where it is complete (`memtable::walk`, where generations were dropped).
//! 5. *Nothing fails halfway*, as for a staged batch (`stage`, invariant 4).
//! 6. *Closing* waits for `ingesting`; a call that finds the store closed gives up.
//!
//! # Crash argument
//! Before the edit the manifest does not name the files: the next open removes them. After it recovery
//! finds every chain complete at its cut, the new one, which has no zone, and the tables. A flush that
//! was made on the way is one like others.

use std::mem;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use thermocline_base::KeyRange;
use thermocline_base::{CfId, Error, Result, SeqNo};
use thermocline_commit::Durability;
use thermocline_compaction::output::Cutter;
use thermocline_compaction::retain::{Decision, Moments, RangesBelow, Retain};
use thermocline_compaction::{Head, RangeTombstone};
use thermocline_env::{File, OpenMode, Storage};
use thermocline_memtable::{Chain, ChainWriter, Descriptor, Memtable};
use thermocline_observe::event::Event;
use thermocline_sst::{
    Creation, FileSource, Identity, KeyRef, Properties, SyncCursor, Table, TablePart, Value,
    identity_of, open_table, verify_table,
};
use thermocline_version::format::{PAYLOAD_LEN_MAX, encode_edit};
use thermocline_version::{Change, Level, Place, VersionEdit};

use crate::compact::outputs::{Destination, Outputs, Writing};
use crate::start::opened;
use crate::store::{Engine, Inner};
use crate::sync::{Arc, lock};
use crate::view::View;
use crate::write::Writer;

/// How far the seqno of an ingestion lies above those that were given out when it began. More writes
/// than no call takes long enough for; and few enough for a hundred million calls.
const AHEAD: u64 = 1 << 36;

/// Seqnos end at 2^63 (`version::state`).
const SEQNO_MAX: u64 = 1 << 62;

/// Bytes in the active generation at which it is flushed once more before writers have to wait.
const MUCH: u64 = 256 << 10;

/// Entries after which it looks whether the store is being closed.
const LOOK_EVERY: u64 = 256;

/// What was ingested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ingested {
    /// Keys that were put or deleted.
    pub entries: u64,
    /// Ranges of keys that were deleted; those that overlapped in a table count as one.
    pub ranges: u64,
    /// Tables that they became.
    pub tables: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// The seqno of all of it; of nothing, if there was nothing.
    pub seqno: u64,
}

/// A table from outside that was checked. There may be thousands, so neither its file nor its index is kept.
struct Source {
    path: PathBuf,
    identity: Identity,
    bytes: u64,
    /// The first user key, and where it ends.
    keys: (Vec<u8>, Bound<Vec<u8>>),
}

impl Source {
    /// The table, which is still the one that was checked, as far as can be seen. Each block is checked again when
    /// it is read.
    fn open(&self, storage: &dyn Storage) -> Result<(Arc<dyn File>, Arc<Table>)> {
        let file = storage.open(&self.path, OpenMode::ReadInput)?;
        let identity = identity_of(&*file)?;
        let table = open_table(&*file, identity)?;
        check_kinds(&self.path, table.properties())?;
        let keys = keys_of(table.properties());
        let same = identity == self.identity && file.len()? == self.bytes;
        if same && keys.as_ref() == Some(&self.keys) {
            return Ok((file, table));
        }
        Err(Error::InvalidArgument(format!(
            "the table {} was changed while it was ingested; nothing was ingested",
            self.path.display()
        )))
    }

    /// Of its entries, and of its range tombstones.
    fn range(&self) -> KeyRange<'_> {
        let (first, last) = &self.keys;
        match last {
            Bound::Excluded(end) => KeyRange::until(first, end),
            Bound::Included(last) => KeyRange::inclusive(first, last),
            Bound::Unbounded => unreachable!("a table ends"),
        }
    }
}

impl Engine {
    /// Brings the entries of `tables` into family `cf`, all of them at one moment, above everything that
    /// was written before. Durable on return. The files are read, and stay where they are.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if two tables overlap, naming both, for too many tables, a family that
    /// was dropped, or a store that takes no writes; [`Error::Corruption`] naming the table that is
    /// damaged; [`Error::Unsupported`] for a table with merges or separated values;
    /// [`Error::OutOfSpace`]; those of the file system: then nothing was ingested. A failed persist
    /// poisons the store.
    pub fn ingest<P: AsRef<Path>>(&self, cf: CfId, tables: &[P]) -> Result<Ingested> {
        let inner = &*self.inner;
        let _settled = inner.background.settled_after();
        inner.check_writable()?;
        inner.families.check(cf, inner.families.moment())?;
        let sources = inner.check_sources(tables)?;
        let _ingesting = lock(&inner.ingesting);
        let seqno = inner.seqno_ahead()?;
        let mut outputs = Outputs::default();
        let ingested = inner.ingest(cf, &sources, seqno, &mut outputs);
        inner.release(&outputs);
        inner.unlink_obsolete();
        let ingested = ingested?;
        if ingested.tables > 0 {
            inner
                .commits
                .acknowledge(inner, SeqNo(ingested.seqno), Durability::Immediate)?;
        }
        inner.reclaim()?;
        inner.press();
        inner.want_compaction();
        // It is done, and what fails now has either poisoned the store or is tried again.
        let _ = inner.compact_inline();
        Ok(ingested)
    }
}

impl Inner {
    fn check_sources<P: AsRef<Path>>(&self, tables: &[P]) -> Result<Vec<Source>> {
        let mut sources = Vec::new();
        for path in tables {
            self.check_writable()?;
            let path = path.as_ref().to_path_buf();
            let file = self.world.env.storage.open(&path, OpenMode::ReadInput)?;
            let identity = identity_of(&*file)?;
            let table = open_table(&*file, identity)?;
            check_kinds(&path, table.properties())?;
            if let Some(fault) = verify_table(&file, identity).faults.into_iter().next() {
                return Err(fault);
            }
            // A table without entries says nothing.
            if let Some(keys) = keys_of(table.properties()) {
                sources.push(Source {
                    path,
                    identity,
                    bytes: file.len()?,
                    keys,
                });
            }
        }
        sources.sort_by(|a, b| a.keys.0.cmp(&b.keys.0));
        for two in sources.windows(2) {
            if two[0].range().overlaps(&two[1].range()) {
                let [a, b] = [&two[0], &two[1]].map(|source| source.path.display());
                return Err(Error::InvalidArgument(format!(
                    "the tables {a} and {b} overlap in keys (at \"{}\"); ingest them one after the other, \
                     the one that is to count last",
                    two[1].keys.0.escape_ascii()
                )));
            }
        }
        Ok(sources)
    }

    fn seqno_ahead(&self) -> Result<SeqNo> {
        let seqno = lock(&self.writer).next_seqno() + AHEAD;
        if seqno < SEQNO_MAX {
            return Ok(SeqNo(seqno));
        }
        let why = "the store has used up the sequence numbers that ingesting leaves out";
        Err(Error::OutOfSpace(why.into()))
    }

    /// Steps 2 to 5. The caller lets go of the outputs.
    fn ingest(
        &self,
        cf: CfId,
        sources: &[Source],
        seqno: SeqNo,
        outputs: &mut Outputs,
    ) -> Result<Ingested> {
        let (entries, ranges) = self.copy_sources(cf, sources, seqno, outputs)?;
        let ingested = Ingested {
            entries,
            ranges,
            tables: outputs.count() as u64,
            bytes: outputs.bytes,
            seqno: seqno.0,
        };
        if ingested.tables == 0 {
            return Ok(ingested);
        }
        let added = VersionEdit {
            changes: outputs.added().collect(),
        };
        // The rest of the edit takes far less than the other half.
        if encode_edit(&added).len() > PAYLOAD_LEN_MAX / 2 {
            return Err(Error::InvalidArgument(format!(
                "{} tables of {} bytes are too many for one step; ingest fewer at a time",
                ingested.tables, ingested.bytes
            )));
        }
        self.sync_names(outputs)?;
        for _ in 0..3 {
            self.seal_active()?;
            self.flush()?;
            if lock(&self.writer).active.bytes() < MUCH {
                break;
            }
        }
        let _flushing = lock(&self.flushing);
        let mut writer = lock(&self.writer);
        self.install_ingested(cf, &mut writer, added, seqno)?;
        Ok(ingested)
    }

    /// Step 2. Returns how many keys, and ranges, were copied.
    fn copy_sources(
        &self,
        cf: CfId,
        sources: &[Source],
        seqno: SeqNo,
        outputs: &mut Outputs,
    ) -> Result<(u64, u64)> {
        let shape = &self.compactions.shape;
        let options = shape.write_options(0, usize::MAX, Creation::Ingest);
        let cutter = Cutter::new(shape.output_options(), vec![], vec![]);
        let place = Place::new(cf, Level::ZERO);
        let mut work = self.table_files.work();
        let mut writing = Writing::new(self, place, options, cutter, Destination::Store);
        let mut seen = 0u64;
        let (mut entries, mut ranges) = (0, 0);
        for source in sources {
            let (file, table) = source.open(&*self.world.env.storage)?;
            let part = TablePart::whole(table.clone());
            let newest = Moments::new(vec![], SeqNo::MAX);
            let older = RangesBelow::new([source.range()]);
            let mut retain = Retain::new(newest, tombstones_of(&table), older);
            let tombstones = united(retain.tombstones(), seqno);
            ranges += tombstones.len() as u64;
            let mut tombstones = tombstones.into_iter().peekable();
            let mut cursor = SyncCursor::new(part, FileSource(file));
            let mut more = cursor.first()?;
            while more {
                seen += 1;
                if seen.is_multiple_of(LOOK_EVERY) {
                    self.check_writable()?;
                    writing.charge(&mut work);
                }
                let key = cursor.key();
                let (kind, value) = cursor.value();
                if matches!(value, Value::Blob(_)) {
                    return Err(unsupported(&source.path, SEPARATED));
                }
                let head = Head {
                    user_key: key.user_key,
                    seqno: key.seqno,
                    kind,
                };
                if retain.decide(head) != Decision::Drop {
                    let key = key.user_key;
                    while let Some(tombstone) = tombstones.next_if(|t| *t.start <= *key) {
                        writing.begin_tombstone(tombstone, outputs)?;
                    }
                    writing.go_to(key, outputs)?;
                    writing.add(KeyRef::new(key, seqno), kind, value, outputs)?;
                    entries += 1;
                }
                more = cursor.next()?;
            }
            for tombstone in tombstones {
                writing.begin_tombstone(tombstone, outputs)?;
            }
        }
        writing.finish(outputs)?;
        Ok((entries, ranges))
    }

    /// Steps 4 and 5, under the locks of flushing and of the writer.
    fn install_ingested(
        &self,
        cf: CfId,
        writer: &mut Writer,
        added: VersionEdit,
        seqno: SeqNo,
    ) -> Result<()> {
        // Again: both may have changed meanwhile.
        self.check_writable()?;
        self.families.check(cf, self.families.moment())?;
        self.record_chain(writer)?;
        let mut next = self.lock_next();
        self.find_descriptor(writer, next.is_none())?;
        let unused = self.begin_generation(writer, &mut next)?;
        self.flush_exclusive(writer)?;
        if writer.next_seqno() > seqno.0 {
            let why = "more was written while tables were ingested than can be; try again";
            return Err(Error::Busy(why.into()));
        }
        let nonce = self.world.env.random_u64()?;
        let ids = lock(&self.manifest).state().next_ids();
        let incarnation = writer.chain.chain().incarnation;
        let base = seqno.0 + 1;
        let chain = Chain::new(&self.db_id, ids.chain, incarnation, nonce, base);
        let log = self.begin_log(chain.id, nonce)?;
        let ended = writer.take_ended();
        let mut edit = VersionEdit {
            changes: ended.clone(),
        };
        edit.changes.push(Change::GenerationDropped { id: unused });
        edit.changes.extend(added.changes);
        edit.changes.extend([
            Change::FlushedUpTo { seqno: seqno.0 },
            Change::GenerationCreated { id: ids.generation },
            opened(&chain, ids.generation, nonce, None),
        ]);
        // If the edit has no room, nothing has happened. From there on nothing may fail but a persist.
        let flying = self.commits.flying(self);
        if let Err(error) = self.edit_with_log(edit, &log) {
            writer.give_back_ended(ended);
            if self.poison.check().is_ok() {
                flying.finished();
            }
            return Err(error);
        }
        self.go_over_to_log(log);
        self.witness(&chain, nonce)?;
        self.publish_ingested(writer, unused, (ids.generation, chain, nonce), seqno)?;
        // As for a staged batch: somebody else may move over it.
        let ticket = self.commits.ring.grant(seqno.0, 0);
        self.commits.ring.finish(ticket, None);
        flying.finished();
        Ok(())
    }

    fn publish_ingested(
        &self,
        writer: &mut Writer,
        unused: u64,
        (id, chain, nonce): (u64, Chain, u64),
        seqno: SeqNo,
    ) -> Result<()> {
        self.give_descriptor_back(writer.descriptor.take())?;
        let descriptor = Descriptor::create(&self.space, &self.db_id, id)
            .map_err(|error| self.poison.poison(error))?;
        let region = self.space.region().clone();
        let active = Memtable::new(region, id, vec![chain]).charged_to(&self.account);
        let active = Arc::new(active);
        self.forget_unused(unused);
        let view = self.view.load_full();
        let older = view.memtables.iter().filter(|m| m.generation() != unused);
        let memtables = [active.clone()].into_iter().chain(older.cloned()).collect();
        let tables = self.tables_after(&view);
        // All that is older was flushed.
        let pins = view.pins().ok().cloned();
        let view = View::new(memtables, tables, None, pins);
        self.view.store(Arc::new(view));
        let chain = ChainWriter::new(self.space.clone(), chain, None);
        writer.go_on(active, descriptor, chain, nonce, seqno);
        self.events.emit(Event::GenerationDropped { id: unused });
        self.events.emit(Event::GenerationPrepared { id });
        Ok(())
    }

    /// Sees to it that a generation can be sealed, for which one more is needed if none is prepared. The
    /// one behind the tables takes over that of the generation that goes.
    fn find_descriptor(&self, writer: &mut Writer, wanted: bool) -> Result<()> {
        let generations = self.space.generations();
        if wanted && generations.free() == 0 {
            self.reclaim_for(writer)?;
        }
        if wanted && generations.free() == 0 {
            let why = "there are as many memtable generations as can be, and ingesting ends one; flush, \
                       or let go of snapshots that hold them";
            return Err(Error::OutOfSpace(why.into()));
        }
        Ok(())
    }
}

/// The first user key of a table, and where it ends; none of one without entries.
fn keys_of(properties: &Properties) -> Option<(Vec<u8>, Bound<Vec<u8>>)> {
    let (smallest, largest) = (properties.smallest.as_ref()?, properties.largest.as_ref()?);
    let last = largest.user_key.clone();
    // A range tombstone reaches furthest.
    let last = match largest.seqno {
        SeqNo::MAX => Bound::Excluded(last),
        _ => Bound::Included(last),
    };
    Some((smallest.user_key.clone(), last))
}

fn tombstones_of(table: &Table) -> Vec<RangeTombstone> {
    let all = table.range_tombstones().map(|t| RangeTombstone {
        start: t.start.to_vec(),
        end: t.end.to_vec(),
        seqno: t.seqno,
    });
    all.collect()
}

/// What range tombstones cover, which are given by start, as ones of `seqno` that are apart.
fn united(by_start: &[RangeTombstone], seqno: SeqNo) -> Vec<RangeTombstone> {
    let mut united: Vec<RangeTombstone> = Vec::new();
    for tombstone in by_start {
        match united.last_mut() {
            Some(last) if tombstone.start <= last.end => {
                last.end = mem::take(&mut last.end).max(tombstone.end.clone());
            }
            _ => united.push(RangeTombstone {
                seqno,
                ..tombstone.clone()
            }),
        }
    }
    united
}

const SEPARATED: &str = "values in blob files";

fn unsupported(path: &Path, what: &str) -> Error {
    let path = path.display();
    Error::Unsupported(format!(
        "{path} has {what}, which cannot be ingested; only puts, deletes and range tombstones can"
    ))
}

/// Refuses what cannot be given another seqno, or lies elsewhere.
fn check_kinds(path: &Path, properties: &Properties) -> Result<()> {
    let foreign = [
        (properties.merges > 0, "merge operands"),
        (!properties.blobs.is_empty(), SEPARATED),
    ];
    match foreign.into_iter().find(|(has, _)| *has) {
        Some((_, what)) => Err(unsupported(path, what)),
        None => Ok(()),
    }
}
