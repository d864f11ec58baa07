//! Flushing: sealed generations become tables of level 0.
//!
//! # Steps
//! 1. *Take* all sealed generations of the view that were not flushed: the oldest ones, without a gap.
//! 2. *Merge* them, family by family, in the order of keys (no lock held; no epoch guard outlives a
//!    chunk), and write what somebody may still be answered with into new tables (`retain`).
//! 3. *Sync* each table's file, then the folder.
//! 4. *Edit 1*, under the writer's lock: one edit names all tables. A family that was dropped meanwhile
//!    gets none.
//! 5. *Go over*, under the same lock: one view without the generations and with the tables.
//! 6. The generations are dead (`reclaim`): once nobody reads them, *edit 2* drops them, and their zones
//!    are free.
//!
//! # Invariants
//! 1. *Whole and in order.* A flush takes whole generations, and none while an older one that was not
//!    flushed stays in the view. So everything in tables is older than everything in generations that
//!    were not flushed.
//! 2. *Flushed is known by seqnos.* Let F be the largest seqno in a table. A sealed generation whose
//!    base is at most F was flushed, by 1. (One that was flushed and of which nothing had to stay may lie
//!    above F; it counts as one that was not, and may be flushed again: all its seqnos are above F.) So
//!    the manifest needs no word about it, and no record gets into two tables of level 0, which their
//!    order by age forbids.
//! 3. *Durable first.* A table has nothing that is not durable and visible.
//! 4. *In order they go.* A flushed generation is dropped only with, or after, all older ones that the
//!    manifest names. Generations are read before tables: an older one that came back after a crash would
//!    hide what the tables have of the flushed one.
//! 5. *No table without its name.* A file is named by an edit only when its bytes and its name are
//!    durable; what no edit names, the next open removes.
//!
//! # What a crash leaves
//! | a crash | finds |
//! |---|---|
//! | before edit 1 | the generations, and files that nobody names: removed |
//! | between edit 1 and edit 2 | the generations, and tables with some of the same records |
//! | after edit 2 | the tables |
//!
//! In the second row records are there twice, with equal seqnos. That is consistent: generations are
//! asked first, and have all that their tables have and all that was left out of them; of equal keys a
//! cursor takes the first source's. By invariant 2 the open knows the generations as flushed, and hands
//! them to `reclaim` as dead.
//!
//! # What is left out
//! Let `s` be a version and `n` the next newer one that is no merge operand. Nobody needs `s` if no
//! reader is registered in `s..n`: all of both is settled when the job begins, so whoever comes later
//! reads at `n` or after (`memtable::needed`, 1). A tombstone says nothing if no older version of its key
//! is written with it and no table below may have the key. Generations that are out of the view but still
//! named are older, and may have it: by invariant 4 the tombstone's generation outlives them.
//!
//! Who holds an older view reads the generations on; their zones stay until he has gone.

mod retain;
mod source;
#[cfg(test)]
mod tests;

use std::path::Path;

use thermocline_base::{CfId, Error, FileId, Kind, Result, SeqNo};
use thermocline_env::Storage;
use thermocline_memtable::Memtable;
use thermocline_sst::{FileName, KeyRef, TableMeta, TableWriter, Value, WriteOptions, sites};
use thermocline_version::{
    BlobBytes, Change, FileKind, KeyRange, Level, Place, TableRef, Version, VersionEdit, VersionSet,
};

use crate::readers::Moments;
use crate::store::{Engine, Inner};
use crate::sync::{Arc, lock};
use crate::tables::{TableFiles, Tables};
use crate::view::View;
use crate::write::busy;
use retain::{Decision, Retain};
use source::Merge;

/// A table is ended at the first new key at which it has this many bytes.
const TABLE_BYTES: u64 = if cfg!(test) { 16 << 10 } else { 32 << 20 };

/// Ids of files that are reserved by one edit.
const IDS_AHEAD: u64 = 64;

/// Records after which a job looks whether the store is being closed.
const LOOK_EVERY: u64 = 1024;

/// What a job has made so far.
#[derive(Debug, Default)]
struct Outputs {
    /// All files, pinned.
    files: Vec<FileId>,
    tables: Vec<(CfId, TableRef)>,
}

impl Engine {
    /// Seals the active generation, unless it is empty, and moves all sealed ones into tables. Returns
    /// how many those were. Where there is no descriptor for another generation, the active one stays.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a store that takes no writes; [`Error::Poisoned`]; a failed persist
    /// of region, folder or manifest, which poisons the store; [`Error::Corruption`] of a record; those
    /// of the file system, after which everything is as before.
    pub fn flush(&self) -> Result<usize> {
        let _settled = self.inner.background.settled_after();
        self.inner.seal_active()?;
        self.inner.flush()
    }
}

impl Inner {
    fn seal_active(&self) -> Result<()> {
        let mut writer = lock(&self.writer);
        self.check_writable()?;
        if writer.active.is_empty() {
            return Ok(());
        }
        self.record_chain(&mut writer)?;
        self.rotate(&mut writer, &mut self.lock_next())
    }

    /// As [`Engine::flush`], of what is sealed. The caller does not hold the writer's lock.
    pub fn flush(&self) -> Result<usize> {
        let flushing = lock(&self.flushing);
        self.check_writable()?;
        let generations = self.to_flush();
        let flushed = generations.len();
        if flushed == 0 {
            return Ok(0);
        }
        let mut outputs = Outputs::default();
        let written = self.write_tables(&generations, &mut outputs);
        let done = written.and_then(|()| self.name_tables(&generations, &outputs));
        {
            let mut versions = lock(&self.versions);
            let files = outputs.files.iter();
            files.for_each(|file| versions.unpin_output(*file));
        }
        self.unlink_obsolete();
        done?;
        // What is still held here is not free.
        drop(generations);
        drop(flushing);
        self.reclaim()?;
        Ok(flushed)
    }

    /// The sealed generations that were not flushed, oldest first.
    fn to_flush(&self) -> Vec<Arc<Memtable>> {
        let view = self.view.load_full();
        let reclaim = lock(&self.reclaim);
        let sealed = view.memtables[1..].iter().rev();
        let sealed = sealed.filter(|memtable| !reclaim.is_flushed(memtable.generation()));
        sealed.cloned().collect()
    }

    fn write_tables(&self, generations: &[Arc<Memtable>], outputs: &mut Outputs) -> Result<()> {
        // In this order: see `memtable::needed::Readers`.
        let settled = SeqNo(self.ring.durable().min(self.ring.visible()));
        let moments = Moments::copied(&self.ring, &self.readers);
        let tables = self.view.load().tables.clone();
        let mut families: Vec<CfId> = generations.iter().flat_map(|m| m.families()).collect();
        families.sort_unstable();
        families.dedup();
        for cf in families {
            let below = |key: &[u8]| tables.may_have(cf, key);
            let retain = Retain::new(&moments, &below);
            self.write_family(cf, generations, settled, retain, outputs)?;
        }
        if outputs.files.is_empty() {
            return Ok(());
        }
        let storage = &self.world.env.storage;
        let synced = storage.sync_dir(&self.dir, sites::FILE_NAMED);
        // What is durable of the folder is unknown, and asking again might not tell.
        synced.map_err(|error| self.poison.poison(error))
    }

    fn write_family(
        &self,
        cf: CfId,
        generations: &[Arc<Memtable>],
        settled: SeqNo,
        mut retain: Retain<'_>,
        outputs: &mut Outputs,
    ) -> Result<()> {
        let mut merge = Merge::new(generations, cf)?;
        let mut writer: Option<(FileId, TableWriter)> = None;
        let mut seen = 0u64;
        while let Some(record) = merge.head() {
            if record.seqno > settled {
                // Invariant 3. Its group is about to be.
                return Err(busy("for writes in flight"));
            }
            if record.kind == Kind::RangeDelete {
                let why = "a range tombstone cannot be flushed by this version";
                return Err(Error::Unsupported(why.into()));
            }
            seen += 1;
            if seen.is_multiple_of(LOOK_EVERY) {
                self.check_writable()?;
            }
            let new_key = retain.is_new(record.key);
            let exists = self.families.exists(cf, record.key);
            let decision = match exists {
                true => retain.decide(record.key, record.seqno, record.kind),
                false => Decision::Drop,
            };
            if decision != Decision::Drop {
                if new_key
                    && writer
                        .as_ref()
                        .is_some_and(|(_, w)| w.bytes() >= TABLE_BYTES)
                {
                    self.finish_table(cf, writer.take(), outputs)?;
                }
                let (_, table) = match &mut writer {
                    Some(writer) => writer,
                    None => writer.insert(self.begin_table(cf, outputs)?),
                };
                if let Decision::KeepAfterDelete(delete) = decision {
                    let delete = KeyRef::new(record.key, delete);
                    table.add(delete, Kind::Delete, Value::Inline(b""))?;
                }
                let key = KeyRef::new(record.key, record.seqno);
                table.add(key, record.kind, Value::Inline(record.value))?;
            }
            merge.advance()?;
        }
        self.finish_table(cf, writer, outputs)
    }

    fn begin_table(&self, cf: CfId, outputs: &mut Outputs) -> Result<(FileId, TableWriter)> {
        let file = self.pin_table()?;
        outputs.files.push(file);
        let files = &self.table_files;
        let (path, identity) = (files.path(file), files.identity(file));
        let storage = &*files.storage;
        let options = WriteOptions::default();
        let writer = TableWriter::create(storage, &path, identity, cf, options)?;
        Ok((file, writer))
    }

    fn pin_table(&self) -> Result<FileId> {
        loop {
            if let Some(file) = lock(&self.versions).pin_output(FileKind::Table) {
                return Ok(file);
            }
            self.poison.check()?;
            // Under one lock: the reservation says what no id of any kind is below.
            let mut manifest = lock(&self.manifest);
            let reservation = lock(&self.versions).reservation(manifest.state(), IDS_AHEAD);
            self.append(&mut manifest, &reservation)?;
        }
    }

    fn finish_table(
        &self,
        cf: CfId,
        writer: Option<(FileId, TableWriter)>,
        outputs: &mut Outputs,
    ) -> Result<()> {
        if let Some((file, writer)) = writer {
            outputs.tables.push((cf, reference(file, writer.finish()?)));
        }
        Ok(())
    }

    /// Edit 1, and the view that comes with it.
    fn name_tables(&self, generations: &[Arc<Memtable>], outputs: &Outputs) -> Result<()> {
        let _writer = lock(&self.writer);
        // Again, since the store may have been closed meanwhile.
        self.check_writable()?;
        let tables = outputs.tables.iter();
        let tables = tables.filter(|(cf, _)| self.families.exists(*cf, b""));
        let added = tables.map(|(cf, table)| Change::TableAdded {
            place: Place::new(*cf, Level::ZERO),
            table: Arc::new(table.clone()),
        });
        let changes: Vec<Change> = added.collect();
        if !changes.is_empty() {
            self.edit(VersionEdit { changes })?;
        }
        lock(&self.reclaim).flushed(generations.iter().map(|m| m.generation()));
        self.retire();
        // If all of them had been retired as dead before.
        self.go_over_to_tables();
        Ok(())
    }

    /// The tables of today, for a view in place of `view`.
    pub fn tables_after(&self, view: &View) -> Arc<Tables> {
        let version = lock(&self.versions).current().clone();
        match Arc::ptr_eq(&version, view.tables.version()) {
            true => view.tables.clone(),
            false => Tables::new(version, self.table_files.clone(), Some(&view.tables)),
        }
    }

    /// Lets readers see the tables of today. The caller holds the writer's lock.
    pub fn go_over_to_tables(&self) {
        let view = self.view.load_full();
        let tables = self.tables_after(&view);
        if !Arc::ptr_eq(&tables, &view.tables) {
            self.view.store(Arc::new(view.over(tables)));
        }
    }

    /// Removes the files that nobody names or reads any more. What cannot be removed now the next open
    /// removes. Readers of an earlier opening may read any.
    pub fn unlink_obsolete(&self) {
        if lock(&self.reclaim).has_elders() || self.poison.check().is_err() {
            return;
        }
        let mut versions = lock(&self.versions);
        for (file, kind) in versions.obsolete() {
            let path = match kind {
                FileKind::Table => self.table_files.path(file),
                FileKind::Blob => continue,
            };
            let storage = &self.table_files.storage;
            let gone = match storage.exists(&path) {
                Ok(true) => storage.remove(&path).is_ok(),
                Ok(false) => true,
                Err(_) => false,
            };
            if gone {
                versions.unlinked(file);
            }
        }
    }
}

/// The reference to all of a table.
fn reference(file: FileId, meta: TableMeta) -> TableRef {
    let of = meta.properties;
    let (smallest, largest) = of.smallest.zip(of.largest).expect("a table has an entry");
    let (smallest_seqno, largest_seqno) = of.seqnos.expect("a table has an entry");
    let blobs = of.blobs.iter().map(|blob| BlobBytes {
        file: blob.file,
        bytes: blob.bytes,
    });
    TableRef {
        file,
        file_bytes: meta.bytes,
        bytes: meta.bytes,
        entries: of.entries,
        deletes: of.deletes,
        range: KeyRange::inclusive(smallest.user_key, largest.user_key),
        limited_below: false,
        limited_above: false,
        smallest_seqno,
        largest_seqno,
        blobs: blobs.collect(),
    }
}

/// The largest seqno in a table; 0 if there is none (invariant 2).
pub(crate) fn flushed_up_to(version: &Version) -> u64 {
    let largest = version.tables().map(|(_, table)| table.largest_seqno.0);
    largest.max().unwrap_or(0)
}

/// Looks, when a store is opened, whether all named files are there, and removes those that nobody
/// names, unless they are to be `kept`.
pub(crate) fn sweep_tables(files: &TableFiles, versions: &VersionSet, kept: bool) -> Result<()> {
    let unnamed = versions.sweep(&files_in(&*files.storage, &files.dir)?)?;
    if kept {
        return Ok(());
    }
    for (file, kind) in unnamed {
        let name = match kind {
            FileKind::Table => FileName::Table(file),
            FileKind::Blob => FileName::Blob(file),
        };
        files.storage.remove(&files.dir.join(name.to_string()))?;
    }
    Ok(())
}

/// The tables and blob files in a folder.
pub(crate) fn files_in(storage: &dyn Storage, dir: &Path) -> Result<Vec<(FileId, FileKind)>> {
    let names = storage.list(dir)?;
    let parsed = names.iter().filter_map(|name| FileName::parse(name));
    let found = parsed.map(|name| match name {
        FileName::Table(file) => (file, FileKind::Table),
        FileName::Blob(file) => (file, FileKind::Blob),
    });
    Ok(found.collect())
}
