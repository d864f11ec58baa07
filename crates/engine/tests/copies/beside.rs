//! Copies that are made while writers write, one of them by ingesting, too, and flushes and compactions run
//! on their threads.
//!
//! What a writer does is a function of how far it has come, and each batch says how far that is. So of any
//! copy it is known what must be in it, exactly.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use thermocline_base::options::Options;
use thermocline_base::{CfId, WriteBatch};
use thermocline_engine::{Durability, Engine, World};
use thermocline_env::Storage;

use crate::backup::backups;
use crate::machine::{Place, disk};

const WRITERS: u8 = 3;

/// Keys of a writer.
const KEYS: u64 = 97;

/// What a batch does beside saying that it is the `n`th.
enum Step {
    Put(u64),
    Delete(u64),
    /// From the first up to the second.
    DeleteRange(u64, u64),
}

fn step(n: u64) -> Step {
    let key = n.wrapping_mul(0x9e37_79b9) % KEYS;
    match n % 20 {
        0 => Step::DeleteRange(key, (key + n % 31).min(KEYS)),
        1..4 => Step::Delete(key),
        _ => Step::Put(key),
    }
}

fn key(writer: u8, key: u64) -> Vec<u8> {
    [&[writer, b'k'][..], &key.to_be_bytes()].concat()
}

fn value(n: u64) -> Vec<u8> {
    n.to_le_bytes().repeat(1 + (n % 40) as usize)
}

fn batch(writer: u8, n: u64) -> WriteBatch {
    let cf = CfId::DEFAULT;
    let mut batch = WriteBatch::new();
    batch.put(cf, &[writer, b'a'], &n.to_le_bytes()).unwrap();
    match step(n) {
        Step::Put(k) => batch.put(cf, &key(writer, k), &value(n)).unwrap(),
        Step::Delete(k) => batch.delete(cf, &key(writer, k)).unwrap(),
        Step::DeleteRange(from, to) => batch
            .delete_range(cf, &key(writer, from), Some(&key(writer, to)))
            .unwrap(),
    }
    batch.put(cf, &[writer, b'z'], &n.to_le_bytes()).unwrap();
    batch
}

/// The same as a table that is ingested.
fn ingest(engine: &Engine, storage: &Arc<dyn Storage>, writer: u8, n: u64) {
    let path = format!("/t{n}.sst");
    let mut table = crate::ingest::writer(storage, &path);
    table.put(&[writer, b'a'], &n.to_le_bytes()).unwrap();
    match step(n) {
        Step::Put(k) => table.put(&key(writer, k), &value(n)).unwrap(),
        Step::Delete(k) => table.delete(&key(writer, k)).unwrap(),
        Step::DeleteRange(from, to) => {
            (from..to).for_each(|k| table.delete(&key(writer, k)).unwrap());
        }
    }
    table.put(&[writer, b'z'], &n.to_le_bytes()).unwrap();
    table.finish().unwrap();
    engine.ingest(CfId::DEFAULT, &[&path]).unwrap();
    storage.remove(path.as_ref()).unwrap();
}

/// How often a write is tried that is refused for what readers hold. Each try waits for them a quarter of a second.
const TRIES: usize = 80;

/// Who copies may get no turn inside a call, and holds for as long what was flushed: then the write is tried again.
fn write(engine: &Engine, batch: &WriteBatch, durability: Durability) {
    let mut again = 1..TRIES;
    loop {
        match engine.write(batch.iter(), durability) {
            Err(error)
                if error.to_string().contains("held by readers") && again.next().is_some() => {}
            written => return written.unwrap(),
        }
    }
}

/// Whether the first writer ingests its `n`th batch.
fn is_ingested(writer: u8, n: u64) -> bool {
    writer == 0 && n % 49 == 5
}

/// What a writer's `n`th batch has left.
fn expected(writer: u8, n: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = BTreeMap::new();
    for n in 1..=n {
        match step(n) {
            Step::Put(k) => drop(all.insert(key(writer, k), value(n))),
            Step::Delete(k) => drop(all.remove(&key(writer, k))),
            Step::DeleteRange(from, to) => {
                all.retain(|k, _| *k < key(writer, from) || *k >= key(writer, to));
            }
        }
        for end in *b"az" {
            all.insert(vec![writer, end], n.to_le_bytes().to_vec());
        }
    }
    all
}

/// Every writer's data, exactly as it was behind some batch of its, not before `acknowledged`.
fn check(engine: &Engine, acknowledged: &[u64]) {
    let mut found: BTreeMap<u8, BTreeMap<Vec<u8>, Vec<u8>>> = BTreeMap::new();
    let mut cursor = engine.cursor(thermocline_engine::Family::DEFAULT).unwrap();
    let mut more = cursor.seek_to_first().unwrap();
    while more {
        let of = found.entry(cursor.key()[0]).or_default();
        of.insert(cursor.key().to_vec(), cursor.value().to_vec());
        more = cursor.next().unwrap();
    }
    for (writer, &least) in (0..).zip(acknowledged) {
        let found = found.remove(&writer).unwrap_or_default();
        let last = found
            .get(&[writer, b'a'][..])
            .map_or(0, |n| u64::from_le_bytes(n.as_slice().try_into().unwrap()));
        assert!(
            last >= least,
            "batch {least} is missing, {last} is the last"
        );
        assert_eq!(found, expected(writer, last), "writer {writer} at {last}");
    }
    assert!(found.is_empty());
}

fn options() -> Options {
    let mut options = crate::machine::options();
    options.pm = 1 << 20;
    options.memtable.bytes_max = 16 << 10;
    options.compaction.table_bytes = 16 << 10;
    options.compaction.level0_tables = 2;
    options
}

#[test]
fn copies_are_whole_while_everything_goes_on() {
    let disk = disk();
    let place = Place {
        pm: thermocline_pm::SimPm::new(1 << 20, thermocline_base::Steps::new()),
        ..Place::new(&disk, "/db")
    };
    let world = World {
        background: true,
        ..place.world()
    };
    let engine = Engine::open(world, &place.dir, options()).unwrap();
    let stop = AtomicBool::new(false);
    let acknowledged: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for (writer, told) in (0..WRITERS).zip(&acknowledged) {
            let (engine, stop, disk) = (&engine, &stop, &disk);
            scope.spawn(move || {
                for n in 1.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let durability = match n % 3 {
                        0 => Durability::Immediate,
                        _ => Durability::Buffered,
                    };
                    match is_ingested(writer, n) {
                        true => ingest(engine, disk, writer, n),
                        false => write(engine, &batch(writer, n), durability),
                    }
                    told.store(n, Ordering::SeqCst);
                }
            });
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let all = backups(&disk, "/b");
            for i in 0..12 {
                // Writers get on between two copies.
                let far = |n: &AtomicU64| n.load(Ordering::SeqCst) >= 500 * i;
                while !acknowledged.iter().all(far) {
                    std::thread::yield_now();
                }
                let before: Vec<u64> = acknowledged
                    .iter()
                    .map(|n| n.load(Ordering::SeqCst))
                    .collect();
                let copy = Place::new(&disk, &format!("/copy{i}"));
                match i % 3 {
                    0 => {
                        let info = all.create(&engine).unwrap();
                        all.restore(Some(info.id), &copy.dir).unwrap();
                    }
                    _ => {
                        engine.checkpoint(&copy.dir).unwrap();
                    }
                }
                copy.verify();
                let copied = copy.open();
                check(&copied, &before);
                let everything = (Bound::Unbounded, Bound::Unbounded);
                copied.compact(CfId::DEFAULT, everything).unwrap();
                check(&copied, &before);
            }
            assert_eq!(all.verify().unwrap().faults, []);
        }));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = done {
            std::panic::resume_unwind(panic);
        }
    });
    let metrics = engine.metrics();
    let below = metrics.levels.iter().filter(|level| level.level > 0);
    assert!(
        metrics.flushes > 5 && below.map(|level| level.tables).sum::<u64>() > 0,
        "nothing went on beside the copies: {metrics:?}"
    );
    let last: Vec<u64> = acknowledged
        .iter()
        .map(|n| n.load(Ordering::SeqCst))
        .collect();
    check(&engine, &last);
}
