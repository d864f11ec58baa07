//! Range tombstones in all layers, against a map; that what they cover is passed over, not through; that
//! readers beside writers see batches whole; and that what is covered gives its space back.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use thermocline_base::options::Options;
use thermocline_base::{CfId, CfOptions, Kind, WriteBatch};
use thermocline_testkit::explore::explored;
use thermocline_testkit::{Replay, Rng, seeds};

use crate::tests::Machine;
use crate::{Cursor, Durability, Engine, Family, Snapshot};

mod chunks;
mod gaps;
mod keys_only;
mod prefixes;
mod stretches;
mod taken;
mod within;

const PM: u64 = 4 << 20;
const CF: CfId = CfId::DEFAULT;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> Options {
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    // What is looked at lies in files.
    options.set("level0.shape", "global-index").unwrap();
    options.pm_region.part_bytes_first = 256 << 10;
    options
}

fn open_with(machine: &Machine, options: &Options) -> Engine {
    Engine::open(machine.world(), Path::new("/db"), options.clone()).unwrap()
}

fn write(engine: &Engine, fill: impl FnOnce(&mut WriteBatch)) {
    let mut batch = WriteBatch::new();
    fill(&mut batch);
    engine.write(batch.iter(), Durability::Immediate).unwrap();
}

fn put(engine: &Engine, key: &[u8], value: &[u8]) {
    write(engine, |batch| batch.put(CF, key, value).unwrap());
}

fn delete_range(engine: &Engine, start: &[u8], end: Option<&[u8]>) {
    write(engine, |batch| batch.delete_range(CF, start, end).unwrap());
}

fn get(engine: &Engine, key: &[u8]) -> Option<Vec<u8>> {
    engine.get(CF, key, <[u8]>::to_vec).unwrap()
}

fn keys() -> Vec<Vec<u8>> {
    let key = |n: u8| vec![b'k'; usize::from(n % 3)].into_iter().chain([n]);
    let mut keys: Vec<Vec<u8>> = (0..60).map(|n| key(n).collect()).collect();
    keys.push(vec![]);
    keys.sort();
    keys
}

/// All that a cursor shows: there, back, and around each key.
fn check_cursor(mut cursor: Cursor, model: &Model) {
    let mut wanted: Vec<_> = model.iter().collect();
    if cursor.is_reverse() {
        wanted.reverse();
    }
    let at = |cursor: &Cursor, n: usize| {
        let (key, value) = wanted[n];
        assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]));
    };
    let mut more = cursor.seek_to_first().unwrap();
    for (n, (key, _)) in wanted.iter().enumerate() {
        assert!(more, "{key:?} is missing");
        at(&cursor, n);
        more = cursor.next().unwrap();
    }
    assert!(!more, "{:?} is there", cursor.key());
    let mut more = cursor.seek_to_last().unwrap();
    for (n, (key, _)) in wanted.iter().enumerate().rev() {
        assert!(more, "{key:?} is missing backwards");
        at(&cursor, n);
        more = cursor.prev().unwrap();
    }
    assert!(!more, "{:?} is there backwards", cursor.key());
    for key in keys() {
        let reverse = cursor.is_reverse();
        let before = |other: &[u8]| {
            if reverse {
                other > &key[..]
            } else {
                other < &key[..]
            }
        };
        let n = wanted.partition_point(|(other, _)| before(other));
        assert_eq!(cursor.seek(&key).unwrap(), n < wanted.len());
        if n < wanted.len() {
            at(&cursor, n);
            assert_eq!(cursor.prev().unwrap(), n > 0);
        }
        let n = wanted.partition_point(|(other, _)| before(other) || ***other == *key);
        assert_eq!(cursor.seek_for_prev(&key).unwrap(), n > 0);
        if n > 0 {
            at(&cursor, n - 1);
            assert_eq!(cursor.next().unwrap(), n < wanted.len());
        }
    }
}

fn check_now(engine: &Engine, families: &[Family], models: &[Model]) {
    for (family, model) in families.iter().zip(models) {
        for key in keys() {
            let found = engine.get(family.id, &key, <[u8]>::to_vec).unwrap();
            assert_eq!(found.as_ref(), model.get(&key), "{key:?}");
        }
        check_cursor(engine.cursor(*family).unwrap(), model);
    }
    assert_eq!(engine.metrics().dram.overdrawn, 0);
}

fn check_then(snapshot: &Snapshot, families: &[Family], models: &[Model]) {
    for (family, model) in families.iter().zip(models) {
        for key in keys() {
            let found = snapshot.get(family.id, &key, <[u8]>::to_vec).unwrap();
            assert_eq!(found.as_ref(), model.get(&key), "{key:?}");
        }
        check_cursor(snapshot.cursor(*family).unwrap(), model);
    }
}

/// A change drawn at random, added to a batch and to the model.
fn change(rng: &mut Rng, cf: CfId, batch: &mut WriteBatch, model: &mut Model) {
    let all = keys();
    let at = rng.below(all.len());
    let key = &all[at];
    match rng.below(10) {
        0..2 => {
            let most = *rng.pick(&[2, 6, 30, 100]);
            let end = all.get(at + 1 + rng.below(most));
            let end = end.map(Vec::as_slice);
            batch.delete_range(cf, key, end).unwrap();
            model.retain(|k, _| k < key || end.is_some_and(|end| &k[..] >= end));
        }
        2 => {
            batch.delete(cf, key).unwrap();
            model.remove(key);
        }
        _ => {
            let value = vec![rng.next_u64().to_le_bytes()[0]; rng.below(300)];
            batch.put(cf, key, &value).unwrap();
            model.insert(key.clone(), value);
        }
    }
}

struct Run {
    rng: Rng,
    machine: Machine,
    options: Options,
    engine: Engine,
    families: Vec<Family>,
    models: Vec<Model>,
    held: Vec<(Snapshot, Vec<Model>)>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut rng = Rng::new(seed);
        let machine = Machine::new(PM);
        let mut options = options();
        options.memtable.bytes_max = *rng.pick(&[1 << 10, 8 << 10, 64 << 10]);
        // Some batches are staged.
        options.memtable.item_bytes_max = *rng.pick(&[4 << 10, options.memtable.item_bytes_max]);
        options.read.readahead = *rng.pick(&[1, 3, 64]);
        options.memtable.replay_threads = 1 + rng.below(3) as u64;
        let engine = open_with(&machine, &options);
        let mut reverse = CfOptions::default();
        reverse.reverse = Some(true);
        let down = engine.family("down", &reverse).unwrap();
        Run {
            rng,
            machine,
            options,
            engine,
            families: vec![Family::DEFAULT, down],
            models: vec![Model::new(), Model::new()],
            held: Vec::new(),
        }
    }

    fn write(&mut self) {
        let most = *self.rng.pick(&[1, 1, 1, 12, 40]);
        let mut batch = WriteBatch::new();
        for _ in 0..=self.rng.below(most) {
            let at = self.rng.below(2);
            let cf = self.families[at].id;
            change(&mut self.rng, cf, &mut batch, &mut self.models[at]);
        }
        self.engine
            .write(batch.iter(), Durability::Immediate)
            .unwrap();
    }

    fn check(&self) {
        check_now(&self.engine, &self.families, &self.models);
        for (snapshot, models) in &self.held {
            check_then(snapshot, &self.families, models);
        }
    }

    fn step(&mut self, n: u64) {
        match self.rng.below(100) {
            0..80 => self.write(),
            80..84 => {
                let models = self.models.clone();
                self.held.push((self.engine.snapshot(), models));
            }
            84..88 if !self.held.is_empty() => {
                let n = self.rng.below(self.held.len());
                drop(self.held.remove(n));
            }
            88..92 => {
                self.engine.reclaim().unwrap();
                self.check();
            }
            92..96 => {
                self.engine.flush().unwrap();
                self.check();
            }
            96 => {
                let killed = self.machine.killed();
                self.held.clear();
                self.machine = killed;
                self.engine = open_with(&self.machine, &self.options);
                self.check();
            }
            97 => {
                self.engine.close().unwrap();
                for (snapshot, models) in &self.held {
                    check_then(snapshot, &self.families, models);
                }
                self.held.clear();
                self.engine = open_with(&self.machine, &self.options);
                self.check();
            }
            _ if n.is_multiple_of(3) => self.check(),
            _ => {}
        }
    }
}

#[test]
fn deleted_ranges_are_gone_and_nothing_else_is() {
    let mut staged = 0;
    for seed in seeds(0..explored(5, 12)) {
        let _replay = Replay::new("-p thermocline-engine deleted_ranges_are_gone", seed);
        let mut run = Run::new(seed);
        for n in 0..300 {
            run.step(n);
        }
        run.check();
        staged += u64::from(run.options.memtable.item_bytes_max == 4 << 10);
        let metrics = run.engine.metrics();
        assert!(metrics.range_deletes <= metrics.puts + 1000);
    }
    assert!(staged > 0 || std::env::var("THERMOCLINE_SEED").is_ok());
}

/// The records that a range tombstone of a newer layer covers are not even read: here they cannot be.
#[test]
fn what_a_newer_layer_covers_is_not_walked_over() {
    let machine = Machine::new(PM);
    let engine = open_with(&machine, &options());
    let key = |n: u32| n.to_be_bytes().to_vec();
    for n in 0..2000 {
        put(&engine, &key(n), &[7; 20]);
    }
    engine.inner.memtables.seal_active().unwrap();
    // In pieces that touch: one stretch.
    for (from, to) in [(500, 1000), (10, 400), (1000, 1900), (400, 500)] {
        delete_range(&engine, &key(from), Some(&key(to)));
    }
    put(&engine, &key(700), b"new");
    let memtable = engine.inner.common.catalog.view().memtables[1].clone();
    let seqno = engine.visible();
    for n in 30..1800 {
        let found = memtable.get(CF, &key(n), seqno, true).unwrap();
        let thermocline_memtable::Lookup::Record(record) = found else {
            panic!("{n} is there");
        };
        assert_eq!(record.kind, Kind::Put);
        machine.rot(record.at.plus(4));
    }
    let expected: Vec<u32> = (0..10).chain([700]).chain(1900..2000).collect();
    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
    let here = |cursor: &Cursor| u32::from_be_bytes(cursor.key().try_into().unwrap());
    let mut seen = Vec::new();
    let mut more = cursor.seek_to_first().unwrap();
    while more {
        seen.push(here(&cursor));
        more = cursor.next().unwrap();
    }
    assert_eq!(seen, expected);
    let mut more = cursor.seek_to_last().unwrap();
    while more {
        assert_eq!(Some(here(&cursor)), seen.pop());
        more = cursor.prev().unwrap();
    }
    assert!(seen.is_empty());
    assert!(cursor.seek(&key(1899)).unwrap() && here(&cursor) == 1900);
    assert!(cursor.seek_for_prev(&key(1899)).unwrap() && here(&cursor) == 700);
    assert!(cursor.prev().unwrap() && here(&cursor) == 9);
    assert_eq!(get(&engine, &key(900)), None);
}

/// The same where what is covered lies in tables, and where what covers it does.
#[test]
fn what_a_newer_layer_covers_in_tables_is_not_read() {
    for flushes in [1, 2] {
        let machine = Machine::new(PM);
        let engine = open_with(&machine, &options());
        let key = |n: u32| n.to_be_bytes().to_vec();
        for n in 0..2000 {
            put(&engine, &key(n), &[n.to_le_bytes()[0]; 40]);
        }
        engine.flush().unwrap();
        let table = machine.only_table();
        delete_range(&engine, &key(5), Some(&key(900)));
        delete_range(&engine, &key(900), Some(&key(1990)));
        put(&engine, &key(700), b"new");
        if flushes == 2 {
            engine.flush().unwrap();
        }
        // From a fifth of it on to two: key 900 lies behind.
        let len = machine.file_len(&table);
        (len / 5..len * 2 / 5).for_each(|at| machine.rot_file(&table, at));
        let expected: Vec<u32> = (0..5).chain([700]).chain(1990..2000).collect();
        let here = |cursor: &Cursor| u32::from_be_bytes(cursor.key().try_into().unwrap());
        let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
        let mut seen = Vec::new();
        let mut more = cursor.seek_to_first().unwrap();
        while more {
            seen.push(here(&cursor));
            more = cursor.next().unwrap();
        }
        assert_eq!(seen, expected, "{flushes} flushes");
        let mut more = cursor.seek_to_last().unwrap();
        while more {
            assert_eq!(Some(here(&cursor)), seen.pop(), "{flushes} flushes");
            more = cursor.prev().unwrap();
        }
        assert!(seen.is_empty());
        assert_eq!(get(&engine, &key(800)), None);
        assert_eq!(get(&engine, &key(700)).as_deref(), Some(&b"new"[..]));
    }
}

/// Range tombstones without an end, flushed where the greatest key that there can be has values.
#[test]
fn a_range_without_an_end_has_the_greatest_key_too() {
    let greatest = vec![0xff; thermocline_base::limits::KEY_LEN_MAX];
    let almost = greatest[1..].to_vec();
    for from in [&b""[..], &b"m"[..], &almost, &greatest] {
        let machine = Machine::new(PM);
        let engine = open_with(&machine, &options());
        let all = [
            b"a".to_vec(),
            b"z".to_vec(),
            almost.clone(),
            greatest.clone(),
        ];
        let mut model = Model::new();
        for key in &all {
            put(&engine, key, b"1");
            model.insert(key.clone(), b"1".to_vec());
        }
        engine.flush().unwrap();
        let before = (engine.snapshot(), model.clone());
        let check = |engine: &Engine, model: &Model| {
            for key in &all {
                assert_eq!(get(engine, key).as_ref(), model.get(key), "{}", key.len());
            }
            check_cursor(engine.cursor(Family::DEFAULT).unwrap(), model);
        };
        delete_range(&engine, from, None);
        model.retain(|key, _| &key[..] < from);
        check(&engine, &model);
        for round in 0..2 {
            engine.flush().unwrap();
            check(&engine, &model);
            check(&open_with(&machine.killed(), &options()), &model);
            check_cursor(before.0.cursor(Family::DEFAULT).unwrap(), &before.1);
            let (key, value) = (&all[3 - round], b"2".to_vec());
            put(&engine, key, &value);
            model.insert(key.clone(), value);
            check(&engine, &model);
        }
    }
}

/// What was deleted by ranges leaves nothing behind, like what was deleted one by one; the tombstones
/// themselves go, too.
#[test]
fn deleted_ranges_give_their_space_back() {
    let machine = Machine::new(1 << 20);
    let mut options = options();
    options.pm = 1 << 20;
    options.memtable.bytes_max = 16 << 10;
    let engine = open_with(&machine, &options);
    for round in 0..20u8 {
        for key in 0..40u8 {
            put(&engine, &[key], &[round; 1000]);
        }
        // Each over what the others leave.
        delete_range(&engine, &[30], None);
        delete_range(&engine, &[], Some(&[20]));
        delete_range(&engine, &[20], Some(&[30]));
    }
    put(&engine, b"last", &[1; 17_000]);
    put(&engine, b"last", &[2; 17_000]);
    engine.reclaim().unwrap();
    let metrics = engine.metrics();
    assert!(metrics.memtables.len() <= 2, "{:?}", metrics.memtables);
    assert!(metrics.memtables_dropped > 15, "{metrics:?}");
    assert_eq!((metrics.range_deletes, metrics.deletes), (60, 0));
    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
    assert!(cursor.seek_to_first().unwrap() && cursor.key() == b"last");
    assert!(!cursor.next().unwrap());
    let mut killed = open_with(&machine.killed(), &options)
        .cursor(Family::DEFAULT)
        .unwrap();
    assert!(killed.seek_to_first().unwrap() && killed.key() == b"last");
    assert!(!killed.next().unwrap());
}

/// Batches that delete what they have just put, and put what they have just deleted.
#[test]
fn a_reader_beside_writers_sees_no_batch_in_part() {
    let machine = Machine::new(PM);
    let mut options = options();
    options.memtable.bytes_max = 64 << 10;
    let engine = open_with(&machine, &options);
    write(&engine, |batch| {
        for key in [b"a", b"b"] {
            batch.put(CF, key, &0u64.to_le_bytes()).unwrap();
        }
    });
    let over = AtomicBool::new(false);
    let written = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1..=3000u64 {
                write(&engine, |batch| {
                    for key in [b"a", b"b"] {
                        batch.put(CF, key, b"never").unwrap();
                    }
                    batch.delete_range(CF, b"", Some(b"c")).unwrap();
                    for key in [b"a", b"b"] {
                        batch.put(CF, key, &n.to_le_bytes()).unwrap();
                    }
                    batch.put(CF, b"c", b"never").unwrap();
                    batch.delete_range(CF, b"c", None).unwrap();
                });
                written.store(n, Ordering::SeqCst);
            }
            over.store(true, Ordering::SeqCst);
        });
        scope.spawn(|| {
            // Others, so that groups finish in any order.
            let mut n = 0u64;
            while !over.load(Ordering::SeqCst) {
                n += 1;
                delete_range(&engine, b"d", Some(b"e"));
                if n.is_multiple_of(7) {
                    engine.reclaim().unwrap();
                }
            }
        });
        let number = |value: Vec<u8>| u64::from_le_bytes(value.try_into().expect("a number"));
        let mut rounds = 0u64;
        while !over.load(Ordering::SeqCst) || rounds == 0 {
            rounds += 1;
            let before = written.load(Ordering::SeqCst);
            let a = number(get(&engine, b"a").expect("it is there"));
            let b = number(get(&engine, b"b").expect("it is there"));
            assert!(before <= a && a <= b, "{before} {a} {b}");
            assert_eq!(get(&engine, b"c"), None);
            let snapshot = engine.snapshot();
            let read = |key: &[u8]| number(snapshot.get(CF, key, <[u8]>::to_vec).unwrap().unwrap());
            let (a, b) = (read(b"a"), read(b"b"));
            assert_eq!(a, b);
            let mut cursor = snapshot.cursor(Family::DEFAULT).unwrap();
            let mut seen = Vec::new();
            let mut more = cursor.seek_to_first().unwrap();
            while more {
                seen.push((cursor.key().to_vec(), number(cursor.value().to_vec())));
                more = cursor.next().unwrap();
            }
            assert_eq!(seen, [(b"a".to_vec(), a), (b"b".to_vec(), a)]);
        }
        assert_eq!(engine.metrics().dram.overdrawn, 0);
    });
}

/// A store with little DRAM refuses a batch of very many range deletes before anything is written, and
/// takes single ones.
#[test]
fn range_deletes_keep_the_dram_budget() {
    let machine = Machine::new(16 << 20);
    let mut options = Options {
        dram: 1 << 20,
        pm: 16 << 20,
        ..options()
    };
    options.memtable.bytes_max = 16 << 20;
    let engine = open_with(&machine, &options);
    let range = |batch: &mut WriteBatch, n: u32| {
        let (from, to) = ((2 * n).to_be_bytes(), (2 * n + 1).to_be_bytes());
        batch.delete_range(CF, &from, Some(&to)).unwrap();
    };
    let mut batch = WriteBatch::new();
    (0..20_000).for_each(|n| range(&mut batch, n));
    let error = engine
        .write(batch.iter(), Durability::Immediate)
        .unwrap_err();
    assert!(error.to_string().contains("dram"), "{error}");
    assert_eq!(engine.metrics().visible, 0, "nothing was written");
    let mut taken = 0;
    let refused = (0..20_000).find_map(|n| {
        let mut batch = WriteBatch::new();
        range(&mut batch, n);
        taken = n;
        engine.write(batch.iter(), Durability::Immediate).err()
    });
    let full = thermocline_base::ErrorKind::OutOfSpace;
    assert!(refused.is_none_or(|error| error.kind() == full));
    assert!(taken > 1000, "{taken}");
    let dram = engine.metrics().dram;
    assert_eq!(dram.overdrawn, 0);
    assert!(dram.used <= 1 << 20, "{dram:?}");
    // It opens again, if there is room for what there is.
    engine.close().unwrap();
    drop(engine);
    let engine = open_with(&machine, &options);
    assert_eq!(get(&engine, b"k"), None);
}
