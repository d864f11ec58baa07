//! Whatever is compacted, held, dropped or killed meanwhile, reads stay as they were. That levels and age
//! are kept, the manifest's state checks at every edit of a debug build.

mod collect;
mod deleted;
mod failures;
mod faults;
mod filters;
mod in_order;
mod index;
mod jobs;
mod joined;
mod learned;
mod named;
mod orders;
mod outputs;
mod parts;
mod ranges;
mod reads;
mod tombstones;
mod ttl;

use std::path::Path;

use thermocline_base::options::{Options, PartitionBy, Scheduler};
use thermocline_base::planted::{Bug, plant};
use thermocline_base::{CfId, Codec, IndexKind};
use thermocline_env::{Clock, Env};
use thermocline_testkit::explore::explored;
use thermocline_testkit::{Replay, Rng, seeds};
use thermocline_version::Level;

use super::debt::Debts;
use super::job::picked::Job;
use crate::flush::Extent;
use crate::flush::tests::{Model, check_now, check_then, delete, families, put};
use crate::partitions::waiting::Waiter;
use crate::partitions::{Adjustment, Outcome};
use crate::sync::Arc;
use crate::tests::Machine;
use crate::tests::version_of;
use crate::{Engine, Snapshot, World};

const PM: u64 = 4 << 20;

/// The world of a machine whose clock is this one.
fn world_of<C: Clock + 'static>(machine: &Machine, clock: &Arc<C>) -> World {
    let world = machine.world();
    World {
        env: Env {
            clock: clock.clone(),
            ..world.env
        },
        ..world
    }
}

/// Tables of a few keys, and levels of a few tables.
fn tiny() -> Options {
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    // What is looked at lies in files.
    options.set("level0.shape", "global-index").unwrap();
    options.pm_region.part_bytes_first = 256 << 10;
    options.compaction.table_bytes = 2 << 10;
    options.compaction.base_bytes = 6 << 10;
    options.compaction.multiplier = 2;
    options.compaction.block_bytes = 512;
    options.compaction.compression = Codec::None;
    options.compaction.compression_last = Codec::None;
    options
}

fn any(rng: &mut Rng) -> Options {
    let mut options = tiny();
    options.blob.inline_bytes_max = *rng.pick(&[150, 1 << 20, 1 << 20]);
    // What is drawn next is drawn as before there were two.
    options.ssd.index = *rng.clone().pick(&IndexKind::ALL);
    // The same number is drawn: of the learned ones one in two.
    options.ssd.train_writers = *rng.clone().pick(&[8, 8, 8, 0]);
    apart(&mut options, &mut rng.clone());
    let compaction = &mut options.compaction;
    compaction.scheduler = *rng.clone().pick(&Scheduler::ALL);
    compaction.io_depth = *rng.clone().pick(&[1, 8, 32]);
    compaction.level0_tables = 1 + rng.below(4) as u64;
    compaction.base_bytes = (1 + rng.below(12) as u64) << 10;
    compaction.table_bytes = (1 + rng.below(4) as u64) << 10;
    compaction.multiplier = 2 + rng.below(3) as u64;
    compaction.levels = 1 + rng.below(6) as u64;
    compaction.dynamic = rng.one_in(2);
    compaction.compression_level0 = *rng.pick(&Codec::ALL);
    compaction.compression = *rng.pick(&Codec::ALL);
    compaction.compression_last = *rng.pick(&Codec::ALL);
    let tables = *rng.pick(&[4, 6, 12]);
    options.partition.bytes = options.table_bytes() * tables;
    options.partition.prefix_len = 1 + rng.below(2) as u64;
    options.partition.by = *rng.pick(&PartitionBy::ALL[..3]);
    options
}

/// Values that lie apart from tables, or not.
fn apart(options: &mut Options, rng: &mut Rng) {
    options.blob.value_bytes_min = *rng.pick(&[0, 1, 40, 100]);
    options.blob.file_bytes = *rng.pick(&[1 << 10, 8 << 10]);
    options.blob.space_percent_max = *rng.pick(&[101, 130, 1_000_000]);
    options.blob.compression = *rng.clone().pick(&Codec::ALL);
}

fn open(machine: &Machine, options: &Options) -> Engine {
    Engine::open(machine.world(), Path::new("/db"), options.clone()).unwrap()
}

/// Tables by level, of all families.
fn levels(engine: &Engine) -> Vec<usize> {
    let version = version_of(engine);
    let mut levels = vec![0; usize::from(Level::MAX.0) + 1];
    for (place, _) in version.tables() {
        levels[usize::from(place.level.0)] += 1;
    }
    levels
}

fn deepest(engine: &Engine) -> usize {
    levels(engine).iter().rposition(|n| *n > 0).unwrap_or(0)
}

fn flush(engine: &Engine) {
    engine.inner.memtables.seal_active().unwrap();
    engine.inner.flusher.flush_sealed(Extent::All).unwrap();
}

/// What the tests of a run have met.
#[derive(Debug, Default)]
struct Met {
    jobs: u64,
    moved: u64,
    dropped: u64,
    side_by_side: u64,
    deep: u64,
    splits: u64,
    merges: u64,
    /// Splits and merges that a job kept waiting.
    waited: u64,
    /// Most parts of tables at a time.
    parts: u64,
}

/// Who splits and merges here.
const HAND: Waiter = Waiter::Hand(0);

/// A store that is written, flushed and compacted, and what it must show.
struct Story {
    machine: Machine,
    options: Options,
    engine: Engine,
    families: Vec<crate::Family>,
    models: Vec<Model>,
    held: Vec<(Snapshot, Vec<Model>)>,
    /// Begun, and not run yet.
    jobs: Vec<Job>,
    keys: Vec<Vec<u8>>,
    met: Met,
}

impl Story {
    fn begin(options: Options) -> Story {
        let machine = Machine::new(PM);
        let engine = open(&machine, &options);
        let key = |n: u8| [&b"kk"[..usize::from(n % 3)], &[n]].concat();
        Story {
            families: families(&engine),
            models: vec![Model::new(), Model::new()],
            keys: (0..200).map(key).collect(),
            machine,
            options,
            engine,
            held: Vec::new(),
            jobs: Vec::new(),
            met: Met::default(),
        }
    }

    fn write(&mut self, rng: &mut Rng) {
        let at = rng.below(2);
        let (cf, key) = (self.families[at].id, rng.pick(&self.keys));
        if rng.one_in(4) {
            delete(&self.engine, cf, key);
            self.models[at].remove(key);
        } else {
            let filler = rng.next_u64().to_le_bytes();
            let value: Vec<u8> = filler.into_iter().cycle().take(rng.below(200)).collect();
            put(&self.engine, cf, key, &value);
            self.models[at].insert(key.clone(), value);
        }
    }

    /// Begins a job, if one is due.
    fn begin_job(&mut self) {
        let job = self.engine.inner.compactor.picker.take_due();
        self.met.side_by_side += u64::from(job.is_some() && !self.jobs.is_empty());
        self.jobs.extend(job);
    }

    /// Ends all jobs, and does what is due then; it reads as before.
    fn end(&mut self, rng: &mut Rng) {
        while !self.jobs.is_empty() {
            self.end_job(rng);
        }
        self.forget();
        while self.engine.compact_once().unwrap() {}
        self.check();
    }

    fn end_job(&mut self, rng: &mut Rng) {
        if self.jobs.is_empty() {
            return;
        }
        let job = self.jobs.remove(rng.below(self.jobs.len()));
        self.engine.inner.compactor.run(job).unwrap();
    }

    /// Whoever waits gives up.
    fn forget(&self) {
        for waiter in [HAND, Waiter::Size] {
            self.engine.inner.common.compactions.forget_waiting(waiter);
        }
    }

    /// Splits or merges somewhere, unless a job that was begun keeps it waiting.
    fn adjust(&mut self, rng: &mut Rng) {
        let cf = self.families[rng.below(2)].id;
        let partitions = self.engine.partitions(cf);
        let what = match rng.below(3) {
            0 => {
                let mut some = partitions.iter().skip(1).filter(|_| rng.one_in(2));
                Adjustment::Merge(some.by_ref().take(3).map(|p| p.start.clone()).collect())
            }
            _ => Adjustment::Split(rng.pick(&self.keys).clone()),
        };
        let inner = &self.engine.inner;
        if matches!(&what, Adjustment::Split(key) if key.is_empty()) {
            return;
        }
        match inner.partitioner.adjust(cf, &what, HAND).unwrap() {
            Outcome::Waits => self.met.waited += 1,
            Outcome::Gone => {}
            Outcome::Done => match what {
                Adjustment::Merge(_) => self.met.merges += 1,
                Adjustment::Split(_) => self.met.splits += 1,
            },
        }
        if rng.one_in(2) {
            self.forget();
        }
        let version = inner.common.catalog.view().tables.version().clone();
        let parts = version.tables().filter(|(_, table)| table.is_part());
        self.met.parts = self.met.parts.max(parts.count() as u64);
    }

    fn check(&self) {
        self.check_partitions();
        self.check_kept();
        check_now(&self.engine, &self.families, &self.models, &self.keys);
        for (snapshot, models) in &self.held {
            check_then(snapshot, &self.families, models, &self.keys);
        }
    }

    /// They tile the keys, and together have what there is.
    fn check_partitions(&self) {
        let version = version_of(&self.engine);
        for family in &self.families {
            let sizes = self.engine.partitions(family.id);
            assert!(sizes[0].start.is_empty() && sizes[sizes.len() - 1].end.is_none());
            for two in sizes.windows(2) {
                assert_eq!(two[0].end.as_ref(), Some(&two[1].start));
                assert!(two[0].start < two[1].start);
            }
            let tables = || version.tables_of(family.id).map(|(_, table)| table);
            let bytes: u64 = tables().map(|table| table.bytes).sum();
            let entries: u64 = tables().map(|table| table.entries).sum();
            assert_eq!(sizes.iter().map(|size| size.bytes).sum::<u64>(), bytes);
            assert_eq!(sizes.iter().map(|size| size.entries).sum::<u64>(), entries);
        }
    }

    /// What is kept of families and levels is what it would be if it were reckoned anew.
    fn check_kept(&self) {
        let version = version_of(&self.engine);
        let compactions = &self.engine.inner.common.compactions;
        let of = |debts: &Debts| debts.of(&compactions.shape, &version);
        assert_eq!(of(&compactions.debts), of(&Debts::default()));
        for cf in version.families() {
            let levels = version.family(cf).into_iter();
            for (level, tables) in levels.flat_map(|family| family.levels()) {
                let place = (cf, usize::from(level.0));
                let before = compactions.sums.before(place, tables);
                let mut sums = vec![0];
                for table in tables.iter() {
                    sums.push(sums[sums.len() - 1] + table.bytes);
                }
                assert_eq!(*before, *sums);
                assert_eq!(before.last(), Some(&tables.bytes()));
                let again = compactions.sums.before(place, tables);
                assert!(Arc::ptr_eq(&before, &again));
                let stretches = compactions.sums.stretches(place, tables);
                let mut left: Vec<_> = tables.iter().collect();
                for stretch in stretches.all() {
                    assert_eq!(
                        stretch.places.end,
                        tables.len() - left.len() + stretch.places.len()
                    );
                    let rest = left.split_off(stretch.places.len());
                    let most = left.iter().map(|table| table.deletes).max();
                    let least = left.iter().map(|table| table.entries).min();
                    let newest = left.iter().map(|table| table.largest_seqno).min();
                    let known = (stretch.deletes_max, stretch.entries_min, stretch.newest_min);
                    assert_eq!((most.unwrap(), least.unwrap(), newest.unwrap()), known);
                    left = rest;
                }
                assert!(left.is_empty());
            }
        }
    }

    fn count(&mut self) {
        let levels = self.engine.metrics().compaction.levels;
        let sum = |of: fn(&crate::LevelUse) -> u64| levels[1..].iter().map(of).sum::<u64>();
        self.met.jobs += sum(|level| level.jobs);
        self.met.moved += sum(|level| level.tables_moved);
        self.met.dropped += sum(|level| level.entries_dropped);
        self.met.deep = self.met.deep.max(deepest(&self.engine) as u64);
    }

    fn reopen(&mut self, killed: bool) {
        self.count();
        self.jobs.clear();
        if killed {
            self.machine = self.machine.killed();
        } else {
            self.engine.close().unwrap();
            // They read on.
            self.check_held();
        }
        self.held.clear();
        self.engine = open(&self.machine, &self.options);
        self.check();
    }

    fn check_held(&self) {
        for (snapshot, models) in &self.held {
            check_then(snapshot, &self.families, models, &self.keys);
        }
    }

    fn step(&mut self, rng: &mut Rng) {
        match rng.below(1000) {
            0..850 => self.write(rng),
            850..880 => flush(&self.engine),
            880..910 if self.jobs.len() < 3 => self.begin_job(),
            910..950 => self.end_job(rng),
            950..960 if self.jobs.is_empty() => while self.engine.compact_once().unwrap() {},
            960..970 => {
                let models = self.models.clone();
                self.held.push((self.engine.snapshot(), models));
            }
            970..985 if !self.held.is_empty() => drop(self.held.remove(rng.below(self.held.len()))),
            985..995 => self.check(),
            995 if self.jobs.is_empty() => self.compact_any(rng),
            998 | 999 => self.adjust(rng),
            996 => self.reopen(true),
            997 => self.reopen(false),
            _ => {}
        }
    }

    fn compact_any(&mut self, rng: &mut Rng) {
        // What waits has nobody here who would end it.
        self.forget();
        let cf = self.families[rng.below(2)].id;
        let (from, to) = (
            ranges::bound(&self.keys, rng),
            ranges::bound(&self.keys, rng),
        );
        let as_bytes = |bound: &std::ops::Bound<Vec<u8>>| bound.as_ref().map(|key| key.to_vec());
        let (from, to) = (as_bytes(&from), as_bytes(&to));
        let range = (from.as_ref().map(|k| &k[..]), to.as_ref().map(|k| &k[..]));
        self.engine.compact(cf, range).unwrap();
        self.check();
    }
}

#[test]
fn whatever_is_compacted_reads_as_before() {
    let mut all = Met::default();
    for seed in seeds(0..explored(6, 12)) {
        let _replay = Replay::new("-p thermocline-engine whatever_is_compacted", seed);
        let mut rng = Rng::new(seed);
        let options = any(&mut rng);
        let mut story = Story::begin(options);
        for _ in 0..2500 {
            story.step(&mut rng);
        }
        story.check();
        story.end(&mut rng);
        assert_eq!(
            story.engine.inner.common.compactions.behind().pending_bytes,
            0
        );
        story.count();
        all.jobs += story.met.jobs;
        all.moved += story.met.moved;
        all.dropped += story.met.dropped;
        all.side_by_side += story.met.side_by_side;
        all.splits += story.met.splits;
        all.merges += story.met.merges;
        all.waited += story.met.waited;
        all.parts = all.parts.max(story.met.parts);
        all.deep = all.deep.max(story.met.deep);
    }
    println!("{all:?}");
    let times = explored(1, 2);
    let enough = all.jobs > 75 * times && all.moved > 5 * times && all.dropped > 250 * times;
    let divided =
        all.splits > 5 * times && all.merges > explored(1, 2) && all.waited > explored(0, 1);
    let far = all.deep > 3 && all.parts > 3;
    assert!(
        enough && divided && far && all.side_by_side > 12 * times || seeds(0..2).len() == 1,
        "{all:?}"
    );
}

/// Runs stories with this bug until one goes wrong.
fn is_caught(bug: Bug) -> bool {
    (0..10).any(|seed| {
        let story = || {
            let _bug = plant(bug);
            let mut rng = Rng::new(seed);
            let mut story = Story::begin(tiny());
            for _ in 0..2500 {
                story.step(&mut rng);
            }
        };
        std::panic::catch_unwind(story).is_err()
    })
}

#[test]
fn leaving_too_much_out_is_caught() {
    assert!(is_caught(Bug::CompactionForgetsBelow));
    assert!(is_caught(Bug::PurgePastReader));
    assert!(is_caught(Bug::UnlinkBeforeEdit));
    assert!(is_caught(Bug::SplitForgetsParts));
}

#[test]
fn a_store_that_had_deeper_levels_keeps_them() {
    let machine = Machine::new(PM);
    let mut options = tiny();
    options.compaction.dynamic = false;
    let engine = open(&machine, &options);
    let mut model = Model::new();
    let mut rng = Rng::new(1);
    let cf = CfId::DEFAULT;
    for n in 0..600u64 {
        let key = rng.below(1000).to_be_bytes().to_vec();
        put(&engine, cf, &key, &[1; 100]);
        model.insert(key, vec![1; 100]);
        if n % 100 == 99 {
            engine.flush().unwrap();
        }
    }
    let before = deepest(&engine);
    assert!(before > 2, "{:?}", levels(&engine));
    engine.close().unwrap();
    options.compaction.levels = 1;
    let engine = open(&machine, &options);
    put(&engine, cf, b"k", b"v");
    model.insert(b"k".to_vec(), b"v".to_vec());
    engine.flush().unwrap();
    let range = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    engine.compact(cf, range).unwrap();
    assert_eq!(deepest(&engine), before);
    let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
    check_now(&engine, &[crate::Family::DEFAULT], &[model], &keys);
}
