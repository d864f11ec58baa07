//! Jobs whose edits would be longer than the manifest takes end at keys before, and leave the rest.

use thermocline_base::options::Costs;

use super::*;
use crate::Family;
use crate::flush::tests::delete_range;

/// Bytes that edits have of inputs here, and of outputs: in place of 16 MiB each.
const MOST: u64 = 12_000;

const KEYS: u16 = 600;

fn long(n: u16) -> Vec<u8> {
    let mut key = n.to_be_bytes().to_vec();
    key.resize(500, b'k');
    key
}

fn manifest_bytes(engine: &Engine) -> u64 {
    engine.inner.common.catalog.edits().manifest_bytes()
}

/// Tables in level 0, and their bytes.
fn above(engine: &Engine) -> (u64, u64) {
    let version = version_of(engine);
    let tables = version.tables();
    let above = tables.filter(|(place, _)| place.level == Level::ZERO);
    above.fold((0, 0), |(tables, bytes), (_, table)| {
        (tables + 1, bytes + table.bytes)
    })
}

/// Tables that compactions say they have moved, and bytes that they have brought from above.
fn brought(engine: &Engine) -> (u64, u64) {
    let levels = engine.metrics().compaction.levels;
    let moved = levels.iter().map(|level| level.tables_moved).sum();
    (moved, levels.iter().map(|level| level.bytes_in).sum())
}

fn has_parts(engine: &Engine) -> bool {
    let version = version_of(engine);
    version.tables().any(|(_, table)| table.is_part())
}

/// A store with long keys, and what it must show.
struct Long {
    machine: Machine,
    options: Options,
    engine: Engine,
    model: Model,
    keys: Vec<Vec<u8>>,
    held: Vec<(Snapshot, Model)>,
}

impl Long {
    fn begin(options: Options) -> Long {
        let machine = Machine::new(options.pm);
        Long {
            engine: open(&machine, &options),
            model: Model::new(),
            keys: (0..KEYS).map(long).collect(),
            held: Vec::new(),
            machine,
            options,
        }
    }

    fn put(&mut self, n: u16, value: u8) {
        put(&self.engine, CfId::DEFAULT, &long(n), &[value; 60]);
        self.model.insert(long(n), vec![value; 60]);
    }

    /// Some changes, from the first key to the last one.
    fn change(&mut self) {
        for n in [0, 7, KEYS - 1] {
            self.put(n, 2);
        }
        delete(&self.engine, CfId::DEFAULT, &long(150));
        self.model.remove(&long(150));
        let (from, to) = (long(200), long(220));
        delete_range(&self.engine, &mut self.model, (&from, &to));
    }

    fn check(&self, engine: &Engine) {
        let (families, models) = ([Family::DEFAULT], std::slice::from_ref(&self.model));
        check_now(engine, &families, models, &self.keys);
    }

    /// Looks at a job whose edit has come behind so many bytes of the manifest.
    fn check_job(&self, before: u64) {
        // A quarter is inputs, one is outputs, and the rest is the table with which there is enough, and what is limited.
        let edit = manifest_bytes(&self.engine).saturating_sub(before);
        assert!(edit <= 3 * MOST, "{edit} bytes");
        self.check(&self.engine);
        for (snapshot, then) in &self.held {
            let models = std::slice::from_ref(then);
            check_then(snapshot, &[Family::DEFAULT], models, &self.keys);
        }
    }

    /// Looks at what is said of the last job, before which level 0 had so much, and so much had been brought from there: neither
    /// more nor less than what has gone, though it began with all of it.
    fn check_counts(&self, ((tables, bytes), (moved, bytes_in)): ((u64, u64), (u64, u64))) {
        let (has, has_brought) = (above(&self.engine), brought(&self.engine));
        if has.1 == bytes {
            return;
        }
        assert_eq!(has_brought.1 - bytes_in, bytes - has.1);
        let (job, _) = self.engine.jobs_done().pop().unwrap();
        if job.work == "move" {
            let gone = (tables - has.0, bytes - has.1);
            assert_eq!((job.inputs, job.bytes_in), gone, "{job:?}");
            assert_eq!(has_brought.0 - moved, gone.0);
        }
    }

    /// Runs jobs until level 0 is empty; behind how many of them something was left of a table.
    fn empty_level0(&self) -> usize {
        let (mut jobs, mut ended) = (0u32, 0);
        while levels(&self.engine)[0] > 0 {
            let compactor = &self.engine.inner.compactor;
            let job = compactor.picker.take_due().expect("level 0 is due");
            let before = manifest_bytes(&self.engine);
            let counted = (above(&self.engine), brought(&self.engine));
            compactor.run(job.naming(MOST)).unwrap();
            self.check_job(before);
            self.check_counts(counted);
            if jobs.is_multiple_of(4) {
                let killed = self.machine.killed();
                self.check(&open(&killed, &self.options));
            }
            ended += usize::from(has_parts(&self.engine));
            jobs += 1;
            assert!(jobs < 400, "each leaves less");
        }
        ended
    }

    fn reopen(&mut self) {
        self.engine.close().unwrap();
        self.engine = open(&self.machine, &self.options);
    }
}

/// Before, a job took what it had to, and one edit named it all. Here that would have been up to 100,000 bytes. With keys
/// of 60 KB and a few hundred tables the manifest refused the edit, the job failed for ever, and level 0 grew. One that ended
/// without leaving the rest of its inputs, or the values that it had laid apart, would lose these.
#[test]
fn a_job_that_one_edit_could_not_name_ends_before() {
    // Many tables below become few, and few become many: in one part, and in two.
    let sizes = [
        (2 << 10, 64 << 10),
        (64 << 10, 2 << 10),
        (256 << 10, 2 << 10),
    ];
    for ((before, then), scheduler) in sizes.into_iter().zip(Scheduler::ALL) {
        let mut options = tiny();
        options.flush.automatic = false;
        options.compaction.dynamic = false;
        options.compaction.level0_tables = 1;
        options.compaction.base_bytes = 1 << 20;
        options.compaction.table_bytes = before;
        options.compaction.scheduler = scheduler;
        options.compaction.io_depth = 8;
        options.blob.value_bytes_min = 40;
        options.blob.file_bytes = 8 << 10;
        options.blob.space_percent_max = 1_000_000;
        let mut store = Long::begin(options);
        (0..KEYS).for_each(|n| store.put(n, 1));
        flush(&store.engine);
        // Nothing lies below: they are moved.
        store.empty_level0();
        assert!(!has_parts(&store.engine), "what moves stays whole");
        let jobs = store.engine.jobs_done();
        assert!(jobs.iter().any(|(job, _)| job.work == "move"), "{jobs:?}");
        store.options.compaction.table_bytes = then;
        store.reopen();
        store.held = vec![(store.engine.snapshot(), store.model.clone())];
        store.change();
        flush(&store.engine);
        let ended = store.empty_level0();
        assert!(ended > 3, "{ended} jobs ended before, from {before}");
        store.held.clear();
        store.reopen();
        store.check(&store.engine);
        store.engine.close().unwrap();
        let world = store.machine.world();
        let report = crate::verify(&world, Path::new("/db"), &store.options).unwrap();
        assert!(report.faults.is_empty(), "{:?}", report.faults);
    }
}

/// The same inside persistent memory, where an edit has the keys of each table twice.
#[test]
fn a_merge_in_persistent_memory_that_one_edit_could_not_name_ends_before() {
    let mut options = Options {
        pm: 8 << 20,
        ..Options::default()
    };
    options.set("level0.shape", "pm-tables").unwrap();
    options.pm_region.part_bytes_first = 256 << 10;
    options.compaction.table_bytes = 4 << 10;
    options.flush.automatic = false;
    options.level0.internal = Costs::Off;
    options.level0.pm_percent = 60;
    let mut store = Long::begin(options);
    // It overlaps all others.
    store.put(0, 1);
    store.put(KEYS - 1, 1);
    store.engine.flush().unwrap();
    (0..KEYS / 3).for_each(|n| store.put(3 * n, 2));
    store.engine.flush().unwrap();
    store.held = vec![(store.engine.snapshot(), store.model.clone())];
    let merges = |engine: &Engine| engine.metrics().compaction.internal.jobs;
    let (mut jobs, mut ended) = (0, 0);
    loop {
        let before = manifest_bytes(&store.engine);
        let compactor = &store.engine.inner.compactor;
        compactor
            .merge_one_slice_naming(CfId::DEFAULT, MOST)
            .unwrap();
        if merges(&store.engine) == jobs {
            break;
        }
        jobs = merges(&store.engine);
        store.check_job(before);
        ended += usize::from(has_parts(&store.engine));
        assert!(jobs < 100, "each leaves less");
    }
    assert!(ended > 1, "{ended} of {jobs} jobs ended before");
    store.held.clear();
    store.reopen();
    store.check(&store.engine);
}
