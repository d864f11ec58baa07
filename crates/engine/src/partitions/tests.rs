use std::ops::Bound::{Excluded, Included, Unbounded};
use std::path::Path;

use thermocline_base::options::PartitionBy;
use thermocline_base::planted::{Bug, plant};
use thermocline_base::{CfOptions, Codec, ErrorKind, FileId, KeyRange};
use thermocline_policy::level0::PartitionRate;
use thermocline_policy::partitions::splits_still;
use thermocline_policy::tuning::MEASURED_KEYS;
use thermocline_policy::work::Work;
use thermocline_testkit::{Replay, Rng, seeds};
use thermocline_version::{Level, PartitionId, TableRef};

use super::*;
use crate::flush::Extent;
use crate::flush::tests::{Model, check_now, check_then, delete, delete_range, files, put};
use crate::store::Engine;
use crate::sync::{Arc, lock};
use crate::tests::Machine;
use crate::{Family, Snapshot};

mod cuts;

const PM: u64 = 4 << 20;

fn options() -> Options {
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    // What is looked at lies in files.
    options.set("level0.shape", "global-index").unwrap();
    options.pm_region.part_bytes_first = 256 << 10;
    options.compaction.table_bytes = 2 << 10;
    options.compaction.base_bytes = 8 << 10;
    options.compaction.block_bytes = 512;
    options.compaction.compression = Codec::None;
    options.compaction.compression_last = Codec::None;
    // What is counted are bytes of tables.
    options.blob.value_bytes_min = 0;
    options
}

fn by_size() -> Options {
    let mut options = options();
    options.partition.by = PartitionBy::Size;
    options.partition.bytes = 8 << 10;
    options
}

fn open(machine: &Machine, options: &Options) -> Engine {
    Engine::open(machine.world(), Path::new("/db"), options.clone()).unwrap()
}

fn starts(engine: &Engine) -> Vec<Vec<u8>> {
    let all = engine.partitions(CfId::DEFAULT).into_iter();
    all.map(|partition| partition.start).collect()
}

fn flush(engine: &Engine) {
    engine.inner.memtables.seal_active().unwrap();
    engine.inner.flusher.flush_sealed(Extent::All).unwrap();
}

fn key(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

fn version(engine: &Engine) -> Arc<Version> {
    engine.inner.common.catalog.version()
}

/// A store with `n` keys, of which every tenth is deleted again, in tables of several levels.
fn filled(machine: &Machine, options: &Options, n: u64) -> (Engine, Model) {
    let engine = open(machine, options);
    let mut model = Model::new();
    let mut rng = Rng::new(1);
    for i in 0..n {
        let key = key(rng.below(1000) as u64);
        put(&engine, CfId::DEFAULT, &key, &[1; 100]);
        model.insert(key, vec![1; 100]);
        if i % 10 == 9 {
            let key = model.keys().next().unwrap().clone();
            delete(&engine, CfId::DEFAULT, &key);
            model.remove(&key);
        }
        if i % 40 == 39 {
            flush(&engine);
        }
        if i % 200 == 199 {
            while engine.inner.compactor.compact_once().unwrap() {}
        }
    }
    (engine, model)
}

fn keys_of(model: &Model) -> Vec<Vec<u8>> {
    model.keys().cloned().collect()
}

fn check(engine: &Engine, model: &Model) {
    let (families, models) = ([Family::DEFAULT], [model.clone()]);
    check_now(engine, &families, &models, &keys_of(model));
}

#[test]
fn what_is_not_divided_has_no_partition_of_all_keys() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &options());
    for start in [&b""[..], b"a"] {
        let error = engine.partition_at(CfId::DEFAULT, start).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("not divided"), "{error}");
    }
    // By size there is one from the beginning.
    let machine = Machine::new(PM);
    let engine = open(&machine, &by_size());
    let all = engine.partition_at(CfId::DEFAULT, b"").unwrap();
    assert_eq!(all, (Vec::new(), None));
    engine.partition_at(CfId::DEFAULT, b"a").unwrap_err();
}

#[test]
fn partitions_grow_apart_by_size_and_together_when_their_data_goes() {
    let machine = Machine::new(PM);
    let (engine, mut model) = filled(&machine, &by_size(), 900);
    engine.drain().unwrap();
    let sizes = engine.partitions(CfId::DEFAULT);
    assert!(sizes.len() > 4, "{}", sizes.len());
    let plan = &engine.plan().families[0].partitions;
    assert_eq!((plan.count, &plan.split), (sizes.len(), &None));
    assert!(plan.merge.is_empty());
    assert_eq!(plan.bytes_due, Some(8 << 10));
    // None is much larger than a table more than it may be.
    assert!(plan.bytes_most < 12 << 10, "{plan:?}");
    check(&engine, &model);
    let snapshot: Snapshot = engine.snapshot();
    let before = model.clone();
    let machine = {
        let family = [Family::DEFAULT];
        let keys = keys_of(&before);
        for key in &keys[..keys.len() - 5] {
            delete(&engine, CfId::DEFAULT, key);
            model.remove(key);
        }
        check_then(&snapshot, &family, &[before], &keys);
        drop(snapshot);
        engine
            .compact(CfId::DEFAULT, (Unbounded, Unbounded))
            .unwrap();
        assert_eq!(starts(&engine), [b""]);
        check(&engine, &model);
        assert!(files(&machine) <= 2, "{}", files(&machine));
        machine.killed()
    };
    let engine = open(&machine, &by_size());
    assert_eq!(starts(&engine), [b""]);
    check(&engine, &model);
}

#[test]
fn a_split_cuts_references_and_a_merge_joins_them_and_neither_touches_a_file() {
    let machine = Machine::new(PM);
    let (engine, model) = filled(&machine, &options(), 600);
    let cf = CfId::DEFAULT;
    let (before, there) = (version(&engine), files(&machine));
    let over = |key: &[u8]| version(&engine).reaching_over(cf, key).count();
    let at = (1..1000).map(key).max_by_key(|key| over(key)).unwrap();
    let cut = over(&at);
    assert!(cut > 0, "{cut}");
    let snapshot = engine.snapshot();
    assert!(engine.split_partition(cf, &at).unwrap());
    assert!(!engine.split_partition(cf, &at).unwrap());
    assert_eq!(over(&at), 0);
    assert_eq!(
        version(&engine).tables().count(),
        before.tables().count() + cut
    );
    assert_eq!(
        (files(&machine), starts(&engine)),
        (there, vec![vec![], at.clone()])
    );
    check(&engine, &model);
    // What was cut tells how much is on each side.
    let [low, high] = [
        (Unbounded, Excluded(&at[..])),
        (Included(&at[..]), Unbounded),
    ]
    .map(|range| engine.approximate_sizes(cf, &[range]).unwrap()[0].table_bytes);
    for (size, exact) in engine.partitions(cf).iter().zip([low, high]) {
        assert!(size.bytes.abs_diff(exact) < 4 << 10, "{size:?} {exact}");
    }
    // Opened again, and the other way.
    let machine = machine.killed();
    let engine = open(&machine, &options());
    assert_eq!(starts(&engine), [vec![], at.clone()]);
    check(&engine, &model);
    assert!(engine.merge_partition(cf, &at).unwrap());
    assert!(!engine.merge_partition(cf, &at).unwrap());
    assert!(!engine.merge_partition(cf, b"").unwrap());
    let after = version(&engine);
    assert_eq!(after.tables().count(), before.tables().count());
    assert!(after.tables().all(|(_, table)| !table.is_part()));
    check(&engine, &model);
    let report = {
        engine.close().unwrap();
        crate::verify(&machine.world(), Path::new("/db"), &options()).unwrap()
    };
    assert_eq!(report.faults, []);
    check_then(
        &snapshot,
        &[Family::DEFAULT],
        std::slice::from_ref(&model),
        &keys_of(&model),
    );
}

/// A file of which parts are compacted apart goes when the last of them is done, and no earlier.
#[test]
fn a_file_stays_as_long_as_a_part_of_it() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &options());
    let cf = CfId::DEFAULT;
    let mut model = Model::new();
    for round in 0..2u8 {
        for n in 0..16 {
            put(&engine, cf, &key(n), &[round; 50]);
            model.insert(key(n), vec![round; 50]);
        }
        flush(&engine);
    }
    let names = |engine: &Engine| -> Vec<_> { version(engine).files().map(|(f, _)| f).collect() };
    let both = names(&engine);
    assert_eq!(both.len(), 2);
    engine.split_partition(cf, &key(8)).unwrap();
    assert_eq!(names(&engine), both);
    engine
        .compact(cf, (Unbounded, Excluded(&key(8)[..])))
        .unwrap();
    let after = names(&engine);
    assert!(
        both.iter().all(|file| after.contains(file)) && after.len() == 3,
        "{after:?}"
    );
    check(&engine, &model);
    engine
        .compact(cf, (Included(&key(8)[..]), Unbounded))
        .unwrap();
    assert!(names(&engine).iter().all(|file| !both.contains(file)));
    assert_eq!(files(&machine), names(&engine).len());
    check(&engine, &model);
}

/// A store with one compaction due that is as wide as all keys.
fn with_wide_job(machine: &Machine) -> (Engine, Model) {
    let engine = open(machine, &options());
    let mut model = Model::new();
    for round in 0..5u8 {
        for n in 0..20 {
            put(&engine, CfId::DEFAULT, &key(n * 50), &[round; 100]);
            model.insert(key(n * 50), vec![round; 100]);
        }
        flush(&engine);
    }
    (engine, model)
}

/// Jobs that were installed, flushes among them.
fn jobs(engine: &Engine) -> u64 {
    let levels = engine.metrics().compaction.levels;
    levels.iter().map(|level| level.jobs).sum()
}

/// Who asks for splits here.
const HAND: Waiter = Waiter::Hand(0);

/// Asks for a split beside a job that was begun. Returns what became of it, and whether the job was installed.
fn split_beside_job(engine: &Engine) -> (Outcome, bool) {
    let inner = &engine.inner;
    let job = inner.compactor.picker.take_due().expect("one is due");
    let split = Adjustment::Split(key(500));
    let outcome = inner
        .partitioner
        .adjust(CfId::DEFAULT, &split, HAND)
        .unwrap();
    // Nothing else begins where it waits.
    assert!(outcome != Outcome::Waits || inner.compactor.picker.take_due().is_none());
    let before = jobs(engine);
    inner.compactor.run(job).unwrap();
    (outcome, jobs(engine) > before)
}

#[test]
fn a_split_queues_behind_the_jobs_of_its_range() {
    let machine = Machine::new(PM);
    let (engine, model) = with_wide_job(&machine);
    assert_eq!(split_beside_job(&engine), (Outcome::Waits, true));
    let split = Adjustment::Split(key(500));
    let outcome = engine
        .inner
        .partitioner
        .adjust(CfId::DEFAULT, &split, HAND)
        .unwrap();
    assert_eq!(outcome, Outcome::Done);
    check(&engine, &model);
    let usage = engine.metrics().partitions;
    assert_eq!((usage.count, usage.splits, usage.waits), (2, 1, 1));
    while engine.inner.compactor.compact_once().unwrap() {}
    check(&engine, &model);
    // If it does not, the job's work is lost.
    let _bug = plant(Bug::SplitBesideJob);
    let machine = Machine::new(PM);
    let (engine, model) = with_wide_job(&machine);
    assert_eq!(split_beside_job(&engine), (Outcome::Done, false));
    check(&engine, &model);
}

#[test]
fn keys_divide_every_family_from_the_beginning() {
    let machine = Machine::new(PM);
    let mut with_keys = options();
    with_keys.set("partition.by", "keys").unwrap();
    with_keys.set("partition.keys", "d,m").unwrap();
    let engine = open(&machine, &with_keys);
    let red = engine
        .family("red", &CfOptions::default().reverse(true))
        .unwrap();
    let expected = [&b""[..], b"d", b"m"];
    assert_eq!(starts(&engine), expected);
    let of = |engine: &Engine, cf| -> Vec<Vec<u8>> {
        engine.partitions(cf).into_iter().map(|p| p.start).collect()
    };
    assert_eq!(of(&engine, red.id), expected);
    engine.close().unwrap();
    // More keys make more of them, and those that are there stay.
    with_keys.set("partition.keys", "m,x").unwrap();
    let engine = open(&machine, &with_keys);
    assert_eq!(of(&engine, red.id), [&b""[..], b"d", b"m", b"x"]);
    engine.drop_family("red").unwrap();
    engine.close().unwrap();
    let mut only_reads = options();
    only_reads.read_only = true;
    let engine = open(&machine, &only_reads);
    assert_eq!(starts(&engine), [&b""[..], b"d", b"m", b"x"]);
    assert_eq!(version(&engine).divided().count(), 1);
}

/// A family may be divided in a way of its own, which it keeps.
#[test]
fn families_are_divided_as_they_were_made() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &options());
    let by = |by| CfOptions::default().partition_by(by);
    let prefixed = by(PartitionBy::Prefix).partition_prefix_len(2);
    let sized = by(PartitionBy::Size).partition_bytes(8 << 10);
    let (prefixed, sized) = (
        engine.family("prefixed", &prefixed).unwrap(),
        engine.family("sized", &sized).unwrap(),
    );
    for (bad, says) in [
        (by(PartitionBy::Size).partition_bytes(1), "4 tables"),
        (
            by(PartitionBy::Prefix).partition_prefix_len(256),
            "between 1 and 255",
        ),
        (by(PartitionBy::Keys), "needs partition.keys"),
    ] {
        let error = engine.family("bad", &bad).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(says), "{error}");
    }
    let write = |engine: &Engine| {
        for n in 0..200 {
            for cf in [CfId::DEFAULT, prefixed.id, sized.id] {
                put(engine, cf, &key(n * 0x0001_0000_0000_0000), &[1; 100]);
            }
        }
        engine.flush().unwrap();
    };
    let counts = |engine: &Engine| {
        [CfId::DEFAULT, prefixed.id, sized.id].map(|cf| engine.partitions(cf).len())
    };
    write(&engine);
    let [one, prefixes, sizes] = counts(&engine);
    // Before the first prefix there is one more.
    assert_eq!((one, prefixes), (1, 201));
    assert!(sizes > 2, "{sizes}");
    engine.close().unwrap();
    // It stays so, whatever the database's options say.
    let engine = open(&machine, &by_size());
    let asked = by(PartitionBy::Prefix).partition_prefix_len(3);
    let error = engine.family("prefixed", &asked).unwrap_err().to_string();
    assert!(
        error.contains("partition.prefix_len=2, which stays"),
        "{error}"
    );
    engine.family("prefixed", &CfOptions::default()).unwrap();
    engine.drain().unwrap();
    let [default, prefixes, _] = counts(&engine);
    assert!(default > 2 && prefixes == 201, "{default} {prefixes}");
    engine.drop_family("sized").unwrap();
    assert!(!engine.inner.common.families.any_by_size());
}

/// A split waits for a job, and its family, the last one that is divided by size, is dropped. If it waited on, each job that ends
/// would ask for another one for its sake.
#[test]
fn a_split_of_a_dropped_family_waits_no_more() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &options());
    let sized = CfOptions::default()
        .partition_by(PartitionBy::Size)
        .partition_bytes(8 << 10);
    let cf = engine.family("sized", &sized).unwrap().id;
    for round in 0..5u8 {
        for n in 0..20 {
            put(&engine, cf, &key(n * 50), &[round; 100]);
        }
        flush(&engine);
    }
    let inner = &engine.inner;
    let job = inner.compactor.picker.take_due().expect("one is due");
    let held = inner
        .compactor
        .picker
        .hold_for_split(cf, &key(500), Waiter::Size);
    assert!(held.is_none() && inner.common.compactions.is_waiting(Waiter::Size));
    engine.drop_family("sized").unwrap();
    inner.compactor.run(job).unwrap();
    assert!(!inner.common.compactions.is_waiting(Waiter::Size));
}

#[test]
fn more_than_there_may_be_are_refused() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &options());
    for (bad, says) in [
        (vec![], "1 to 65535 bytes"),
        (vec![0; limits::KEY_LEN_MAX + 1], "65536 were given"),
    ] {
        let error = engine.split_partition(CfId::DEFAULT, &bad).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(says), "{error}");
    }
    engine.close().unwrap();
    let mut many = options();
    many.partition.by = PartitionBy::Keys;
    many.partition_keys = (0..65_534u64).map(key).collect();
    many.partition_keys[0] = vec![0];
    let engine = open(&machine, &many);
    assert_eq!(
        engine.partitions(CfId::DEFAULT).len(),
        limits::PARTITIONS_MAX
    );
    let error = engine.split_partition(CfId::DEFAULT, b"x").unwrap_err();
    assert!(
        error.to_string().contains("at most 65535 partitions"),
        "{error}"
    );
    engine.close().unwrap();
    let kept = many.partition_keys.clone();
    many.partition_keys.push(vec![0xff]);
    assert!(many.validate().is_err());
    many.partition_keys.remove(5);
    let error = Engine::open(machine.world(), Path::new("/db"), many).unwrap_err();
    assert!(
        error.to_string().contains("and 1 more are asked for"),
        "{error}"
    );
    // What was refused is not remembered: with what is, the store opens.
    let stored = Engine::stored_options(&machine.world(), Path::new("/db"));
    let stored = stored.unwrap().unwrap();
    assert!(stored.partition_keys == kept);
    drop(open(&machine, &stored));
}

/// Ten thousand prefixes cost neither tables nor edits: what a flush writes, and how many there are, is about as
/// without them. Here each key has a prefix of its own, so that a filter takes twice as much, and a table has a twentieth fewer keys.
#[test]
fn ten_thousand_prefixes_make_hardly_more_tables_than_none() {
    let mut by_prefix = options();
    by_prefix.pm = 16 << 20;
    by_prefix.compaction.table_bytes = 64 << 10;
    by_prefix.compaction.base_bytes = 256 << 10;
    let whole = by_prefix.clone();
    by_prefix.partition.by = PartitionBy::Prefix;
    by_prefix.partition.prefix_len = 4;
    let run = |options: &Options| {
        let machine = Machine::new(options.pm);
        let engine = open(&machine, options);
        let mut rng = Rng::new(3);
        for _round in 0..3 {
            let mut batch = thermocline_base::WriteBatch::new();
            for n in 0..10_000u32 {
                let key = [&n.to_be_bytes()[..], &rng.next_u64().to_le_bytes()].concat();
                batch.put(CfId::DEFAULT, &key, b"value").unwrap();
            }
            engine
                .write(batch.iter(), crate::Durability::Immediate)
                .unwrap();
            // A shorter key makes none.
            put(&engine, CfId::DEFAULT, b"abc", b"");
            engine.flush().unwrap();
        }
        let tables = version(&engine).tables().count();
        let wrote: u64 = engine
            .metrics()
            .compaction
            .levels
            .iter()
            .map(|l| l.jobs)
            .sum();
        let count = engine.partitions(CfId::DEFAULT).len();
        engine.close().unwrap();
        let engine = open(&machine, options);
        assert_eq!(engine.partitions(CfId::DEFAULT).len(), count);
        (count, tables, wrote)
    };
    let (count, tables, jobs) = run(&by_prefix);
    assert_eq!(count, 10_001);
    let (one, without, jobs_without) = run(&whole);
    assert_eq!(one, 1);
    assert!(
        tables.abs_diff(without) <= without / 5 + 1,
        "{tables}, {without} without"
    );
    assert!(
        jobs.abs_diff(jobs_without) <= 2,
        "{jobs}, {jobs_without} without"
    );
}

#[test]
fn a_copy_has_the_partitions_and_the_parts_of_its_original() {
    let machine = Machine::new(PM);
    let (engine, model) = filled(&machine, &options(), 600);
    for n in [200, 500, 800] {
        engine.split_partition(CfId::DEFAULT, &key(n)).unwrap();
    }
    engine.checkpoint(Path::new("/copy")).unwrap();
    let copy = Engine::open(machine.world(), Path::new("/copy"), options()).unwrap();
    assert_eq!(starts(&copy), starts(&engine));
    check(&copy, &model);
    copy.compact(CfId::DEFAULT, (Unbounded, Unbounded)).unwrap();
    check(&copy, &model);
    check(&engine, &model);
}

/// Sizes are what indexes say, reference by reference, and the sum is what there is.
#[test]
fn shares_are_of_what_reaches_into_a_partition() {
    for seed in seeds(0..100) {
        let _replay = Replay::new("-p thermocline-engine shares_are_of", seed);
        let mut rng = Rng::new(seed);
        let machine = Machine::new(PM);
        let engine = open(&machine, &options());
        let cf = CfId::DEFAULT;
        for _ in 0..rng.below(60) {
            // Most bytes lie where the keys begin.
            let n = rng.below(100);
            put(&engine, cf, &key(n as u64), &vec![0; 2000 / (n + 1)]);
            if rng.one_in(20) {
                flush(&engine);
            }
        }
        flush(&engine);
        for _ in 0..rng.below(6) {
            let at = key(1 + rng.below(100) as u64);
            engine.split_partition(cf, &at).unwrap();
        }
        // These reach over the starts again.
        for n in 0..rng.below(40) {
            put(&engine, cf, &key(n as u64), &[0; 100]);
        }
        flush(&engine);
        let sizes = engine.partitions(cf);
        let version = version(&engine);
        let overlaps = |size: &PartitionSize, table: &TableRef| {
            let ends = size.end.as_deref();
            let below = ends.is_none_or(|end| *table.range.first < *end);
            below && !table.range.ends_before(&size.start)
        };
        for (_, table) in version.tables() {
            let reach = sizes::reaches(&sizes, table);
            let all = (0..sizes.len()).filter(|n| overlaps(&sizes[*n], table));
            assert_eq!(
                reach.collect::<Vec<_>>(),
                all.collect::<Vec<_>>(),
                "{table}"
            );
        }
        let sum = |of: fn(&TableRef) -> u64| version.tables().map(|(_, t)| of(t)).sum::<u64>();
        let bytes = sizes.iter().map(|size| size.bytes).sum::<u64>();
        let entries = sizes.iter().map(|size| size.entries).sum::<u64>();
        assert_eq!((bytes, entries), (sum(|t| t.bytes), sum(|t| t.entries)));
        for size in &sizes {
            let tables = version.tables().filter(|(_, table)| overlaps(size, table));
            assert_eq!(size.tables, tables.count() as u64, "{size:?}");
            let end = size.end.as_deref().map_or(Unbounded, Excluded);
            let range = (Included(&size.start[..]), end);
            let exact = engine.approximate_sizes(cf, &[range]).unwrap()[0].table_bytes;
            // Rounded once a table.
            assert!(
                size.bytes.abs_diff(exact) <= size.tables,
                "{size:?} {exact}"
            );
        }
    }
}

/// Where nothing is known of a table, it counts alike wherever it reaches; a made-up manifest may have more than
/// there are numbers for.
#[test]
fn what_is_not_known_is_shared_alike_and_never_too_much_for_a_number() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &options());
    let cf = CfId::DEFAULT;
    let mut state = engine.inner.common.catalog.edits().state().clone();
    let ids = thermocline_version::NextIds {
        file: 1000,
        ..state.next_ids()
    };
    state.apply(&Change::NextIds(ids).into()).unwrap();
    // A huge one in each of two levels, both over all.
    for (level, file) in [(4, 500), (3, 501)] {
        let seqno = thermocline_base::SeqNo(file);
        let table = TableRef {
            file: FileId(file),
            file_bytes: u64::MAX - 7,
            bytes: u64::MAX - 7,
            entries: u64::MAX - 7,
            deletes: 0,
            range: KeyRange::inclusive(key(0), key(9)).owned(),
            limited_below: false,
            limited_above: false,
            smallest_seqno: seqno,
            largest_seqno: seqno,
            blobs: vec![],
        };
        let place = thermocline_version::Place::new(cf, Level(level));
        let table = Arc::new(table);
        state
            .apply(&Change::TableAdded { place, table }.into())
            .unwrap();
    }
    for (id, n) in [(1, 2), (2, 4)] {
        let created = Change::PartitionCreated {
            cf,
            partition: PartitionId(id),
            start: key(n).into(),
        };
        state.apply(&created.into()).unwrap();
    }
    let mut measures = Measures::default();
    let sizes = sizes::of(state.version(), cf, &mut measures.blind());
    let third = (u64::MAX - 7) / 3;
    for size in &sizes {
        assert!(size.bytes >= 2 * third, "{size:?}");
    }
    let next = plan::next(
        state.version(),
        cf,
        &sizes,
        (1000, None),
        &mut measures.blind(),
    );
    assert_eq!(next.work, Work::Nothing);
}

/// A store with parts of one table that meet at 8, and a job begun that takes the left ones.
fn with_job_on_left_part(machine: &Machine) -> (Engine, Model) {
    let engine = open(machine, &options());
    let mut model = Model::new();
    for round in 0..5u8 {
        let last = if round < 4 { 16 } else { 8 };
        for n in 0..last {
            put(&engine, CfId::DEFAULT, &key(n), &[round; 50]);
            model.insert(key(n), vec![round; 50]);
        }
        flush(&engine);
        if round == 3 {
            engine.split_partition(CfId::DEFAULT, &key(8)).unwrap();
        }
    }
    (engine, model)
}

/// A merge joins no parts that a job takes: else its work would be lost. It does not wait for it either.
#[test]
fn a_merge_leaves_parts_alone_that_a_job_takes() {
    let merged = |engine: &Engine| {
        let inner = &engine.inner;
        let cf = CfId::DEFAULT;
        let left = KeyRange::until(&b""[..], b"\0\0\0\0\0\0\0\x08");
        let job = inner.compactor.take_range(cf, &left).expect("there is one");
        assert!(engine.merge_partition(cf, &key(8)).unwrap());
        let before = jobs(engine);
        inner.compactor.run(job).unwrap();
        (jobs(engine) > before, starts(engine).len())
    };
    let machine = Machine::new(PM);
    let (engine, model) = with_job_on_left_part(&machine);
    assert_eq!(merged(&engine), (true, 1));
    check(&engine, &model);
    engine.drain().unwrap();
    check(&engine, &model);
    let _bug = plant(Bug::MergeBesideJob);
    let machine = Machine::new(PM);
    let (engine, _) = with_job_on_left_part(&machine);
    assert_eq!(merged(&engine), (false, 1));
}

/// Level 0 is compacted on while a split waits for a job between deeper levels: only what that holds is kept free.
#[test]
fn a_waiting_split_keeps_only_the_levels_that_it_waits_for() {
    let machine = Machine::new(PM);
    let (engine, model) = with_wide_job(&machine);
    let inner = &engine.inner;
    let job = inner.compactor.picker.take_due().expect("one is due");
    let cf = CfId::DEFAULT;
    let held = |engine: &Engine| engine.inner.common.compactions.of_family(cf).0;
    let [of_job] = &held(&engine)[..] else {
        panic!("one job runs");
    };
    // The parts that it does not take lie in level 0 alone.
    let split = Adjustment::Split(key(500));
    for _ in 0..3 {
        assert_eq!(
            inner.partitioner.adjust(cf, &split, HAND).unwrap(),
            Outcome::Waits
        );
        let holds = held(&engine);
        let kept: Vec<_> = holds[1..].iter().map(|held| held.levels.clone()).collect();
        let over = version(&engine);
        let over = over.reaching_over(cf, b"\0\0\0\0\0\0\x01\xf4");
        let over: std::collections::BTreeSet<usize> =
            over.map(|(at, _)| usize::from(at.level.0)).collect();
        assert!(!over.is_empty());
        let wanted: Vec<_> = over
            .into_iter()
            .filter(|l| of_job.levels.contains(l))
            .collect();
        let wanted: Vec<_> = wanted.into_iter().map(|level| level..=level).collect();
        assert_eq!(kept, wanted);
    }
    inner.common.compactions.forget_waiting(HAND);
    assert_eq!(held(&engine).len(), 1);
    inner.compactor.run(job).unwrap();
    check(&engine, &model);
}

/// What waits by size keeps its place while it is decided anew, and has its turn when the job ends.
#[test]
fn a_split_by_size_keeps_its_place_until_the_job_ends() {
    let machine = Machine::new(PM);
    let (engine, model) = with_wide_job(&machine);
    // All of it stays in level 0.
    engine.close().unwrap();
    let mut options = by_size();
    options.compaction.level0_tables = 2;
    let engine = open(&machine, &options);
    let inner = &engine.inner;
    for round in 0..4u8 {
        for n in 0..40 {
            let key = key(n * 25 + u64::from(round));
            put(&engine, CfId::DEFAULT, &key, &[round; 100]);
        }
        flush(&engine);
    }
    let job = inner.compactor.picker.take_due().expect("one is due");
    assert!(!inner.partitioner.adjust_by_size().unwrap());
    let waits = || inner.common.compactions.is_waiting(Waiter::Size);
    assert!(waits());
    for _ in 0..3 {
        assert!(!inner.partitioner.adjust_by_size().unwrap() && waits());
    }
    assert_eq!(starts(&engine).len(), 1);
    inner.compactor.run(job).unwrap();
    assert!(starts(&engine).len() > 1 && !waits());
    let keys = keys_of(&model);
    engine.drain().unwrap();
    let found = keys
        .iter()
        .filter(|k| engine.get(CfId::DEFAULT, k, |_| ()).unwrap().is_some());
    assert_eq!(found.count(), keys.len());
}

/// It is not decided anew, as long as it is due: its key would move with each version.
#[test]
fn a_split_by_size_that_waits_keeps_its_key() {
    let machine = Machine::new(PM);
    let (engine, model) = filled(&machine, &options(), 600);
    engine.drain().unwrap();
    engine.close().unwrap();
    let mut options = by_size();
    options.compaction.level0_tables = 2;
    let engine = open(&machine, &options);
    let inner = &engine.inner;
    let cf = CfId::DEFAULT;
    for _ in 0..3 {
        for (key, value) in &model {
            put(&engine, cf, key, value);
        }
        flush(&engine);
    }
    let planned = engine.plan().families[0].partitions.split.clone().unwrap();
    let job = inner.compactor.picker.take_due().expect("one is due");
    let over = version(&engine);
    let other = (1..1000).map(key).find(|key| {
        let mut over = over.reaching_over(cf, key);
        *key != planned && over.any(|(at, _)| at.level == Level::ZERO)
    });
    let other = other.unwrap();
    let split = Adjustment::Split(other.clone());
    let outcome = inner.partitioner.adjust(cf, &split, Waiter::Size).unwrap();
    assert_eq!(outcome, Outcome::Waits);
    assert!(!inner.partitioner.adjust_by_size().unwrap());
    let waiting = || inner.common.compactions.waiting_split(Waiter::Size);
    assert_eq!(waiting(), Some((cf, other.clone())));
    inner.compactor.run(job).unwrap();
    assert!(starts(&engine).contains(&other));
    // Of a partition that is not too large any more it is forgotten.
    let sizes = engine.partitions(cf);
    let sizes = plan::numbers(&sizes);
    assert!(splits_still(&sizes, &key(999), 1));
    assert!(!splits_still(&sizes, &key(999), u64::MAX));
    assert!(!splits_still(&sizes, &other, 1));
    engine.drain().unwrap();
    check(&engine, &model);
}

/// What comes without a flush, or was there before, has its partitions when it is compacted.
#[test]
fn a_compaction_makes_partitions_of_the_prefixes_that_it_meets() {
    let machine = Machine::new(PM);
    let (engine, model) = filled(&machine, &options(), 300);
    // With nothing left to be flushed.
    flush(&engine);
    engine.close().unwrap();
    let mut options = options();
    options.partition.by = PartitionBy::Prefix;
    options.partition.prefix_len = 7;
    let engine = open(&machine, &options);
    assert_eq!(starts(&engine).len(), 1);
    engine
        .compact(CfId::DEFAULT, (Unbounded, Unbounded))
        .unwrap();
    let prefixes: std::collections::BTreeSet<&[u8]> = model.keys().map(|key| &key[..7]).collect();
    let found = starts(&engine);
    assert!(found[1..].iter().map(|start| &start[..]).eq(prefixes));
    check(&engine, &model);
}

/// What a split has cut is not joined again by the next compaction, and tables stay as large as they are.
#[test]
fn compactions_end_tables_where_partitions_begin() {
    let machine = Machine::new(PM);
    let mut options = options();
    options.partition.by = PartitionBy::Keys;
    options.partition_keys = vec![key(207), key(213), key(219)];
    let engine = open(&machine, &options);
    for _ in 0..2 {
        for n in 0..1000 {
            put(&engine, CfId::DEFAULT, &key(n), &[1; 90]);
        }
        flush(&engine);
    }
    engine
        .compact(CfId::DEFAULT, (Unbounded, Unbounded))
        .unwrap();
    let version = version(&engine);
    let tables: Vec<_> = version.tables_of(CfId::DEFAULT).collect();
    assert!((40..60).contains(&tables.len()), "{}", tables.len());
    let begins = |at: u64| {
        tables
            .iter()
            .any(|(_, table)| *table.range.first == key(at))
    };
    assert!([207, 213, 219].into_iter().any(begins));
}

/// Level 0 lies over everything, and would be measured at each of its borders after each flush.
#[test]
fn level_0_counts_for_sizes_only_where_there_is_nothing_else() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &options());
    let sizes = |engine: &Engine| {
        let view = engine.inner.common.catalog.view_to_keep();
        let mut measures = Measures::default();
        let mut measuring = measures.by(&view.tables, usize::MAX);
        let sizes = sizes::settled(&version(engine), CfId::DEFAULT, &mut measuring);
        sizes.iter().map(|size| size.bytes).sum::<u64>()
    };
    put(&engine, CfId::DEFAULT, b"a", &[1; 1000]);
    flush(&engine);
    assert!((1000..2000).contains(&sizes(&engine)));
    engine
        .compact(CfId::DEFAULT, (Unbounded, Unbounded))
        .unwrap();
    put(&engine, CfId::DEFAULT, b"b", &[1; 9000]);
    flush(&engine);
    assert!((1000..2000).contains(&sizes(&engine)));
    assert!(engine.partitions(CfId::DEFAULT)[0].bytes > 10_000);
}

/// A file may stay for years, while it is asked for other keys each time.
#[test]
fn of_a_file_some_keys_are_remembered() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &options());
    for n in 0..100 {
        put(&engine, CfId::DEFAULT, &key(10 * n), &[1; 100]);
    }
    flush(&engine);
    let version = version(&engine);
    let (_, table) = version.tables_of(CfId::DEFAULT).next().unwrap();
    let view = engine.inner.common.catalog.view_to_keep();
    let mut measures = Measures::default();
    let mut most = 0;
    for n in 0..3 * MEASURED_KEYS as u64 {
        let key = key(n);
        let mut measuring = measures.by(&view.tables, 1);
        let below = measuring.below(CfId::DEFAULT, table, &[&key[..]]);
        assert!(below.is_some());
        most = most.max(measures.remembered());
    }
    assert_eq!(most, MEASURED_KEYS + 1);
}

/// Ten thousand partitions whose data has gone, or that never had any, are merged by a few edits.
#[test]
fn partitions_without_data_are_merged_by_a_few_edits() {
    let machine = Machine::new(PM);
    let mut with_keys = options();
    with_keys.partition.by = PartitionBy::Keys;
    with_keys.partition_keys = (1..10_000u64).map(key).collect();
    let engine = open(&machine, &with_keys);
    put(&engine, CfId::DEFAULT, &key(7), b"here");
    engine.close().unwrap();
    let engine = open(&machine, &by_size());
    assert_eq!(starts(&engine).len(), 10_000);
    let plan = &engine.plan().families[0].partitions;
    assert_eq!((plan.count, plan.merge.len()), (10_000, 4096));
    let mut edits = 0;
    while engine.inner.partitioner.adjust_by_size().unwrap() {
        edits += 1;
    }
    assert_eq!((edits, starts(&engine).len()), (3, 1));
    assert_eq!(engine.metrics().partitions.merged, 9_999);
    // Nothing has changed since: nobody looks again.
    assert!(!engine.inner.partitioner.adjust_by_size().unwrap());
}

/// Whatever prefixes a flush meets, no edit is large.
#[test]
fn prefixes_that_come_at_once_make_edits_of_their_own() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &options());
    let cf = CfId::DEFAULT;
    let start = |n: u64| [&key(n)[..], &[0; 247]].concat();
    let met = [(cf, (1..40_000).map(start).collect::<Vec<_>>())];
    let edits = engine
        .inner
        .partitioner
        .prefixes_met(&version(&engine), &met);
    let sizes: Vec<_> = edits.iter().map(|edit| edit.changes.len()).collect();
    assert_eq!(
        sizes,
        [
            EDIT_PARTITIONS,
            EDIT_PARTITIONS,
            39_999 - 2 * EDIT_PARTITIONS
        ]
    );
    let mut manifest = engine.inner.common.catalog.edits();
    for edit in edits {
        manifest.append(&edit).unwrap();
    }
    assert_eq!(manifest.state().version().partitions(cf).len(), 40_000);
}

/// On a full disk nothing is split by itself, and by hand it is refused before it could fail.
#[test]
fn a_full_disk_is_no_place_for_edits_that_nobody_needs() {
    let machine = Machine::new(PM);
    let (engine, _) = filled(&machine, &options(), 600);
    engine.close().unwrap();
    let engine = open(&machine, &by_size());
    let inner = &engine.inner;
    machine.limit_disk(1);
    inner.pressure.press();
    assert!(inner.pressure.is_disk_full());
    assert!(!inner.partitioner.adjust_by_size().unwrap());
    let split = engine.split_partition(CfId::DEFAULT, &key(500));
    assert_eq!(split.unwrap_err().kind(), ErrorKind::OutOfSpace);
    let met = [(CfId::DEFAULT, vec![key(1)])];
    assert!(
        inner
            .partitioner
            .prefixes_met(&version(&engine), &met)
            .is_empty()
    );
    assert_eq!(starts(&engine).len(), 1);
    machine.limit_disk(1 << 30);
    inner.pressure.press();
    assert!(inner.partitioner.adjust_by_size().unwrap());
    engine.split_partition(CfId::DEFAULT, &key(500)).unwrap();
}

/// A table that was cut and is whole again says of blob files, entries and deletes what it said before.
#[test]
fn what_is_joined_says_what_it_said_before() {
    let machine = Machine::new(PM);
    let mut long = options();
    long.blob.inline_bytes_max = 64;
    let engine = open(&machine, &long);
    let cf = CfId::DEFAULT;
    for n in 0..20 {
        put(&engine, cf, &key(n), &[7; 200]);
        delete(&engine, cf, &key(100 + n));
    }
    flush(&engine);
    let tables = || -> Vec<TableRef> {
        let version = version(&engine);
        version
            .tables()
            .map(|(_, table)| TableRef::clone(table))
            .collect()
    };
    let before = tables();
    assert!(before.iter().any(|table| !table.blobs.is_empty()));
    let state = engine.metrics().blobs;
    for n in [3, 10, 15, 105] {
        engine.split_partition(cf, &key(n)).unwrap();
    }
    assert!(engine.metrics().blobs.table_bytes < state.table_bytes);
    for n in [10, 3, 105] {
        engine.merge_partition(cf, &key(n)).unwrap();
    }
    assert_ne!(tables(), before);
    engine.merge_partition(cf, &key(15)).unwrap();
    assert_eq!(tables(), before);
    assert_eq!(engine.metrics().blobs, state);
}

/// Reads that ask one part of a table in vain have that part compacted.
#[test]
fn the_part_is_compacted_that_reads_pay_for() {
    let machine = Machine::new(PM);
    let mut looking = options();
    looking.compaction.level0_tables = 100;
    looking.compaction.base_bytes = 1 << 20;
    looking.compaction.table_bytes = 1 << 20;
    looking.compaction.read_sample = 1;
    let engine = open(&machine, &looking);
    let cf = CfId::DEFAULT;
    for value in [1, 2] {
        for n in 0..20 {
            put(&engine, cf, &key(n), &[value; 20]);
        }
        flush(&engine);
        if value == 1 {
            engine.compact(cf, (Unbounded, Unbounded)).unwrap();
        }
    }
    engine.split_partition(cf, &key(10)).unwrap();
    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
    for _ in 0..100 {
        assert!(cursor.seek(&key(15)).unwrap());
    }
    assert!(engine.compact_once().unwrap());
    let version = version(&engine);
    let level0 = version.family(cf).unwrap().level(Level::ZERO).unwrap();
    let left: Vec<_> = level0
        .iter()
        .map(|table| table.range.first.to_vec())
        .collect();
    assert_eq!(left, [key(0)]);
}

/// Each change is told, with its numbers.
#[test]
fn splits_and_merges_are_told() {
    let machine = Machine::new(PM);
    let (engine, _) = filled(&machine, &options(), 300);
    flush(&engine);
    engine.close().unwrap();
    let told = Arc::new(crate::sync::Mutex::new(Vec::new()));
    let heard = told.clone();
    let listener = move |event: &Event| match event {
        Event::PartitionSplit { .. }
        | Event::PartitionsMerged { .. }
        | Event::PartitionsMade { .. } => {
            lock(&heard).push(event.clone());
        }
        _ => {}
    };
    let mut prefixes = options();
    prefixes.partition.by = PartitionBy::Prefix;
    prefixes.partition.prefix_len = 8;
    let setup = crate::Setup {
        listener: Some(Arc::new(listener)),
        ..Default::default()
    };
    let engine = Engine::open_with(machine.world(), Path::new("/db"), prefixes, setup).unwrap();
    let cf = CfId::DEFAULT;
    let at = (1..1000)
        .map(key)
        .max_by_key(|key| version(&engine).reaching_over(cf, key).count());
    let start = at.unwrap();
    let cut = version(&engine).reaching_over(cf, &start).count();
    engine.split_partition(cf, &start).unwrap();
    engine.merge_partition(cf, &start).unwrap();
    put(&engine, cf, b"prefix11", b"");
    put(&engine, cf, b"prefix22", b"");
    flush(&engine);
    engine.close().unwrap();
    let expected = [
        Event::PartitionSplit {
            family: cf.0,
            start,
            cut,
        },
        Event::PartitionsMerged {
            family: cf.0,
            merged: 1,
            joined: cut,
        },
        Event::PartitionsMade { made: 2 },
    ];
    assert_eq!(*lock(&told), expected);
}

/// What flushes, compactions and reads do is counted where it was, and told by the plan.
#[test]
fn rates_tell_which_partition_is_read_and_which_is_written() {
    let machine = Machine::new(PM);
    let mut all = options();
    all.partition.rate_sample = 1;
    let env = thermocline_env::Env::simulated(machine.fs.clone(), 1);
    let world = crate::World {
        env,
        ..machine.world()
    };
    let engine = Engine::open(world, Path::new("/db"), all).unwrap();
    let cf = CfId::DEFAULT;
    for n in [100, 200] {
        engine.split_partition(cf, &key(n)).unwrap();
    }
    let rates = || engine.plan().families[0].partitions.rates.clone();
    let expect = |start: Option<u64>, [reads, writes, updates]: [f64; 3]| {
        let start = start.map_or(Vec::new(), key);
        let rates = rates();
        let rate = rates.iter().find(|rate| rate.start == start);
        let rate = rate.unwrap_or_else(|| panic!("{start:?} in {rates:?}"));
        // Nothing fades while the clock stands; the sum of what was counted is told as a rate of its mean life.
        let life =
            thermocline_policy::tuning::RATE_HALF_LIFE_NS as f64 / 1e9 / std::f64::consts::LN_2;
        let found = [rate.reads, rate.writes, rate.updates].map(|n| (n * life).round());
        assert_eq!(found, [reads, writes, updates], "{rates:?}");
    };
    for _ in 0..2 {
        for n in 0..150 {
            put(&engine, cf, &key(n), b"value");
        }
    }
    flush(&engine);
    expect(None, [0.0, 200.0, 100.0]);
    expect(Some(100), [0.0, 100.0, 50.0]);
    for n in 100..110 {
        put(&engine, cf, &key(n), b"newer");
    }
    engine.compact(cf, (Unbounded, Unbounded)).unwrap();
    expect(None, [0.0, 200.0, 100.0]);
    expect(Some(100), [0.0, 110.0, 60.0]);
    for n in 90..120 {
        assert!(engine.get(cf, &key(n), |_| ()).unwrap().is_some());
    }
    let snapshot = engine.snapshot();
    assert!(snapshot.get(cf, &key(300), |_| ()).unwrap().is_none());
    assert!(
        !engine
            .cursor(Family::DEFAULT)
            .unwrap()
            .seek(&key(250))
            .unwrap()
    );
    expect(None, [10.0, 200.0, 100.0]);
    expect(Some(100), [20.0, 110.0, 60.0]);
    // A read, and a scan, which counts as twelve.
    expect(Some(200), [13.0, 0.0, 0.0]);
    // What is split has halves, what is merged the sum.
    engine.merge_partition(cf, &key(100)).unwrap();
    expect(None, [30.0, 310.0, 160.0]);
    engine.split_partition(cf, &key(50)).unwrap();
    expect(Some(50), [15.0, 155.0, 80.0]);
    engine.merge_partition(cf, &key(200)).unwrap();
    expect(Some(50), [28.0, 155.0, 80.0]);
}

/// Whoever reads in a view from before counts in no partition that has gone: the next one with its number would begin with that.
#[test]
fn rates_of_a_partition_go_with_it() {
    for is_taken_in in [true, false] {
        rates_go_with_a_partition(is_taken_in);
    }
}

/// `is_taken_in`: while it is gone, and not behind that.
fn rates_go_with_a_partition(is_taken_in: bool) {
    let machine = Machine::new(PM);
    let mut options = options();
    options.partition.rate_sample = 1;
    let engine = Engine::open(machine.world(), Path::new("/db"), options).unwrap();
    let cf = CfId::DEFAULT;
    let common = &engine.inner.common;
    // A family without tables and cuts is in no plan.
    let rates = || {
        let families = engine.plan().families;
        let rates = families.into_iter().map(|of| of.partitions.rates);
        rates.flatten().collect::<Vec<_>>()
    };
    engine.split_partition(cf, &key(100)).unwrap();
    let view = common.catalog.view_to_keep();
    engine.merge_partition(cf, &key(100)).unwrap();
    common.rates.read(&view, cf, &key(150));
    if is_taken_in {
        let exists = |cf, partition| common.has_partition(cf, partition);
        common.rates.take_in(common.now_ns(), &exists, cf, &[]);
    }
    let partition = |at: u64| common.catalog.version().partitions(cf).of(&key(at)).id;
    engine.split_partition(cf, &key(50)).unwrap();
    assert_eq!(
        view.tables.version().partitions(cf).of(&key(150)).id,
        partition(150)
    );
    assert_eq!(rates(), [], "{is_taken_in}");
    // A split drops nothing of others.
    let view = common.catalog.view_to_keep();
    common.rates.read(&view, cf, &key(10));
    engine.split_partition(cf, &key(300)).unwrap();
    assert_eq!(
        rates().iter().filter(|of| of.reads > 0.0).count(),
        1,
        "of others"
    );
    // What is read of it counts.
    let view = common.catalog.view_to_keep();
    common.rates.read(&view, cf, &key(150));
    assert_eq!(rates().len(), 2);
}

/// The next opening goes on with what was when the store was closed, read-only ones among them, and if all that
/// happened were reads.
#[test]
fn rates_outlive_an_opening() {
    let machine = Machine::new(PM);
    let mut options = options();
    options.partition.rate_sample = 1;
    let open = |options: &Options| {
        let env = thermocline_env::Env::simulated(machine.fs.clone(), 1);
        let world = crate::World {
            env,
            ..machine.world()
        };
        Engine::open(world, Path::new("/db"), options.clone()).unwrap()
    };
    let cf = CfId::DEFAULT;
    let rates = |engine: &Engine| {
        let rates = engine.map().remove(0).rates;
        let rounded = |rate: &PartitionRate| {
            let numbers = [rate.reads, rate.writes, rate.updates];
            (rate.start.clone(), numbers.map(|n| (n * 100.0).round()))
        };
        rates.iter().map(rounded).collect::<Vec<_>>()
    };
    let engine = open(&options);
    engine.split_partition(cf, &key(100)).unwrap();
    for n in 0..150 {
        put(&engine, cf, &key(n), b"value");
    }
    flush(&engine);
    let written = rates(&engine);
    assert!(
        written.iter().all(|(_, rates)| rates[1] > 0.0),
        "{written:?}"
    );
    engine.close().unwrap();
    let engine = open(&options);
    assert_eq!(rates(&engine), written);
    for n in 0..50 {
        engine.get(cf, &key(n), |_| ()).unwrap();
    }
    let read = rates(&engine);
    assert!(read[0].1[0] > 0.0 && read[1] == written[1], "{read:?}");
    engine.close().unwrap();
    options.read_only = true;
    let engine = open(&options);
    assert_eq!(rates(&engine), read);
    engine.close().unwrap();
    options.read_only = false;
    // Nothing is written where nothing has changed.
    let engine = open(&options);
    let manifest = || {
        let storage = &machine.world().env.storage;
        let names = storage.list(Path::new("/db")).unwrap();
        let name = names.into_iter().find(|name| name.starts_with("MANIFEST"));
        let path = Path::new("/db").join(name.unwrap());
        let file = storage.open(&path, thermocline_env::OpenMode::Read);
        file.unwrap().len().unwrap()
    };
    let before = manifest();
    assert_eq!(rates(&engine), read);
    engine.close().unwrap();
    assert_eq!(manifest(), before);
}

/// References to tables in persistent memory are cut and joined as those to files, and such a table stays as long
/// as a part of it.
#[test]
fn tables_in_persistent_memory_are_cut_and_joined_too() {
    let machine = Machine::new(PM);
    let mut in_pm = options();
    in_pm.set("level0.shape", "pm-tables").unwrap();
    let engine = open(&machine, &in_pm);
    let (cf, other) = (CfId::DEFAULT, engine.family("other", &CfOptions::default()));
    let other = other.unwrap();
    let mut model = Model::new();
    for n in 0..100 {
        put(&engine, other.id, &key(n), &[2; 200]);
        put(&engine, cf, &key(n), &[1; 100]);
        model.insert(key(n), vec![1; 100]);
    }
    flush(&engine);
    let there = |engine: &Engine| version(engine).pm_table_count();
    let references = version(&engine).tables().count();
    let cut: Vec<FileId> = {
        let version = version(&engine);
        let at = key(30);
        let over = version.reaching_over(cf, &at);
        over.map(|(_, table)| table.file).collect()
    };
    assert_eq!(cut.len(), 1);
    let stands = |engine: &Engine| version(engine).pm_table(cut[0]).is_some();
    assert!(stands(&engine));
    assert!(engine.split_partition(cf, &key(30)).unwrap());
    assert_eq!(version(&engine).reaching_over(cf, &key(30)).count(), 0);
    assert_eq!(version(&engine).tables().count(), references + 1);
    check(&engine, &model);
    let sizes = engine.partitions(cf);
    let bytes: u64 = sizes.iter().map(|size| size.bytes).sum();
    let left = sizes[0].bytes * 100 / bytes;
    assert!((20..40).contains(&left), "{sizes:?}");
    engine.merge_partition(cf, &key(30)).unwrap();
    assert_eq!(version(&engine).tables().count(), references);
    engine.split_partition(cf, &key(30)).unwrap();
    // The left part sinks.
    let end = key(30);
    engine.compact(cf, (Unbounded, Excluded(&end[..]))).unwrap();
    assert!(stands(&engine));
    assert!(files(&machine) > 0);
    check(&engine, &model);
    engine.merge_partition(cf, &key(30)).unwrap();
    let machine = machine.killed();
    let engine = open(&machine, &in_pm);
    check(&engine, &model);
    for cf in [cf, other.id] {
        engine.compact(cf, (Unbounded, Unbounded)).unwrap();
    }
    assert_eq!(there(&engine), 0);
    check(&engine, &model);
}

/// So it is where a flush makes the next one.
#[test]
fn rates_of_a_partition_go_with_it_where_a_prefix_has_its_number() {
    let machine = Machine::new(PM);
    let mut options = options();
    options.partition.rate_sample = 1;
    options.partition.by = PartitionBy::Prefix;
    options.partition.prefix_len = 1;
    let engine = Engine::open(machine.world(), Path::new("/db"), options).unwrap();
    let cf = CfId::DEFAULT;
    let common = &engine.inner.common;
    for key in [b"a1", b"b1"] {
        put(&engine, cf, key, b"");
    }
    engine.flush().unwrap();
    let view = common.catalog.view_to_keep();
    engine.merge_partition(cf, b"b").unwrap();
    common.rates.read(&view, cf, b"b1");
    // One that stays.
    common.rates.read(&view, cf, b"a1");
    put(&engine, cf, b"c1", b"");
    engine.flush().unwrap();
    let partition = |key: &[u8]| common.catalog.version().partitions(cf).of(key).id;
    assert_eq!(
        view.tables.version().partitions(cf).of(b"b1").id,
        partition(b"c1")
    );
    let families = engine.plan().families;
    let rates = families.into_iter().flat_map(|of| of.partitions.rates);
    let read: Vec<Vec<u8>> = rates
        .filter(|of| of.reads > 0.0)
        .map(|of| of.start.to_vec())
        .collect();
    assert_eq!(read, [b"a".to_vec()]);
}
