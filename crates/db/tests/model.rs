//! Random sequences of everything that the API offers, against `BTreeMap`s.
//!
//! Each seed draws options and then steps: writes, reads, scans from both ends, moves of cursors that
//! live through other steps, column families, closing, dropping, reopening, also for reading only.
//! Iterators and cursors carry a copy of the map from when they were made, and must show exactly
//! that for as long as they live.
//!
//! Keys come from a small pool of hostile ones (empty, prefixes of each other, runs of 0x00 and
//! 0xff, 65,535 bytes), so that the same keys meet again and again.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use thermocline::limits::{KEY_LEN_MAX, VALUE_INLINE_MAX};
use thermocline::{CfOptions, ColumnFamily, Cursor, Db, Durability, ErrorKind, Options, Scan};
use thermocline_testkit::{Replay, Rng, seeds};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
type Entry = (Vec<u8>, Vec<u8>);

const STEPS: usize = 400;

fn hostile_keys(rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = vec![vec![]];
    for byte in [0x00, 0xff, b'a', 0x7f] {
        for len in [1, 2, 3, 7, 8, 9, 16, 255, 256] {
            keys.push(vec![byte; len]);
        }
    }
    for byte in [0x00, 0xff, b'a'] {
        keys.push(vec![byte; KEY_LEN_MAX]);
        keys.push(vec![byte; KEY_LEN_MAX - 1]);
        let mut last = vec![byte; KEY_LEN_MAX];
        last[KEY_LEN_MAX - 1] ^= 1;
        keys.push(last);
    }
    // Grown from one another, so that some are prefixes and some differ in one byte.
    for _ in 0..60 {
        let mut key = rng.pick(&keys[..37]).clone();
        for _ in 0..rng.below(4) {
            key.push(*rng.pick(&[0, 1, b'a', 0xfe, 0xff]));
        }
        if !key.is_empty() && rng.one_in(3) {
            let at = rng.below(key.len());
            key[at] = *rng.pick(&[0, 1, 0x80, 0xff]);
        }
        keys.push(key);
    }
    // Enough children of one node to make it large.
    for byte in 0..=255 {
        keys.push(vec![b'n', byte]);
    }
    keys
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(200) {
        0..8 => 0,
        8 => VALUE_INLINE_MAX,
        9..12 => rng.below(VALUE_INLINE_MAX),
        12..40 => rng.below(10_000),
        _ => rng.below(100),
    };
    let fill = rng.next_u64().to_le_bytes();
    fill.iter().copied().cycle().take(len).collect()
}

fn options(rng: &mut Rng) -> Options {
    let mut options = Options {
        pm: 2 << 30,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10 << rng.below(4);
    options.pm_region.zones_ahead = 1 + rng.below(8) as u64;
    options.memtable.bytes_max = *rng.pick(&[1, 20_000, 64 << 10, 1 << 20, 64 << 20]);
    options.memtable.replay_threads = rng.below(4) as u64;
    options.memtable.idle_ms = *rng.pick(&[0, 1, 1000]);
    options.read.readahead = *rng.pick(&[1, 2, 3, 64, 4096]);
    options.read.verify_checksums = rng.below(2) as u64;
    options.manifest.bytes_max = *rng.pick(&[512, 1 << 20]);
    options
}

/// A cursor with the map at the moment when it was made, and where it is.
struct Held {
    cursor: Cursor,
    map: Arc<Map>,
    at: Option<Vec<u8>>,
}

impl Held {
    fn step(&mut self, rng: &mut Rng, key: &[u8]) {
        let map = &self.map;
        let before = |at: &[u8]| last(map, Bound::Unbounded, Bound::Excluded(at));
        let after = |at: &[u8]| first(map, Bound::Excluded(at), Bound::Unbounded);
        let (moved, expected) = match rng.below(10) {
            0 => (
                self.cursor.seek_to_first(),
                first(map, Bound::Unbounded, Bound::Unbounded),
            ),
            1 => (
                self.cursor.seek_to_last(),
                last(map, Bound::Unbounded, Bound::Unbounded),
            ),
            2 => {
                let expected = first(map, Bound::Included(key), Bound::Unbounded);
                (self.cursor.seek(key), expected)
            }
            3 => {
                let expected = last(map, Bound::Unbounded, Bound::Included(key));
                (self.cursor.seek_for_prev(key), expected)
            }
            4..7 => (self.cursor.prev(), self.at.as_deref().and_then(before)),
            _ => (self.cursor.next(), self.at.as_deref().and_then(after)),
        };
        assert_eq!(moved.unwrap(), expected.is_some());
        assert_eq!(self.cursor.valid(), expected.is_some());
        let (key, value) = expected.clone().unwrap_or_default();
        assert!(self.cursor.key() == key, "key {}", head(self.cursor.key()));
        assert!(self.cursor.value() == value, "value of {}", head(&key));
        self.at = expected.map(|(key, _)| key);
    }
}

fn first(map: &Map, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Option<Entry> {
    let entry = map.range::<[u8], _>((low, high)).next()?;
    Some((entry.0.clone(), entry.1.clone()))
}

fn last(map: &Map, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Option<Entry> {
    let entry = map.range::<[u8], _>((low, high)).next_back()?;
    Some((entry.0.clone(), entry.1.clone()))
}

fn head(bytes: &[u8]) -> String {
    format!(
        "{:02x?} of {} bytes",
        &bytes[..bytes.len().min(12)],
        bytes.len()
    )
}

/// A scan with what it still has to give.
struct Going {
    scan: Scan,
    left: std::collections::VecDeque<Entry>,
}

impl Going {
    fn new(scan: Scan, map: &Map, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Going {
        let sane = match (low, high) {
            (Bound::Included(a), Bound::Included(b)) => a <= b,
            (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
                a < b
            }
            _ => true,
        };
        let inside = sane.then(|| map.range::<[u8], _>((low, high)));
        let left = inside.into_iter().flatten();
        Going {
            scan,
            left: left.map(|(k, v)| (k.clone(), v.clone())).collect(),
        }
    }

    /// Takes up to `most` entries from random ends; whether it has ended.
    fn take(&mut self, rng: &mut Rng, most: usize) -> bool {
        let backwards = rng.below(5);
        for _ in 0..most {
            let (got, expected) = if rng.below(4) < backwards {
                (self.scan.next_back(), self.left.pop_back())
            } else {
                (self.scan.next(), self.left.pop_front())
            };
            let got = got.map(|entry| entry.unwrap());
            let Some((key, value)) = expected else {
                assert!(got.is_none(), "{} after the end", head(&got.unwrap().0));
                assert!(self.scan.next().is_none() && self.scan.next_back().is_none());
                return true;
            };
            let got = got.unwrap_or_else(|| panic!("{} is missing", head(&key)));
            assert!(got.0 == key, "{} instead of {}", head(&got.0), head(&key));
            assert!(*got.1 == value, "value of {}", head(&key));
        }
        false
    }
}

/// The database and what must be in it.
struct Run {
    rng: Rng,
    _home: tempfile::TempDir,
    dir: PathBuf,
    options: Options,
    keys: Vec<Vec<u8>>,
    db: Option<Db>,
    /// By name; also in the order in which they were made.
    families: Vec<(String, Arc<Map>)>,
    cursors: Vec<Held>,
    scans: Vec<Going>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut rng = Rng::new(seed);
        // Shared memory is fast; every 16th run goes to an ordinary file.
        let shm = PathBuf::from("/dev/shm");
        let home = if shm.is_dir() && !seed.is_multiple_of(16) {
            tempfile::tempdir_in(shm).unwrap()
        } else {
            tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
        };
        let options = options(&mut rng);
        let keys = hostile_keys(&mut rng);
        let dir = home.path().join("db");
        let mut run = Run {
            rng,
            dir,
            options,
            keys,
            db: None,
            families: vec![("default".into(), Arc::default())],
            cursors: Vec::new(),
            scans: Vec::new(),
            _home: home,
        };
        run.db = Some(Db::open(&run.dir, run.options.clone()).unwrap());
        run
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("it is open")
    }

    fn key(&mut self) -> Vec<u8> {
        self.rng.pick(&self.keys).clone()
    }

    fn family(&mut self) -> (usize, ColumnFamily) {
        let i = self.rng.below(self.families.len());
        let family = self.db().find_column_family(&self.families[i].0);
        (i, family.expect("it was made"))
    }

    fn map(&mut self, i: usize) -> &mut Map {
        Arc::make_mut(&mut self.families[i].1)
    }

    fn step(&mut self) {
        let (i, family) = self.family();
        let key = self.key();
        match self.rng.below(100) {
            0..30 => {
                let value = value(&mut self.rng);
                family.put(&key, &value).unwrap();
                self.map(i).insert(key, value);
            }
            30..40 => {
                family.delete(&key).unwrap();
                self.map(i).remove(&key);
            }
            40..50 => self.batch(),
            50..60 => {
                let got = family.get(&key).unwrap();
                let expected = self.families[i].1.get(&key);
                assert!(got.as_deref() == expected.map(|v| &v[..]), "{}", head(&key));
            }
            60..70 => {
                let scan = self.scan(i, &family);
                self.scans.push(scan);
            }
            70..74 => self.cursors.push(Held {
                cursor: family.cursor().unwrap(),
                map: self.families[i].1.clone(),
                at: None,
            }),
            74..84 => self.move_cursor(),
            84..94 => self.go_on_scanning(),
            94 if self.families.len() < 6 => {
                let name = format!("family {}", self.families.len());
                self.db()
                    .column_family(&name, CfOptions::default())
                    .unwrap();
                self.families.push((name, Arc::default()));
            }
            97 => {
                // It is a handle too.
                drop(family);
                self.reopen();
            }
            98 if self.rng.one_in(2) => {
                drop(family);
                self.reopen_for_reading();
            }
            _ => self.check_metrics(),
        }
    }

    fn batch(&mut self) {
        let mut batch = self.db().batch();
        let mut after: Vec<Arc<Map>> = self.families.iter().map(|f| f.1.clone()).collect();
        for _ in 0..self.rng.below(12) {
            let (i, family) = self.family();
            let key = self.key();
            if self.rng.one_in(4) {
                batch.delete_cf(&family, &key);
                Arc::make_mut(&mut after[i]).remove(&key);
            } else {
                let mut value = value(&mut self.rng);
                value.truncate(200_000);
                batch.put_cf(&family, &key, &value);
                Arc::make_mut(&mut after[i]).insert(key, value);
            }
        }
        if self.rng.one_in(8) {
            // Never committed.
            return;
        }
        batch.commit(Durability::Immediate).unwrap();
        assert!(batch.is_empty());
        for (family, map) in self.families.iter_mut().zip(after) {
            family.1 = map;
        }
    }

    fn bound(&mut self) -> Bound<Vec<u8>> {
        let key = self.key();
        match self.rng.below(3) {
            0 => Bound::Included(key),
            1 => Bound::Excluded(key),
            _ => Bound::Unbounded,
        }
    }

    fn scan(&mut self, i: usize, family: &ColumnFamily) -> Going {
        let map = self.families[i].1.clone();
        if self.rng.one_in(4) {
            let mut prefix = self.key();
            prefix.truncate(self.rng.below(4));
            let mut left = Going::new(
                family.prefix(&prefix),
                &map,
                Bound::Unbounded,
                Bound::Unbounded,
            );
            left.left.retain(|(key, _)| key.starts_with(&prefix));
            return left;
        }
        let (low, high) = (self.bound(), self.bound());
        let scan = family.range((low.clone(), high.clone()));
        let (low, high) = (
            low.as_ref().map(Vec::as_slice),
            high.as_ref().map(Vec::as_slice),
        );
        Going::new(scan, &map, low, high)
    }

    fn move_cursor(&mut self) {
        if self.cursors.is_empty() {
            return;
        }
        let c = self.rng.below(self.cursors.len());
        for _ in 0..self.rng.below(40) {
            let key = self.key();
            self.cursors[c].step(&mut self.rng, &key);
        }
        if self.rng.one_in(8) {
            self.cursors.swap_remove(c);
        }
    }

    fn go_on_scanning(&mut self) {
        if self.scans.is_empty() {
            return;
        }
        let s = self.rng.below(self.scans.len());
        let most = *self.rng.pick(&[1, 10, 1000]);
        if self.scans[s].take(&mut self.rng, most) || self.rng.one_in(10) {
            self.scans.swap_remove(s);
        }
    }

    /// Ends the scans and cursors, or leaves them to see what they saw after the close.
    fn leave(&mut self) {
        let db = self.db.take().expect("it is open");
        match self.rng.below(3) {
            0 => db.close().unwrap(),
            1 => {
                let clone = db.clone();
                drop(db);
                clone.close().unwrap();
            }
            _ => drop(db),
        }
        for held in &mut self.cursors {
            held.step(&mut self.rng, b"n");
        }
        for mut scan in self.scans.drain(..) {
            scan.take(&mut self.rng, 20);
        }
        if self.rng.one_in(2) {
            self.cursors.clear();
        }
    }

    fn reopen(&mut self) {
        self.leave();
        self.options = options(&mut self.rng);
        self.db = Some(Db::open(&self.dir, self.options.clone()).unwrap());
        self.compare();
    }

    fn reopen_for_reading(&mut self) {
        self.leave();
        let options = Options {
            read_only: true,
            ..options(&mut self.rng)
        };
        self.db = Some(Db::open(&self.dir, options).unwrap());
        self.compare();
        let error = self.db().put("k", "v").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        let (i, family) = self.family();
        for _ in 0..5 {
            self.scan(i, &family).take(&mut self.rng, 1000);
        }
        drop(family);
        self.leave();
        assert_eq!(
            Db::verify(&self.dir, self.options.clone()).unwrap().faults,
            []
        );
        self.db = Some(Db::open(&self.dir, self.options.clone()).unwrap());
    }

    fn compare(&mut self) {
        let names: Vec<String> = self.families.iter().map(|f| f.0.clone()).collect();
        assert_eq!(self.db().column_families(), names);
        for (name, map) in self.families.clone() {
            let family = self.db().find_column_family(&name).unwrap();
            let all = family.iter();
            assert!(
                Going::new(all, &map, Bound::Unbounded, Bound::Unbounded)
                    .take(&mut self.rng, usize::MAX)
            );
            let key = self.key();
            assert!(family.get(&key).unwrap().as_deref() == map.get(&key).map(|v| &v[..]));
        }
    }

    fn check_metrics(&self) {
        let metrics = self.db().metrics();
        assert_eq!(metrics.seqno_durable, metrics.seqno_visible);
        assert!(metrics.region_bytes <= metrics.pm_limit_bytes);
    }
}

fn run(seed: u64) {
    let _replay = Replay("-p thermocline --test model", seed);
    let mut run = Run::new(seed);
    for _ in 0..STEPS {
        run.step();
    }
    run.compare();
    run.reopen();
}

#[test]
fn it_is_a_map() {
    for seed in seeds(0..24) {
        run(seed);
    }
}

#[test]
fn it_is_still_a_map() {
    for seed in seeds(1000..1024) {
        run(seed);
    }
}

#[test]
fn both_ends_meet() {
    let shm = tempfile::tempdir_in("/dev/shm");
    let home = shm.unwrap_or_else(|_| tempfile::tempdir().unwrap());
    let mut options = Options::default();
    options.memtable.bytes_max = 1;
    let db = Db::open(home.path().join("db"), options).unwrap();
    for n in (0..100u8).rev() {
        db.put([n], [n]).unwrap();
    }
    for front in 0..=101 {
        let mut scan = db.iter();
        let mut seen: Vec<u8> = scan.by_ref().take(front).map(|e| e.unwrap().0[0]).collect();
        let back: Vec<u8> = scan.by_ref().rev().map(|e| e.unwrap().0[0]).collect();
        assert!(scan.next().is_none() && scan.next_back().is_none());
        seen.extend(back.iter().rev());
        assert!(seen.into_iter().eq(0..100), "{front} from the front");
    }
    let mut scan = db.range([10u8]..[20u8]);
    for n in 0..5 {
        assert_eq!(scan.next().unwrap().unwrap().0, [10 + n]);
        assert_eq!(scan.next_back().unwrap().unwrap().0, [19 - n]);
    }
    assert!(scan.next_back().is_none() && scan.next().is_none());
}
