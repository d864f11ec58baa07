//! Range tombstones on their way through a merge: cut where tables are, and gone where they are needless.

use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline_base::{ErrorKind, KeyRange, Kind, RangeTombstone, SeqNo};
use thermocline_compaction::merge::Source;
use thermocline_compaction::output::{Cutter, OutputOptions};
use thermocline_compaction::retain::{Moments, RangesBelow};
use thermocline_jobs::sink::{FileSink, reference};
use thermocline_jobs::source::{Input, RunInput};
use thermocline_jobs::{Counting, Filter, Outputs, Recipe};
use thermocline_sst::{Creation, KeyRef, TableWriter, Value, WriteOptions};
use thermocline_version::{Change, FileKind, Place, TableRef, VersionEdit};

use super::*;

/// Keys of two letters, and the longest first one behind all.
fn key(n: usize) -> Vec<u8> {
    let digit = |n: usize| b'a' + u8::try_from(n % 16).unwrap();
    vec![digit(n / 16), digit(n)]
}

const KEYS: usize = 255;

/// One table with these, of seqnos from `first` on.
fn table(engine: &Engine, rng: &mut Rng, first: u64, all: &mut All) -> Arc<TableRef> {
    let inner = &*engine.inner;
    let file = inner.common.catalog.pin_file(FileKind::Table).unwrap();
    let (path, identity) = (
        inner.common.catalog.table_files.path(file),
        inner.common.catalog.table_files.identity(file),
    );
    let storage = &*inner.common.catalog.table_files.storage;
    let options = WriteOptions::default();
    let mut table = TableWriter::create(storage, &path, identity, CfId::DEFAULT, options).unwrap();
    let mut seqno = first;
    let mut entries = BTreeMap::new();
    for _ in 0..rng.below(60) {
        entries.insert(key(rng.below(KEYS)), (seqno, rng.one_in(5)));
        seqno += 1;
    }
    for (key, (seqno, delete)) in &entries {
        let (kind, value) = match delete {
            true => (Kind::Delete, vec![]),
            false => (Kind::Put, vec![7; 40]),
        };
        table
            .add(KeyRef::new(key, SeqNo(*seqno)), kind, Value::Inline(&value))
            .unwrap();
        all.entries.push((key.clone(), *seqno, kind));
    }
    let mut tombstones = Vec::new();
    for _ in 0..1 + rng.below(12) {
        let start = rng.below(KEYS - 1);
        let end = start + 1 + rng.below(KEYS - start - 1);
        tombstones.push((key(start), std::cmp::Reverse(seqno), key(end)));
        seqno += 1;
    }
    tombstones.sort();
    for (start, seqno, end) in tombstones {
        let seqno = SeqNo(seqno.0);
        table
            .add(
                KeyRef::new(&start, seqno),
                Kind::RangeDelete,
                Value::Inline(&end),
            )
            .unwrap();
        all.tombstones.push(RangeTombstone { start, end, seqno });
    }
    assert!(seqno <= first + 100);
    Arc::new(reference(file, table.finish().unwrap()))
}

#[derive(Default)]
struct All {
    entries: Vec<(Vec<u8>, u64, Kind)>,
    tombstones: Vec<RangeTombstone>,
}

/// What is in these tables. Each must lie within what its reference says.
fn contents(engine: &Engine, tables: &[Arc<TableRef>]) -> All {
    let mut all = All::default();
    for table in tables {
        let meter = engine.inner.common.meter();
        let run = RunInput::new(
            &engine.inner.common.catalog.table_files,
            CfId::DEFAULT,
            vec![table.clone()],
            &meter,
        );
        for tombstone in run.tombstones().unwrap() {
            assert!(*tombstone.start >= *table.range.first);
            assert!(*tombstone.end <= *table.range.last);
            all.tombstones.push(tombstone);
        }
        let mut input = Input::Run(Box::new(run));
        input.seek(b"", SeqNo::MAX).unwrap();
        while let Some(head) = input.head() {
            assert!(table.range.contains(head.user_key));
            all.entries
                .push((head.user_key.to_vec(), head.seqno.0, head.kind));
            input.advance().unwrap();
        }
    }
    all
}

/// Of each key the seqnos of the range tombstones over it.
fn over(tombstones: &[RangeTombstone]) -> Vec<Vec<u64>> {
    let over = |n: usize| {
        let key = key(n);
        let covers = |t: &&RangeTombstone| t.start <= key && key < t.end;
        let mut seqnos: Vec<u64> = tombstones
            .iter()
            .filter(covers)
            .map(|t| t.seqno.0)
            .collect();
        seqnos.sort_unstable();
        seqnos.dedup();
        seqnos
    };
    (0..KEYS).map(over).collect()
}

#[test]
fn range_tombstones_are_cut_where_tables_are() {
    let mut tables_max = 0;
    for seed in seeds(0..60) {
        let _replay = Replay::new("-p thermocline-engine range_tombstones_are_cut", seed);
        let mut rng = Rng::new(seed);
        let engine = open(&Machine::new(PM), &tiny());
        let inner = &*engine.inner;
        let mut all = All::default();
        let tables: Vec<_> = (0..3)
            .map(|n| table(&engine, &mut rng, 100 * n, &mut all))
            .collect();
        let meter = inner.common.meter();
        let inputs = tables.iter().rev();
        let files = &inner.common.catalog.table_files;
        let inputs = inputs.map(|t| RunInput::new(files, CfId::DEFAULT, vec![t.clone()], &meter));
        let inputs: Vec<_> = inputs.collect();
        let tombstones = inputs
            .iter()
            .flat_map(|run| run.tombstones().unwrap())
            .collect();
        let mut outputs = Outputs::default();
        let options = thermocline_compaction::output::OutputOptions {
            target_bytes: 100 + rng.below(2000) as u64,
            ..Default::default()
        };
        let place = Place::new(CfId::DEFAULT, Level(1));
        let shape = &inner.common.compactions.shape;
        let write_options = shape.write_options(1, 6, Creation::Compaction);
        let mut sink = FileSink::new(&inner.common.catalog, place, write_options);
        let recipe = Recipe {
            cf: CfId::DEFAULT,
            cutter: Cutter::new(options, vec![key(77)], vec![]),
            // Every seqno may be asked for: all of it stays.
            moments: Moments::new(vec![], SeqNo::ZERO),
            tombstones,
            below: RangesBelow::default(),
            settled: SeqNo::MAX,
            exists: &|_, _| true,
            prefixes: None,
            counting: None,
            operator: None,
            filter: None,
        };
        let inputs = inputs
            .into_iter()
            .map(|run| Input::Run(Box::new(run)))
            .collect();
        inner
            .making
            .write_outputs(inputs, recipe, &mut sink, &mut |_| Ok(()), &mut outputs)
            .unwrap();
        let written: Vec<_> = outputs
            .tables
            .iter()
            .map(|(_, table)| table.clone())
            .collect();
        tables_max = tables_max.max(written.len());
        for pair in written.windows(2) {
            assert!(pair[0].range.ends_before(&pair[1].range.first), "{pair:?}");
        }
        let found = contents(&engine, &written);
        all.entries.sort_by(|a, b| (&a.0, b.1).cmp(&(&b.0, a.1)));
        let wanted: Vec<_> = all
            .entries
            .iter()
            .filter(|(.., kind)| *kind == Kind::Put)
            .collect();
        let puts: Vec<_> = found
            .entries
            .iter()
            .filter(|(.., kind)| *kind == Kind::Put)
            .collect();
        assert_eq!(puts, wanted);
        assert_eq!(over(&found.tombstones), over(&all.tombstones));
        assert!(found.tombstones.len() >= all.tombstones.len() / 3);
    }
    assert!(tables_max > 5 || seeds(0..2).len() == 1, "{tables_max}");
}

/// Of a job that writes all entries of its inputs into one table.
fn plain_recipe() -> Recipe<'static> {
    Recipe {
        cf: CfId::DEFAULT,
        cutter: Cutter::new(Default::default(), vec![], vec![]),
        moments: Moments::new(vec![], SeqNo::ZERO),
        tombstones: vec![],
        below: RangesBelow::default(),
        settled: SeqNo::MAX,
        exists: &|_, _| true,
        prefixes: None,
        counting: None,
        operator: None,
        filter: None,
    }
}

/// Bytes of DRAM that a job over one table takes when it begins. The table has 1000 keys, and so many range tombstones.
fn memory_over_a_table(engine: &Engine, ranges: u64, filter: bool) -> u64 {
    let inner = &*engine.inner;
    let (catalog, files) = (&inner.common.catalog, &inner.common.catalog.table_files);
    let file = catalog.pin_file(FileKind::Table).unwrap();
    let (path, identity) = (files.path(file), files.identity(file));
    let options = WriteOptions {
        filter,
        ..WriteOptions::default()
    };
    let table = TableWriter::create(&*files.storage, &path, identity, CfId::DEFAULT, options);
    let mut table = table.unwrap();
    for n in 0..1000u64 {
        let key = n.to_be_bytes();
        let key = KeyRef::new(&key, SeqNo(1));
        table.add(key, Kind::Put, Value::Inline(b"v")).unwrap();
    }
    let long = |n: u64| [&n.to_be_bytes()[..], &[b'k'; 100]].concat();
    for n in 0..ranges {
        let (start, end) = (long(n), long(n + 1));
        let (start, end) = (KeyRef::new(&start, SeqNo(2)), Value::Inline(&end));
        table.add(start, Kind::RangeDelete, end).unwrap();
    }
    let tables = vec![Arc::new(reference(file, table.finish().unwrap()))];
    let meter = inner.common.meter();
    let run = RunInput::new(files, CfId::DEFAULT, tables, &meter);
    let place = Place::new(CfId::DEFAULT, Level(1));
    let mut sink = FileSink::new(catalog, place, WriteOptions::default());
    let inputs = vec![Input::Run(Box::new(run))];
    let job = thermocline_jobs::Job::new(inputs, plain_recipe(), &mut sink).unwrap();
    job.memory()
}

#[test]
fn tables_that_a_job_has_open_count_in_what_it_takes_and_have_no_filters() {
    let engine = open(&Machine::new(PM), &tiny());
    let few = memory_over_a_table(&engine, 1, true);
    assert_eq!(memory_over_a_table(&engine, 1, false), few);
    let many = memory_over_a_table(&engine, 1000, true);
    assert!(many > few + 200_000, "{few}, {many}");
}

/// A job that has enough reads one record more, to know that its key has ended. A broken engine counts that as read, and as expired,
/// though it lies where it lay, and so does the next job.
#[test]
fn what_expires_counts_in_the_job_that_writes_it() {
    let engine = open(&Machine::new(PM), &tiny());
    let inner = &*engine.inner;
    let (catalog, files) = (&inner.common.catalog, &inner.common.catalog.table_files);
    let file = catalog.pin_file(FileKind::Table).unwrap();
    let (path, identity) = (files.path(file), files.identity(file));
    let options = WriteOptions::default();
    let table = TableWriter::create(&*files.storage, &path, identity, CfId::DEFAULT, options);
    let mut table = table.unwrap();
    for (key, seqno) in [(b"a", 9), (b"b", 8), (b"c", 7)] {
        let key = KeyRef::new(key, SeqNo(seqno));
        table.add(key, Kind::Put, Value::Inline(b"v")).unwrap();
    }
    let tables = vec![Arc::new(reference(file, table.finish().unwrap()))];
    let meter = inner.common.meter();
    let run = RunInput::new(files, CfId::DEFAULT, tables, &meter);
    let place = Place::new(CfId::DEFAULT, Level(1));
    let version = catalog.version();
    let partitions = version.partitions(CfId::DEFAULT);
    // It has enough with one table, and each table has one key.
    let mut sink = FileSink::new(catalog, place, options).naming(1);
    let small = OutputOptions {
        target_bytes: 1,
        ..OutputOptions::default()
    };
    let filter = Filter {
        expired: Some(SeqNo(9)),
        filter: None,
        seen: None,
        level: 1,
        read: &|_, _| Ok(Vec::new()),
        memory: &|| 0,
    };
    let recipe = Recipe {
        cutter: Cutter::new(small, vec![], vec![]),
        // What has expired becomes a delete, which stays.
        below: RangesBelow::new([KeyRange::inclusive(&b"a"[..], &b"c"[..])]),
        filter: Some(filter),
        counting: Some(Counting::new(partitions, Some(SeqNo::ZERO))),
        ..plain_recipe()
    };
    let (inputs, mut outputs) = (vec![Input::Run(Box::new(run))], Outputs::default());
    let written =
        inner
            .making
            .write_outputs(inputs, recipe, &mut sink, &mut |_| Ok(()), &mut outputs);
    written.unwrap();
    assert_eq!(outputs.ended_at.as_deref(), Some(&b"b"[..]));
    assert_eq!((outputs.entries_read, outputs.count()), (1, 1));
    let writes = outputs.counted.iter().flat_map(|(_, counted)| counted);
    assert_eq!(writes.map(|(_, counts)| counts.writes).sum::<f64>(), 1.0);
    let filtered = outputs.filtered;
    assert_eq!((filtered.expired, filtered.oldest), (1, Some(SeqNo(9))));
}

/// A job over the first part of a long table reads that part, and not on to the end of the file.
#[test]
fn what_lies_behind_the_limit_of_a_part_is_not_read() {
    let engine = open(&Machine::new(PM), &tiny());
    let inner = &*engine.inner;
    let (catalog, files) = (&inner.common.catalog, &inner.common.catalog.table_files);
    let piece = files.piece_bytes as u64;
    let file = catalog.pin_file(FileKind::Table).unwrap();
    let (path, identity) = (files.path(file), files.identity(file));
    let options = WriteOptions::default();
    let table = TableWriter::create(&*files.storage, &path, identity, CfId::DEFAULT, options);
    let (mut table, mut rng) = (table.unwrap(), Rng::new(1));
    let (rows, limit) = (8 * piece / 4000, piece / 16_000);
    for n in 0..rows {
        let value: Vec<u8> = (0..500)
            .flat_map(|_| rng.next_u64().to_le_bytes())
            .collect();
        let key = n.to_be_bytes();
        let key = KeyRef::new(&key, SeqNo(1));
        table.add(key, Kind::Put, Value::Inline(&value)).unwrap();
    }
    let whole = reference(file, table.finish().unwrap());
    let part = whole.part(None, Some(&limit.to_be_bytes()[..])).unwrap();
    let meter = inner.common.meter();
    let run = RunInput::new(files, CfId::DEFAULT, vec![Arc::new(part)], &meter);
    let mut input = Input::Run(Box::new(run));
    input.seek(b"", SeqNo::MAX).unwrap();
    let mut read = 0;
    while input.head().is_some() {
        read += 1;
        input.advance().unwrap();
    }
    assert_eq!(read, limit);
    let bytes = meter.bytes_read();
    assert!((4000 * limit..piece).contains(&bytes), "{bytes}");
}

/// What the tables of a run hold is not where the manifest has it, and all checksums are right. A job that goes on would write tables whose
/// keys nobody finds.
#[test]
fn a_run_out_of_order_is_corruption_that_names_the_file() {
    let engine = open(&Machine::new(PM), &tiny());
    let inner = &*engine.inner;
    let (catalog, files) = (&inner.common.catalog, &inner.common.catalog.table_files);
    let write = |keys: &[u8], seqno: u64| {
        let file = catalog.pin_file(FileKind::Table).unwrap();
        let (path, identity) = (files.path(file), files.identity(file));
        let options = WriteOptions::default();
        let table = TableWriter::create(&*files.storage, &path, identity, CfId::DEFAULT, options);
        let mut table = table.unwrap();
        for key in keys {
            let key = KeyRef::new(std::slice::from_ref(key), SeqNo(seqno));
            table.add(key, Kind::Put, Value::Inline(b"v")).unwrap();
        }
        Arc::new(reference(file, table.finish().unwrap()))
    };
    let tables = vec![write(b"am", 1), write(b"cz", 2)];
    let second = files.path(tables[1].file);
    let meter = inner.common.meter();
    let run = RunInput::new(files, CfId::DEFAULT, tables, &meter);
    let place = Place::new(CfId::DEFAULT, Level(1));
    let mut sink = FileSink::new(catalog, place, WriteOptions::default());
    let (inputs, mut outputs) = (vec![Input::Run(Box::new(run))], Outputs::default());
    let written = inner.making.write_outputs(
        inputs,
        plain_recipe(),
        &mut sink,
        &mut |_| Ok(()),
        &mut outputs,
    );
    let error = written.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    let named = second.display().to_string();
    assert!(error.to_string().contains(&named), "{error}");
}

#[test]
fn what_range_tombstones_cover_goes_and_they_go_after_it() {
    for seed in seeds(0..20) {
        let _replay = Replay::new("-p thermocline-engine what_range_tombstones_cover", seed);
        let mut rng = Rng::new(seed);
        let engine = open(&Machine::new(PM), &tiny());
        let inner = &*engine.inner;
        for n in 0..500u64 {
            put(&engine, CfId::DEFAULT, b"visible", &n.to_be_bytes());
        }
        let mut all = All::default();
        for n in 0..4 {
            let table = table(&engine, &mut rng, 1 + 100 * n, &mut all);
            let place = Place::new(CfId::DEFAULT, Level::ZERO);
            let file = table.file;
            let added = Change::TableAdded { place, table };
            inner
                .common
                .catalog
                .edit(&VersionEdit::from(added))
                .unwrap();
            inner.common.catalog.unpin_files([file].into_iter());
        }
        inner.memtables.show_tables();
        while inner.compactor.compact_once().unwrap() {}
        let (from, to) = (
            std::ops::Bound::Unbounded,
            std::ops::Bound::Excluded(&b"v"[..]),
        );
        engine.compact(CfId::DEFAULT, (from, to)).unwrap();
        let version = inner.common.catalog.view().tables.version().clone();
        let tables: Vec<_> = version
            .tables_of(CfId::DEFAULT)
            .map(|(_, t)| t.clone())
            .collect();
        let found = contents(&engine, &tables);
        assert_eq!(found.tombstones, []);
        let newest = |n: usize| {
            let of_key = all.entries.iter().filter(|(k, ..)| *k == key(n));
            let newest = of_key.max_by_key(|(_, seqno, _)| *seqno)?;
            let covered = over(&all.tombstones)[n]
                .iter()
                .any(|seqno| *seqno > newest.1);
            (newest.2 == Kind::Put && !covered).then(|| newest.clone())
        };
        let wanted: Vec<_> = (0..KEYS).filter_map(newest).collect();
        let of_keys = found.entries.into_iter().filter(|(key, ..)| key.len() == 2);
        assert_eq!(of_keys.collect::<Vec<_>>(), wanted);
    }
}

#[test]
fn what_a_job_reads_it_reads_once() {
    let machine = Machine::new(16 << 20);
    let mut options = tiny();
    options.pm = 16 << 20;
    options.compaction.table_bytes = 4 << 20;
    let engine = open(&machine, &options);
    for n in 0..3000u64 {
        put(&engine, CfId::DEFAULT, &n.to_be_bytes(), &[7; 1000]);
    }
    flush(&engine);
    let version = version_of(&engine);
    let tables: Vec<_> = version.tables().map(|(_, table)| table.clone()).collect();
    let bytes: u64 = tables.iter().map(|table| table.bytes).sum();
    let meter = engine.inner.common.meter();
    let files = &engine.inner.common.catalog.table_files;
    let run = RunInput::new(files, CfId::DEFAULT, tables, &meter);
    let (mut run, mut entries) = (Input::Run(Box::new(run)), 0);
    run.seek(b"", SeqNo::MAX).unwrap();
    while run.head().is_some() {
        entries += 1;
        run.advance().unwrap();
    }
    assert_eq!(entries, 3000);
    // A block lies in two pieces, and its beginning is read twice; the filter is no part of it.
    let read = meter.bytes_read();
    assert!(
        (bytes * 97 / 100..=bytes * 102 / 100).contains(&read),
        "{read} of {bytes}"
    );
}
