//! Values apart from their tables: they are written once, their garbage is counted exactly, and blob files that have too
//! much of it are collected, whoever reads meanwhile.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};

use thermocline_base::progress::Progress;
use thermocline_base::report::Fault;
use thermocline_base::{BlobRef, CfOptions, ErrorKind, FileId, SeqNo};
use thermocline_compaction::merge::Source;
use thermocline_env::fault::FaultStorage;
use thermocline_env::simulated::SimClock;
use thermocline_jobs::source::{Input, RunInput};
use thermocline_policy::collect::{Allowance, BlobFile, is_due};
use thermocline_policy::pick::Reason;
use thermocline_policy::tuning::AGAIN_MAX_NS;
use thermocline_sst::{BlobWriter, Value};
use thermocline_version::{Change, FileKind, TableRef, VersionEdit, fixture};

use super::*;
use crate::Family;
use crate::compact::state::Behind;

pub(super) const CF: CfId = CfId::DEFAULT;
pub(super) const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

pub(super) fn apart() -> Options {
    let mut options = tiny();
    options.blob.value_bytes_min = 100;
    options.blob.file_bytes = 4 << 10;
    // What is counted are bytes of values.
    options.blob.compression = Codec::None;
    options
}

fn value(round: usize, n: usize) -> Vec<u8> {
    let byte = (7 * round + n).to_le_bytes()[0];
    vec![byte; 100 + (n + round) % 100]
}

/// What all tables refer to, by file, as their entries say.
fn referred(engine: &Engine) -> BTreeMap<FileId, u64> {
    let files = &engine.inner.common.catalog.table_files;
    let version = version_of(engine);
    let mut found: BTreeMap<FileId, u64> = BTreeMap::new();
    for (place, table) in version.tables() {
        let meter = engine.inner.common.meter();
        let run = RunInput::new(files, place.cf, vec![table.clone()], &meter);
        let mut run = Input::Run(Box::new(run));
        run.seek(b"", SeqNo::MAX).unwrap();
        while run.head().is_some() {
            if let Value::Blob(BlobRef { file, len, .. }) = run.value().unwrap() {
                *found.entry(file).or_default() += u64::from(len);
            }
            run.advance().unwrap();
        }
    }
    found
}

/// Checks what the version says of blob files, and returns it.
pub(super) fn counted(engine: &Engine) -> Vec<BlobFile> {
    let referred = referred(engine);
    let version = version_of(engine);
    let files = version.blob_files().map(|(file, blob)| {
        let live = referred.get(&file).copied().unwrap_or(0);
        // Parts of tables do not count what they refer to.
        let parts = version.tables().filter(|(_, table)| table.is_part());
        let mut blobs = parts.flat_map(|(_, table)| &table.blobs);
        match blobs.any(|blob| blob.file == file) {
            true => assert!(blob.referenced_bytes <= live, "{file}"),
            false => assert_eq!(blob.referenced_bytes, live, "{file}"),
        }
        let bytes = blob.value_bytes.expect("it is counted");
        assert!(live <= bytes && bytes < blob.bytes, "{file}: {blob:?}");
        BlobFile { file, bytes, live }
    });
    files.collect()
}

/// What users allow of garbage, and what flushes bring.
fn allowance(engine: &Engine) -> Allowance {
    engine.inner.common.compactions.garbage_allowance
}

pub(super) fn jobs_for(engine: &Engine, reason: Reason) -> u64 {
    let reasons = engine.metrics().compaction.reasons;
    let of = reasons.into_iter().find(|(other, _)| *other == reason);
    of.map_or(0, |(_, jobs)| jobs)
}

#[test]
fn compactions_write_references_and_no_values() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &apart());
    let mut model = Model::new();
    for n in 0..200 {
        let key = format!("{:04}", n * 7 % 200).into_bytes();
        let value = match n % 4 {
            0 => vec![1; 99],
            _ => value(1, n),
        };
        put(&engine, CF, &key, &value);
        model.insert(key, value);
    }
    flush(&engine);
    let files: Vec<BlobFile> = counted(&engine);
    let long = model.values().filter(|value| value.len() >= 100);
    let long: usize = long.map(Vec::len).sum();
    assert_eq!(files.iter().map(|f| f.live).sum::<u64>(), long as u64);
    assert!(
        files.iter().all(|file| file.live == file.bytes),
        "{files:?}"
    );
    assert!(files.iter().all(|file| file.bytes < 5 << 10), "{files:?}");
    for _ in 0..3 {
        put(&engine, CF, b"0000", &[2; 50]);
        model.insert(b"0000".to_vec(), vec![2; 50]);
        engine.compact(CF, ALL).unwrap();
    }
    assert!(deepest(&engine) > 0);
    // They are the same files, and all that was written.
    assert_eq!(counted(&engine), files);
    let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
    let models = [model];
    for engine in [&engine, &open(&machine.killed(), &apart())] {
        check_now(engine, &[Family::DEFAULT], &models, &keys);
    }
}

#[test]
fn garbage_is_a_debt_from_when_it_is_known_until_it_is_collected() {
    let machine = Machine::new(PM);
    let mut options = apart();
    options.compaction.level0_tables = 2;
    let engine = open(&machine, &options);
    for round in 0..6 {
        // No file is garbage as a whole.
        for n in (0..100).filter(|n| round == 0 || (n + round) % 3 > 0) {
            put(&engine, CF, format!("{n}").as_bytes(), &value(round, n));
        }
        flush(&engine);
    }
    // A manifest may say anything of them, level by level.
    let huge = TableRef {
        file_bytes: u64::MAX,
        bytes: u64::MAX,
        ..fixture::table(1, (b"a", b"b"), (1, 9))
    };
    let mut waited = 0;
    let is_past = |behind: Behind| behind.garbage_bytes > behind.garbage_limits.soft;
    loop {
        let behind = engine.inner.common.compactions.behind();
        let files = counted(&engine);
        let garbage: u64 = files.iter().map(|file| file.bytes - file.live).sum();
        assert_eq!(behind.garbage_bytes, garbage);
        if is_past(behind) {
            assert!(is_due(&files, allowance(&engine)));
            let picker = &engine.inner.compactor.picker;
            let tables = [&huge, &huge].into_iter();
            assert!(picker.victims_for(Reason::Garbage, tables).is_empty());
            waited += 1;
        }
        if !engine.compact_once().unwrap() {
            break;
        }
    }
    assert!(waited > 0, "nobody would have waited");
    assert!(!is_past(engine.inner.common.compactions.behind()));
}

#[test]
fn a_family_with_a_merge_operator_keeps_its_values_in_tables() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &apart());
    let options = CfOptions::default().merge_operator("thermocline.append:2c");
    let family = engine.family("merged", &options).unwrap();
    put(&engine, family.id, b"k", &[1; 300]);
    put(&engine, CF, b"k", &[1; 300]);
    flush(&engine);
    assert_eq!(engine.metrics().blobs.files, 1);
    assert_eq!(engine.metrics().blobs.table_bytes, 300);
}

/// Overwrites, deletes and snapshots, until nothing is due. Returns the jobs that collected, and how often parts of tables referred to blob
/// files before that.
fn churn(seed: u64, options: &Options, rounds: usize) -> (u64, usize) {
    let mut rng = Rng::new(seed);
    let mut machine = Machine::new(PM);
    let mut engine = open(&machine, options);
    let mut model = Model::new();
    let mut held: Vec<(Snapshot, Model)> = Vec::new();
    let keys: Vec<Vec<u8>> = (0..60u8).map(|n| vec![b'k', n]).collect();
    let (mut collected, mut parts) = (0, 0);
    for round in 0..rounds {
        for _ in 0..40 {
            let n = rng.below(keys.len());
            if rng.one_in(8) {
                delete(&engine, CF, &keys[n]);
                model.remove(&keys[n]);
                continue;
            }
            let value = value(round, n);
            put(&engine, CF, &keys[n], &value);
            model.insert(keys[n].clone(), value);
        }
        match rng.below(8) {
            0 => held.push((engine.snapshot(), model.clone())),
            1 if !held.is_empty() => drop(held.remove(rng.below(held.len()))),
            2 => {
                held.clear();
                collected += jobs_for(&engine, Reason::Garbage);
                let killed = machine.killed();
                let report = crate::verify(&killed.world(), Path::new("/db"), options).unwrap();
                assert!(report.faults.is_empty(), "{:?}", report.faults);
                drop(engine);
                machine = killed;
                engine = open(&machine, options);
            }
            3 => engine.compact(CF, ALL).unwrap(),
            _ => {}
        }
        flush(&engine);
        let mut jobs = 0;
        while engine.compact_once().unwrap() {
            jobs += 1;
            assert!(jobs < 1000, "it goes on and on");
            let version = version_of(&engine);
            let refers = |table: &TableRef| table.is_part() && !table.blobs.is_empty();
            parts += version.tables().filter(|(_, table)| refers(table)).count();
        }
        engine.reclaim().unwrap();
        let files = counted(&engine);
        assert!(!is_due(&files, allowance(&engine)), "{files:?}");
        check_now(
            &engine,
            &[Family::DEFAULT],
            std::slice::from_ref(&model),
            &keys,
        );
        for (snapshot, model) in &held {
            check_then(
                snapshot,
                &[Family::DEFAULT],
                std::slice::from_ref(model),
                &keys,
            );
        }
    }
    held.clear();
    collected += jobs_for(&engine, Reason::Garbage);
    for key in &keys {
        delete(&engine, CF, key);
    }
    engine.compact(CF, ALL).unwrap();
    engine.reclaim().unwrap();
    assert_eq!(machine.blob_files(), Vec::<String>::new());
    (collected, parts)
}

#[test]
fn collection_keeps_blob_files_within_the_limit_whoever_reads() {
    let (mut collected, mut parts) = (0, 0);
    for seed in seeds(0..12) {
        let _replay = Replay::new("-p thermocline-engine collection_keeps_blob_files", seed);
        let mut rng = Rng::new(seed);
        let mut options = apart();
        options.blob.file_bytes = *rng.pick(&[1 << 10, 4 << 10, 64 << 10]);
        options.blob.space_percent_max = *rng.pick(&[101, 130, 200]);
        options.blob.inline_bytes_max = *rng.pick(&[120, 1 << 20]);
        options.compaction.level0_tables = 1 + rng.below(3) as u64;
        // Tables are cut into parts.
        if rng.one_in(2) {
            options.partition.by = PartitionBy::Size;
            options.partition.bytes = 2 << 10;
            options.compaction.table_bytes = 512;
        }
        let (jobs, some) = churn(seed, &options, 20);
        (collected, parts) = (collected + jobs, parts + some);
    }
    assert!(collected > 10 && parts > 10, "{collected}, {parts}");
}

#[test]
fn a_collection_that_moves_nothing_is_noticed() {
    let noticed = std::panic::catch_unwind(|| {
        let _bug = plant(Bug::CollectMovesNothing);
        let options = Options {
            blob: thermocline_base::options::BlobOptions {
                space_percent_max: 110,
                ..apart().blob
            },
            ..apart()
        };
        churn(1, &options, 20);
    });
    assert!(noticed.is_err());
}

/// Who asks for another bound finds its values moved into tables again.
#[test]
fn values_come_back_into_tables_where_they_are_to_lie_there() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &apart());
    for n in 0..40u8 {
        put(&engine, CF, &[n], &value(1, 40));
    }
    flush(&engine);
    assert!(engine.metrics().blobs.files > 0);
    drop(engine);
    let mut options = apart();
    options.blob.value_bytes_min = 0;
    options.blob.space_percent_max = 101;
    let engine = open(&machine.killed(), &options);
    for n in 0..20u8 {
        put(&engine, CF, &[2 * n], b"short");
    }
    flush(&engine);
    engine.compact(CF, ALL).unwrap();
    while engine.compact_once().unwrap() {}
    assert_eq!(engine.metrics().blobs.files, 0);
    for n in 0..40u8 {
        let want = match n % 2 {
            0 => b"short".to_vec(),
            _ => value(1, 40),
        };
        assert_eq!(crate::flush::tests::get(&engine, &[n]), Some(want));
    }
}

#[test]
fn a_wrong_count_is_a_fault() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &apart());
    put(&engine, CF, b"k", &[1; 300]);
    flush(&engine);
    let verified = || crate::verify(&machine.killed().world(), Path::new("/db"), &apart()).unwrap();
    assert!(verified().faults.is_empty());
    let catalog = &engine.inner.common.catalog;
    let file = catalog.pin_file(FileKind::Blob).unwrap();
    let files = &*catalog.table_files;
    let (path, identity) = (files.blob_path(file), files.identity(file));
    let mut writer = BlobWriter::create(&*files.blob_storage, &path, identity).unwrap();
    writer.append(CF, b"k", &[2; 100]).unwrap();
    let bytes = writer.finish().unwrap().bytes;
    let named = VersionEdit::new().with(Change::BlobFileAdded { file, bytes });
    catalog
        .edit(&named.with(Change::BlobValues { file, bytes: 99 }))
        .unwrap();
    let faults = verified().faults;
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].what.contains("bytes of values"), "{faults:?}");
}

/// A manifest says how large blob files are, and may say anything.
#[test]
fn blob_files_of_any_size_are_added_up() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &apart());
    let common = &engine.inner.common;
    for _ in 0..2 {
        let file = common.catalog.pin_file(FileKind::Blob).unwrap();
        let bytes = u64::MAX;
        let named = VersionEdit::new().with(Change::BlobFileAdded { file, bytes });
        let bytes = u64::MAX - 1;
        let named = named.with(Change::BlobValues { file, bytes });
        common.catalog.edit(&named).unwrap();
    }
    common.compactions.note(&version_of(&engine));
    let blobs = engine.metrics().blobs;
    assert_eq!((blobs.files, blobs.bytes), (2, u64::MAX));
}

/// The same of tables. There are none, so that nothing comes of the copy.
#[test]
fn tables_of_any_size_are_added_up_for_a_copy() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &apart());
    let catalog = &engine.inner.common.catalog;
    let mut named = VersionEdit::new();
    for keys in [(b"a", b"b"), (b"c", b"d")] {
        let file = catalog.pin_file(FileKind::Table).unwrap();
        // Parts may have fewer bytes than their files.
        let part = TableRef {
            file_bytes: u64::MAX,
            limited_below: true,
            ..fixture::table(file.0, keys, (1, 9))
        };
        named.changes.push(Change::TableAdded {
            place: fixture::at(1),
            table: Arc::new(part),
        });
    }
    catalog.edit(&named).unwrap();
    let mut total = 0;
    let mut observer = |progress: Progress| total = progress.total;
    let copied = engine.checkpoint_observed(Path::new("/copy"), &mut observer);
    assert!(copied.is_err());
    assert_eq!(total, u64::MAX);
}

/// Another file stands in a blob file's place: sound, as long, with as many bytes of values, but of other keys.
#[test]
fn a_table_that_refers_to_values_of_other_keys_is_a_fault() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &apart());
    for n in 0..4 {
        put(&engine, CF, &[n], &[n; 150]);
    }
    flush(&engine);
    let (file, _) = version_of(&engine).blob_files().next().unwrap();
    let files = &engine.inner.common.catalog.table_files;
    let (path, identity) = (files.blob_path(file), files.identity(file));
    engine.close().unwrap();
    machine.world().env.storage.remove(&path).unwrap();
    let storage = &*machine.world().env.storage;
    let mut writer = BlobWriter::create(storage, &path, identity).unwrap();
    for key in [0, 2, 1, 3] {
        writer.append(CF, &[key], &[7; 150]).unwrap();
    }
    writer.finish().unwrap();
    let faults = crate::verify(&machine.world(), Path::new("/db"), &apart())
        .unwrap()
        .faults;
    assert_eq!(faults.len(), 2, "{faults:?}");
    let whose = |fault: &Fault| fault.what.contains("whose value");
    assert!(faults.iter().all(whose), "{faults:?}");
}

/// Parts of a table that nothing is merged with keep none of the files to which they refer.
#[test]
fn cold_parts_of_tables_keep_no_garbage() {
    let machine = Machine::new(PM);
    let mut options = apart();
    options.blob.file_bytes = 1 << 20;
    options.blob.space_percent_max = 101;
    // What is divided by hand stays so.
    options.partition.by = PartitionBy::None;
    let engine = open(&machine, &options);
    let parts_of = |engine: &Engine| -> Vec<Vec<u8>> {
        let version = version_of(engine);
        let parts = version.tables().filter(|(_, table)| table.is_part());
        let parts = parts.filter(|(_, table)| !table.blobs.is_empty());
        parts.map(|(_, table)| table.range.first.to_vec()).collect()
    };
    let keys = 200;
    for n in 0..keys {
        put(&engine, CF, format!("{n:04}").as_bytes(), &value(1, n));
    }
    flush(&engine);
    engine.compact(CF, ALL).unwrap();
    while engine.compact_once().unwrap() {}
    assert!(parts_of(&engine).is_empty());
    let inside = {
        let version = version_of(&engine);
        let (_, last) = version
            .tables()
            .filter(|(_, of)| of.range.first < of.range.last)
            .max_by_key(|(_, of)| of.range.first.clone())
            .unwrap();
        [&last.range.first[..], b"+"].concat()
    };
    assert!(engine.split_partition(CF, &inside).unwrap());
    // What parts refer to is unknown, and nobody is held back for it.
    assert_eq!(engine.inner.common.compactions.behind().garbage_bytes, 0);
    let first = parts_of(&engine).into_iter().min().unwrap();
    // Nothing of what is merged now lies beside them.
    let (half, before) = (b"0100", 0..100usize);
    assert!(first[..] > half[..], "{first:?}");
    for n in before {
        put(&engine, CF, format!("{n:04}").as_bytes(), b"short");
    }
    flush(&engine);
    engine
        .compact(CF, (Bound::Unbounded, Bound::Excluded(half)))
        .unwrap();
    while engine.compact_once().unwrap() {}
    let files = counted(&engine);
    assert!(!is_due(&files, allowance(&engine)), "{files:?}");
}

#[test]
fn who_asks_for_a_compaction_has_the_room_when_it_returns() {
    let machine = Machine::new(PM);
    let mut options = apart();
    options.blob.file_bytes = 1 << 20;
    let engine = open(&machine, &options);
    let bytes = || machine.blob_files().len();
    for n in 0..10u8 {
        put(&engine, CF, &[n], &[n; 5000]);
    }
    engine.compact(CF, ALL).unwrap();
    let before = counted(&engine);
    assert_eq!((before.len(), before[0].live), (1, 50_000));
    for n in 1..10 {
        delete(&engine, CF, &[n]);
    }
    engine.compact(CF, ALL).unwrap();
    engine.reclaim().unwrap();
    let after = counted(&engine);
    assert_eq!((after.len(), after[0].live, bytes()), (1, 5000, 1));
    assert_eq!(after[0].bytes, 5000);
    assert!(after[0].file > before[0].file);
}

/// One bad sector costs the space of the files beside it, and no more.
#[test]
fn what_cannot_move_is_passed_over_and_holds_nobody_back() {
    let machine = Machine::new(PM);
    let mut options = apart();
    options.compaction.level0_tables = 1;
    let engine = open(&machine, &options);
    let write = |round: usize, n: usize| {
        put(&engine, CF, format!("{n:04}").as_bytes(), &value(round, n));
    };
    let halves = [0..100, 100..200usize];
    for half in &halves {
        half.clone().for_each(|n| write(1, n));
        flush(&engine);
        engine.compact(CF, ALL).unwrap();
    }
    // The first value lies in the first file, and stays alive.
    let first = machine.blob_files().into_iter().min().unwrap();
    machine.rot_file(&Path::new("/db").join(first), 64 + 32 + 5);
    for half in halves {
        half.filter(|n| n % 2 == 1).for_each(|n| write(2, n));
        flush(&engine);
    }
    let (mut failed, mut jobs) = (0, 0);
    loop {
        match engine.compact_once() {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                failed += 1;
            }
        }
        jobs += 1;
        assert!(jobs < 1000, "it goes on and on");
    }
    assert_eq!(failed, 1);
    assert!(jobs_for(&engine, Reason::Garbage) > 0);
    // What is left is known at the next edit.
    put(&engine, CF, b"more", b"short");
    flush(&engine);
    let behind = engine.inner.common.compactions.behind();
    assert!(
        behind.garbage_bytes <= behind.garbage_limits.soft,
        "{behind:?}"
    );
    assert!(engine.inner.common.compactions.collects());
    // Nothing was lost but what is bad.
    let get = |n: usize| engine.get(CF, format!("{n:04}").as_bytes(), <[u8]>::to_vec);
    assert_eq!(get(0).unwrap_err().kind(), ErrorKind::Corruption);
    for n in 1..200 {
        assert_eq!(get(n).unwrap(), Some(value(1 + n % 2, n)));
    }
}

/// Merges of level 0 say what is garbage, and wait for no value.
#[test]
fn other_jobs_leave_values_where_they_are() {
    let machine = Machine::new(PM);
    let mut options = apart();
    options.compaction.level0_tables = 1;
    options.compaction.table_bytes = 1 << 10;
    let engine = open(&machine, &options);
    let mut seen = 0;
    for round in 0..12 {
        for n in (0..300).filter(|n| round == 0 || (n + round) % 4 == 0) {
            put(&engine, CF, format!("{n}").as_bytes(), &value(round, n));
        }
        flush(&engine);
        // Some jobs are left for later, so that both kinds are due.
        for _ in 0..2 {
            let (due, before) = (
                is_due(&counted(&engine), allowance(&engine)),
                jobs_for(&engine, Reason::Garbage),
            );
            let files = machine.blob_files();
            if !engine.compact_once().unwrap() {
                break;
            }
            if jobs_for(&engine, Reason::Garbage) == before {
                let made = machine.blob_files();
                assert!(made.iter().all(|file| files.contains(file)));
                seen += u32::from(due);
            }
        }
    }
    assert!(seen > 0, "no other job ran while collection was due");
}

/// Each has its values there twice until it ends, and in a store as small as this one alone may.
#[test]
fn no_job_moves_values_beside_another_one_that_does() {
    let machine = Machine::new(PM);
    let mut options = apart();
    options.compaction.level0_tables = 1;
    options.compaction.table_bytes = 1 << 10;
    let engine = open(&machine, &options);
    for round in 0..2 {
        for n in (0..300).filter(|n| round == 0 || n % 2 == 0) {
            put(&engine, CF, format!("{n:04}").as_bytes(), &value(round, n));
        }
        flush(&engine);
    }
    let compactor = &engine.inner.compactor;
    let mut first = None;
    while let Some(job) = compactor.picker.take_due() {
        if job.reason() == Reason::Garbage {
            first = Some(job);
            break;
        }
        compactor.run(job).unwrap();
    }
    let first = first.expect("half of each file is garbage");
    while let Some(job) = compactor.picker.take_due() {
        assert_ne!(job.reason(), Reason::Garbage);
        compactor.run(job).unwrap();
    }
    compactor.run(first).unwrap();
    let next = compactor.picker.take_due().expect("there is more to move");
    assert_eq!(next.reason(), Reason::Garbage);
    compactor.run(next).unwrap();
    while engine.compact_once().unwrap() {}
    assert!(!is_due(&counted(&engine), allowance(&engine)));
}

/// Jobs that move long values take DRAM for one of them, all together, and it is charged.
#[test]
fn long_values_are_carried_one_at_a_time() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &apart());
    let files = &engine.inner.common.catalog.table_files;
    let before = files.account().charged();
    let (begun, taken) = (AtomicBool::new(false), AtomicBool::new(false));
    let carried = files.carry(5 << 20);
    assert!(files.account().charged() >= before + (5 << 20));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            begun.store(true, Ordering::SeqCst);
            drop(files.carry(5 << 20));
            taken.store(true, Ordering::SeqCst);
        });
        while !begun.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        for _ in 0..10_000 {
            std::thread::yield_now();
            assert!(!taken.load(Ordering::SeqCst));
        }
        drop(carried);
    });
    assert_eq!(files.account().charged(), before);
}

#[test]
fn a_full_disk_fails_a_flush_or_collection_and_leaves_nothing_of_it() {
    let machine = Machine::new(PM);
    let storage = FaultStorage::new(machine.world().env.storage);
    let clock = Arc::new(SimClock::new());
    let mut world = world_of(&machine, &clock);
    world.env.storage = Arc::new(storage.clone());
    let mut options = apart();
    options.blob.space_percent_max = 101;
    let engine = Engine::open(world, Path::new("/db"), options).unwrap();
    let mut model = Model::new();
    for round in 0..3 {
        for n in 0..60u8 {
            if round == 0 || n % 3 == 0 {
                put(&engine, CF, &[n], &value(round, usize::from(n)));
                model.insert(vec![n], value(round, usize::from(n)));
            }
        }
        flush(&engine);
    }
    let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
    let models = [model];
    let mut full = 0;
    for room in [0, 600, 2000, 4000] {
        storage.limit_space(room);
        // What has failed is tried again.
        clock.advance_ns(AGAIN_MAX_NS);
        for _ in 0..20 {
            match engine.compact_once() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    assert!(error.is_no_room(), "{error}");
                    full += 1;
                    break;
                }
            }
        }
        check_now(&engine, &[Family::DEFAULT], &models, &keys);
        let named = engine.metrics().blobs.files;
        assert_eq!(machine.blob_files().len() as u64, named);
    }
    assert!(full > 0);
    storage.limit_space(1 << 30);
    clock.advance_ns(AGAIN_MAX_NS);
    engine.compact(CF, ALL).unwrap();
    while engine.compact_once().unwrap() {}
    let files = counted(&engine);
    assert!(!is_due(&files, allowance(&engine)), "{files:?}");
    check_now(&engine, &[Family::DEFAULT], &models, &keys);
}
