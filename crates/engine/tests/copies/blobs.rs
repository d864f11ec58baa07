//! Long values in copies: their files are shared or copied with the tables that refer to them.

use thermocline_base::{CfId, Codec, ErrorKind};
use thermocline_engine::{Engine, IngestWriter};
use thermocline_env::{Env, OpenMode, Storage};

use crate::backup::backups;
use crate::machine::{Place, disk, dump, path, put};

const CF: CfId = CfId::DEFAULT;

/// A long value.
fn long(n: u8) -> Vec<u8> {
    (0..1000u16).map(|i| n ^ i.to_le_bytes()[0]).collect()
}

fn blob_files(storage: &dyn Storage, dir: &str) -> Vec<String> {
    let mut names = storage.list(path(dir)).unwrap();
    names.retain(|name| name.ends_with(".blob"));
    names.sort();
    names
}

/// Values in tables and in memtables, one that was overwritten, and one deleted.
fn filled(engine: &Engine) {
    for n in 0..3 {
        put(engine, CF, &[n], &long(n));
    }
    engine.flush().unwrap();
    for n in 2..5 {
        put(engine, CF, &[n], &long(n + 100));
    }
    put(engine, CF, &[4], b"short");
}

#[test]
fn a_checkpoint_has_the_files_that_it_needs_and_reads_them_as_its_own() {
    let disk = disk();
    let (original, copy) = (Place::new(&disk, "/db"), Place::new(&disk, "/copy"));
    let engine = original.open();
    filled(&engine);
    assert_eq!(blob_files(&*disk, "/db").len(), 6);
    engine.checkpoint(&copy.dir).unwrap();
    let then = dump(&engine);
    copy.verify();
    // Not that of what was overwritten in memtables. (What was in tables goes when those are merged.)
    let there = blob_files(&*disk, "/copy");
    assert_eq!(there, blob_files(&*disk, "/db")[..5]);
    // Both go on, and the copy outlives what the original removes.
    for n in 0..5 {
        put(&engine, CF, &[n], b"gone");
    }
    engine.flush().unwrap();
    engine.compact(CF, crate::machine::ALL).unwrap();
    engine.reclaim().unwrap();
    assert!(blob_files(&*disk, "/db").is_empty());
    let copied = copy.open();
    assert_eq!(dump(&copied), then);
    put(&copied, CF, b"own", &long(7));
    copied.flush().unwrap();
    copied.compact(CF, crate::machine::ALL).unwrap();
    copied.reclaim().unwrap();
    assert_eq!(blob_files(&*disk, "/copy").len(), 5);
    let second = Place::new(&disk, "/second");
    copied.checkpoint(&second.dir).unwrap();
    assert_eq!(dump(&second.open()), dump(&copied));
    drop(copied);
    copy.verify();
    second.verify();
    // One's file is not the other's.
    let name = blob_files(&*disk, "/copy").pop().unwrap();
    let stranger = Place::new(&disk, "/stranger");
    let other = stranger.open();
    put(&other, CF, b"own", &long(8));
    let own = blob_files(&*disk, "/stranger").pop().unwrap();
    disk.remove(&second.dir.join(&name)).unwrap();
    let (from, to) = (stranger.dir.join(own), second.dir.join(&name));
    disk.link(&from, &to).unwrap();
    let error = second.open().get(CF, b"own", <[u8]>::to_vec).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains(&name), "{error}");
}

#[test]
fn backups_share_the_files_of_long_values() {
    let disk = disk();
    let place = Place::new(&disk, "/db");
    let all = backups(&disk, "/b");
    let engine = place.open();
    filled(&engine);
    let first = all.create(&engine).unwrap();
    let then = dump(&engine);
    let count = blob_files(&*disk, "/b").len();
    put(&engine, CF, b"new", b"short");
    let second = all.create(&engine).unwrap();
    assert!(
        first.new_bytes > 4000 && second.new_bytes < 2500,
        "{second:?}"
    );
    assert_eq!(blob_files(&*disk, "/b").len(), count);
    put(&engine, CF, b"new", &long(9));
    let third = all.create(&engine).unwrap();
    assert_eq!(blob_files(&*disk, "/b").len(), count + 1);
    assert_eq!(all.verify().unwrap().faults, []);
    for (id, n) in [(first.id, 1), (third.id, 3)] {
        let restored = Place::new(&disk, &format!("/restored{n}"));
        all.restore(Some(id), &restored.dir).unwrap();
        restored.verify();
        let copy = restored.open();
        match n {
            1 => assert_eq!(dump(&copy), then),
            _ => assert_eq!(dump(&copy), dump(&engine)),
        }
        put(&copy, CF, b"own", &long(11));
    }
    for info in [first, second, third] {
        all.delete(info.id).unwrap();
    }
    assert!(blob_files(&*disk, "/b").is_empty());
    // A damaged one is not backed up.
    let name = blob_files(&*disk, "/db").pop().unwrap();
    let file = disk
        .open(&place.dir.join(&name), OpenMode::ReadWrite)
        .unwrap();
    file.write_at(b"?", 300).unwrap();
    let error = all.create(&engine).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains(&name), "{error}");
}

#[test]
fn verify_reads_long_values_and_what_refers_to_them() {
    for damage in ["value", "cut", "missing", "other"] {
        let disk = disk();
        let place = Place::new(&disk, "/db");
        let engine = place.open();
        put(&engine, CF, b"a", &long(1));
        put(&engine, CF, b"b", b"short");
        drop(engine);
        place.verify();
        let name = blob_files(&*disk, "/db").pop().unwrap();
        let path = place.dir.join(&name);
        let file = disk.open(&path, OpenMode::ReadWrite).unwrap();
        match damage {
            "value" => file.write_at(b"?", 300).unwrap(),
            "cut" => file.set_len(500).unwrap(),
            "missing" => disk.remove(&path).unwrap(),
            _ => file.write_at(b"?", 3).unwrap(),
        }
        let options = crate::machine::options();
        let report = thermocline_engine::verify(&place.world(), &place.dir, &options).unwrap();
        assert!(!report.faults.is_empty(), "{damage}");
        let of_file = |fault: &thermocline_engine::Fault| fault.place.contains(&name);
        let named = report.faults.iter().any(of_file);
        assert!(named || damage == "missing", "{damage}: {report:?}");
    }
}

#[test]
fn export_has_the_values_themselves_if_a_table_can() {
    let disk = disk();
    let (from, to) = (Place::new(&disk, "/from"), Place::new(&disk, "/to"));
    let engine = from.open();
    filled(&engine);
    let (family, all) = (thermocline_engine::Family::DEFAULT, crate::machine::ALL);
    let table = path("/from.sst");
    let exported = engine.export(family, all, table).unwrap();
    assert_eq!(exported.entries, 5);
    let other = to.open();
    other.ingest(family.id, &[table]).unwrap();
    assert_eq!(dump(&other), dump(&engine));
    // Longer than a table holds itself.
    put(&engine, CF, b"long", &vec![3; (1 << 20) + 1]);
    let error = engine.export(family, all, path("/again.sst")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("1048576"), "{error}");
    assert!(!disk.exists(path("/again.sst")).unwrap());
    let env = Env {
        storage: disk.clone(),
        ..Env::real()
    };
    drop(IngestWriter::create(&env, path("/again.sst")).unwrap());
}

/// Values that flushes have written apart from their tables, some of which moved since.
#[test]
fn copies_have_values_that_lie_apart_and_collect_their_own() {
    let disk = disk();
    let mut options = crate::machine::options();
    options.blob.value_bytes_min = 100;
    options.blob.file_bytes = 1 << 10;
    options.blob.compression = Codec::None;
    options.blob.space_percent_max = 101;
    let (place, copy) = (Place::new(&disk, "/db"), Place::new(&disk, "/copy"));
    let engine = place.try_open(&options).unwrap();
    let value = |n: u8| vec![n; 200];
    let overwrite = |engine: &Engine, of: &[u8]| {
        for n in of {
            put(engine, CF, &[*n], &value(n + 100));
        }
        engine.flush().unwrap();
        engine.compact(CF, crate::machine::ALL).unwrap();
        while engine.compact_once().unwrap() {}
        engine.reclaim().unwrap();
        let blobs = engine.metrics().blobs;
        assert_eq!(blobs.files, blob_files(&*disk, "/db").len() as u64);
    };
    for n in 0..30 {
        put(&engine, CF, &[n], &value(n));
    }
    engine.flush().unwrap();
    let first = blob_files(&*disk, "/db");
    assert!(first.len() > 3, "{first:?}");
    overwrite(&engine, &[3, 4, 5, 20]);
    let second = blob_files(&*disk, "/db");
    assert!(second.iter().any(|name| !first.contains(name)));
    assert!(first.iter().any(|name| !second.contains(name)));
    engine.checkpoint(&copy.dir).unwrap();
    let all = backups(&disk, "/b");
    let info = all.create(&engine).unwrap();
    let then = dump(&engine);
    copy.verify();
    // The original moves on, and takes nothing away from its copies.
    overwrite(&engine, &[1, 7, 9, 21]);
    let restored = Place::new(&disk, "/restored");
    all.restore(Some(info.id), &restored.dir).unwrap();
    restored.verify();
    assert_eq!(dump(&restored.try_open(&options).unwrap()), then);
    let copied = copy.try_open(&options).unwrap();
    assert_eq!(dump(&copied), then);
    // A copy counts garbage in the files that it took over, and collects it.
    let before = blob_files(&*disk, "/copy");
    for n in [0, 8, 16, 24] {
        put(&copied, CF, &[n], &value(n + 50));
    }
    copied.flush().unwrap();
    copied.compact(CF, crate::machine::ALL).unwrap();
    while copied.compact_once().unwrap() {}
    copied.reclaim().unwrap();
    let after = blob_files(&*disk, "/copy");
    assert!(before.iter().any(|name| !after.contains(name)));
    let now = dump(&copied);
    drop(copied);
    copy.verify();
    assert_eq!(dump(&copy.try_open(&options).unwrap()), now);
}
