//! Random sequences of everything that the API offers, against `BTreeMap`s.
//!
//! Each seed draws options and then steps: writes, deletes of ranges, reads, some of them as futures, scans from both ends, moves of cursors
//! that live through other steps, merges in families that have an operator, column families of both orders that come, go and come back, their
//! metadata, flushes, compactions, some with filters, change feeds, closing, dropping, reopening, also for reading only. Iterators, cursors and snapshots
//! carry a copy of the map from when they were made, and must show exactly that for as long as they
//! live, were the family dropped meanwhile; handles of dropped families are refused.
//!
//! Keys come from a small pool of hostile ones (empty, prefixes of each other, runs of 0x00 and
//! 0xff, 65,535 bytes), so that the same keys meet again and again.

mod filtering;
mod reading;

use std::ops::Bound;
use std::path::PathBuf;

use thermocline::limits::{KEY_LEN_MAX, VALUE_INLINE_MAX};
use thermocline::merge::{Append, MergeOperator};
use thermocline::options::{AsyncIo, Codec, IndexKind, PartitionBy, Shape};
use thermocline::{
    CfOptions, ChangeOp, ColumnFamily, Db, Durability, ErrorKind, Options, Result, Snapshot,
};
use thermocline_testkit::explore::explored;
use thermocline_testkit::{Replay, Rng, block_on, seeds};

use crate::filtering::Switch;
use crate::reading::{Content, Going, Held, Then, head};

/// The allocator of these tests, which make and drop a great deal (decision 179).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
        12 => VALUE_INLINE_MAX + 1 + rng.below(VALUE_INLINE_MAX),
        13..40 => rng.below(10_000),
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
    options.memtable.bytes_max = *rng.pick(&[1, 20_000, 64 << 10, 1 << 20, 64 << 20]);
    options.memtable.item_bytes_max =
        *rng.pick(&[4 << 10, 50_000, options.memtable.item_bytes_max]);
    options.memtable.replay_threads = rng.below(4) as u64;
    options.memtable.idle_ms = *rng.pick(&[0, 1, 1000]);
    options.read.readahead = *rng.pick(&[1, 2, 3, 64, 4096]);
    options.read.verify_checksums = rng.below(2) == 1;
    options.read.pin_bytes_min = *rng.pick(&[1, 1 << 10, 1 << 30]);
    options.read.pins_percent_max = *rng.pick(&[0, 5]);
    options.read.cache_bytes = *rng.pick(&[0, 0, 1, 64 << 10]);
    options.read.open_tables = *rng.pick(&[1, 3, 512]);
    options.read.ahead_bytes = *rng.pick(&[0, 5000, 256 << 10]);
    options.ssd.direct = rng.below(2) == 1;
    // What is drawn next is drawn as ever: seeds that found something stay what they were.
    options.ssd.index = *rng.clone().pick(&IndexKind::ALL);
    options.read.async_io = *rng.clone().pick(&AsyncIo::ALL);
    options.commit.buckets = rng.below(3) as u64;
    options.commit.ring_slots = *rng.pick(&[1, 64]);
    options.feed.retain_bytes = *rng.pick(&[0, 0, 1 << 20]);
    options.manifest.bytes_max = *rng.pick(&[512, 1 << 20]);
    options.blob.inline_bytes_max = *rng.pick(&[5000, 1 << 20, 1 << 20]);
    options.level0.shape = Some(*rng.pick(&Shape::ALL));
    options.level0.pm_percent = *rng.pick(&[3, 10, 50]);
    options.level0.merge_percent = *rng.pick(&[0, 0, 100]);
    options.flush.generations = *rng.pick(&[0, 0, 3]);
    options.flush.rewrite_ratio = *rng.pick(&[8, 2, 1, 0]);
    compaction(&mut options, rng);
    options
}

/// Few and small tables and blocks, so that there are levels.
fn compaction(options: &mut Options, rng: &mut Rng) {
    let compaction = &mut options.compaction;
    compaction.level0_tables = 1 + rng.below(4) as u64;
    compaction.levels = 1 + rng.below(7) as u64;
    compaction.multiplier = *rng.pick(&[2, 10]);
    compaction.base_bytes = *rng.pick(&[0, 200_000]);
    compaction.table_bytes = *rng.pick(&[0, 50_000]);
    compaction.dynamic = rng.below(2) == 1;
    compaction.block_bytes = *rng.pick(&[256, 4 << 10, 64 << 10]);
    compaction.compression_level0 = *rng.pick(&Codec::ALL);
    compaction.compression = *rng.pick(&Codec::ALL);
    compaction.compression_last = *rng.pick(&Codec::ALL);
    // A limit that is never reached, and none.
    compaction.rate_bytes = *rng.pick(&[0, 1 << 40]);
    compaction.read_sample = *rng.pick(&[0, 1, 64]);
    partitions(options, rng);
}

/// Of all three kinds, and none; so small that they are split and merged.
fn partitions(options: &mut Options, rng: &mut Rng) {
    options.partition.bytes = *rng.pick(&[4, 6]) * options.table_bytes();
    options.partition.prefix_len = 1 + rng.below(3) as u64;
    options.partition.by = *rng.pick(&PartitionBy::ALL);
    let mut keys = hostile_keys(rng);
    keys.truncate(rng.below(20));
    keys.push(b"m".to_vec());
    keys.retain(|key| !key.is_empty());
    keys.sort();
    keys.dedup();
    options.partition_keys = keys;
}

/// The options for records in DRAM, and in logs. Each memtable becomes a table, so there must not be one
/// for every write.
fn logged(mut options: Options) -> Options {
    options.set("preset", "leveled").unwrap();
    options.set("level0.shape", "ssd").unwrap();
    options.memtable.bytes_max = options.memtable.bytes_max.max(64 << 10);
    options
}

/// The error that names a family that is not there or cannot go.
fn refused<T: std::fmt::Debug>(result: Result<T>, name: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains(&format!("'{name}'")), "{error}");
}

/// The database and what must be in it.
struct Run {
    rng: Rng,
    _home: tempfile::TempDir,
    dir: PathBuf,
    options: Options,
    keys: Vec<Vec<u8>>,
    /// Whether families have a merge operator: one that appends.
    merges: bool,
    filters: Switch,
    db: Option<Db>,
    /// By name; also in the order in which they were made.
    families: Vec<(String, Content)>,
    cursors: Vec<Held>,
    scans: Vec<Going>,
    thens: Vec<Then>,
    /// Handles of families that were dropped since the database was opened, with a snapshot from
    /// before.
    gone: Vec<(ColumnFamily, Snapshot, Content)>,
}

/// Names come back: more families are made than there are names.
const NAMES: &[&str] = &["one", "two", "three", "four", "five", ""];

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
        let options = match seed % 4 {
            1 => logged(options(&mut rng)),
            _ => options(&mut rng),
        };
        let keys = hostile_keys(&mut rng);
        let dir = home.path().join("db");
        let mut run = Run {
            rng,
            dir,
            options,
            keys,
            merges: seed % 3 != 2,
            filters: Switch::default(),
            db: None,
            families: vec![("default".into(), Content::default())],
            cursors: Vec::new(),
            scans: Vec::new(),
            thens: Vec::new(),
            gone: Vec::new(),
            _home: home,
        };
        run.db = Some(run.open(run.options.clone()));
        let own = run.own_options();
        run.db().column_family("default", own).unwrap();
        run
    }

    /// Those of a new family.
    fn own_options(&self) -> CfOptions {
        match self.merges {
            true => CfOptions::default().merge_operator(Append::new("").name()),
            false => CfOptions::default(),
        }
    }

    /// Merges one operand, or so many that a list of versions is a chain.
    fn merge(&mut self, i: usize, family: &ColumnFamily, key: &[u8]) {
        if !self.merges {
            refused(family.merge(key, "v"), family.name());
            return;
        }
        let many = *self.rng.pick(&[1, 1, 1, 2, 40]);
        for _ in 0..many {
            let mut operand = value(&mut self.rng);
            operand.truncate(if many > 2 { 20 } else { 65_536 });
            family.merge(key, &operand).unwrap();
            self.families[i].1.merge(key, &operand);
        }
    }

    /// Opens the database, with filters where nothing is merged: of a value that is made of parts they may see one.
    fn open(&self, options: Options) -> Db {
        let builder = Db::builder(&self.dir).options(options);
        let builder = match self.merges {
            true => builder,
            false => self.filters.given(builder),
        };
        builder.open().unwrap()
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
        let family = family.expect("it was made");
        let reverse = self.families[i].1.reverse;
        assert_eq!(family.options(), self.own_options().reverse(reverse));
        (i, family)
    }

    fn step(&mut self) {
        let (i, family) = self.family();
        let key = self.key();
        match self.rng.below(100) {
            0..3 => self.delete_range(i, &family),
            3..30 => {
                let value = value(&mut self.rng);
                family.put(&key, &value).unwrap();
                self.families[i].1.map().insert(key, value);
            }
            30..34 => self.merge(i, &family, &key),
            34..40 => {
                family.delete(&key).unwrap();
                self.families[i].1.map().remove(&key);
            }
            40..50 => self.batch(),
            50..60 => {
                let got = family.get(&key).unwrap();
                let content = &self.families[i].1;
                let expected = content.map.get(&key);
                assert!(got.as_deref() == expected.map(|v| &v[..]), "{}", head(&key));
                content.check_metadata(family.metadata());
                self.multi_get();
            }
            60..70 => {
                let scan = self.scan(i, &family);
                self.scans.push(scan);
            }
            70..74 => self.cursors.push(Held {
                cursor: family.cursor().unwrap(),
                content: self.families[i].1.clone(),
                at: None,
            }),
            74..84 => self.move_cursor(),
            84..94 => self.go_on_scanning(),
            94 => self.make_family(),
            95 => {
                drop(family);
                self.drop_family();
            }
            96 => self.take_snapshot(),
            99 => self.look_back(),
            97 => {
                // It is a handle too.
                drop(family);
                self.reopen();
            }
            98 if self.rng.one_in(2) => {
                drop(family);
                self.reopen_for_reading();
            }
            _ => {
                self.check_metrics();
                self.move_down(i, &family);
            }
        }
    }

    /// Flushes, compacts, or follows the changes since a moment ago.
    fn move_down(&mut self, i: usize, family: &ColumnFamily) {
        match self.rng.below(5) {
            0 => self.db().flush().unwrap(),
            1 if !self.merges => self.compact_filtered(family),
            1 => family.compact::<&[u8]>(..).unwrap(),
            2 => {
                // What is to be merged may find no room.
                let merged = family.compact_level0().map_err(|error| error.kind());
                assert!(
                    merged
                        .err()
                        .is_none_or(|kind| kind == ErrorKind::OutOfSpace)
                );
            }
            3 => {
                let (begin, end) = self.range(i);
                let refused = self.families[i].1.is_upside_down(&begin, &end);
                let size = family.approximate_size((begin.clone(), end.clone()));
                let compacted = family.compact((begin, end));
                for error in [size.err(), compacted.err()] {
                    let kind = error.map(|error| error.kind());
                    assert_eq!(kind, refused.then_some(ErrorKind::InvalidArgument));
                }
            }
            _ => self.follow(i, family),
        }
    }

    /// A change feed gives a batch as it was written; or says that it is gone.
    fn follow(&mut self, i: usize, family: &ColumnFamily) {
        let since = self.db().metrics().seqno_durable;
        let mut feed = self.db().changes_since(since).unwrap();
        assert!(feed.next().is_none(), "nothing was written since");
        let (one, other) = (self.key(), self.key());
        let value = vec![b'f'; self.rng.below(6000)];
        let mut batch = self.db().batch();
        batch.put_cf(family, &one, &value).delete_cf(family, &other);
        batch.commit(Durability::Immediate).unwrap();
        let map = self.families[i].1.map();
        map.insert(one.clone(), value.clone());
        map.remove(&other);
        let mut changes = Vec::new();
        for group in feed.by_ref() {
            let group = group.unwrap();
            assert_eq!(group.first(), since + 1);
            for change in group.changes() {
                let change = change.unwrap();
                match change.op {
                    ChangeOp::Put { key, value } => {
                        changes.push((key.to_vec(), Some(value.to_vec())))
                    }
                    ChangeOp::Delete { key } => changes.push((key.to_vec(), None)),
                    op => panic!("{op:?}"),
                }
            }
        }
        assert!(
            changes == [(one, Some(value)), (other, None)],
            "a feed gives something else"
        );
    }

    /// Mostly a few keys of those that there are.
    fn range(&mut self, i: usize) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        if self.rng.one_in(6) {
            return (self.bound(), self.bound());
        }
        let begin = self.bound();
        let content = &self.families[i].1;
        let from = content.between(begin.as_ref().map(Vec::as_slice), Bound::Unbounded);
        let most = self.rng.below(12);
        let end = match from.into_iter().take(most).next_back() {
            Some((key, _)) if self.rng.one_in(2) => Bound::Included(key),
            Some((key, _)) => Bound::Excluded(key),
            None => match &begin {
                Bound::Included(key) | Bound::Excluded(key) => Bound::Excluded(key.clone()),
                Bound::Unbounded => self.bound(),
            },
        };
        (begin, end)
    }

    fn delete_range(&mut self, i: usize, family: &ColumnFamily) {
        if self.rng.one_in(8) {
            let mut prefix = self.key();
            prefix.truncate(2 + self.rng.below(3));
            family.delete_prefix(&prefix).unwrap();
            let map = self.families[i].1.map();
            map.retain(|key, _| !key.starts_with(&prefix));
            return;
        }
        let range = self.range(i);
        let deleted = family.delete_range(range.clone());
        let sane = self.families[i].1.delete_range(&range);
        match deleted {
            Ok(()) => assert!(sane),
            Err(error) => {
                assert!(
                    !sane && error.kind() == ErrorKind::InvalidArgument,
                    "{error}"
                );
            }
        }
    }

    fn batch(&mut self) {
        let mut batch = self.db().batch();
        let mut after: Vec<Content> = self.families.iter().map(|f| f.1.clone()).collect();
        for _ in 0..self.rng.below(12) {
            let (i, family) = self.family();
            let key = self.key();
            if self.rng.one_in(4) {
                batch.delete_cf(&family, &key);
                after[i].map().remove(&key);
            } else if self.rng.one_in(8) {
                let range = self.range(i);
                if after[i].delete_range(&range) {
                    batch.delete_range_cf(&family, range);
                }
            } else if self.rng.one_in(4) {
                let blob = vec![key.len().to_le_bytes()[0]; self.rng.below(300)];
                match i {
                    0 => batch.set_metadata(&blob),
                    _ => batch.set_metadata_cf(&family, &blob),
                };
                after[i].metadata = Some(blob.into());
            } else if self.merges && self.rng.one_in(3) {
                let mut operand = value(&mut self.rng);
                operand.truncate(30_000);
                batch.merge_cf(&family, &key, &operand);
                after[i].merge(&key, &operand);
            } else {
                let mut value = value(&mut self.rng);
                value.truncate(200_000);
                batch.put_cf(&family, &key, &value);
                after[i].write(key, value, false);
            }
        }
        if self.rng.one_in(8) {
            // Never committed.
            return;
        }
        if let Err(error) = batch.commit(Durability::Immediate) {
            // There are as many memtables as can be, and a batch would be one more.
            assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
            assert!(error.to_string().contains("item_bytes_max"), "{error}");
            return;
        }
        assert!(batch.is_empty());
        for (family, content) in self.families.iter_mut().zip(after) {
            family.1 = content;
        }
    }

    fn make_family(&mut self) {
        let name = *self.rng.pick(NAMES);
        let order = *self.rng.pick(&[None, Some(false), Some(true)]);
        let options = match order {
            Some(reverse) => self.own_options().reverse(reverse),
            None => self.own_options(),
        };
        let made = self.db().column_family(name, options);
        let there = self.families.iter().find(|f| f.0 == name);
        let fits = match there {
            Some((_, content)) => order.is_none_or(|reverse| reverse == content.reverse),
            None => !name.is_empty(),
        };
        assert_eq!(made.is_ok(), fits, "{made:?}");
        if fits && there.is_none() {
            let content = Content {
                reverse: order == Some(true),
                ..Content::default()
            };
            self.families.push((name.into(), content));
        }
    }

    fn drop_family(&mut self) {
        let i = self.rng.below(self.families.len());
        let name = self.families[i].0.clone();
        if i == 0 {
            refused(self.db().drop_column_family(&name), &name);
            return;
        }
        let handle = self.db().find_column_family(&name).expect("it was made");
        let before = self.db().snapshot();
        self.db().drop_column_family(&name).unwrap();
        assert!(self.db().find_column_family(&name).is_none());
        refused(self.db().drop_column_family(&name), &name);
        let (_, content) = self.families.remove(i);
        self.gone.push((handle, before, content));
    }

    fn take_snapshot(&mut self) {
        let now = self.db().snapshot();
        let each = |(name, content): &(String, Content)| {
            let family = self.db().find_column_family(name).expect("it was made");
            (now.column_family(&family).unwrap(), content.clone())
        };
        self.thens
            .push(Then(self.families.iter().map(each).collect()));
        if self.thens.len() > 3 {
            self.thens.remove(0);
        }
    }

    /// Old snapshots show what they saw; handles of what is gone are refused, and show it at a
    /// snapshot from before.
    fn look_back(&mut self) {
        let key = self.key();
        for then in &self.thens {
            then.check(&mut self.rng, &key);
        }
        let now = self.db().snapshot();
        for (handle, before, content) in &self.gone {
            let name = handle.name();
            refused(handle.put(&key, "v"), name);
            refused(handle.delete(&key), name);
            refused(handle.get(&key), name);
            refused(handle.metadata(), name);
            refused(handle.cursor(), name);
            refused(handle.multi_get([&key]), name);
            refused(now.column_family(handle), name);
            refused(self.db().multi_get_cf([(handle, &key)]), name);
            let mut scan = handle.prefix("n");
            refused(scan.next().expect("an error"), name);
            assert!(scan.next().is_none() && scan.next_back().is_none());
            let mut batch = self.db().batch();
            batch.put("never", "written").set_metadata_cf(handle, "m");
            refused(batch.commit(Durability::Immediate), name);
            let then = before.column_family(handle).unwrap();
            Then(vec![(then, content.clone())]).check(&mut self.rng, &key);
        }
    }

    /// Several families at one moment.
    fn multi_get(&mut self) {
        let mut asked = Vec::new();
        for _ in 0..self.rng.below(6) {
            let (i, family) = self.family();
            let key = self.key();
            asked.push((i, family, key));
        }
        let keys = asked.iter().map(|(_, family, key)| (family, key));
        let got = self.db().multi_get_cf(keys).unwrap();
        for ((i, _, key), got) in asked.iter().zip(&got) {
            let expected = self.families[*i].1.map.get(key).map(|v| &v[..]);
            assert!(got.as_deref() == expected, "{}", head(key));
        }
        // All of them are under way at once.
        let each = asked.iter().map(|(_, family, key)| family.get_async(key));
        let each: Vec<_> = each.collect();
        let keys = asked.iter().map(|(_, family, key)| (family, key));
        let together = self.db().multi_get_cf_async(keys);
        assert!(block_on(together).unwrap() == got);
        for (read, got) in each.into_iter().zip(got) {
            assert!(block_on(read).unwrap() == got);
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
        let content = self.families[i].1.clone();
        if self.rng.one_in(4) {
            let mut prefix = self.key();
            prefix.truncate(self.rng.below(4));
            let mut left = Going::all(family.prefix(&prefix), &content);
            left.left.retain(|(key, _)| key.starts_with(&prefix));
            return left;
        }
        let (begin, end) = (self.bound(), self.bound());
        let mut scan = family.range((begin.clone(), end.clone()));
        if content.is_upside_down(&begin, &end) {
            let error = scan.next().map(|entry| entry.map(drop));
            let error = error.expect("it is refused").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            assert!(scan.next().is_none());
            return Going::all(family.iter(), &content);
        }
        let begin = begin.as_ref().map(Vec::as_slice);
        let left = content.between(begin, end.as_ref().map(Vec::as_slice));
        Going { scan, left }
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
        // They are handles too.
        self.gone.clear();
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
        for then in &self.thens {
            then.check(&mut self.rng, b"n");
        }
        if self.rng.one_in(2) {
            self.cursors.clear();
            self.thens.clear();
        }
    }

    fn reopen(&mut self) {
        self.leave();
        // Where records lie was decided when the database was made.
        self.options = self.redrawn();
        self.db = Some(self.open(self.options.clone()));
        self.compare();
    }

    /// Other options. Where records lie was decided when the database was made.
    fn redrawn(&mut self) -> Options {
        let drawn = options(&mut self.rng);
        match self.options.preset == drawn.preset {
            true => drawn,
            false => logged(drawn),
        }
    }

    fn reopen_for_reading(&mut self) {
        self.leave();
        let options = Options {
            read_only: true,
            ..self.redrawn()
        };
        self.db = Some(self.open(options));
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
        self.db = Some(self.open(self.options.clone()));
    }

    fn compare(&mut self) {
        let names: Vec<String> = self.families.iter().map(|f| f.0.clone()).collect();
        assert_eq!(self.db().column_families(), names);
        for (name, content) in self.families.clone() {
            let family = self.db().find_column_family(&name).unwrap();
            assert_eq!(family.options().reverse, Some(content.reverse));
            assert!(Going::all(family.iter(), &content).take(&mut self.rng, usize::MAX));
            let key = self.key();
            let expected = content.map.get(&key).map(|v| &v[..]);
            assert!(family.get(&key).unwrap().as_deref() == expected);
            content.check_metadata(family.metadata());
        }
    }

    fn check_metrics(&self) {
        let metrics = self.db().metrics();
        assert_eq!(metrics.seqno_durable, metrics.seqno_visible);
        assert!(metrics.region_bytes <= metrics.pm_limit_bytes);
    }
}

fn run(seed: u64) {
    let _replay = Replay::new("-p thermocline --test model", seed);
    let mut run = Run::new(seed);
    for _ in 0..STEPS {
        run.step();
    }
    run.compare();
    run.reopen();
}

#[test]
fn it_is_a_map() {
    for seed in seeds(0..explored(12, 24)) {
        run(seed);
    }
}

#[test]
fn it_is_still_a_map() {
    for seed in seeds(1000..1000 + explored(12, 24)) {
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
