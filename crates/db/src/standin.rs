//! A stand-in for the engine: a map in memory and a log that survives the process. It exists so
//! that the crates above have something to run on, and goes when the engine arrives.
#![expect(
    clippy::disallowed_methods,
    reason = "the stand-in has no environment; it is deleted when the engine arrives"
)]

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::ops::{Bound, Deref, RangeBounds};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use thermocline_base::batch::{check_key, check_value};
use thermocline_base::{CfId, Error, Kind, Result, WriteBatch, limits, size};

use crate::{CfOptions, Durability, GenerationMetrics, Metrics, Options, VerifyReport};

type Map = BTreeMap<Vec<u8>, Arc<[u8]>>;

/// A value that was read. It outlives the handle that it came from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Value(Arc<[u8]>);

impl Deref for Value {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[derive(Default)]
struct State {
    names: Vec<String>,
    maps: Vec<Map>,
    seqno: u64,
}

#[derive(Default)]
struct Counts {
    user_bytes: AtomicU64,
    puts: AtomicU64,
    deletes: AtomicU64,
    gets: AtomicU64,
    found: AtomicU64,
    fences: AtomicU64,
    pm_bytes: AtomicU64,
    lines: AtomicU64,
}

struct Inner {
    path: PathBuf,
    options: Options,
    state: RwLock<State>,
    log: Mutex<Option<File>>,
    _lock: File,
    counts: Counts,
    recovered: (u64, f64),
}

/// An open database. Clones share it; dropping the last one closes it.
#[derive(Clone)]
pub struct Db {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db")
            .field("path", &self.inner.path)
            .finish_non_exhaustive()
    }
}

fn missing(path: &Path) -> Error {
    Error::InvalidArgument(format!(
        "there is no database in {}; the first write makes one",
        path.display()
    ))
}

impl Db {
    /// Opens the database in the folder `path`, and makes it if there is none and the options allow.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for options that break a rule or a folder that is no database,
    /// [`Error::Locked`] if it is open elsewhere.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        let begun = std::time::Instant::now();
        options.validate()?;
        let path = path.as_ref().to_path_buf();
        let log_path = path.join("STANDIN.log");
        let absent = !log_path.exists();
        if absent && (options.read_only || !options.create_if_missing) {
            return Err(missing(&path));
        }
        if absent && path.exists() {
            let stray = std::fs::read_dir(&path)
                .map_err(|e| Error::io("list", &path, e))?
                .next()
                .is_some();
            if stray {
                return Err(Error::InvalidArgument(format!(
                    "{} is not a database and not empty; give an empty or a new folder",
                    path.display()
                )));
            }
        }
        std::fs::create_dir_all(&path).map_err(|e| Error::io("make", &path, e))?;
        let lock = lock(&path)?;
        let (state, records) = replay(&log_path)?;
        let log = if options.read_only {
            None
        } else {
            let file = OpenOptions::new()
                .create(true)
                .append(true)
                .open(&log_path)
                .map_err(|e| Error::io("open", &log_path, e))?;
            let text: String = options
                .effective()
                .into_iter()
                .map(|(name, value)| format!("{name}={value}\n"))
                .collect();
            let at = path.join("OPTIONS");
            std::fs::write(&at, text).map_err(|e| Error::io("write", &at, e))?;
            Some(file)
        };
        Ok(Db {
            inner: Arc::new(Inner {
                path,
                options,
                state: RwLock::new(state),
                log: Mutex::new(log),
                _lock: lock,
                counts: Counts::default(),
                recovered: (records, begun.elapsed().as_secs_f64()),
            }),
        })
    }

    /// Sets `key` to `value` in the default column family, durably.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] past a limit, [`Error::OutOfSpace`] when the region is full.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write_one(CfId::DEFAULT, key.as_ref(), Some(value.as_ref()))
    }

    /// Removes `key` from the default column family, durably. An absent key is no error.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write_one(CfId::DEFAULT, key.as_ref(), None)
    }

    /// The value of `key` in the default column family.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the record's checksum does not match.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_in(CfId::DEFAULT, key.as_ref())
    }

    /// An empty batch of writes to this database.
    pub fn batch(&self) -> Batch {
        Batch {
            db: self.clone(),
            writes: WriteBatch::new(),
            error: None,
        }
    }

    /// All entries of the default column family, in key order.
    pub fn iter(&self) -> Scan {
        self.scan(CfId::DEFAULT, Bound::Unbounded, Bound::Unbounded)
    }

    /// The entries of the default column family whose keys lie in `range`.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Scan {
        let (low, high) = owned(&range);
        self.scan(CfId::DEFAULT, low, high)
    }

    /// The entries of the default column family whose keys begin with `prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Scan {
        let (low, high) = prefix_bounds(prefix.as_ref());
        self.scan(CfId::DEFAULT, low, high)
    }

    /// A cursor over the default column family, before any key.
    ///
    /// # Errors
    /// None on this stand-in.
    pub fn cursor(&self) -> Result<Cursor> {
        Ok(self.cursor_in(CfId::DEFAULT))
    }

    /// The column family `name`, made if there is none.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a name that is empty or too long.
    pub fn column_family(&self, name: &str, _options: CfOptions) -> Result<ColumnFamily> {
        if let Some(cf) = self.find_column_family(name) {
            return Ok(cf);
        }
        if name.is_empty() || name.len() > limits::CF_NAME_LEN_MAX {
            return Err(Error::InvalidArgument(format!(
                "a column family's name has 1 to {} bytes; this one has {}",
                limits::CF_NAME_LEN_MAX,
                name.len()
            )));
        }
        let mut line = Vec::new();
        encode(&mut line, 0, CfId(0), name.as_bytes(), &[]);
        self.append(&line)?;
        let mut state = self
            .inner
            .state
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        state.add_family(name.to_string());
        drop(state);
        self.find_column_family(name)
            .ok_or_else(|| missing(&self.inner.path))
    }

    /// The column family `name`, if there is one.
    pub fn find_column_family(&self, name: &str) -> Option<ColumnFamily> {
        let id = self.state().names.iter().position(|n| n == name)?;
        Some(ColumnFamily {
            db: self.clone(),
            id: CfId(u16::try_from(id).ok()?),
        })
    }

    /// The names of all column families; the first is `default`.
    pub fn column_families(&self) -> Vec<String> {
        self.state().names.clone()
    }

    /// The store's accounting.
    pub fn metrics(&self) -> Metrics {
        let counts = &self.inner.counts;
        let read = |c: &AtomicU64| c.load(Ordering::Relaxed);
        let state = self.state();
        let records = state.maps.iter().map(|m| m.len() as u64).sum();
        let pm = read(&counts.pm_bytes);
        Metrics {
            preset: self.inner.options.preset.name().to_string(),
            region_kind: "standin",
            region_survives: "the process, not the machine",
            region_path: self.inner.path.join("STANDIN.log"),
            region_bytes: pm,
            pm_limit_bytes: self.inner.options.pm,
            pm_attached_bytes: pm,
            zones_attached: 1,
            dram_index_bytes: records * 100,
            dram_limit_bytes: self.inner.options.dram,
            generations: vec![GenerationMetrics {
                id: 1,
                sealed: false,
                records,
                bytes: pm,
                index_bytes: records * 100,
            }],
            seqno_visible: state.seqno,
            seqno_durable: state.seqno,
            user_bytes_written: read(&counts.user_bytes),
            pm_bytes_written: pm,
            pm_media_bytes_written: read(&counts.lines) * 64,
            pm_lines_written_back: read(&counts.lines),
            pm_fences: read(&counts.fences),
            puts: read(&counts.puts),
            deletes: read(&counts.deletes),
            gets: read(&counts.gets),
            gets_found: read(&counts.found),
            hits: crate::Hits {
                memtable: read(&counts.found),
                ..crate::Hits::default()
            },
            recovery: crate::RecoveryMetrics {
                records: self.inner.recovered.0,
                chains: 1,
                cut_bytes: 0,
                seconds: self.inner.recovered.1,
            },
            effective_options: self
                .inner
                .options
                .effective()
                .into_iter()
                .map(|(name, value)| (name.to_string(), value))
                .collect(),
            emulate: "none".to_string(),
            ..Metrics::default()
        }
    }

    /// Closes the database, if this is the last handle; other handles keep it open.
    ///
    /// # Errors
    /// Those of the last writes to its files.
    pub fn close(self) -> Result<()> {
        Ok(())
    }

    /// Checks every checksum and structural rule of the database in `path`. Writes nothing.
    ///
    /// # Errors
    /// If the database cannot be read at all; what is wrong inside is in the report.
    pub fn verify(path: impl AsRef<Path>, options: Options) -> Result<VerifyReport> {
        let db = Db::open(
            path,
            Options {
                read_only: true,
                ..options
            },
        )?;
        let state = db.state();
        let log = db.inner.path.join("STANDIN.log");
        Ok(VerifyReport {
            faults: Vec::new(),
            records: state.maps.iter().map(|m| m.len() as u64).sum(),
            bytes: std::fs::metadata(&log).map_or(0, |m| m.len()),
        })
    }

    /// The options that the database in `path` was last opened with; `None` if there is none.
    ///
    /// # Errors
    /// If its record of them cannot be read.
    pub fn stored_options(path: impl AsRef<Path>) -> Result<Option<Options>> {
        let at = path.as_ref().join("OPTIONS");
        let text = match std::fs::read(&at) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => return Ok(None),
            Err(e) => return Err(Error::io("read", &at, e)),
        };
        let mut options = Options::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
            options.set(name, value)?;
        }
        Ok(Some(options))
    }

    fn state(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.inner
            .state
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn get_in(&self, cf: CfId, key: &[u8]) -> Result<Option<Value>> {
        check_key(key)?;
        let found = self.state().maps[usize::from(cf.0)]
            .get(key)
            .cloned()
            .map(Value);
        self.inner.counts.gets.fetch_add(1, Ordering::Relaxed);
        self.inner
            .counts
            .found
            .fetch_add(u64::from(found.is_some()), Ordering::Relaxed);
        Ok(found)
    }

    fn write_one(&self, cf: CfId, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        check_key(key)?;
        check_value(value.unwrap_or_default())?;
        let kind = if value.is_some() { 1 } else { 2 };
        let mut line = Vec::with_capacity(key.len() + 128);
        encode(&mut line, kind, cf, key, value.unwrap_or_default());
        self.append(&line)?;
        let mut state = self
            .inner
            .state
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        state.apply(kind, cf, key, value.unwrap_or_default());
        self.count(kind, key.len() + value.map_or(0, <[u8]>::len));
        Ok(())
    }

    fn count(&self, kind: u8, bytes: usize) {
        let counts = &self.inner.counts;
        let kind = if kind == 1 {
            &counts.puts
        } else {
            &counts.deletes
        };
        kind.fetch_add(1, Ordering::Relaxed);
        counts.user_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn append(&self, line: &[u8]) -> Result<()> {
        let mut log = self
            .inner
            .log
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(file) = log.as_mut() else {
            return Err(Error::InvalidArgument(
                "the database is open for reading only".to_string(),
            ));
        };
        let bytes = line.len() as u64;
        self.inner
            .counts
            .pm_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        self.inner
            .counts
            .lines
            .fetch_add(bytes.div_ceil(64), Ordering::Relaxed);
        self.inner.counts.fences.fetch_add(1, Ordering::Relaxed);
        file.write_all(line)
            .map_err(|e| Error::io("append to", &self.inner.path, e))
    }

    fn scan(&self, cf: CfId, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> Scan {
        Scan {
            db: self.clone(),
            cf,
            low,
            high,
        }
    }

    fn cursor_in(&self, cf: CfId) -> Cursor {
        Cursor {
            db: self.clone(),
            cf,
            at: None,
        }
    }
}

/// Changes that become visible and durable together or not at all.
#[derive(Debug)]
pub struct Batch {
    db: Db,
    writes: WriteBatch,
    error: Option<Error>,
}

impl Batch {
    /// Adds "`key` has `value`" in the default column family. A limit that is broken here is
    /// reported by [`Batch::commit`].
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Batch {
        let result = self.writes.put(CfId::DEFAULT, key.as_ref(), value.as_ref());
        self.note(result)
    }

    /// Adds "`key` has no value" in the default column family.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Batch {
        let result = self.writes.delete(CfId::DEFAULT, key.as_ref());
        self.note(result)
    }

    /// Adds "`key` has `value`" in `cf`.
    pub fn put_cf(
        &mut self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Batch {
        let result = self.writes.put(cf.id, key.as_ref(), value.as_ref());
        self.note(result)
    }

    /// Adds "`key` has no value" in `cf`.
    pub fn delete_cf(&mut self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> &mut Batch {
        let result = self.writes.delete(cf.id, key.as_ref());
        self.note(result)
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Removes all changes; keeps the memory.
    pub fn clear(&mut self) {
        self.writes.clear();
        self.error = None;
    }

    /// Applies all changes, or none. The batch is empty afterwards and can be filled again.
    ///
    /// # Errors
    /// The first limit that a change broke; otherwise as [`Db::put`]. The batch stays as it was.
    pub fn commit(&mut self, durability: Durability) -> Result<()> {
        if durability == Durability::Buffered {
            return Err(Error::Unsupported(
                "buffered durability comes with group commit; use immediate".to_string(),
            ));
        }
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let mut line = Vec::new();
        for entry in self.writes.iter() {
            encode(
                &mut line,
                entry.kind as u8,
                entry.cf,
                entry.key,
                entry.value,
            );
        }
        self.db.append(&line)?;
        let mut state = self
            .db
            .inner
            .state
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        for entry in self.writes.iter() {
            state.apply(entry.kind as u8, entry.cf, entry.key, entry.value);
            self.db
                .count(entry.kind as u8, entry.key.len() + entry.value.len());
        }
        drop(state);
        self.clear();
        Ok(())
    }

    fn note(&mut self, result: Result<()>) -> &mut Batch {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
        self
    }
}

/// A named, ordered map of its own within a database.
#[derive(Debug, Clone)]
pub struct ColumnFamily {
    db: Db,
    id: CfId,
}

impl ColumnFamily {
    /// As [`Db::put`], in this family.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.db
            .write_one(self.id, key.as_ref(), Some(value.as_ref()))
    }

    /// As [`Db::delete`], in this family.
    ///
    /// # Errors
    /// As [`Db::delete`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.db.write_one(self.id, key.as_ref(), None)
    }

    /// As [`Db::get`], in this family.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.db.get_in(self.id, key.as_ref())
    }

    /// As [`Db::iter`], in this family.
    pub fn iter(&self) -> Scan {
        self.db.scan(self.id, Bound::Unbounded, Bound::Unbounded)
    }

    /// As [`Db::range`], in this family.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Scan {
        let (low, high) = owned(&range);
        self.db.scan(self.id, low, high)
    }

    /// As [`Db::prefix`], in this family.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Scan {
        let (low, high) = prefix_bounds(prefix.as_ref());
        self.db.scan(self.id, low, high)
    }

    /// As [`Db::cursor`], in this family.
    ///
    /// # Errors
    /// As [`Db::cursor`].
    pub fn cursor(&self) -> Result<Cursor> {
        Ok(self.db.cursor_in(self.id))
    }
}

/// An iterator over the entries of a range, from both ends.
#[derive(Debug)]
pub struct Scan {
    db: Db,
    cf: CfId,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
}

impl Scan {
    fn step(&mut self, back: bool) -> Option<Result<(Vec<u8>, Value)>> {
        if !sane(&self.low, &self.high) {
            return None;
        }
        let state = self.db.state();
        let mut range = state.maps[usize::from(self.cf.0)]
            .range::<Vec<u8>, _>((self.low.as_ref(), self.high.as_ref()));
        let (key, value) = if back {
            range.next_back()
        } else {
            range.next()
        }?;
        let entry = (key.clone(), Value(value.clone()));
        drop(state);
        let edge = if back { &mut self.high } else { &mut self.low };
        *edge = Bound::Excluded(entry.0.clone());
        Some(Ok(entry))
    }
}

impl Iterator for Scan {
    type Item = Result<(Vec<u8>, Value)>;
    fn next(&mut self) -> Option<Self::Item> {
        self.step(false)
    }
}

impl DoubleEndedIterator for Scan {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(true)
    }
}

/// A position among the entries of a column family.
#[derive(Debug)]
pub struct Cursor {
    db: Db,
    cf: CfId,
    at: Option<(Vec<u8>, Arc<[u8]>)>,
}

impl Cursor {
    /// Moves to the first key not below `key`; returns whether there is one.
    ///
    /// # Errors
    /// Those of reading.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.go(Bound::Included(key.to_vec()), Bound::Unbounded, false)
    }

    /// Moves to the last key not above `key`; returns whether there is one.
    ///
    /// # Errors
    /// Those of reading.
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool> {
        self.go(Bound::Unbounded, Bound::Included(key.to_vec()), true)
    }

    /// Moves to the first key.
    ///
    /// # Errors
    /// Those of reading.
    pub fn seek_to_first(&mut self) -> Result<bool> {
        self.go(Bound::Unbounded, Bound::Unbounded, false)
    }

    /// Moves to the last key.
    ///
    /// # Errors
    /// Those of reading.
    pub fn seek_to_last(&mut self) -> Result<bool> {
        self.go(Bound::Unbounded, Bound::Unbounded, true)
    }

    /// Moves to the next key; false, and no longer valid, past the last.
    ///
    /// # Errors
    /// Those of reading.
    #[expect(
        clippy::should_implement_trait,
        reason = "a cursor lends; it is no iterator"
    )]
    pub fn next(&mut self) -> Result<bool> {
        match self.at.take() {
            Some((key, _)) => self.go(Bound::Excluded(key), Bound::Unbounded, false),
            None => Ok(false),
        }
    }

    /// Moves to the key before; false, and no longer valid, before the first.
    ///
    /// # Errors
    /// Those of reading.
    pub fn prev(&mut self) -> Result<bool> {
        match self.at.take() {
            Some((key, _)) => self.go(Bound::Unbounded, Bound::Excluded(key), true),
            None => Ok(false),
        }
    }

    /// Whether the cursor is at an entry.
    pub fn valid(&self) -> bool {
        self.at.is_some()
    }

    /// The key here; empty where the cursor is not valid.
    pub fn key(&self) -> &[u8] {
        self.at.as_ref().map_or(&[], |(key, _)| key)
    }

    /// The value here; empty where the cursor is not valid.
    pub fn value(&self) -> &[u8] {
        self.at.as_ref().map_or(&[], |(_, value)| value)
    }

    fn go(&mut self, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>, back: bool) -> Result<bool> {
        let state = self.db.state();
        let mut range = state.maps[usize::from(self.cf.0)].range::<Vec<u8>, _>((low, high));
        let found = if back {
            range.next_back()
        } else {
            range.next()
        };
        let found = found.map(|(key, value)| (key.clone(), value.clone()));
        drop(state);
        self.at = found;
        Ok(self.at.is_some())
    }
}

impl State {
    fn add_family(&mut self, name: String) {
        self.names.push(name);
        self.maps.push(Map::new());
    }

    fn apply(&mut self, kind: u8, cf: CfId, key: &[u8], value: &[u8]) {
        self.seqno += 1;
        let map = &mut self.maps[usize::from(cf.0)];
        if Kind::from_u8(kind) == Some(Kind::Put) {
            map.insert(key.to_vec(), value.into());
        } else {
            map.remove(key);
        }
    }
}

fn sane(low: &Bound<Vec<u8>>, high: &Bound<Vec<u8>>) -> bool {
    match (low, high) {
        (Bound::Included(a), Bound::Included(b)) => a <= b,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a < b,
    }
}

fn owned<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let own = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
    (own(range.start_bound()), own(range.end_bound()))
}

fn prefix_bounds(prefix: &[u8]) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let mut end = prefix.to_vec();
    while let Some(last) = end.last_mut() {
        if *last < 0xff {
            *last += 1;
            break;
        }
        end.pop();
    }
    let high = if end.is_empty() {
        Bound::Unbounded
    } else {
        Bound::Excluded(end)
    };
    (Bound::Included(prefix.to_vec()), high)
}

fn lock(path: &Path) -> Result<File> {
    let at = path.join("LOCK");
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&at)
        .map_err(|e| Error::io("open", &at, e))?;
    match file.try_lock() {
        Ok(()) => {
            let _ = file.set_len(0);
            let _ = write!(file, "{}", std::process::id());
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let _ = file.read_to_string(&mut text);
            Err(Error::Locked {
                path: path.to_path_buf(),
                pid: text.trim().parse().unwrap_or(0),
            })
        }
        Err(TryLockError::Error(e)) => Err(Error::io("lock", &at, e)),
    }
}

fn encode(line: &mut Vec<u8>, kind: u8, cf: CfId, key: &[u8], value: &[u8]) {
    line.push(kind);
    line.extend_from_slice(&cf.0.to_le_bytes());
    line.extend_from_slice(&(key.len() as u64).to_le_bytes());
    line.extend_from_slice(&(value.len() as u64).to_le_bytes());
    line.extend_from_slice(key);
    line.extend_from_slice(value);
}

fn replay(path: &Path) -> Result<(State, u64)> {
    let mut state = State::default();
    state.add_family("default".to_string());
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(Error::io("read", path, e)),
    };
    let mut records = 0;
    let mut rest = bytes.as_slice();
    while rest.len() >= 19 {
        let number = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&rest[at..at + 8]);
            size::index(u64::from_le_bytes(eight))
        };
        let (key_len, value_len) = (number(3), number(11));
        if rest.len() < 19 + key_len + value_len {
            break;
        }
        let (key, value) = rest[19..19 + key_len + value_len].split_at(key_len);
        let cf = CfId(u16::from_le_bytes([rest[1], rest[2]]));
        if rest[0] == 0 {
            state.add_family(String::from_utf8_lossy(key).into_owned());
        } else {
            state.apply(rest[0], cf, key, value);
            records += 1;
        }
        rest = &rest[19 + key_len + value_len..];
    }
    Ok((state, records))
}
