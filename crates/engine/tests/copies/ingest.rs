//! Tables from outside, and tables for others.

use std::collections::BTreeMap;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use thermocline_base::step::{Observer, When};
use thermocline_base::{CfId, ErrorKind, FileId, Kind, SeqNo, Steps, WriteBatch};
use thermocline_engine::{Durability, Engine, Family, IngestWriter, Snapshot};
use thermocline_env::sim::SimFs;
use thermocline_env::sites::NAME_CHANGED;
use thermocline_env::{Env, OpenMode, Storage};
use thermocline_sst::{Identity, KeyRef, TableWriter, Value, WriteOptions};
use thermocline_testkit::explore::explored;
use thermocline_testkit::{Replay, Rng, seeds};

use crate::machine::{Pairs, Place, both, disk, dump, options, path, put, write_some};

pub fn writer(storage: &Arc<dyn Storage>, name: &str) -> IngestWriter {
    let env = Env {
        storage: storage.clone(),
        ..Env::real()
    };
    IngestWriter::create(&env, path(name)).unwrap()
}

/// The bounds of everything.
pub const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Unbounded, Unbounded);

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn now(engine: &Engine, family: Family) -> Map {
    let (pairs, _) = dump(engine).remove(name_of(family)).unwrap();
    pairs.into_iter().collect()
}

/// Says of a difference no more than the first key.
fn same(found: &Map, expected: &Map) {
    let keys = found.keys().chain(expected.keys());
    let mut other = keys.filter(|key| found.get(*key) != expected.get(*key));
    assert_eq!(other.next(), None);
}

fn name_of(family: Family) -> &'static str {
    match family.reverse {
        false => "default",
        true => "down",
    }
}

fn then(snapshot: &Snapshot, family: Family) -> Pairs {
    let mut cursor = snapshot.cursor(family).unwrap();
    let mut pairs = Pairs::new();
    let mut more = cursor.seek_to_first().unwrap();
    while more {
        let (key, value) = (cursor.key().to_vec(), cursor.value().to_vec());
        let found = snapshot.get(family.id, &key, <[u8]>::to_vec).unwrap();
        assert_eq!(found.as_ref(), Some(&value));
        pairs.push((key, value));
        more = cursor.next().unwrap();
    }
    pairs
}

#[test]
fn what_is_ingested_is_newer_than_all_before_and_older_than_all_after() {
    for seed in seeds(0..explored(10, 25)) {
        let _replay = Replay::new("-p thermocline-engine --test copies what_is_ingested", seed);
        let mut rng = Rng::new(seed);
        let disk = disk();
        let place = Place::new(&disk, "/db");
        let mut engine = place.open();
        let families = both(&engine);
        let mut held: Vec<(Snapshot, Family, Pairs)> = Vec::new();
        for n in 0..12 {
            write_some(&engine, &mut rng, 25);
            let family = *rng.pick(&families);
            let mut model = now(&engine, family);
            let snapshot = engine.snapshot();
            let before = then(&snapshot, family);
            held.push((snapshot, family, before));
            let mut names = Vec::new();
            let mut keys: Vec<Vec<u8>> = (0..60u8).map(|k| vec![k]).collect();
            keys.extend((0..60u8).map(|k| vec![b'k', k]));
            keys.sort();
            // One or two tables of disjoint ranges, given in any order.
            let parts: Vec<&[Vec<u8>]> = match rng.below(2) {
                0 => vec![&keys],
                _ => vec![&keys[40..], &keys[..40]],
            };
            for (i, part) in parts.into_iter().enumerate() {
                let name = format!("/t{n}-{i}.sst");
                let mut table = writer(&disk, &name);
                let mut starts: Vec<usize> = (0..rng.below(4))
                    .map(|_| rng.below(part.len() - 1))
                    .collect();
                starts.sort_unstable();
                starts.dedup();
                for start in starts {
                    // Short ones, and some that overlap.
                    let most = (part.len() - 1 - start).min(20);
                    let (start, end) = (&part[start], &part[start + 1 + rng.below(most)]);
                    table.delete_range(start, end).unwrap();
                    model.retain(|key, _| !(start..end).contains(&key));
                }
                for key in part {
                    match rng.below(5) {
                        0 => {
                            let value = vec![n; rng.below(200)];
                            table.put(key, &value).unwrap();
                            model.insert(key.clone(), value);
                        }
                        1 => {
                            table.delete(key).unwrap();
                            model.remove(key);
                        }
                        _ => {}
                    }
                }
                table.finish().unwrap();
                names.push(name);
            }
            let seqno = engine.ingest(family.id, &names).unwrap().seqno;
            assert_eq!(engine.visible().0, seqno);
            same(&now(&engine, family), &model);
            for (snapshot, family, before) in &held {
                assert_eq!(then(snapshot, *family), *before);
            }
            // What is written on is newer.
            put(&engine, family.id, b"k\x07", b"after");
            model.insert(b"k\x07".to_vec(), b"after".to_vec());
            same(&now(&engine, family), &model);
            match rng.below(5) {
                0 => {
                    engine.close().unwrap();
                    held.clear();
                    drop(engine);
                    engine = place.open();
                }
                1 => assert!(engine.flush().is_ok()),
                2 => engine.compact(family.id, (Unbounded, Unbounded)).unwrap(),
                3 => drop(held.remove(rng.below(held.len()))),
                _ => {}
            }
            same(&now(&engine, family), &model);
        }
        drop(held);
        drop(engine);
        place.verify();
    }
}

#[test]
fn what_is_exported_can_be_ingested_elsewhere() {
    let disk = disk();
    let (a, b) = (Place::new(&disk, "/a"), Place::new(&disk, "/b"));
    let engine = a.open();
    write_some(&engine, &mut Rng::new(9), 200);
    let other = b.open();
    for (from, to) in both(&engine).into_iter().zip(both(&other)) {
        let name = format!("/{}.sst", name_of(from));
        let exported = engine.export(from, ALL, path(&name)).unwrap();
        let all = now(&engine, from);
        assert_eq!(exported.entries, all.len() as u64);
        let ingested = other.ingest(to.id, &[&name]).unwrap();
        assert_eq!((ingested.entries, ingested.tables), (exported.entries, 1));
        assert_eq!(now(&other, to), all);
        assert_eq!(
            engine.export(from, ALL, path(&name)).unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
        // A range, in the family's order.
        let (low, high) = (b"k".to_vec(), b"kk\x20".to_vec());
        let (first, last) = match from.reverse {
            false => (&low, &high),
            true => (&high, &low),
        };
        let name = format!("/{}-range.sst", name_of(from));
        engine
            .export(
                from,
                (Included(first.as_slice()), Excluded(last.as_slice())),
                path(&name),
            )
            .unwrap();
        let third = Place::new(&disk, &format!("/third-{}", name_of(from))).open();
        third.ingest(CfId::DEFAULT, &[&name]).unwrap();
        let within = |key: &Vec<u8>| match from.reverse {
            false => low <= *key && *key < high,
            true => low < *key && *key <= high,
        };
        let expected: Map = all.into_iter().filter(|(key, _)| within(key)).collect();
        assert!(expected.len() > 5);
        assert_eq!(now(&third, Family::DEFAULT), expected);
    }
    let names = disk.list(path("/")).unwrap();
    assert!(
        names.iter().all(|name| !name.ends_with(".part")),
        "{names:?}"
    );
}

/// A table of another store, with several versions of its keys; an empty one; none at all.
#[test]
fn any_table_will_do_and_the_newest_version_counts() {
    let disk = disk();
    let other = Place::new(&disk, "/other");
    let engine = other.open();
    let snapshots: Vec<_> = (0..5u8)
        .map(|n| {
            put(&engine, CfId::DEFAULT, b"many", &[n]);
            put(&engine, CfId::DEFAULT, &[n], b"one");
            engine.snapshot()
        })
        .collect();
    engine.flush().unwrap();
    drop(snapshots);
    let foreign = other.dir.join(&other.tables()[0]);
    let engine = Place::new(&disk, "/db").open();
    put(&engine, CfId::DEFAULT, b"many", b"old");
    let ingested = engine.ingest(CfId::DEFAULT, &[&foreign]).unwrap();
    assert_eq!(ingested.entries, 6);
    let many = engine.get(CfId::DEFAULT, b"many", <[u8]>::to_vec).unwrap();
    assert_eq!(many.unwrap(), [4]);
    writer(&disk, "/empty.sst").finish().unwrap();
    let before = engine.visible();
    let nothing = engine.ingest(CfId::DEFAULT, &["/empty.sst"]).unwrap();
    assert_eq!((nothing.entries, nothing.tables), (0, 0));
    engine.ingest::<&str>(CfId::DEFAULT, &[]).unwrap();
    assert_eq!(engine.visible(), before);
}

/// Versions and range tombstones of a table count as of the newest of them, and then get one seqno.
#[test]
fn of_a_table_s_range_tombstones_the_newest_counts() {
    let disk = disk();
    let identity = Identity::new([9; 16], FileId(3));
    let options = WriteOptions::default();
    let mut foreign =
        TableWriter::create(&*disk, path("/t.sst"), identity, CfId(7), options).unwrap();
    let mut add = |key: &[u8], seqno, kind, value: &[u8]| {
        let key = KeyRef::new(key, SeqNo(seqno));
        foreign.add(key, kind, Value::Inline(value)).unwrap();
    };
    add(b"b", 9, Kind::Put, b"above");
    add(b"c", 3, Kind::Put, b"hidden");
    add(b"d", 9, Kind::Delete, b"");
    add(b"d", 4, Kind::Put, b"older");
    add(b"f", 6, Kind::Put, b"between");
    add(b"f", 4, Kind::Put, b"older");
    // From b to e at 5, from d to g at 7 and at 2, and one that is apart.
    add(b"b", 5, Kind::RangeDelete, b"e");
    add(b"d", 7, Kind::RangeDelete, b"g");
    add(b"d", 2, Kind::RangeDelete, b"g");
    add(b"m", 2, Kind::RangeDelete, b"n");
    foreign.finish().unwrap();
    let place = Place::new(&disk, "/db");
    let engine = place.open();
    for key in [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"m", b"n"] {
        put(&engine, CfId::DEFAULT, key, b"old");
    }
    let before = engine.snapshot();
    let ingested = engine.ingest(CfId::DEFAULT, &["/t.sst"]).unwrap();
    assert_eq!((ingested.entries, ingested.ranges), (2, 2));
    let left = [
        (b"a", &b"old"[..]),
        (b"b", b"above"),
        (b"g", b"old"),
        (b"n", b"old"),
    ];
    let left: Map = left
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .into();
    same(&now(&engine, Family::DEFAULT), &left);
    assert_eq!(then(&before, Family::DEFAULT).len(), 9);
    // A later one, of which the range ends where another table begins.
    let mut low = writer(&disk, "/low.sst");
    low.delete_range(b"a", b"g").unwrap();
    low.finish().unwrap();
    table(&disk, "/high.sst", &[b"g"]);
    engine
        .ingest(CfId::DEFAULT, &["/high.sst", "/low.sst"])
        .unwrap();
    let left: Map = [(b"g", b"new"), (b"n", b"old")]
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .into();
    for _ in 0..2 {
        same(&now(&engine, Family::DEFAULT), &left);
        engine
            .compact(CfId::DEFAULT, (Unbounded, Unbounded))
            .unwrap();
    }
    assert_eq!(then(&before, Family::DEFAULT).len(), 9);
    drop(before);
    drop(engine);
    place.verify();
}

fn table(disk: &Arc<dyn Storage>, name: &str, keys: &[&[u8]]) {
    let mut table = writer(disk, name);
    keys.iter().for_each(|key| table.put(key, b"new").unwrap());
    table.finish().unwrap();
}

#[test]
fn what_cannot_be_ingested_is_refused_and_named() {
    let disk = disk();
    let place = Place::new(&disk, "/db");
    let engine = place.open();
    put(&engine, CfId::DEFAULT, b"k", b"v");
    let expected = dump(&engine);
    let refused = |tables: &[&str], kind: ErrorKind, says: &[&str]| {
        let error = engine.ingest(CfId::DEFAULT, tables).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        for says in says {
            assert!(error.to_string().contains(says), "{error}");
        }
        assert_eq!(dump(&engine), expected);
        assert!(place.tables().is_empty());
    };
    table(&disk, "/a.sst", &[b"a", b"m"]);
    table(&disk, "/b.sst", &[b"b", b"c"]);
    table(&disk, "/c.sst", &[b"m", b"z"]);
    refused(
        &["/a.sst", "/b.sst"],
        ErrorKind::InvalidArgument,
        &["/a.sst", "/b.sst", "overlap"],
    );
    refused(
        &["/c.sst", "/a.sst"],
        ErrorKind::InvalidArgument,
        &["/a.sst", "/c.sst"],
    );
    refused(
        &["/a.sst", "/a.sst"],
        ErrorKind::InvalidArgument,
        &["/a.sst"],
    );
    refused(&["/none.sst"], ErrorKind::Io, &["/none.sst"]);
    drop(disk.open(path("/zero.sst"), OpenMode::CreateNew).unwrap());
    refused(&["/zero.sst"], ErrorKind::Corruption, &["/zero.sst"]);
    let with = |name: &str, kind, value: Value<'_>| {
        let identity = Identity::new([9; 16], FileId(3));
        let options = WriteOptions::default();
        let mut table =
            TableWriter::create(&*disk, path(name), identity, CfId(7), options).unwrap();
        table.add(KeyRef::new(b"x", SeqNo(8)), kind, value).unwrap();
        table.finish().unwrap();
    };
    with("/range.sst", Kind::RangeDelete, Value::Inline(b"y"));
    refused(
        &["/c.sst", "/range.sst"],
        ErrorKind::InvalidArgument,
        &["/c.sst", "/range.sst", "overlap"],
    );
    with("/merge.sst", Kind::Merge, Value::Inline(b"y"));
    refused(&["/merge.sst"], ErrorKind::Unsupported, &["merge operands"]);
    // Damage anywhere.
    let file = disk.open(path("/b.sst"), OpenMode::ReadWrite).unwrap();
    for at in 0..file.len().unwrap() {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_at(&[byte[0] ^ 4], at).unwrap();
        let error = engine.ingest(CfId::DEFAULT, &["/b.sst"]).unwrap_err();
        assert!(error.to_string().contains("/b.sst"), "byte {at}: {error}");
        file.write_at(&byte, at).unwrap();
    }
    assert_eq!(dump(&engine), expected);
    engine.ingest(CfId::DEFAULT, &["/b.sst", "/c.sst"]).unwrap();
    let [_, down] = both(&engine);
    engine.drop_family("down").unwrap();
    let error = engine.ingest(down.id, &["/a.sst"]).unwrap_err();
    assert!(error.to_string().contains("was dropped"), "{error}");
    engine.close().unwrap();
    drop(engine);
    let mut reading = options();
    reading.read_only = true;
    let engine = place.try_open(&reading).unwrap();
    let error = engine.ingest(CfId::DEFAULT, &["/a.sst"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_table_is_written_in_order_or_not_at_all() {
    let disk = disk();
    let mut table = writer(&disk, "/t.sst");
    table.put(b"b", b"1").unwrap();
    for key in [&b"a"[..], b"b"] {
        assert_eq!(
            table.put(key, b"").unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
        assert_eq!(
            table.delete(key).unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
    }
    let long = vec![0; 70_000];
    assert_eq!(
        table.put(&long, b"").unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    table.delete_range(b"d", b"f").unwrap();
    for (start, end) in [(b"d", b"g"), (b"c", b"g"), (b"e", b"e"), (b"f", b"e")] {
        let error = table.delete_range(start, end).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    table.put(b"c", b"2").unwrap();
    assert_eq!(disk.list(path("/")).unwrap(), ["t.sst.part"]);
    let env = Env {
        storage: disk.clone(),
        ..Env::real()
    };
    let error = IngestWriter::create(&env, path("/t.sst")).unwrap_err();
    assert!(error.to_string().contains("t.sst.part"), "{error}");
    drop(table);
    assert!(disk.list(path("/")).unwrap().is_empty());
    let table = writer(&disk, "/t.sst");
    drop(disk.open(path("/t.sst"), OpenMode::CreateNew).unwrap());
    assert_eq!(
        table.finish().unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert_eq!(disk.list(path("/")).unwrap(), ["t.sst"]);
}

/// Somebody makes a file of that name just before the table gets it. An engine that looks whether the name is free and then
/// renames would replace that file.
#[test]
fn a_table_never_replaces_a_file_that_is_made_meanwhile() {
    let fs = SimFs::new(Steps::new());
    let disk: Arc<dyn Storage> = Arc::new(fs.clone());
    let mut table = writer(&disk, "/t.sst");
    table.put(b"a", b"1").unwrap();
    let other = fs.clone();
    let observer: Observer = Arc::new(move |point| {
        if (point.site, point.when) == (NAME_CHANGED, When::Before) {
            other.install(path("/t.sst"), b"another's");
        }
    });
    fs.steps().observe(Some(observer));
    let error = table.finish().unwrap_err();
    fs.steps().observe(None);
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("/t.sst exists"), "{error}");
    assert_eq!(fs.contents(path("/t.sst")).unwrap(), b"another's");
    assert_eq!(disk.list(path("/")).unwrap(), ["t.sst"]);
}

/// A memtable that was flushed for an ingestion, and is still named when a process is killed, does not come
/// back when compactions have forgotten all that tables said of it.
#[test]
fn what_was_flushed_stays_flushed_though_its_tables_have_gone() {
    let fs = SimFs::new(Steps::new());
    let disk: Arc<dyn Storage> = Arc::new(fs.clone());
    let place = Place::new(&disk, "/db");
    let engine = place.open();
    put(&engine, CfId::DEFAULT, b"k", b"v");
    let mut table = writer(&disk, "/t.sst");
    table.delete(b"k").unwrap();
    table.finish().unwrap();
    let held = engine.snapshot();
    engine.ingest(CfId::DEFAULT, &["/t.sst"]).unwrap();
    drop(held);
    engine.compact(CfId::DEFAULT, ALL).unwrap();
    assert!(place.tables().is_empty());
    assert!(now(&engine, Family::DEFAULT).is_empty());
    let killed = Place {
        storage: Arc::new(fs.image_killed(Steps::new())),
        pm: place.pm.fork(Steps::new()),
        ..place.clone()
    };
    assert!(now(&killed.open(), Family::DEFAULT).is_empty());
    let seqno = engine.visible();
    let again = killed.open();
    put(&again, CfId::DEFAULT, b"l", b"w");
    assert!(again.visible() > seqno);
}

/// Beside writers, readers and flushes: all of a call shows at once, and time goes forward.
#[test]
fn writers_and_readers_go_on_beside_an_ingestion() {
    let disk = disk();
    let place = Place::new(&disk, "/db");
    let engine = place.open();
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    // Keys "a" and "b" get equal numbers from the tables; "own" is the writer's, as is "race".
    std::thread::scope(|scope| {
        let writer_thread = scope.spawn(|| {
            let mut n = 0u64;
            while !stop.load(Ordering::SeqCst) {
                n += 1;
                let mut batch = WriteBatch::new();
                batch.put(CfId::DEFAULT, b"own", &n.to_be_bytes()).unwrap();
                batch.put(CfId::DEFAULT, b"race", &n.to_be_bytes()).unwrap();
                batch
                    .put(CfId::DEFAULT, &n.to_be_bytes(), &[1; 60])
                    .unwrap();
                match engine.write(batch.iter(), Durability::Immediate) {
                    Ok(_) => written.store(n, Ordering::SeqCst),
                    Err(full) => {
                        assert_eq!(full.kind(), ErrorKind::OutOfSpace);
                        engine.flush().unwrap();
                        n -= 1;
                    }
                }
            }
        });
        let reader = scope.spawn(|| {
            let (mut last, mut last_own) = (None, None);
            while !stop.load(Ordering::SeqCst) {
                let read = |key: &[u8]| engine.get(CfId::DEFAULT, key, <[u8]>::to_vec).unwrap();
                let (got, own) = (read(b"a"), read(b"own"));
                assert!(got >= last && own >= last_own, "time went back");
                let snapshot = engine.snapshot();
                let at = |key: &[u8]| snapshot.get(CfId::DEFAULT, key, <[u8]>::to_vec).unwrap();
                let (a, own) = (at(b"a"), at(b"own"));
                assert!(a >= got, "a snapshot is older than a get before it");
                assert_eq!(a, at(b"b"), "half of what was ingested");
                std::thread::yield_now();
                assert_eq!((a.clone(), own.clone()), (at(b"a"), at(b"own")));
                (last, last_own) = (a, own);
            }
        });
        for i in 1..=12u8 {
            let names = [format!("/x{i}.sst"), format!("/y{i}.sst")];
            for (name, key) in names.iter().zip([&b"a"[..], b"b"]) {
                let mut table = writer(&disk, name);
                table.put(key, &[i]).unwrap();
                if key == b"b" {
                    table.put(b"race", b"ingested").unwrap();
                }
                table.finish().unwrap();
            }
            let before = written.load(Ordering::SeqCst);
            engine.ingest(CfId::DEFAULT, &names).unwrap();
            let race = engine
                .get(CfId::DEFAULT, b"race", <[u8]>::to_vec)
                .unwrap()
                .unwrap();
            if race != b"ingested" {
                let race = u64::from_be_bytes(race.try_into().unwrap());
                assert!(
                    race > before,
                    "what was written before hides what was ingested"
                );
            }
        }
        stop.store(true, Ordering::SeqCst);
        writer_thread.join().unwrap();
        reader.join().unwrap();
    });
    let expected = dump(&engine);
    engine.close().unwrap();
    drop(engine);
    assert_eq!(dump(&place.open()), expected);
    place.verify();
}

/// Of many tables few are open at a time.
#[test]
fn many_tables_are_ingested_with_few_files_open() {
    let fs = SimFs::new(Steps::new());
    let disk: Arc<dyn Storage> = Arc::new(fs.clone());
    let place = Place::new(&disk, "/db");
    let engine = place.open();
    let mut names = Vec::new();
    for n in 0..300u16 {
        let name = format!("/t{n}.sst");
        let mut table = writer(&disk, &name);
        table.put(&n.to_be_bytes(), b"v").unwrap();
        table.finish().unwrap();
        names.push(name);
    }
    fs.take_most_open();
    let ingested = engine.ingest(CfId::DEFAULT, &names).unwrap();
    assert_eq!(ingested.entries, 300);
    let open = fs.take_most_open();
    assert!(open < 30, "{open}");
}
