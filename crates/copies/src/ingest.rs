//! Ingestion: tables that were written outside become a part of the store, in one step.
//!
//! # What may be ingested
//! Tables of any database, or of none ([`IngestWriter`](crate::IngestWriter)). Each is verified wholly, then its
//! entries are *copied* into tables of the store's own. They get the store's seals, and all of them the same new
//! seqno. Of several versions of a key only the newest counts, unless a range tombstone of its table is newer still.
//! Range tombstones get that seqno, too. So they hide nothing that they left of their own table: a range tombstone
//! hides only older entries. Overlapping range tombstones become one, since nothing tells them apart any more. Tables
//! of one call must not overlap, range tombstones included. (Rejected: *linking the file*. A word in the manifest
//! would have to say whose it is and which seqno to read in place of its own, and every reader of tables would have
//! to know that.)
//!
//! # Steps
//! 1. *Check* every table, one after the other. There may be thousands, so none stays open.
//! 2. *Copy* their entries into tables of the store, beside writers. The store then installs these, in one step, as
//!    the newest of level 0, behind a flush of all older data ([`Store::install`]).
//!
//! All or nothing: a failure before the installation leaves no trace, and the installation is one edit.

use std::path::{Path, PathBuf};

use thermocline_base::progress::{Course, Progress};
use thermocline_base::sync::Arc;
use thermocline_base::{CfId, Error, KeyRange, RangeTombstone, Result, SeqNo};
use thermocline_compaction::Head;
use thermocline_compaction::retain::{Decision, Moments, RangesBelow, Retain, joined};
use thermocline_env::frugal::Frugal;
use thermocline_env::{Env, File, OpenMode, Storage};
use thermocline_sst::{
    FileSource, Identity, Properties, SyncCursor, Table, TablePart, Value, identity_of, open_table,
    verify_table,
};

use crate::paths;
use crate::store::{NewTables, Store};

/// Entries after which it looks whether the store is being closed, as before each table.
const LOOK_EVERY: u64 = 256;

/// The result of an ingestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ingested {
    /// Keys that were put or deleted.
    pub entries: u64,
    /// Ranges of keys that were deleted; ranges that overlapped in a table count as one.
    pub ranges: u64,
    /// Tables of the store that the entries became.
    pub tables: u64,
    /// Bytes of these tables.
    pub bytes: u64,
    /// The seqno of all entries; it belongs to nothing if there were none.
    pub seqno: u64,
}

/// A checked table from outside. There may be thousands, so neither its file nor its index is kept.
struct Source {
    path: PathBuf,
    identity: Identity,
    bytes: u64,
    /// The range of its entries and range tombstones.
    range: KeyRange,
}

impl Source {
    /// Its blocks are sound, and its entries in no order.
    #[cold]
    fn disordered(&self) -> Error {
        let (place, expected) = (self.path.display().to_string(), "one behind the last one");
        Error::corruption("an entry out of order", place, 0, expected, "one before it")
    }

    /// Opens the table. As far as can be seen it is still the one that was checked. Each block is checked again when
    /// it is read.
    fn open(&self, storage: &dyn Storage) -> Result<(Arc<dyn File>, Arc<Table>)> {
        let file = storage.open(&self.path, OpenMode::ReadInput)?;
        let identity = identity_of(&*file)?;
        let table = open_table(&*file, identity)?;
        check_kinds(&self.path, table.properties())?;
        let range = table.properties().range();
        let same = identity == self.identity && file.len()? == self.bytes;
        if same && range == Some(self.range.borrowed()) {
            return Ok((file, table));
        }
        Err(Error::InvalidArgument(format!(
            "the table {} was changed while it was ingested; nothing was ingested",
            self.path.display()
        )))
    }
}

/// Brings the entries of `tables` into family `cf`, all of them at one moment, above everything that was written
/// before. Durable on return. The files are read, and stay where they are.
///
/// # Errors
/// [`Error::InvalidArgument`] if two tables overlap, naming both, for an empty path, too many tables, a family that was
/// dropped, or a store that takes no writes; [`Error::Corruption`] naming the table that is damaged; [`Error::Unsupported`] for a
/// table with merges or separated values; those of [`Store::install`]: then nothing was ingested.
pub fn ingest<S: Store, P: AsRef<Path>>(store: &S, cf: CfId, tables: &[P]) -> Result<Ingested> {
    ingest_observed(store, cf, tables, &mut |_| {})
}

/// As [`ingest()`]. `observer` is told, once all tables are checked, how many bytes of those with entries are brought in.
///
/// # Errors
/// As [`ingest()`].
pub fn ingest_observed<S: Store, P: AsRef<Path>>(
    store: &S,
    cf: CfId,
    tables: &[P],
    observer: &mut dyn FnMut(Progress),
) -> Result<Ingested> {
    store.check_accepts(cf)?;
    let storage = &*store.env().storage;
    let sources = check_sources(storage, tables, || store.check_accepts(cf))?;
    let bytes = sources.iter().map(|source| source.bytes).sum();
    let mut course = Course::new(observer);
    course.begin(bytes);
    let (mut entries, mut ranges) = (0, 0);
    let installed = store.install(cf, bytes, &mut |seqno, new| {
        let mut copy = Copy {
            storage,
            seqno,
            new,
            seen: 0,
        };
        (entries, ranges) = (0, 0);
        for source in &sources {
            course.part(source.bytes);
            let (more, ranges_more) = copy.source(source, &mut course)?;
            (entries, ranges) = (entries + more, ranges + ranges_more);
        }
        Ok(())
    })?;
    course.finish();
    Ok(Ingested {
        entries,
        ranges,
        tables: installed.tables,
        bytes: installed.bytes,
        seqno: installed.seqno.0,
    })
}

/// Whether tables could be ingested as far as that can be told without a store: reads all of them.
///
/// # Errors
/// Those of [`ingest`] that tables are the reason of.
pub fn check_tables<P: AsRef<Path>>(env: &Env, tables: &[P]) -> Result<()> {
    // Stores of the process give descriptors back, if they have all of them.
    let storage = Frugal::new(env.storage.clone());
    check_sources(&*storage, tables, || Ok(())).map(drop)
}

/// Step 1. Gives the tables that have entries, in the order of keys. `go_on` is called before each of them.
fn check_sources<P: AsRef<Path>>(
    storage: &dyn Storage,
    tables: &[P],
    go_on: impl Fn() -> Result<()>,
) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in tables {
        go_on()?;
        let path = path.as_ref().to_path_buf();
        paths::check(&path, paths::TABLE)?;
        let file = storage.open(&path, OpenMode::ReadInput)?;
        let identity = identity_of(&*file)?;
        let table = open_table(&*file, identity)?;
        check_kinds(&path, table.properties())?;
        if let Some(fault) = verify_table(&file, identity).faults.into_iter().next() {
            return Err(fault);
        }
        // A table without entries changes nothing.
        if let Some(range) = table.properties().range() {
            sources.push(Source {
                path,
                identity,
                bytes: file.len()?,
                range: range.owned(),
            });
        }
    }
    sources.sort_by(|a, b| a.range.first.cmp(&b.range.first));
    for two in sources.windows(2) {
        if two[0].range.overlaps(&two[1].range) {
            let [a, b] = [&two[0], &two[1]].map(|source| source.path.display());
            return Err(Error::InvalidArgument(format!(
                "the tables {a} and {b} overlap in keys (at \"{}\"); ingest them one after the other, \
                 the one that is to count last",
                two[1].range.first.escape_ascii()
            )));
        }
    }
    Ok(sources)
}

/// Step 2.
struct Copy<'a> {
    storage: &'a dyn Storage,
    seqno: SeqNo,
    new: &'a mut dyn NewTables,
    /// Entries that were read.
    seen: u64,
}

impl Copy<'_> {
    /// Copies a table. Returns the numbers of its keys and ranges.
    fn source(&mut self, source: &Source, course: &mut Course<'_>) -> Result<(u64, u64)> {
        // Tables of range tombstones alone may be many.
        self.new.go_on()?;
        let (file, table) = source.open(self.storage)?;
        // The entries that are read between two looks are about so much of the table.
        let share = source.bytes.saturating_mul(LOOK_EVERY) / table.properties().entries.max(1);
        let part = TablePart::whole(table.clone());
        let newest = Moments::new(vec![], SeqNo::MAX);
        let older = RangesBelow::new([source.range.borrowed()]);
        let tombstones = table.range_tombstones().map(RangeTombstone::owned);
        let mut retain = Retain::new(newest, tombstones.collect(), older);
        let seqno = self.seqno;
        let all = retain.tombstones().iter().cloned();
        let tombstones = joined(all.map(|t| RangeTombstone { seqno, ..t }).collect());
        let (mut entries, ranges) = (0, tombstones.len() as u64);
        let mut tombstones = tombstones.into_iter().peekable();
        let mut cursor = SyncCursor::new(part, FileSource(file));
        let mut more = cursor.first()?;
        while more {
            self.seen += 1;
            if self.seen.is_multiple_of(LOOK_EVERY) {
                self.new.go_on()?;
                course.advance(share);
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
            let decision = retain.decide(head);
            if decision.ok_or_else(|| source.disordered())? != Decision::Drop {
                let key = key.user_key;
                while let Some(tombstone) = tombstones.next_if(|t| *t.start <= *key) {
                    self.new.begin_tombstone(tombstone)?;
                }
                self.new.add(key, kind, value)?;
                entries += 1;
            }
            more = cursor.next()?;
        }
        for tombstone in tombstones {
            self.new.begin_tombstone(tombstone)?;
        }
        Ok((entries, ranges))
    }
}

const SEPARATED: &str = "values in blob files";

fn unsupported(path: &Path, what: &str) -> Error {
    let path = path.display();
    Error::Unsupported(format!(
        "{path} has {what}, which cannot be ingested; only puts, deletes and range tombstones can"
    ))
}

/// Refuses entries that cannot be given another seqno, or values that lie elsewhere.
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
