//! Every call to the file system failing, once and for ever.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::{BlobRef, Error, ErrorKind, FileId, Kind, Result, SeqNo};
use thermocline_env::fault::{Fault, FaultStorage, Plan, Repeat};
use thermocline_env::{OpenMode, Storage};
use thermocline_sst::{
    BlobFile, BlobRecords, BlobWriter, FileSource, KeyRef, SyncCursor, TablePart, TableWriter,
    Value, WriteOptions, get, read_blob, verify_table,
};
use thermocline_testkit::Rng;

use crate::common::*;

/// More than one piece of output.
fn contents() -> Contents {
    let mut rng = Rng::new(1);
    let entries = (0..70u64).map(|n| {
        let key = format!("key{n:04}");
        Entry::put(key.as_bytes(), n, &random_bytes(&mut rng, 9000))
    });
    Contents::of(entries.collect())
}

fn write(disk: &FaultStorage, contents: &Contents) -> Result<()> {
    contents.write(disk, 7, WriteOptions::default())?;
    disk.sync_dir(Path::new("/db"), thermocline_sst::sites::FILE_NAMED)
}

/// Runs `work` with `fault` at each call that it can befall, once and from there on.
fn at_every_call(
    fault: Fault,
    work: impl Fn(&FaultStorage) -> Result<()>,
    check: impl Fn(&FaultStorage, &thermocline_env::sim::SimFs, Result<()>, &str),
    prepare: impl Fn(&thermocline_env::sim::SimFs),
) -> u64 {
    let fs = fresh();
    prepare(&fs);
    let counted = FaultStorage::over_sim(fs);
    work(&counted).unwrap();
    let calls = counted.calls_for(fault, None);
    assert!(calls > 0, "{fault:?}");
    for at in 0..calls {
        for repeat in [Repeat::Once, Repeat::Forever] {
            let what = format!("{fault:?} at call {at} {repeat:?}");
            let fs = fresh();
            prepare(&fs);
            let disk = FaultStorage::over_sim(fs.clone());
            let op = None;
            disk.arm(Plan {
                fault,
                op,
                at,
                repeat,
            });
            let answer = work(&disk);
            assert!(disk.fired() > 0, "{what}");
            check(&disk, &fs, answer, &what);
        }
    }
    calls * 2
}

#[test]
fn a_failed_call_while_writing_is_an_error_that_names_the_file() {
    let contents = contents();
    let mut runs = 0;
    for fault in [
        Fault::Eio,
        Fault::NoSpace,
        Fault::ShortWrite(0),
        Fault::ShortWrite(5000),
        Fault::SyncKept,
        Fault::SyncDropped,
    ] {
        let work = |disk: &FaultStorage| write(disk, &contents);
        runs += at_every_call(
            fault,
            work,
            |_, _, answer, what| match answer {
                Err(Error::Io { path: named, .. }) => {
                    assert!(named == path(7) || named == Path::new("/db"), "{what}");
                }
                other => panic!("{what}: {other:?}"),
            },
            |_| {},
        );
    }
    println!("{runs} runs");
    assert!(runs > 20);
}

/// Lies of the device cannot be seen while writing; they are found by reading.
#[test]
fn lost_and_misdirected_writes_are_found() {
    let contents = contents();
    let mut runs = 0;
    for fault in [
        Fault::LostWrite,
        Fault::Misdirected(8),
        Fault::Misdirected(4096),
    ] {
        let work = |disk: &FaultStorage| write(disk, &contents);
        runs += at_every_call(
            fault,
            work,
            |_, fs, answer, what| {
                answer.unwrap();
                let file = fs.open(&path(7), OpenMode::Read).unwrap();
                let faults = verify_table(&file, identity(7)).faults;
                assert!(!faults.is_empty(), "{what}");
                let errors = faults.iter().all(|e| e.kind() == ErrorKind::Corruption);
                assert!(errors, "{what}: {faults:?}");
            },
            |_| {},
        );
    }
    assert!(runs > 10);
}

#[test]
fn after_a_failure_a_writer_takes_nothing_more() {
    let disk = FaultStorage::over_sim(fresh());
    let options = WriteOptions::default();
    let mut writer = TableWriter::create(&disk, &path(7), identity(7), CF, options).unwrap();
    let fault = Fault::Eio;
    let (op, at) = (Some(thermocline_env::fault::Op::Write), 0);
    disk.arm(Plan {
        fault,
        op,
        at,
        repeat: Repeat::Once,
    });
    let value = vec![1; 100_000];
    let mut add = |n: u64| {
        let key = n.to_be_bytes();
        writer.add(
            KeyRef::new(&key, SeqNo(1)),
            Kind::Put,
            Value::Inline(&value),
        )
    };
    let failed = (0..10).find(|n| add(*n).is_err()).unwrap();
    for n in failed..failed + 5 {
        assert_eq!(add(n).unwrap_err().kind(), ErrorKind::Poisoned);
    }
    let error = writer.finish().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Poisoned);
    assert!(error.to_string().contains("000007.sst"), "{error}");
    assert_eq!(disk.fired(), 1);
    assert!(open(&disk, 7).is_err());
}

#[test]
fn a_full_disk_at_any_byte_is_an_error_and_leaves_no_table() {
    let contents = Contents::of((0..50).map(|n| Entry::put(&[n], 1, &[n; 20])).collect());
    let fs = fresh();
    let whole = contents
        .write(&fs, 7, WriteOptions::default())
        .unwrap()
        .bytes;
    for bytes in 0..whole {
        let disk = FaultStorage::over_sim(fresh());
        disk.limit_space(bytes);
        let error = write(&disk, &contents).unwrap_err();
        assert!(error.to_string().contains("000007.sst"), "{error}");
        assert_eq!(open(&disk, 7).unwrap_err().kind(), ErrorKind::Corruption);
    }
}

/// Opens, looks everything up, walks both ways.
fn read(disk: &FaultStorage, contents: &Contents) -> Result<()> {
    assert_same(&read_all(disk, 7)?, contents, "read");
    let (table, source) = open(disk, 7)?;
    let part = TablePart::whole(table);
    for entry in &contents.entries {
        let found = get(&part, &entry.key, SeqNo::MAX, &source)?;
        assert_eq!(found.map(kept), contents.get(&entry.key, SeqNo::MAX));
    }
    Ok(())
}

#[test]
fn a_failed_read_is_an_error_and_the_next_one_can_succeed() {
    let mut rng = Rng::new(3);
    let contents = random_contents(&mut rng, 60);
    let small = WriteOptions {
        block_bytes: 256,
        index_block_bytes: 64,
        ..WriteOptions::default()
    };
    let mut runs = 0;
    for fault in [
        Fault::Eio,
        Fault::ShortRead(0),
        Fault::ShortRead(7),
        Fault::FlipBit(3),
        Fault::FlipBit(12_345),
    ] {
        let work = |disk: &FaultStorage| read(disk, &contents);
        let prepare = |fs: &thermocline_env::sim::SimFs| {
            contents.write(fs, 7, small).unwrap();
        };
        runs += at_every_call(
            fault,
            work,
            |disk, _, answer, what| {
                let error = answer.expect_err(what);
                assert!(error.to_string().contains("000007.sst"), "{what}: {error}");
                disk.disarm();
                read(disk, &contents).unwrap();
            },
            prepare,
        );
    }
    println!("{runs} runs");
    assert!(runs > 100);
}

/// The same cursor goes on after an error: it is at no entry, and every seek works.
#[test]
fn a_cursor_survives_a_failed_read() {
    let mut rng = Rng::new(4);
    let contents = random_contents(&mut rng, 400);
    let small = WriteOptions {
        block_bytes: 128,
        index_block_bytes: 64,
        ..WriteOptions::default()
    };
    let fs = fresh();
    contents.write(&fs, 7, small).unwrap();
    let disk = FaultStorage::over_sim(fs);
    let (table, source) = open(&disk, 7).unwrap();
    let mut cursor = SyncCursor::new(TablePart::whole(table), source);
    let mut failed = 0;
    for _ in 0..2000 {
        let entry = rng.pick(&contents.entries);
        if rng.one_in(2) {
            let (fault, op) = (Fault::Eio, None);
            let at = disk.calls_for(fault, op) + rng.below(3) as u64;
            disk.arm(Plan {
                fault,
                op,
                at,
                repeat: Repeat::Once,
            });
        }
        let moved = match rng.below(4) {
            0 => cursor.seek(entry.at()),
            1 => cursor.seek_for_prev(entry.at()),
            2 => cursor.last().and_then(|_| cursor.prev()),
            _ => cursor.next(),
        };
        disk.disarm();
        if moved.is_err() {
            failed += 1;
            assert!(!cursor.is_at_entry());
        }
        assert!(cursor.seek(entry.at()).unwrap());
        assert_eq!(&entry_of(&cursor), entry);
    }
    assert!(failed > 100, "{failed}");
}

/// A scan whose reads fail, each once or twice, goes on where it was if the same step is made again; any
/// other step from there is an error, never the end.
#[test]
fn a_scan_that_is_tried_again_loses_nothing() {
    let contents = Contents::of((0..200).map(|n| Entry::put(&[n], 1, &[n; 20])).collect());
    let small = WriteOptions {
        block_bytes: 128,
        index_block_bytes: 64,
        ..WriteOptions::default()
    };
    let fs = fresh();
    contents.write(&fs, 7, small).unwrap();
    let disk = FaultStorage::over_sim(fs);
    let (table, source) = open(&disk, 7).unwrap();
    let mut cursor = SyncCursor::new(TablePart::whole(table), source);
    type Step = fn(&mut SyncCursor<FileSource>) -> Result<bool>;
    let (next, prev): (Step, Step) = (SyncCursor::next, SyncCursor::prev);
    for (step, other, first) in [(next, prev, 0), (prev, next, 199)] {
        for fault in [Fault::Eio, Fault::FlipBit(3)] {
            assert!(cursor.seek(KeyRef::new(&[first], SeqNo(1))).unwrap());
            let (mut found, mut failed) = (vec![entry_of(&cursor)], 0);
            let mut more = true;
            while more {
                let (op, repeat) = (None, Repeat::Once);
                let at = disk.calls_for(fault, op);
                disk.arm(Plan {
                    fault,
                    op,
                    at,
                    repeat,
                });
                match step(&mut cursor) {
                    Err(_) => {
                        failed += 1;
                        let error = other(&mut cursor).unwrap_err();
                        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
                        disk.disarm();
                        more = step(&mut cursor).unwrap();
                    }
                    Ok(there) => more = there,
                }
                disk.disarm();
                if more {
                    found.push(entry_of(&cursor));
                }
            }
            assert!(failed > 20, "{failed}");
            if first > 0 {
                found.reverse();
            }
            assert_eq!(found, contents.entries);
            // From the end it is known that there is nothing more.
            assert!(!step(&mut cursor).unwrap());
            let at = disk.calls_for(fault, None);
            disk.arm(Plan {
                fault,
                op: None,
                at,
                repeat: Repeat::Once,
            });
            cursor.first().unwrap_err();
            disk.disarm();
            for _ in 0..2 {
                step(&mut cursor).unwrap_err();
            }
            assert!(cursor.first().unwrap());
        }
    }
}

#[test]
fn a_failed_call_of_a_blob_writer_is_an_error_that_names_the_file() {
    let file = Path::new("/db/000009.blob");
    let work = |disk: &FaultStorage| {
        let mut writer = BlobWriter::create(disk, file, identity(9))?;
        for n in 0..4 {
            writer.append(CF, b"key", &vec![n; 200_000])?;
            writer.sync()?;
        }
        writer.finish().map(drop)
    };
    let mut runs = 0;
    for fault in [
        Fault::Eio,
        Fault::NoSpace,
        Fault::ShortWrite(100),
        Fault::SyncKept,
    ] {
        runs += at_every_call(
            fault,
            work,
            |_, _, answer, what| match answer {
                Err(Error::Io { path: named, .. }) => assert_eq!(named, file, "{what}"),
                other => panic!("{what}: {other:?}"),
            },
            |_| {},
        );
    }
    assert!(runs > 40);
    let disk = Arc::new(FaultStorage::over_sim(fresh()));
    let mut writer = BlobWriter::create(&*disk, file, identity(9)).unwrap();
    let (fault, op, at) = (Fault::SyncDropped, None, 0);
    disk.arm(Plan {
        fault,
        op,
        at,
        repeat: Repeat::Once,
    });
    writer.append(CF, b"k", b"v").unwrap();
    assert_eq!(writer.sync().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(
        writer.append(CF, b"k", b"v").unwrap_err().kind(),
        ErrorKind::Poisoned
    );
    assert_eq!(writer.sync().unwrap_err().kind(), ErrorKind::Poisoned);
}

#[test]
fn a_failed_read_of_a_blob_is_an_error_that_names_the_file() {
    let file = Path::new("/db/000009.blob");
    let first = BlobRef {
        file: FileId(9),
        offset: 64,
        len: 100,
    };
    let prepare = |fs: &thermocline_env::sim::SimFs| {
        let mut writer = BlobWriter::create(fs, file, identity(9)).unwrap();
        assert_eq!(writer.append(CF, b"key", &[5; 100]).unwrap(), first);
        writer.finish().unwrap();
    };
    let work = |disk: &FaultStorage| {
        let opened = disk.open(file, OpenMode::Read)?;
        let blobs = BlobFile::open(&*opened, identity(9))?;
        assert_eq!(read_blob(&blobs, &*opened, first)?, [5; 100]);
        let entry = BlobRecords::new(&blobs, &*opened, opened.len()?).next();
        assert_eq!(entry.unwrap()?.key, b"key");
        Ok(())
    };
    let mut runs = 0;
    for fault in [
        Fault::Eio,
        Fault::ShortRead(0),
        Fault::ShortRead(2),
        Fault::FlipBit(1),
        Fault::FlipBit(500),
    ] {
        let check = |disk: &FaultStorage, _: &_, answer: Result<()>, what: &str| {
            let error = answer.expect_err(what);
            assert!(error.to_string().contains("000009.blob"), "{what}: {error}");
            disk.disarm();
            work(disk).unwrap();
        };
        runs += at_every_call(fault, work, check, prepare);
    }
    assert!(runs > 30);
}
