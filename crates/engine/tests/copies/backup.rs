//! Backups, several of a store, whole, damaged and restored.

use std::sync::Arc;

use thermocline_base::options::{Options, Preset};
use thermocline_base::{CfId, ErrorKind, Steps};
use thermocline_engine::{Backups, Engine};
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::sim::SimFs;
use thermocline_env::{Env, OpenMode, Storage};
use thermocline_testkit::{Replay, Rng, seeds};

use crate::machine::{ALL, Place, disk, dump, path, put, write_some};

pub fn backups(storage: &Arc<dyn Storage>, dir: &str) -> Backups {
    let env = Env {
        storage: storage.clone(),
        ..Env::real()
    };
    Backups::new(env, path(dir))
}

fn files(storage: &Arc<dyn Storage>, dir: &str) -> Vec<String> {
    let mut names = storage.list(path(dir)).unwrap();
    names.retain(|name| name.ends_with(".sst") || name.ends_with(".blob"));
    names
}

#[test]
fn every_backup_is_the_store_of_its_moment() {
    for seed in seeds(0..12) {
        let _replay = Replay::new("-p thermocline-engine --test copies every_backup_is", seed);
        let mut rng = Rng::new(seed);
        let disk = disk();
        let place = Place::new(&disk, "/db");
        let all = backups(&disk, "/far/backups");
        let mut engine = place.open();
        let mut dumps = std::collections::BTreeMap::new();
        for _ in 0..8 {
            write_some(&engine, &mut rng, 40);
            if rng.one_in(3) {
                drop(engine);
                engine = place.open();
            }
            let info = all.create(&engine).unwrap();
            dumps.insert(info.id, dump(&engine));
            if rng.one_in(3) {
                let ids: Vec<u64> = dumps.keys().copied().collect();
                let id = *rng.pick(&ids);
                all.delete(id).unwrap();
                dumps.remove(&id);
            }
            let listed = all.list().unwrap();
            assert!(listed.iter().map(|info| info.id).eq(dumps.keys().copied()));
        }
        let report = all.verify().unwrap();
        assert_eq!(report.faults, []);
        assert_eq!(report.records, files(&disk, "/far/backups").len() as u64);
        // In any order, and written on.
        for (id, expected) in &dumps {
            let restored = Place::new(&disk, &format!("/restored{id}"));
            all.restore(Some(*id), &restored.dir).unwrap();
            restored.verify();
            let copy = restored.open();
            assert_eq!(dump(&copy), *expected);
            write_some(&copy, &mut rng, 40);
            let now = dump(&copy);
            drop(copy);
            assert_eq!(dump(&restored.open()), now);
        }
        let before = dump(&engine);
        write_some(&engine, &mut rng, 20);
        assert_ne!(dump(&engine), before);
    }
}

#[test]
fn only_new_tables_are_copied_and_unneeded_ones_go() {
    let disk = disk();
    let place = Place::new(&disk, "/db");
    let all = backups(&disk, "/b");
    let engine = place.open();
    let put = |i: u8, value: &[u8]| put(&engine, CfId::DEFAULT, &[i], value);
    (0..100).for_each(|i| put(i, &[1; 200]));
    let first = all.create(&engine).unwrap();
    assert!(
        first.new_bytes == first.bytes && first.bytes > 20_000,
        "{first:?}"
    );
    put(1, b"new");
    let second = all.create(&engine).unwrap();
    assert!(
        second.new_bytes < 2000 && second.bytes > first.bytes,
        "{second:?}"
    );
    let third = all.create(&engine).unwrap();
    assert_eq!((third.new_bytes, third.bytes), (0, second.bytes));
    let count = files(&disk, "/b").len();
    all.delete(1).unwrap();
    all.delete(2).unwrap();
    assert_eq!(files(&disk, "/b").len(), count);
    // Another store's tables, and those of a restored one, are others.
    let other = Place::new(&disk, "/other");
    all.restore(None, &other.dir).unwrap();
    let copy = other.open();
    let fourth = all.create(&copy).unwrap();
    assert_eq!(fourth.new_bytes, 0, "all its tables are the first one's");
    crate::machine::put(&copy, CfId::DEFAULT, b"copy", b"of its own");
    put(1, b"newer");
    all.create(&copy).unwrap();
    all.create(&engine).unwrap();
    let listed = all.list().unwrap();
    assert_eq!(
        listed.iter().map(|info| info.id).collect::<Vec<_>>(),
        [3, 4, 5, 6]
    );
    assert!(listed[0].db_id == listed[3].db_id && listed[1].db_id == listed[2].db_id);
    assert_ne!(listed[0].db_id, listed[1].db_id);
    for info in listed {
        all.delete(info.id).unwrap();
    }
    assert_eq!(disk.list(path("/b")).unwrap(), ["LOCK"]);
    assert_eq!(all.list().unwrap(), []);
}

#[test]
fn what_cannot_be_is_refused_with_reasons() {
    let disk = disk();
    let engine = Place::new(&disk, "/db").open();
    put(&engine, CfId::DEFAULT, b"k", b"v");
    let all = backups(&disk, "/b");
    let says = |error: thermocline_base::Error, text: &str| {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    };
    says(all.list().unwrap_err(), "no folder /b");
    says(all.restore(None, path("/r")).unwrap_err(), "no folder /b");
    assert!(!disk.exists(path("/b")).unwrap());
    all.create(&engine).unwrap();
    says(
        all.restore(Some(7), path("/r")).unwrap_err(),
        "no backup 7 in /b; it has 1",
    );
    says(all.delete(2).unwrap_err(), "no backup 2");
    says(
        all.restore(None, path("/db")).unwrap_err(),
        "already holds a database",
    );
    assert!(!disk.exists(path("/r")).unwrap());
    // It would be no folder of backups any more.
    for within in ["/b/r", "/b/deep/r"] {
        says(
            all.restore(None, path(within)).unwrap_err(),
            "lies in the folder of backups /b",
        );
    }
    assert_eq!(all.list().unwrap().len(), 1);
    // A folder of something else, a database among that.
    let before = disk.list(path("/db")).unwrap();
    says(
        backups(&disk, "/db").create(&engine).unwrap_err(),
        "not a folder of backups",
    );
    says(
        backups(&disk, "/db/b").create(&engine).unwrap_err(),
        "/db/b lies in the folder of the database /db",
    );
    assert_eq!(disk.list(path("/db")).unwrap(), before);
    let _held = disk.lock(path("/b/LOCK")).unwrap();
    assert_eq!(all.create(&engine).unwrap_err().kind(), ErrorKind::Locked);
    assert_eq!(all.delete(1).unwrap_err().kind(), ErrorKind::Locked);
    assert_eq!(
        all.restore(None, path("/r")).unwrap_err().kind(),
        ErrorKind::Locked
    );
}

/// A store was closed and its folder emptied, and somebody reads it on: he would take files of another one for its own.
#[test]
fn nothing_is_restored_where_somebody_reads_on() {
    let disk = disk();
    let place = Place::new(&disk, "/db");
    let engine = place.open();
    put(&engine, CfId::DEFAULT, b"k", b"v");
    let all = backups(&disk, "/b");
    all.create(&engine).unwrap();
    let snapshot = engine.snapshot();
    drop(engine);
    for name in disk.list(&place.dir).unwrap() {
        disk.remove(&place.dir.join(name)).unwrap();
    }
    let error = all.restore(None, &place.dir).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    assert!(disk.list(&place.dir).unwrap().is_empty());
    drop(snapshot);
    all.restore(None, &place.dir).unwrap();
}

/// A name that a file of a backup may have.
const ASIDE: &str = "/b/00000000000000000000000000000000-000099-00000000.sst";

/// Every byte of a list, and bytes all over the files.
#[test]
fn damage_is_named_and_never_restored() {
    let disk = disk();
    let engine = Place::new(&disk, "/db").open();
    (0..50).for_each(|i| put(&engine, CfId::DEFAULT, &[i], &[i; 100]));
    let all = backups(&disk, "/b");
    all.create(&engine).unwrap();
    put(&engine, CfId::DEFAULT, b"k", b"v");
    all.create(&engine).unwrap();
    let expected = dump(&engine);
    let mut names = files(&disk, "/b");
    assert_eq!(names.len(), 2);
    names.push("BACKUP-000002".into());
    let refused = |name: &str, what: &str| {
        let error = all.restore(Some(2), path("/r")).unwrap_err();
        assert!(error.to_string().contains(name), "{what}: {error}");
        assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}");
        let report = all.verify().unwrap();
        assert!(
            report.faults.iter().any(|f| f.place.contains(name)),
            "{what}"
        );
        assert!(!disk.exists(path("/r/CURRENT")).unwrap());
    };
    for name in &names {
        let path = path("/b").join(name);
        let file = disk.open(&path, OpenMode::ReadWrite).unwrap();
        let len = file.len().unwrap();
        let mut whole = vec![0; usize::try_from(len).unwrap()];
        file.read_exact_at(&mut whole, 0).unwrap();
        for at in (0..len).step_by(usize::try_from(1 + len / 40).unwrap()) {
            let byte = whole[usize::try_from(at).unwrap()];
            file.write_at(&[byte ^ 0x10], at).unwrap();
            refused(name, &format!("byte {at}"));
            file.write_at(&[byte], at).unwrap();
        }
        for cut in [0, 1, len / 2, len - 1] {
            file.set_len(cut).unwrap();
            refused(name, &format!("cut to {cut}"));
            file.write_at(&whole, 0).unwrap();
        }
        file.write_at(b"more", len).unwrap();
        refused(name, "longer");
        file.set_len(len).unwrap();
        if name.ends_with(".sst") {
            let aside = crate::machine::path(ASIDE);
            disk.rename(&path, aside).unwrap();
            refused(name, "missing");
            disk.rename(aside, &path).unwrap();
        }
    }
    // Each in the other's place.
    let [a, b] = [&names[0], &names[1]].map(|name| path("/b").join(name));
    let aside = path(ASIDE);
    let swap = || {
        disk.rename(&a, aside).unwrap();
        disk.rename(&b, &a).unwrap();
        disk.rename(aside, &b).unwrap();
    };
    swap();
    refused("sst", "swapped");
    swap();
    // The first one in the second one's place.
    let list = path("/b/BACKUP-000002");
    disk.rename(list, aside).unwrap();
    disk.rename(path("/b/BACKUP-000001"), list).unwrap();
    refused("BACKUP-000002", "another one");
    disk.rename(list, path("/b/BACKUP-000001")).unwrap();
    disk.rename(aside, list).unwrap();
    assert_eq!(all.verify().unwrap().faults, []);
    let restored = Place::new(&disk, "/r");
    all.restore(Some(2), &restored.dir).unwrap();
    assert_eq!(dump(&restored.open()), expected);
}

/// What a damaged list names is unknown, so nothing goes; deleting it mends that.
#[test]
fn a_damaged_list_can_be_deleted_and_keeps_files_until_then() {
    let disk = disk();
    let engine = Place::new(&disk, "/db").open();
    let all = backups(&disk, "/b");
    for i in 0..3 {
        put(&engine, CfId::DEFAULT, b"k", &[i; 50]);
        all.create(&engine).unwrap();
    }
    let list = disk
        .open(path("/b/BACKUP-000002"), OpenMode::ReadWrite)
        .unwrap();
    list.write_at(b"?", 20).unwrap();
    assert_eq!(all.list().unwrap_err().kind(), ErrorKind::Corruption);
    let before = files(&disk, "/b");
    all.delete(1).unwrap();
    assert_eq!(files(&disk, "/b"), before);
    all.restore(Some(3), path("/r")).unwrap();
    all.create(&engine).unwrap();
    all.delete(2).unwrap();
    assert_eq!(all.list().unwrap().len(), 2);
    let report = all.verify().unwrap();
    assert_eq!(
        (report.faults.len(), report.records),
        (0, files(&disk, "/b").len() as u64)
    );
}

/// All of it is told at once, and what was found is not lost.
#[test]
fn what_cannot_be_read_of_one_file_does_not_hide_what_is_wrong_with_another() {
    let faulty = FaultStorage::over_sim(SimFs::new(Steps::new()));
    let disk: Arc<dyn Storage> = Arc::new(faulty.clone());
    let engine = Place::new(&disk, "/db").open();
    for i in 0..2 {
        put(&engine, CfId::DEFAULT, &[i], &[i; 100]);
        engine.flush().unwrap();
    }
    let all = backups(&disk, "/b");
    // Two lists, which have the same files.
    for _ in 0..2 {
        all.create(&engine).unwrap();
    }
    let names = files(&disk, "/b");
    let (damaged, unread) = (&names[0], &names[names.len() - 1]);
    assert_ne!(damaged, unread);
    let file = disk.open(&path("/b").join(damaged), OpenMode::ReadWrite);
    file.unwrap().write_at(b"?", 10).unwrap();
    let op = Some(Op::Read);
    let before = faulty.calls_for(Fault::Eio, op);
    assert_eq!(all.verify().unwrap().faults.len(), 1);
    let calls = faulty.calls_for(Fault::Eio, op) - before;
    let (mut met, mut lists) = (0, 0);
    for at in 0..calls {
        faulty.arm(Plan {
            fault: Fault::Eio,
            op,
            at: faulty.calls_for(Fault::Eio, op) + at,
            repeat: Repeat::Once,
        });
        let report = all.verify();
        faulty.disarm();
        let faults = match report {
            Ok(report) => report.faults,
            Err(error) => {
                // Then it is not known to be damaged.
                assert!(error.to_string().contains(damaged), "{error}");
                continue;
            }
        };
        let is_unread = |name: &str| faults.iter().any(|fault| fault.what.contains(name));
        met += u32::from(is_unread(unread));
        lists += u32::from(is_unread("BACKUP-"));
        let mut faults = faults.iter();
        assert!(faults.any(|fault| fault.place.contains(damaged)));
    }
    assert!(met > 0 && lists > 1, "{met} and {lists} of {calls}");
}

/// A damaged file goes with the last list that names it, and stands in no later backup's way; while it is named, a new
/// backup has it whole again if its end is damaged, or its length.
#[test]
fn a_damaged_file_goes_or_is_mended() {
    let disk = disk();
    let engine = Place::new(&disk, "/db").open();
    (0..50).for_each(|i| put(&engine, CfId::DEFAULT, &[i], &[i; 100]));
    let all = backups(&disk, "/b");
    all.create(&engine).unwrap();
    let names = files(&disk, "/b");
    let file = disk
        .open(&path("/b").join(&names[0]), OpenMode::ReadWrite)
        .unwrap();
    file.write_at(b"?", 10).unwrap();
    assert_eq!(all.verify().unwrap().faults.len(), 1);
    drop(file);
    all.delete(1).unwrap();
    assert_eq!(files(&disk, "/b"), [""; 0]);
    all.create(&engine).unwrap();
    assert_eq!(files(&disk, "/b"), names);
    let file = disk
        .open(&path("/b").join(&names[0]), OpenMode::ReadWrite)
        .unwrap();
    let len = file.len().unwrap();
    file.write_at(b"?", len - 100).unwrap();
    drop(file);
    all.create(&engine).unwrap();
    assert_eq!(all.verify().unwrap().faults, []);
    let file = disk
        .open(&path("/b").join(&names[0]), OpenMode::ReadWrite)
        .unwrap();
    file.set_len(len - 1).unwrap();
    drop(file);
    all.create(&engine).unwrap();
    assert_eq!(all.verify().unwrap().faults, []);
}

/// A folder that was copied by other means goes on with the same id and the same numbers of files: its tables are others
/// all the same, though only a few values far from their ends differ.
#[test]
fn tables_that_differ_in_a_few_values_are_two() {
    let disk = disk();
    let mut options = Options::preset(Preset::Leveled);
    options.set("compaction.compression_last", "none").unwrap();
    let key = |i: u32| format!("{i:05}").into_bytes();
    let compact = |engine: &Engine| engine.compact(CfId::DEFAULT, ALL).unwrap();
    let first = Place::new(&disk, "/db");
    let engine = first.try_open(&options).unwrap();
    (0..3000).for_each(|i| put(&engine, CfId::DEFAULT, &key(i), &[7; 100]));
    compact(&engine);
    engine.close().unwrap();
    drop(engine);
    let second = Place::new(&disk, "/db2");
    disk.create_dir_all(&second.dir).unwrap();
    for name in disk.list(&first.dir).unwrap() {
        let from = disk.open(&first.dir.join(&name), OpenMode::Read).unwrap();
        let mut bytes = vec![0; usize::try_from(from.len().unwrap()).unwrap()];
        from.read_exact_at(&mut bytes, 0).unwrap();
        let to = disk.open(&second.dir.join(&name), OpenMode::CreateNew);
        to.unwrap().write_at(&bytes, 0).unwrap();
    }
    let all = backups(&disk, "/b");
    for (place, value) in [(&first, b"AAAA"), (&second, b"BBBB")] {
        let engine = place.try_open(&options).unwrap();
        put(&engine, CfId::DEFAULT, &key(3), value);
        // In a blob file, which differs in nothing else either.
        put(&engine, CfId::DEFAULT, &key(4), &value.repeat(400_000));
        compact(&engine);
        all.create(&engine).unwrap();
    }
    for (id, expected) in (1..).zip([b"AAAA", b"BBBB"]) {
        let restored = Place::new(&disk, &format!("/r{id}"));
        all.restore(Some(id), &restored.dir).unwrap();
        let engine = restored.try_open(&options).unwrap();
        for (n, times) in [(3, 1), (4, 400_000)] {
            let is_own = |value: &[u8]| value == expected.repeat(times);
            let found = engine.get(CfId::DEFAULT, &key(n), is_own);
            assert_eq!(found.unwrap(), Some(true), "{id}");
        }
    }
}

/// A table of the store that is damaged is not backed up.
#[test]
fn a_damaged_table_of_the_store_is_named() {
    let disk = disk();
    let place = Place::new(&disk, "/db");
    let engine = place.open();
    (0..50).for_each(|i| put(&engine, CfId::DEFAULT, &[i], &[i; 100]));
    engine.flush().unwrap();
    let table = place.dir.join(&place.tables()[0]);
    let file = disk.open(&table, OpenMode::ReadWrite).unwrap();
    file.write_at(b"?", 100).unwrap();
    let error = backups(&disk, "/b").create(&engine).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(
        error.to_string().contains(table.to_str().unwrap()),
        "{error}"
    );
    assert_eq!(disk.list(path("/b")).unwrap(), ["LOCK"]);
}
