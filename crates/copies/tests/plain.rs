//! Copies of a store that is none: one file, and entries in a map. So what is tested is what copies do themselves.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_base::sync::{Mutex, lock};
use thermocline_base::{
    CfId, Error, ErrorKind, FileId, KeyRange, Kind, RangeTombstone, Result, SeqNo, Steps,
};
use thermocline_copies::{
    Backups, Captured, Entries, IngestWriter, Installed, NewTables, Store, check_tables,
    checkpoint, export, ingest,
};
use thermocline_env::sim::SimFs;
use thermocline_env::spares::Spare;
use thermocline_env::{Env, File, OpenMode, Storage};
use thermocline_sst::{
    FileSource, Identity, KeyRef, SyncCursor, TablePart, TableWriter, Value, WriteOptions,
    open_table, table_name,
};
use thermocline_version::{
    Change, Level, Manifest, NextIds, Place, State, TableRef, Version, VersionEdit,
};

const CF: CfId = CfId::DEFAULT;
const DB_ID: [u8; 16] = [7; 16];

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// What was written into new tables.
#[derive(Debug, Default)]
struct Written {
    entries: Vec<(Vec<u8>, Kind, Vec<u8>)>,
    ranges: Vec<RangeTombstone>,
    looked: usize,
}

impl NewTables for Written {
    fn go_on(&mut self) -> Result<()> {
        self.looked += 1;
        Ok(())
    }

    fn begin_tombstone(&mut self, tombstone: RangeTombstone) -> Result<()> {
        let last = self.entries.last();
        assert!(
            last.is_none_or(|(key, ..)| *key < tombstone.start),
            "in order"
        );
        self.ranges.push(tombstone);
        Ok(())
    }

    fn add(&mut self, key: &[u8], kind: Kind, value: Value<'_>) -> Result<()> {
        let Value::Inline(value) = value else {
            panic!("a value that lies elsewhere");
        };
        self.entries.push((key.into(), kind, value.into()));
        Ok(())
    }
}

struct Plain {
    env: Env,
    dir: PathBuf,
    state: State,
    /// What is in no file.
    rest: Map,
    /// Calls after which it is closed.
    closes_after: Cell<usize>,
    written: RefCell<Written>,
}

/// A table with these entries, all of one seqno.
fn table(
    env: &Env,
    (path, identity): (&Path, Identity),
    seqno: SeqNo,
    of: &Map,
) -> Result<TableRef> {
    let storage = &*env.storage;
    let options = WriteOptions::default();
    let mut writer = TableWriter::create(storage, path, identity, CF, options)?;
    for (key, value) in of {
        writer.add(KeyRef::new(key, seqno), Kind::Put, Value::Inline(value))?;
    }
    let meta = writer.finish()?;
    let first = of.keys().next().unwrap().clone();
    Ok(TableRef {
        file: identity.file,
        file_bytes: meta.bytes,
        bytes: meta.bytes,
        entries: meta.properties.entries,
        deletes: 0,
        range: KeyRange::inclusive(first, of.keys().next_back().unwrap().clone()).owned(),
        limited_below: false,
        limited_above: false,
        smallest_seqno: seqno,
        largest_seqno: seqno,
        blobs: vec![],
    })
}

fn added(table: TableRef) -> Change {
    Change::TableAdded {
        place: Place::new(CF, Level::ZERO),
        table: Arc::new(table),
    }
}

fn map(keys: &[&str]) -> Map {
    keys.iter()
        .map(|key| (key.as_bytes().to_vec(), format!("value of {key}").into()))
        .collect()
}

impl Plain {
    /// A store with some keys in a file, and others in none.
    fn new(filed: &[&str], rest: &[&str]) -> Plain {
        Plain::on(SimFs::new(Steps::new()), filed, rest)
    }

    /// The same, in this file system.
    fn on(fs: SimFs, filed: &[&str], rest: &[&str]) -> Plain {
        let env = Env::simulated(fs, 3);
        let dir = PathBuf::from("/db");
        env.storage.create_dir_all(&dir).unwrap();
        let file = FileId(1);
        let path = dir.join(table_name(file));
        let table = table(
            &env,
            (&path, Identity::new(DB_ID, file)),
            SeqNo(2),
            &map(filed),
        )
        .unwrap();
        let ids = NextIds {
            file: 2,
            memtable: 2,
            cf: 1,
            ..NextIds::default()
        };
        let mut state = State::default();
        let edit = VersionEdit::new()
            .with(Change::Created {
                db_id: DB_ID,
                region_id: [8; 16],
            })
            .with(Change::ColumnFamilyCreated {
                id: 0,
                name: "default".into(),
            })
            .with(Change::MemtableCreated { id: 1 })
            .with(Change::NextIds(ids))
            .with(added(table));
        state.apply(&edit).unwrap();
        Plain {
            env,
            dir,
            state,
            rest: map(rest),
            closes_after: Cell::new(usize::MAX),
            written: RefCell::default(),
        }
    }
}

struct Moment {
    env: Env,
    state: State,
    files: Arc<Version>,
    rest: Map,
}

impl Captured for Moment {
    fn seqno(&self) -> SeqNo {
        SeqNo(5)
    }

    fn state(&self) -> &State {
        &self.state
    }

    fn files(&self) -> &Arc<Version> {
        &self.files
    }

    fn options(&self) -> Vec<(String, String)> {
        vec![("dram".into(), "1GiB".into())]
    }

    fn write_rest(&self, next: &dyn Fn() -> Result<(PathBuf, Identity)>) -> Result<Vec<Change>> {
        if self.rest.is_empty() {
            return Ok(vec![]);
        }
        let (path, identity) = next()?;
        Ok(vec![added(table(
            &self.env,
            (&path, identity),
            self.seqno(),
            &self.rest,
        )?)])
    }
}

/// Some entries, and one behind the last, which was given already.
struct Walk {
    left: std::vec::IntoIter<(Vec<u8>, Vec<u8>)>,
    here: (Vec<u8>, Vec<u8>),
}

impl Entries for Walk {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let Some(here) = self.left.next() else {
            return Ok(None);
        };
        self.here = here;
        Ok(Some((&self.here.0, &self.here.1)))
    }
}

impl Store for Plain {
    type Captured = Moment;
    type Family = CfId;
    type Entries = Walk;

    fn env(&self) -> &Env {
        &self.env
    }

    fn dir(&self) -> &Path {
        &self.dir
    }

    fn db_id(&self) -> [u8; 16] {
        DB_ID
    }

    fn check_open(&self) -> Result<()> {
        match self.closes_after.get() {
            0 => Err(Error::Closed),
            left => {
                self.closes_after.set(left - 1);
                Ok(())
            }
        }
    }

    fn check_accepts(&self, _: CfId) -> Result<()> {
        self.check_open()
    }

    fn flush(&self) -> Result<()> {
        Err(Error::OutOfSpace("which keeps nobody from a backup".into()))
    }

    fn capture(&self) -> Result<Moment> {
        Ok(Moment {
            env: self.env.clone(),
            state: self.state.clone(),
            files: self.state.version().clone(),
            rest: self.rest.clone(),
        })
    }

    fn entries(&self, _: CfId, bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Walk> {
        let all = self.rest.range::<[u8], _>(bounds);
        let all: Vec<_> = all.map(|(k, v)| (k.clone(), v.clone())).collect();
        Ok(Walk {
            left: all.into_iter(),
            here: Default::default(),
        })
    }

    fn install(
        &self,
        _: CfId,
        _: u64,
        write: &mut dyn FnMut(SeqNo, &mut dyn NewTables) -> Result<()>,
    ) -> Result<Installed> {
        let seqno = SeqNo(1000);
        let mut written = Written::default();
        write(seqno, &mut written)?;
        let any = !written.entries.is_empty() || !written.ranges.is_empty();
        *self.written.borrow_mut() = written;
        Ok(Installed {
            tables: u64::from(any),
            bytes: 77,
            seqno,
        })
    }
}

/// What a database has in its tables.
fn contents(env: &Env, dir: &str) -> Map {
    let dir = Path::new(dir);
    let (_, state) = Manifest::open(env.storage.clone(), dir, true).unwrap();
    let origins = state.origins().unwrap();
    let mut map = Map::new();
    for (_, table) in state.version().tables_of(CF) {
        let path = dir.join(table_name(table.file));
        let mode = OpenMode::Read;
        let file = env.storage.open(&path, mode).unwrap();
        let identity = Identity::new(origins.of(table.file), table.file);
        let opened = open_table(&*file, identity).unwrap();
        let mut cursor = SyncCursor::new(TablePart::whole(opened), FileSource(file));
        let mut more = cursor.first().unwrap();
        while more {
            let Value::Inline(value) = cursor.value().1 else {
                panic!("a value that lies elsewhere");
            };
            let key = cursor.key().user_key.to_vec();
            assert!(map.insert(key, value.to_vec()).is_none(), "in one of both");
            more = cursor.next().unwrap();
        }
    }
    map
}

fn names(env: &Env, dir: &str) -> Vec<String> {
    let mut names = env.storage.list(Path::new(dir)).unwrap();
    names.sort();
    names
}

#[test]
fn a_checkpoint_is_a_database_of_its_own_with_what_lies_in_files_and_what_does_not() {
    let store = Plain::new(&["a", "c"], &["b", "d"]);
    let seqno = checkpoint(&store, Path::new("/copy")).unwrap();
    assert_eq!(seqno, 5, "that of the moment");
    assert_eq!(contents(&store.env, "/copy"), map(&["a", "b", "c", "d"]));
    let (_, state) = Manifest::open(store.env.storage.clone(), Path::new("/copy"), true).unwrap();
    assert_ne!(state.db_id(), Some(DB_ID));
    assert_eq!(state.origins().unwrap().of(FileId(1)), DB_ID);
    assert_eq!(
        state.origins().unwrap().of(FileId(2)),
        state.db_id().unwrap()
    );
    assert_eq!(state.options(), [("dram".into(), "1GiB".into())]);
    assert_eq!(names(&store.env, "/db"), ["000001.sst"], "it is unharmed");
    let again = checkpoint(&store, Path::new("/copy")).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::InvalidArgument);
}

/// No table need have the last seqnos: they may be of deletes of nothing.
#[test]
fn a_copy_goes_on_behind_the_moment_that_it_was_made_at() {
    let store = Plain::new(&["a"], &[]);
    checkpoint(&store, Path::new("/copy")).unwrap();
    let backups = Backups::new(store.env.clone(), Path::new("/backups"));
    assert_eq!(backups.create(&store).unwrap().seqno, 5);
    backups.restore(None, Path::new("/restored")).unwrap();
    for dir in ["/copy", "/restored"] {
        let storage = store.env.storage.clone();
        let (_, state) = Manifest::open(storage, Path::new(dir), true).unwrap();
        assert_eq!(state.flushed_up_to(), 5, "{dir}");
    }
}

#[test]
fn a_store_that_is_closed_meanwhile_leaves_no_copy_and_no_backup() {
    let store = Plain::new(&["a"], &["b"]);
    let backups = Backups::new(store.env.clone(), Path::new("/backups"));
    for calls in 0..2 {
        store.closes_after.set(calls);
        let error = backups.create(&store).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    }
    assert_eq!(backups.list().unwrap(), []);
    assert_eq!(names(&store.env, "/backups"), ["LOCK"]);
    store.closes_after.set(0);
    assert!(checkpoint(&store, Path::new("/copy")).is_err());
    assert!(!store.env.storage.exists(Path::new("/copy")).unwrap());
}

#[test]
fn backups_share_what_they_have_in_common_and_each_can_be_restored() {
    let mut store = Plain::new(&["a", "c"], &["b"]);
    let backups = Backups::new(store.env.clone(), Path::new("/backups"));
    let first = backups.create(&store).unwrap();
    assert_eq!(
        (first.id, first.files, first.new_bytes),
        (1, 2, first.bytes)
    );
    store.rest = map(&["d"]);
    let second = backups.create(&store).unwrap();
    let own = backups.list().unwrap()[1].bytes - second.new_bytes;
    assert!(
        0 < own && own < second.bytes,
        "the file of the store is there"
    );
    backups.restore(Some(1), Path::new("/one")).unwrap();
    backups.restore(None, Path::new("/two")).unwrap();
    assert_eq!(contents(&store.env, "/one"), map(&["a", "b", "c"]));
    assert_eq!(contents(&store.env, "/two"), map(&["a", "c", "d"]));
    assert_eq!(backups.verify().unwrap().faults, []);
    backups.delete(1).unwrap();
    assert_eq!(backups.list().unwrap().len(), 1);
    backups.restore(None, Path::new("/three")).unwrap();
    assert_eq!(contents(&store.env, "/three"), map(&["a", "c", "d"]));
}

/// It has a file of which nobody else knows yet.
#[test]
fn a_folder_in_which_somebody_makes_a_backup_is_locked_and_no_strangers() {
    let store = Plain::new(&["a"], &["b"]);
    let backups = Backups::new(store.env.clone(), Path::new("/backups"));
    backups.create(&store).unwrap();
    let storage = &store.env.storage;
    let lock = storage.lock(Path::new("/backups/LOCK")).unwrap();
    let made = Path::new("/backups/000007.sst");
    for path in [made, Path::new("/backups/BACKING-UP")] {
        storage.open(path, OpenMode::CreateNew).unwrap();
    }
    for done in [backups.create(&store).map(drop), backups.delete(1)] {
        let error = done.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    }
    drop(lock);
    storage.remove(made).unwrap();
    backups.delete(1).unwrap();
}

#[test]
fn whoever_deletes_a_backup_makes_nothing_in_a_strangers_folder() {
    let store = Plain::new(&["a"], &[]);
    let storage = &store.env.storage;
    let letter = Path::new("/letters/one.txt");
    storage.create_dir_all(Path::new("/letters")).unwrap();
    storage.open(letter, OpenMode::CreateNew).unwrap();
    let letters = Backups::new(store.env.clone(), Path::new("/letters"));
    let error = letters.delete(1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(names(&store.env, "/letters"), ["one.txt"]);
}

/// What has the name of a list takes its number. The one behind the last would be 0, for each backup.
#[test]
fn no_backup_comes_behind_the_last_number() {
    let store = Plain::new(&["a"], &["b"]);
    let backups = Backups::new(store.env.clone(), Path::new("/backups"));
    backups.create(&store).unwrap();
    let stray = Path::new("/backups/BACKUP-18446744073709551615");
    let stray = store.env.storage.open(stray, OpenMode::CreateNew).unwrap();
    stray.write_at(b"no list", 0).unwrap();
    let before = names(&store.env, "/backups");
    let error = backups.create(&store).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("the last number"), "{error}");
    assert_eq!(names(&store.env, "/backups"), before);
    backups.restore(Some(1), Path::new("/one")).unwrap();
    assert_eq!(contents(&store.env, "/one"), map(&["a", "b"]));
}

#[test]
fn what_was_exported_can_be_ingested() {
    let store = Plain::new(&["x"], &["a", "b", "c", "d"]);
    let path = Path::new("/t.sst");
    let bounds = (Bound::Included(&b"b"[..]), Bound::Excluded(&b"d"[..]));
    assert_eq!(export(&store, CF, bounds, path).unwrap().entries, 2);
    let again = export(&store, CF, bounds, path).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::InvalidArgument, "{again}");
    let ingested = ingest(&store, CF, &[path]).unwrap();
    let was = (ingested.entries, ingested.ranges, ingested.tables);
    assert_eq!((was, ingested.bytes, ingested.seqno), ((2, 0, 1), 77, 1000));
    let there = store.written.borrow().entries.clone();
    let there: Map = there
        .into_iter()
        .map(|(key, _, value)| (key, value))
        .collect();
    assert_eq!(there, map(&["b", "c"]));
}

#[test]
fn range_tombstones_become_one_and_hide_nothing_of_their_table() {
    let store = Plain::new(&["x"], &[]);
    let mut table = IngestWriter::create(&store.env, Path::new("/t.sst")).unwrap();
    table.put(b"a", b"1").unwrap();
    table.delete_range(b"b", b"m").unwrap();
    table.put(b"c", b"2").unwrap();
    table.delete_range(b"d", b"p").unwrap();
    for n in 0..600u32 {
        table
            .put(&[b"q", &n.to_be_bytes()[..]].concat(), b"")
            .unwrap();
    }
    table.delete_range(b"r", b"s").unwrap();
    table.finish().unwrap();
    let ingested = ingest(&store, CF, &["/t.sst"]).unwrap();
    assert_eq!((ingested.entries, ingested.ranges), (602, 2));
    let written = store.written.borrow();
    assert_eq!(written.entries.len(), 602);
    let ranges = written.ranges.iter();
    let ranges: Vec<_> = ranges
        .map(|t| (&t.start[..], &t.end[..], t.seqno.0))
        .collect();
    assert_eq!(ranges, [(&b"b"[..], &b"p"[..], 1000), (b"r", b"s", 1000)]);
    assert_eq!(written.looked, 3, "whether the store is open");
}

/// Whoever closes it waits until that is looked for, and tables may have no entries.
#[test]
fn before_each_table_it_is_looked_whether_the_store_is_open() {
    let store = Plain::new(&["x"], &[]);
    for name in ["/a", "/b", "/c"] {
        let mut table = IngestWriter::create(&store.env, Path::new(name)).unwrap();
        let start = name.as_bytes();
        table
            .delete_range(start, &[start, &b"z"[..]].concat())
            .unwrap();
        table.finish().unwrap();
    }
    assert_eq!(ingest(&store, CF, &["/a", "/b", "/c"]).unwrap().ranges, 3);
    assert_eq!(store.written.borrow().looked, 3);
}

#[test]
fn tables_that_overlap_and_tables_without_entries() {
    let store = Plain::new(&["x"], &[]);
    let make = |name: &str, keys: &[&str], range: Option<(&str, &str)>| {
        let mut table = IngestWriter::create(&store.env, Path::new(name)).unwrap();
        keys.iter()
            .for_each(|k| table.put(k.as_bytes(), b"").unwrap());
        if let Some((from, to)) = range {
            table.delete_range(from.as_bytes(), to.as_bytes()).unwrap();
        }
        table.finish().unwrap();
    };
    make("/a", &["a", "c"], None);
    make("/b", &["d"], Some(("e", "g")));
    make("/c", &["f"], None);
    make("/g", &["g"], None);
    make("/none", &[], None);
    let error = ingest(&store, CF, &["/c", "/a", "/b"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("/b and /c overlap"), "{error}");
    assert_eq!(ingest(&store, CF, &["/g", "/b", "/a"]).unwrap().entries, 4);
    assert_eq!(ingest(&store, CF, &["/none"]).unwrap().tables, 0);
}

/// A file that is open and need not be.
#[derive(Debug)]
struct Kept(Mutex<Option<Arc<dyn File>>>);

impl Spare for Kept {
    fn close(&self) {
        lock(&self.0).take();
    }
}

/// Whoever works beside a store has what that can do without, too.
#[test]
fn descriptors_that_others_can_do_without_are_enough() {
    const DESCRIPTORS: usize = 12;
    let fs = SimFs::new(Steps::new());
    let store = Plain::on(fs.clone(), &["a"], &["b"]);
    let path = Path::new("/t.sst");
    export(&store, CF, (Bound::Unbounded, Bound::Unbounded), path).unwrap();
    fs.install(Path::new("/kept"), b"");
    fs.limit_descriptors(DESCRIPTORS);
    let with_none_left = |work: &dyn Fn()| {
        let keep = |_| {
            let file = fs.open(Path::new("/kept"), OpenMode::Read).unwrap();
            let kept = Arc::new(Kept(Mutex::new(Some(file))));
            let spare: Arc<dyn Spare> = kept.clone();
            fs.spares().add(Arc::downgrade(&spare));
            kept
        };
        let kept: Vec<Arc<Kept>> = (0..DESCRIPTORS).map(keep).collect();
        work();
        assert!(kept.iter().all(|kept| lock(&kept.0).is_none()));
    };
    let backups = Backups::new(store.env.clone(), Path::new("/backups"));
    with_none_left(&|| assert_eq!(backups.create(&store).unwrap().id, 1));
    with_none_left(&|| assert_eq!(backups.list().unwrap().len(), 1));
    with_none_left(&|| assert_eq!(backups.verify().unwrap().faults, []));
    with_none_left(&|| assert_eq!(backups.restore(None, Path::new("/one")).unwrap().id, 1));
    with_none_left(&|| backups.delete(1).unwrap());
    with_none_left(&|| check_tables(&store.env, &[path]).unwrap());
}

/// Does `work` in `fs`, and looks with `check` at what a crash may leave at each of its steps.
fn with_crashes(fs: &SimFs, check: impl Fn(SimFs) + Send + Sync + 'static, work: impl FnOnce()) {
    let seen = fs.clone();
    fs.steps().observe(Some(Arc::new(move |point| {
        for outcome in seen.pending().explore(32, 4, point.step) {
            check(seen.image(&outcome, Steps::new()));
        }
    })));
    work();
    fs.steps().observe(None);
}

/// The process that deletes it may be killed before it has made that durable. A later one removes the files.
#[test]
fn a_backup_that_was_being_deleted_comes_back_with_its_files_or_not_at_all() {
    let fs = SimFs::new(Steps::new());
    let mut store = Plain::on(fs.clone(), &["a"], &["b"]);
    let dir = Path::new("/backups");
    let backups = Backups::new(store.env.clone(), dir);
    backups.create(&store).unwrap();
    fs.remove(&dir.join("BACKUP-000001")).unwrap();
    store.rest = map(&["c"]);
    let check = move |image: SimFs| {
        let left = Backups::new(Env::simulated(image, 1), dir);
        assert_eq!(left.verify().unwrap().faults, []);
    };
    with_crashes(&fs, check, || {
        assert_eq!(backups.create(&store).unwrap().id, 1);
    });
    assert_eq!(backups.list().unwrap().len(), 1);
}

/// What withdraws a copy may be killed before it is durable that this is no database. The next copy clears the folder.
#[test]
fn a_copy_that_was_being_withdrawn_comes_back_whole_or_not_at_all() {
    let fs = SimFs::new(Steps::new());
    let store = Plain::on(fs.clone(), &["a"], &["b"]);
    let current = Path::new("/copy/CURRENT");
    // Killed when the copy is there, and its note still is, too.
    let killed = Arc::new(Mutex::new(None));
    let (seen, at) = (fs.clone(), killed.clone());
    fs.steps().observe(Some(Arc::new(move |_| {
        if seen.contents(current).is_some() && seen.contents(Path::new("/copy/COPYING")).is_some() {
            *lock(&at) = Some(seen.image_killed(Steps::new()));
        }
    })));
    checkpoint(&store, Path::new("/copy")).unwrap();
    fs.steps().observe(None);
    let fs: SimFs = lock(&killed).take().unwrap();
    assert!(fs.image_none(Steps::new()).contents(current).is_some());
    fs.remove(current).unwrap();
    let store = Plain {
        env: Env::simulated(fs.clone(), 4),
        ..store
    };
    let check = move |image: SimFs| {
        if image.contents(current).is_some() {
            assert_eq!(
                contents(&Env::simulated(image, 1), "/copy"),
                map(&["a", "b"])
            );
        }
    };
    with_crashes(&fs, check, || {
        checkpoint(&store, Path::new("/copy")).unwrap();
    });
    assert_eq!(contents(&store.env, "/copy"), map(&["a", "b"]));
}
