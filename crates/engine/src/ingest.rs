//! Installing what was written outside: tables that become the newest of level 0, in one step. What is written, and from
//! where, is the business of `copies::ingest`.
//!
//! # The seqno
//! It must be above everything older, but tables are written before they are installed, beside writers.
//! So it lies [`AHEAD`] above what was given out when the call began: what writers take meanwhile stays
//! below. Whoever installs looks whether that is still so. The store goes on behind it; the seqnos between
//! are never used. (An open after a crash leaves such gaps, too.)
//!
//! # Room on the disk
//! The last of the disk is kept for flushes and compactions (`pressure`). So room for all is asked before anything is
//! written, as for a long value, and again from time to time ([`room::asks_again`]): others write meanwhile, and tables may become larger
//! than they were.
//!
//! # Steps
//! 1. *Write* (no lock held but `ingesting`) what `copies::ingest` brings, into pinned files; sync each, then the folder.
//! 2. *Flush* what is in persistent memory, as often as that is much: writers go on meanwhile.
//! 3. Under the lock of flushing, and the writer's: *seal* the active memtable, *flush* the little that
//!    came since, so that no record is left in persistent memory. **One edit is the commit**: it cuts the
//!    chains before, drops the memtable that the seal has made active and nobody used, names the tables,
//!    and opens a new memtable whose chain begins behind their seqno.
//! 4. *Publish*: the view with both, then `visible` and `durable` move over the seqno at once, as over
//!    any group.
//!
//! # Invariants
//! 1. *Law of age.* At the edit all older data is in tables with lower seqnos, or in memtables that were
//!    flushed; all newer data will be in the new memtable, or behind. The lock is held throughout.
//! 2. *Flushed is known* (`flush`, invariant 2): the tables' seqno lies above the bases of exactly those
//!    memtables that were flushed, and the edit says so. Else compactions could forget a record, and
//!    the tombstone that was ingested over it, while the memtable that had it is still named.
//! 3. *All or nothing*, for crashes because of the one edit, for readers because `visible` moves over the
//!    seqno when the view has all tables. A snapshot from before has a lower seqno, whatever view it
//!    comes to hold. A `get`, which is not registered, asks tables for no more than what is visible.
//! 4. *The gap can be crossed*: the new chain has a base of its own, and the chain before it is cut, in
//!    the same edit, where it is complete (`memtable::walk`, where memtables were dropped).
//! 5. *Nothing fails halfway*, as for a staged batch (`stage`, invariant 4).
//! 6. *Closing* waits for `ingesting`; a call that finds the store closed gives up.
//!
//! # Crash argument
//! Before the edit the manifest does not name the files: the next open removes them. After it recovery
//! finds every chain complete at its cut, the new one, which has no zone, and the tables. A flush that
//! was made on the way is one like others.

use thermocline_base::asked::is_asked;
use thermocline_base::limits::MEMTABLES_MAX;
use thermocline_base::size::format_size;
use thermocline_base::{CfId, Error, Kind, RangeTombstone, Result, SeqNo};
use thermocline_catalog::View;
use thermocline_compaction::output::Cutter;
use thermocline_copies::{Installed, NewTables};
use thermocline_jobs::Outputs;
use thermocline_jobs::sink::FileSink;
use thermocline_jobs::writing::Writing;
use thermocline_memtable::{Chain, ChainWriter, Descriptor, Memtable};
use thermocline_observe::event::Event;
use thermocline_policy::tuning::INGEST_NAMED_PARTS;
use thermocline_policy::{flush, room};
use thermocline_sst::{Creation, KeyRef, Value};
use thermocline_tables::Work;
use thermocline_version::format::{PAYLOAD_LEN_MAX, encode_edit};
use thermocline_version::{Change, Level, Place, VersionEdit};

use crate::start::opened;
use crate::store::Ingester;
use crate::sync::Arc;
use crate::write::writer::Writer;

/// How far the seqno of an ingestion lies above those that were given out when it began. More writes
/// than no call takes long enough for; and few enough for a hundred million calls.
const AHEAD: u64 = 1 << 36;

/// Seqnos end at 2^63 (`version::state`).
const SEQNO_MAX: u64 = 1 << 62;

/// Writes tables, given their seqno.
pub(crate) type Write<'a> = &'a mut dyn FnMut(SeqNo, &mut dyn NewTables) -> Result<()>;

/// Tables of the store that are being written.
struct Incoming<'a> {
    ingester: &'a Ingester,
    seqno: SeqNo,
    writing: Writing<'a>,
    outputs: &'a mut Outputs,
    work: Work,
    /// Bytes that were written since room was asked for.
    unasked: u64,
}

impl Incoming<'_> {
    /// So many bytes come next: asks for room on the disk again, where it is time.
    fn find_more(&mut self, bytes: usize) -> Result<()> {
        self.unasked += bytes as u64;
        if room::asks_again(self.unasked) {
            // What was written has taken its room by now. What is left may be less than so much.
            self.ingester.find_disk(0)?;
            self.unasked = 0;
        }
        Ok(())
    }
}

impl NewTables for Incoming<'_> {
    fn go_on(&mut self) -> Result<()> {
        self.ingester.common.check_writable()?;
        self.work.cover_bytes(self.writing.memory());
        Ok(())
    }

    fn begin_tombstone(&mut self, tombstone: RangeTombstone) -> Result<()> {
        self.find_more(tombstone.start.len() + tombstone.end.len())?;
        self.writing.begin_tombstone(tombstone, self.outputs)
    }

    fn add(&mut self, key: &[u8], kind: Kind, value: Value<'_>) -> Result<()> {
        let value_len = match value {
            Value::Inline(bytes) => bytes.len(),
            Value::Blob(_) => 0,
        };
        self.find_more(key.len() + value_len)?;
        self.writing.go_to(key, self.outputs)?;
        let key = KeyRef::new(key, self.seqno);
        self.writing.add(key, kind, value, self.outputs)
    }
}

impl Ingester {
    /// Installs what `write` writes into tables of a family, and does what is due then.
    ///
    /// # Errors
    /// See [`Store::install`](thermocline_copies::Store::install).
    pub fn install_new(&self, cf: CfId, bytes: u64, write: Write<'_>) -> Result<Installed> {
        if is_asked() {
            return Err(Error::InvalidArgument(
                "a compaction filter, a merge operator or an observer of progress cannot ingest: that may wait for the \
                 work that asks it"
                    .into(),
            ));
        }
        let _ingesting = self.common.turns.ingesting.take();
        // Asked again when they are installed: before that it spares writing them in vain.
        let families = &self.common.families;
        self.common.prepared.check_family(families, cf)?;
        if bytes > 0 {
            self.find_disk(bytes)?;
        }
        let seqno = self.seqno_ahead()?;
        let mut outputs = Outputs::default();
        let installed = self.write_and_install(cf, seqno, write, &mut outputs);
        self.making.release(&outputs);
        self.sweeper.unlink_obsolete();
        let installed = installed?;
        if installed.tables > 0 {
            self.common.commits.make_durable(&*self.memtables, seqno)?;
        }
        // It is done, and what fails now has either poisoned the store or is tried again. An error would say that nothing was ingested:
        // who tries again would put these values above newer ones.
        let _ = self.reclaimer.reclaim();
        self.pressure.press();
        self.common.want_compaction();
        let _ = self.flusher.compact_inline();
        Ok(installed)
    }

    /// Room on the disk for `bytes` bytes, or, for 0, for anything.
    fn find_disk(&self, bytes: u64) -> Result<()> {
        let found = self.admission.check_disk(bytes);
        found.map_err(|error| match error {
            Error::OutOfSpace(why) => {
                let more = match bytes {
                    0 => "more".into(),
                    _ => format!("{} more", format_size(bytes)),
                };
                let text = format!("ingesting takes {more}, and {why}; nothing was ingested");
                Error::OutOfSpace(text)
            }
            other => other,
        })
    }

    fn seqno_ahead(&self) -> Result<SeqNo> {
        let seqno = self.memtables.next_seqno() + AHEAD;
        if seqno < SEQNO_MAX {
            return Ok(SeqNo(seqno));
        }
        let why = "the store has used up the sequence numbers that ingesting leaves out";
        Err(Error::OutOfSpace(why.into()))
    }

    /// All steps. The caller lets go of the outputs.
    fn write_and_install(
        &self,
        cf: CfId,
        seqno: SeqNo,
        write: Write<'_>,
        outputs: &mut Outputs,
    ) -> Result<Installed> {
        self.write_new(cf, seqno, write, outputs)?;
        let installed = Installed {
            tables: outputs.count() as u64,
            bytes: outputs.bytes,
            seqno,
        };
        if installed.tables == 0 {
            return Ok(installed);
        }
        let added = VersionEdit {
            changes: outputs.added().collect(),
        };
        // The rest of the edit takes far less than the other half.
        if encode_edit(&added).len() > PAYLOAD_LEN_MAX / INGEST_NAMED_PARTS {
            return Err(Error::InvalidArgument(format!(
                "{} tables of {} bytes are too many for one step; ingest fewer at a time",
                installed.tables, installed.bytes
            )));
        }
        self.making.sync_names(outputs)?;
        let mut flushes = 0;
        loop {
            self.memtables.seal_active()?;
            self.flusher.flush()?;
            flushes += 1;
            if !flush::once_more(flushes, self.memtables.active_bytes()) {
                break;
            }
        }
        let _flushing = self.common.turns.flushing.take();
        let mut writer = self.memtables.lock_writer();
        self.install_ingested(cf, &mut writer, added, seqno)?;
        Ok(installed)
    }

    /// Step 1.
    fn write_new(
        &self,
        cf: CfId,
        seqno: SeqNo,
        write: Write<'_>,
        outputs: &mut Outputs,
    ) -> Result<()> {
        let shape = &self.common.compactions.shape;
        let prefixes = self.common.families.filter_prefix(cf, &self.common.options);
        let options = shape.write_options(0, usize::MAX, Creation::Ingest);
        let options = options.with_prefixes(prefixes);
        let cutter = Cutter::new(shape.output_options(), vec![], vec![]);
        let place = Place::new(cf, Level::ZERO);
        let mut sink = FileSink::new(&self.common.catalog, place, options);
        let mut incoming = Incoming {
            ingester: self,
            seqno,
            writing: Writing::new(cf, cutter, &mut sink),
            outputs,
            work: self.common.catalog.table_files.work(),
            unasked: 0,
        };
        let written = write(seqno, &mut incoming);
        let written = written.and_then(|()| incoming.writing.finish(incoming.outputs));
        drop(incoming);
        // What it worked with is given back.
        self.common.room.note();
        written
    }

    /// Steps 3 and 4, under the locks of flushing and of the writer.
    fn install_ingested(
        &self,
        cf: CfId,
        writer: &mut Writer,
        added: VersionEdit,
        seqno: SeqNo,
    ) -> Result<()> {
        // Again: both may have changed meanwhile.
        self.common.check_writable()?;
        self.common.check_family(cf)?;
        let (prepared, families) = (&self.common.prepared, &self.common.families);
        prepared.check_family(families, cf)?;
        self.memtables.record_chain(writer)?;
        let mut next = self.memtables.lock_next();
        self.find_descriptor(writer, !next.has_next())?;
        let unused = self.memtables.begin_memtable(writer, &mut next)?;
        self.flusher.flush_exclusive(writer)?;
        if writer.next_seqno() > seqno.0 {
            let why = "more was written while tables were ingested than can be; try again";
            return Err(Error::Busy(why.into()));
        }
        let nonce = self.common.world.env.random_u64()?;
        let ids = self.common.catalog.edits().state().next_ids();
        let incarnation = writer.chain.chain().incarnation;
        let base = seqno.0 + 1;
        let chain = Chain::new(&self.common.db_id, ids.chain, incarnation, nonce, base);
        let log = self.memtables.begin_log(chain.id, nonce)?;
        let ended = writer.ended.take();
        let mut edit = VersionEdit {
            changes: ended.clone(),
        };
        edit.changes.push(Change::MemtableDropped { id: unused });
        edit.changes.extend(added.changes);
        edit.changes.extend([
            Change::FlushedUpTo { seqno: seqno.0 },
            Change::MemtableCreated { id: ids.memtable },
            opened(&chain, ids.memtable, nonce, None),
        ]);
        // If the edit has no room, nothing has happened. From there on nothing may fail but a persist.
        let flying = self.common.commits.flying(&*self.memtables);
        if let Err(error) = self.memtables.edit_with_log(edit, &log) {
            writer.ended.give_back(ended);
            if self.common.poison.check().is_ok() {
                flying.finished();
            }
            return Err(error);
        }
        self.memtables.go_over_to_log(log);
        self.memtables.witness(&chain, nonce)?;
        self.publish_ingested(writer, unused, (ids.memtable, chain, nonce), seqno)?;
        // Before it is visible.
        if writer.watched {
            writer.watched = self.common.note_family(seqno, cf);
        }
        // Before others get the lock, as for a staged batch.
        self.common.commits.ring.grant_finished(seqno.0, 0);
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
        self.common.give_descriptor_back(writer.descriptor.take())?;
        let descriptor = Descriptor::create(&self.common.space, &self.common.db_id, id)
            .map_err(|error| self.common.poison.poison(error))?;
        let region = self.common.space.region().clone();
        let active = Memtable::new(region, id, vec![chain]).charged_to(&self.common.account);
        let active = Arc::new(active);
        self.common.reclaim.forget_unused(unused);
        let view = self.common.catalog.view_to_keep();
        let older = view.memtables.iter().filter(|m| m.id() != unused);
        let memtables = [active.clone()].into_iter().chain(older.cloned()).collect();
        let tables = self.common.catalog.tables_after(&view);
        // All that is older was flushed.
        let pins = view.pins().ok().cloned();
        let view = View::new(memtables, tables, None, pins);
        self.common.catalog.show(view);
        let chain = ChainWriter::new(self.common.space.clone(), chain, None);
        writer.go_on(active, descriptor, chain, nonce, seqno);
        self.common
            .events
            .emit(Event::MemtableDropped { id: unused });
        self.common.events.emit(Event::MemtablePrepared { id });
        Ok(())
    }

    /// Sees to it that a memtable can be sealed, for which one more is needed if none is prepared. The
    /// one behind the tables takes over that of the memtable that goes.
    fn find_descriptor(&self, writer: &mut Writer, wanted: bool) -> Result<()> {
        let descriptors = self.common.space.descriptors();
        if wanted && descriptors.free() == 0 {
            self.upkeep.reclaim_for(writer)?;
        }
        if wanted && descriptors.free() == 0 {
            return Err(Error::OutOfSpace(format!(
                "there are as many memtables as can be ({MEMTABLES_MAX}), and ingesting ends one; flush, or let go of \
                 snapshots that hold them"
            )));
        }
        Ok(())
    }
}
