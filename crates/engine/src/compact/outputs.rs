//! The one way in which a store writes tables: sources are merged, what nobody needs is left out, and
//! the rest goes into tables of a bounded size.
//!
//! # Steps
//! 1. *Merge* the inputs in the order of keys, and ask `compaction::retain` what stays.
//! 2. *Cut* between keys, by size (`compaction::output`) and where a table nears a limit of its format.
//!    A range tombstone lies in every table that has a part of it, cut to where that table begins and
//!    ends. Where not all is to be written at once, the end of a table is the end of it: everything below that
//!    key was decided, and nothing from it on.
//! 3. *Sync* each table's file as it is finished, and give it its name (`catalog::files`); then, once for all, sync the
//!    folder.
//!
//! The caller names the tables in an edit, and then ends the pins.
//!
//! # Invariants
//! 1. *No table without its name.* A file is named by an edit only when its bytes and its name are
//!    durable; what no edit names goes: now, as obsolete, or at the next open.
//! 2. *Tables of one job are apart.* A key, and a part of a range tombstone, is in one of them.
//! 3. *Order.* Moments are asked for after what is settled is known, and before anything is read.
//!
//! # What is left out
//! The argument is that of `compaction::retain`. Its horizon is what was visible when the moments were
//! asked for: whoever registers later reads there or after (`readers`), and so does a `get`, which loads
//! the view first and then what is visible: if its view has the outputs, what it finds visible is no
//! older than their horizon. "Below" are the tables of the version that the caller holds. Jobs that run
//! meanwhile move what lies there, only downwards, and add no key.
//!
//! Tables may forget a record, and later what hid it, while the generation that had it is still named, and
//! comes back after a crash. Then all younger generations come back with it (`flush`, 4), and what hid it is
//! in one of them; or it is known as flushed, and comes back into no view.
//!
//! A failed sync of the folder poisons the store: names that somebody else has made there may be lost,
//! and no later sync would tell. (A folder that could not even be opened was not synced.) Any other failure leaves files that nobody names, and nothing else.

use std::cmp::Reverse;
use std::path::PathBuf;

use thermocline_base::planted::{Bug, active};
use thermocline_base::{CfId, FileId, Kind, Result, SeqNo};
use thermocline_compaction::RangeTombstone;
use thermocline_compaction::merge::{Merge, Source};
use thermocline_compaction::output::Cutter;
use thermocline_compaction::retain::{Decision, Moments, RangesBelow, Retain};
use thermocline_memtable::BLOB_REF_LEN;
use thermocline_policy::cost::Counts;
use thermocline_sst::{
    Identity, KeyRef, TOMBSTONES_LEN_MAX, TableMeta, TableWriter, Value, WriteOptions, sites,
};
use thermocline_tables::Work;
use thermocline_version::{BlobBytes, Change, FileKind, KeyRange, PartitionId, Place, TableRef};

use super::input::Input;
use crate::flush::rewrite::weight;
use crate::partitions::{Counting, Prefixes};
use crate::pm_tables::{Made, PmSink};
use crate::store::Inner;
use crate::sync::Arc;
use crate::write::busy;

/// Records after which a job looks whether the store is being closed.
const LOOK_EVERY: u64 = 256;

/// And bytes that it has written.
const LOOK_BYTES: u64 = 256 << 10;

/// What a job has made so far.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    /// All files, pinned.
    files: Vec<FileId>,
    pub tables: Vec<(Place, Arc<TableRef>)>,
    /// Tables in persistent memory.
    pub pm: Vec<Made>,
    /// Bytes of the tables.
    pub bytes: u64,
    /// Bytes of files that were read, where the caller counts them.
    pub bytes_read: u64,
    /// Entries that were read.
    pub entries_read: u64,
    /// Of those, entries that were not written.
    pub dropped: u64,
    /// What was read, by partition.
    pub counted: Vec<(CfId, Vec<(PartitionId, Counts)>)>,
    /// The prefixes at which partitions are to begin, by family.
    pub prefixes: Vec<(CfId, Vec<Vec<u8>>)>,
    /// The key before which it was enough: nothing from it on was written. `None` if that is all.
    pub ended_at: Option<Vec<u8>>,
}

impl Outputs {
    /// What an edit says of the tables.
    pub fn added(&self) -> impl Iterator<Item = Change> {
        let tables = self.tables.iter().map(|(place, table)| Change::TableAdded {
            place: *place,
            table: table.clone(),
        });
        self.pm.iter().flat_map(Made::added).chain(tables)
    }

    /// How many tables there are.
    pub fn count(&self) -> usize {
        self.tables.len() + self.pm.len()
    }

    /// Bytes of persistent memory of the tables there.
    pub fn zone_bytes(&self) -> u64 {
        self.pm.iter().map(|made| made.info.meta.zone_bytes).sum()
    }

    /// Whether files were made, whatever became of them.
    pub fn has_files(&self) -> bool {
        !self.files.is_empty()
    }
}

/// Where new tables go.
pub(crate) enum Destination<'a> {
    /// Into the store, each file pinned.
    Store,
    /// Into files that this names, one after the other, with what each is sealed to.
    Elsewhere(&'a dyn Fn() -> Result<(PathBuf, Identity)>),
    /// Into persistent memory.
    Pm(&'a mut PmSink),
    /// Nowhere: here is counted what would be written, as bytes of a generation (`flush::rewrite`).
    Nowhere(&'a mut u64),
}

impl Destination<'_> {
    /// The next table's file, and what it is sealed to.
    fn next(&mut self, inner: &Inner, outputs: &mut Outputs) -> Result<(PathBuf, Identity)> {
        match self {
            Destination::Store => {
                let file = inner.catalog.pin_file(FileKind::Table)?;
                outputs.files.push(file);
                let files = &inner.catalog.table_files;
                Ok((files.unfinished_path(file), files.identity(file)))
            }
            Destination::Elsewhere(next) => next(),
            Destination::Pm(_) | Destination::Nowhere(_) => {
                unreachable!("what is written there is no file")
            }
        }
    }

    /// Whether the store still is as it must be.
    fn check(&self, inner: &Inner) -> Result<()> {
        match self {
            Destination::Store | Destination::Pm(_) => inner.check_writable(),
            Destination::Elsewhere(_) | Destination::Nowhere(_) => inner.check_open(),
        }
    }
}

/// Whether the record of a key in a family belongs to a family that is there.
pub(crate) type Exists<'a> = &'a dyn Fn(CfId, &[u8]) -> bool;

/// What is to become of a merge.
pub(crate) struct Recipe<'a> {
    /// Of the outputs.
    pub place: Place,
    pub options: WriteOptions,
    pub cutter: Cutter<'a>,
    pub moments: Moments,
    /// All range tombstones of the inputs.
    pub tombstones: Vec<RangeTombstone>,
    pub below: RangesBelow,
    /// The last seqno that is durable and visible: a newer entry is refused.
    pub settled: SeqNo,
    /// Records of families that are not there are left out.
    pub exists: Exists<'a>,
    /// Notes those of what is written.
    pub prefixes: Option<Prefixes<'a>>,
    /// Counts what is read.
    pub counting: Option<Counting<'a>>,
    /// Persistent memory of finished tables from which on it is enough; of what is only counted the bytes beyond
    /// which it is.
    pub enough: Option<u64>,
    pub to: Destination<'a>,
}

impl Inner {
    /// Writes what stays of `inputs`, which are given newest first. `pace` is called from time to time,
    /// with the bytes of outputs so far, and may end it.
    ///
    /// # Errors
    /// Those of reading and writing, of `pace`, [`thermocline_base::Error::Closed`];
    /// [`thermocline_base::Error::Busy`] for an entry that is not settled. The caller lets go of the outputs ([`Inner::release`]) in every case.
    pub fn write_outputs(
        &self,
        inputs: Vec<Input<'_>>,
        recipe: Recipe<'_>,
        pace: &mut dyn FnMut(u64) -> Result<()>,
        outputs: &mut Outputs,
    ) -> Result<()> {
        let cf = recipe.place.cf;
        let mut retain = Retain::new(recipe.moments, recipe.tombstones, recipe.below);
        let tombstones = retain.tombstones().to_vec();
        // Memory that it takes, charged.
        let mut work = self.catalog.table_files.work();
        let exists = recipe.exists;
        let (mut prefixes, mut counting) = (recipe.prefixes, recipe.counting);
        let (options, cutter) = (recipe.options, recipe.cutter);
        let mut writing = Writing::new(self, recipe.place, options, cutter, recipe.to);
        let mut tombstones = tombstones.into_iter().peekable();
        let mut merge = Merge::new(inputs);
        merge.seek(b"", SeqNo::MAX)?;
        let mut looked = 0;
        for seen in 1u64.. {
            let Some((input, head)) = merge.source().and_then(|s| Some((s, s.head()?))) else {
                break;
            };
            if head.seqno > recipe.settled {
                // Its group is about to be.
                return Err(busy("for writes in flight"));
            }
            let written = outputs.bytes + writing.bytes();
            if seen.is_multiple_of(LOOK_EVERY) || written >= looked + LOOK_BYTES {
                looked = written;
                writing.to.check(self)?;
                pace(written)?;
                writing.charge(&mut work);
            }
            let key = head.user_key;
            let decision = match exists(cf, key) {
                true => retain.decide(head),
                false => Decision::Drop,
            };
            if let Some(counting) = &mut counting {
                counting.meet(key, head.seqno, decision != Decision::Drop);
            }
            (outputs.entries_read, outputs.dropped) =
                (outputs.entries_read + 1, outputs.dropped + 1);
            if decision != Decision::Drop {
                if let Some(prefixes) = &mut prefixes {
                    prefixes.meet(key);
                }
                while let Some(tombstone) = tombstones.next_if(|t| *t.start <= *key) {
                    writing.begin_tombstone(tombstone, outputs)?;
                }
                writing.go_to(key, outputs)?;
                if let Some(at) = writing.ends_with(recipe.enough) {
                    // What lies from there on is read again, and counted, by whoever goes on.
                    (outputs.entries_read, outputs.dropped) =
                        (outputs.entries_read - 1, outputs.dropped - 1);
                    outputs.ended_at = Some(at);
                    break;
                }
                if let Decision::KeepAfterDelete(delete) = decision {
                    let delete = KeyRef::new(key, delete);
                    writing.add(delete, Kind::Delete, Value::Inline(b""), outputs)?;
                    outputs.dropped -= 1;
                }
                let key = KeyRef::new(key, head.seqno);
                writing.add(key, head.kind, input.value()?, outputs)?;
                outputs.dropped -= 1;
            }
            merge.advance()?;
        }
        if outputs.ended_at.is_none() {
            for tombstone in tombstones {
                writing.begin_tombstone(tombstone, outputs)?;
            }
            writing.finish(outputs)?;
        }
        let counted = counting.map(Counting::into_counts).unwrap_or_default();
        outputs.counted.push((cf, counted));
        let met = prefixes.map(Prefixes::into_met).unwrap_or_default();
        if !met.is_empty() {
            outputs.prefixes.push((cf, met));
        }
        Ok(())
    }

    /// Makes the names of all outputs durable.
    pub fn sync_names(&self, outputs: &Outputs) -> Result<()> {
        if !outputs.has_files() || active(Bug::NameBeforeSync) {
            return Ok(());
        }
        let storage = &self.world.env.storage;
        let synced = storage.sync_dir(&self.dir, sites::FILE_NAMED);
        // What is durable of the folder is unknown, and asking again might not tell.
        synced.map_err(|error| self.poison.poison_if_sync(error))
    }

    /// Ends the pins: the edit is installed, or there will be none and the files are obsolete.
    pub fn release(&self, outputs: &Outputs) {
        self.catalog.unpin_files(outputs.files.iter().copied());
        self.release_made(&outputs.pm);
    }
}

/// The table that is being written, and the range tombstones that reach into it.
pub(crate) struct Writing<'a> {
    inner: &'a Inner,
    place: Place,
    options: WriteOptions,
    cutter: Cutter<'a>,
    to: Destination<'a>,
    table: Option<(FileId, TableWriter)>,
    /// Where the table begins; at first everywhere.
    begin: Option<Vec<u8>>,
    /// Those that begin before the last key and end behind where the table begins.
    tombstones: Vec<RangeTombstone>,
    /// What they will take.
    tombstone_bytes: usize,
}

impl<'a> Writing<'a> {
    pub fn new(
        inner: &'a Inner,
        place: Place,
        options: WriteOptions,
        cutter: Cutter<'a>,
        to: Destination<'a>,
    ) -> Writing<'a> {
        Writing {
            inner,
            place,
            options,
            cutter,
            to,
            table: None,
            begin: None,
            tombstones: Vec::new(),
            tombstone_bytes: 0,
        }
    }

    /// Charges what it takes in DRAM now.
    pub fn charge(&self, work: &mut Work) {
        match (&self.table, &self.to) {
            (Some((_, table)), _) => work.cover(table),
            (None, Destination::Pm(sink)) => work.cover_bytes(sink.memory()),
            _ => {}
        }
    }

    fn bytes(&self) -> u64 {
        let table = match (&self.table, &self.to) {
            (Some((_, table)), _) => table.bytes(),
            (None, Destination::Pm(sink)) => sink.table_bytes(),
            _ => 0,
        };
        table + self.tombstone_bytes as u64
    }

    /// Ends tables that end before `key`, which ascends.
    pub fn go_to(&mut self, key: &[u8], outputs: &mut Outputs) -> Result<()> {
        loop {
            let full = match (&self.table, &self.to) {
                (Some((_, table)), _) => table.is_full(),
                (None, Destination::Pm(sink)) => sink.is_full(),
                _ => false,
            };
            let most = match self.to {
                // Beside those of the families before, which are half as many as it can have at most.
                Destination::Pm(_) => thermocline_level0::TOMBSTONES_LEN_MAX / 4,
                _ => TOMBSTONES_LEN_MAX / 2,
            };
            let bytes = match full || self.tombstone_bytes > most {
                true => u64::MAX,
                false => self.bytes(),
            };
            match self.cutter.cut_before(key, bytes) {
                Some(at) => self.end_table(Some(at), outputs)?,
                None => return Ok(()),
            }
        }
    }

    /// Where the last table ended, if so much persistent memory is `enough`. Nothing behind that was written yet:
    /// range tombstones that reach there are cut when a table ends.
    fn ends_with(&self, enough: Option<u64>) -> Option<Vec<u8>> {
        let sink = match &self.to {
            Destination::Pm(sink) => sink,
            Destination::Nowhere(bytes) => {
                let is_enough = enough.is_some_and(|enough| **bytes > enough);
                return is_enough.then(Vec::new);
            }
            _ => return None,
        };
        let is_enough = enough.is_some_and(|bytes| sink.finished_bytes() >= bytes);
        let between = is_enough && !sink.is_in_table();
        self.begin.clone().filter(|_| between)
    }

    /// Adds a range tombstone, after all entries before its start.
    pub fn begin_tombstone(
        &mut self,
        tombstone: RangeTombstone,
        outputs: &mut Outputs,
    ) -> Result<()> {
        self.go_to(&tombstone.start, outputs)?;
        self.tombstone_bytes += bytes_of(&tombstone);
        self.tombstones.push(tombstone);
        Ok(())
    }

    /// Adds an entry to the table at hand.
    pub fn add(
        &mut self,
        key: KeyRef<'_>,
        kind: Kind,
        value: Value<'_>,
        outputs: &mut Outputs,
    ) -> Result<()> {
        if let Destination::Pm(sink) = &mut self.to {
            let value = match value {
                Value::Inline(bytes) => thermocline_level0::Value::Inline(bytes),
                Value::Blob(to) => thermocline_level0::Value::Blob(to),
            };
            let key = (key.user_key, key.seqno);
            return sink.add(self.inner, self.place.cf, key, kind, value);
        }
        if let Destination::Nowhere(bytes) = &mut self.to {
            let value = match value {
                Value::Inline(bytes) => bytes,
                Value::Blob(_) => &[0; BLOB_REF_LEN],
            };
            **bytes += weight(self.place.cf, kind, key.user_key, value);
            return Ok(());
        }
        self.table(outputs)?.add(key, kind, value)
    }

    fn table(&mut self, outputs: &mut Outputs) -> Result<&mut TableWriter> {
        if self.table.is_none() {
            let (path, identity) = self.to.next(self.inner, outputs)?;
            let (storage, cf) = (&*self.inner.catalog.table_files.storage, self.place.cf);
            let made = TableWriter::create(storage, &path, identity, cf, self.options)?;
            self.table = Some((identity.file, made));
        }
        let (_, table) = self.table.as_mut().expect("it was made above");
        Ok(table)
    }

    /// Ends the table before `at`, or behind everything. If nothing lies there it is none.
    fn end_table(&mut self, at: Option<Vec<u8>>, outputs: &mut Outputs) -> Result<()> {
        let (begin, end) = (self.begin.as_deref(), at.as_deref());
        let pieces = self.tombstones.iter().filter_map(|t| t.cut(begin, end));
        let mut pieces: Vec<RangeTombstone> = pieces.collect();
        // Those that were cut where the table begins, begin together.
        pieces.sort_by(|a, b| (&a.start, Reverse(a.seqno)).cmp(&(&b.start, Reverse(b.seqno))));
        for piece in &pieces {
            let start = KeyRef::new(&piece.start, piece.seqno);
            let end = Value::Inline(&piece.end);
            self.add(start, Kind::RangeDelete, end, outputs)?;
        }
        if let (Some(_), Destination::Pm(sink)) = (&at, &mut self.to) {
            sink.end_table(self.inner)?;
        }
        if let Some((file, table)) = self.table.take() {
            let table = reference(file, table.finish()?);
            if let Destination::Store = self.to {
                self.inner.catalog.table_files.name(file)?;
            }
            outputs.bytes += table.bytes;
            outputs.tables.push((self.place, Arc::new(table)));
        }
        let reaches = |t: &RangeTombstone| at.as_ref().is_some_and(|at| t.end > *at);
        self.tombstones.retain(reaches);
        self.tombstone_bytes = self.tombstones.iter().map(bytes_of).sum();
        self.begin = at;
        Ok(())
    }

    /// Ends the last table, and those of range tombstones that reach over bounds behind it.
    pub fn finish(mut self, outputs: &mut Outputs) -> Result<()> {
        for bound in self.cutter.rest() {
            self.end_table(Some(bound), outputs)?;
        }
        self.end_table(None, outputs)
    }
}

/// About what a range tombstone takes in a table.
fn bytes_of(tombstone: &RangeTombstone) -> usize {
    tombstone.start.len() + tombstone.end.len() + 16
}

/// The reference to all of a table.
pub(crate) fn reference(file: FileId, meta: TableMeta) -> TableRef {
    let of = meta.properties;
    let (smallest, largest) = of.smallest.zip(of.largest).expect("a table has an entry");
    let (smallest_seqno, largest_seqno) = of.seqnos.expect("a table has an entry");
    let blobs = of.blobs.iter().map(|blob| BlobBytes {
        file: blob.file,
        bytes: blob.bytes,
    });
    let range = match largest.seqno {
        // A range tombstone reaches furthest.
        SeqNo::MAX => KeyRange::until(smallest.user_key, largest.user_key),
        _ => KeyRange::inclusive(smallest.user_key, largest.user_key),
    };
    TableRef {
        file,
        file_bytes: meta.bytes,
        bytes: meta.bytes,
        entries: of.entries + of.range_tombstones,
        deletes: of.deletes + of.range_tombstones,
        range,
        limited_below: false,
        limited_above: false,
        smallest_seqno,
        largest_seqno,
        blobs: blobs.collect(),
    }
}

/// `tables` as what lies below a merge.
pub(crate) fn below<'v>(tables: impl IntoIterator<Item = &'v Arc<TableRef>>) -> RangesBelow {
    RangesBelow::new(
        tables
            .into_iter()
            .map(|table| super::shape::range_of(table)),
    )
}
