//! What observers are told of copies, checks and ingestion.

use std::panic::{AssertUnwindSafe, catch_unwind};

use thermocline_base::{CfId, ErrorKind, Result, WriteBatch};
use thermocline_engine::{Durability, Engine, Progress, verify_observed};
use thermocline_env::OpenMode;
use thermocline_testkit::Rng;

use crate::backup::backups;
use crate::ingest::writer;
use crate::machine::{Place, disk, options, path, put, write_some};

/// Makes a call that succeeds, and gives what its observer was told: it rises from 0 to a total that stays as it is.
fn followed<T>(call: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<T>) -> (T, Vec<Progress>) {
    let mut told: Vec<Progress> = Vec::new();
    let done = call(&mut |progress| told.push(progress)).unwrap();
    let total = told[0].total;
    assert_eq!(told[0].done, 0);
    assert!(told.iter().all(|now| now.total == total), "{told:?}");
    let rises = told.windows(2).all(|two| two[0].done < two[1].done);
    assert!(rises, "{told:?}");
    assert_eq!(told[told.len() - 1].done, total);
    (done, told)
}

fn fill(engine: &Engine) {
    (0..100).for_each(|i| put(engine, CfId::DEFAULT, &[i], &[1; 200]));
}

/// Bytes of all tables in a folder.
fn bytes_of_tables(place: &Place) -> u64 {
    let len = |name: &String| {
        let file = place.storage.open(&place.dir.join(name), OpenMode::Read);
        file.unwrap().len().unwrap()
    };
    place.tables().iter().map(len).sum()
}

#[test]
fn a_check_is_told_by_files_and_what_lies_in_persistent_memory() {
    let disk = disk();
    let place = Place::new(&disk, "/db");
    let engine = place.open();
    write_some(&engine, &mut Rng::new(7), 200);
    engine.flush().unwrap();
    put(&engine, CfId::DEFAULT, b"last", b"in persistent memory");
    drop(engine);
    let check = || followed(|o| verify_observed(&place.world(), &place.dir, &options(), o));
    let (report, told) = check();
    assert_eq!(report.faults, []);
    assert!(told.len() > 2, "{told:?}");
    let tables = bytes_of_tables(&place);
    assert!(tables > 0 && told[0].total > tables, "{told:?}");
    // As large as the manifest says, whatever became of them.
    disk.remove(&place.dir.join(&place.tables()[0])).unwrap();
    let (report, without) = check();
    assert_ne!(report.faults, []);
    assert_eq!(without, told);
}

#[test]
fn a_checkpoint_is_told_by_the_files_of_the_store() {
    let disk = disk();
    let (place, copy) = (Place::new(&disk, "/db"), Place::new(&disk, "/copy"));
    let engine = place.open();
    fill(&engine);
    engine.flush().unwrap();
    let (_, told) = followed(|o| engine.checkpoint_observed(&copy.dir, o));
    assert_eq!(told[0].total, bytes_of_tables(&place));
    assert!(told.len() > 1, "{told:?}");
    copy.verify();
}

#[test]
fn backups_are_told_by_the_bytes_that_they_report() {
    let disk = disk();
    let engine = Place::new(&disk, "/db").open();
    let all = backups(&disk, "/b");
    fill(&engine);
    let (made, told) = followed(|o| all.create_observed(&engine, o));
    assert!(made.new_bytes > 0);
    assert_eq!(told[0].total, made.new_bytes);
    let (again, told) = followed(|o| all.create_observed(&engine, o));
    assert_eq!((again.new_bytes, told[0].total, told.len()), (0, 0, 1));
    let (report, told) = followed(|o| all.verify_observed(o));
    assert_eq!(report.faults, []);
    assert_eq!(told[0].total, report.bytes);
    let (restored, told) = followed(|o| all.restore_observed(None, path("/r"), o));
    assert_eq!(told[0].total, restored.bytes);
}

/// A value that takes so many bytes on the disk, too.
fn random(rng: &mut Rng, bytes: usize) -> Vec<u8> {
    let words = std::iter::repeat_with(|| rng.next_u64().to_le_bytes());
    words.take(bytes / 8).flatten().collect()
}

/// A call was told of so often that nobody wonders whether it goes on.
fn is_told_by_pieces(told: &[Progress]) {
    let most = told.windows(2).map(|two| two[1].done - two[0].done).max();
    assert!(told[0].total > 4 << 20, "{told:?}");
    assert!(most.is_some_and(|most| most <= 2 << 20), "{told:?}");
}

/// Blob files have no bounds.
#[test]
fn a_large_file_is_told_while_it_is_copied() {
    let disk = disk();
    let engine = Place::new(&disk, "/db").open();
    let all = backups(&disk, "/b");
    let value = random(&mut Rng::new(1), 4 << 20);
    put(&engine, CfId::DEFAULT, b"long", &value);
    let (_, of_backup) = followed(|o| all.create_observed(&engine, o));
    let (_, of_copy) = followed(|o| all.restore_observed(None, path("/r"), o));
    is_told_by_pieces(&of_backup);
    is_told_by_pieces(&of_copy);
}

#[test]
fn a_large_file_is_told_while_it_is_checked() {
    let disk = disk();
    let place = Place::new(&disk, "/db");
    let engine = place.open();
    let all = backups(&disk, "/b");
    // All that are written at once have one file.
    let (mut batch, mut rng) = (WriteBatch::new(), Rng::new(1));
    for key in 0..5 {
        let value = random(&mut rng, 1 << 20);
        batch.put(CfId::DEFAULT, &[key], &value).unwrap();
    }
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    all.create(&engine).unwrap();
    drop(engine);
    let (report, of_store) =
        followed(|o| verify_observed(&place.world(), &place.dir, &options(), o));
    assert_eq!(report.faults, []);
    let (report, of_backup) = followed(|o| all.verify_observed(o));
    assert_eq!(report.faults, []);
    is_told_by_pieces(&of_store);
    is_told_by_pieces(&of_backup);
}

#[test]
fn ingestion_is_told_by_tables() {
    let disk = disk();
    let engine = Place::new(&disk, "/db").open();
    let names = ["/t0.sst", "/t1.sst"];
    let write = |(first, name): (u8, &&str)| {
        let mut table = writer(&disk, name);
        (0..200).for_each(|i| table.put(&[first, i], b"value").unwrap());
        table.finish().unwrap().bytes
    };
    let bytes: Vec<u64> = (0..).zip(&names).map(write).collect();
    let (done, told) = followed(|o| engine.ingest_observed(CfId::DEFAULT, &names, o));
    assert_eq!(done.entries, 400);
    let told: Vec<u64> = told.iter().map(|now| now.done).collect();
    assert_eq!(told, [0, bytes[0], bytes[0] + bytes[1]]);
}

/// Both would wait for the call that waits for the observer.
#[test]
fn an_observer_neither_ingests_nor_closes() {
    let disk = disk();
    let engine = Place::new(&disk, "/db").open();
    for name in ["/t.sst", "/other.sst"] {
        let mut table = writer(&disk, name);
        table.put(b"key", name.as_bytes()).unwrap();
        table.finish().unwrap();
    }
    let mut refused = 0;
    let mut observer = |_: Progress| {
        let ingested = engine.ingest(CfId::DEFAULT, &["/other.sst"]);
        for error in [ingested.map(drop).unwrap_err(), engine.close().unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains("observer"), "{error}");
        }
        put(&engine, CfId::DEFAULT, b"written", b"meanwhile");
        refused += 1;
    };
    let done = engine.ingest_observed(CfId::DEFAULT, &["/t.sst"], &mut observer);
    assert_eq!(done.unwrap().entries, 1);
    assert_eq!(refused, 2);
    engine.ingest(CfId::DEFAULT, &["/other.sst"]).unwrap();
    engine.close().unwrap();
}

#[test]
fn a_panic_of_an_observer_leaves_nothing_half_done_and_nothing_locked() {
    let disk = disk();
    let engine = Place::new(&disk, "/db").open();
    let all = backups(&disk, "/b");
    fill(&engine);
    let mut told = 0;
    let mut observer = |_: Progress| {
        told += 1;
        assert_eq!(told, 0, "of the observer");
    };
    let made = catch_unwind(AssertUnwindSafe(|| {
        all.create_observed(&engine, &mut observer)
    }));
    assert!(made.is_err());
    assert_eq!(told, 1);
    assert_eq!(all.list().unwrap().len(), 1);
    assert_eq!(all.verify().unwrap().faults, []);
    let mut table = writer(&disk, "/t.sst");
    table.put(b"new", b"value").unwrap();
    table.finish().unwrap();
    let mut observer = |now: Progress| assert_ne!(now.done, 0, "of the observer");
    let ingested = catch_unwind(AssertUnwindSafe(|| {
        engine.ingest_observed(CfId::DEFAULT, &["/t.sst"], &mut observer)
    }));
    assert!(ingested.is_err());
    let found = engine.get(CfId::DEFAULT, b"new", <[u8]>::to_vec).unwrap();
    assert_eq!(found.as_deref(), Some(b"value".as_slice()));
    engine.ingest(CfId::DEFAULT, &["/t.sst"]).unwrap();
    engine.flush().unwrap();
}
