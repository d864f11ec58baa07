//! A follower of a store, in drawn schedules: it has what the store has, up to its position, at any time.

use std::collections::BTreeMap;

use thermocline_base::Steps;
use thermocline_base::options::{Preset, Shape};
use thermocline_env::Env;
use thermocline_env::sim::SimFs;
use thermocline_pm::SimPm;
use thermocline_testkit::explore::explored;
use thermocline_testkit::{Replay, Rng, seeds};

use super::*;
use crate::World;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Counts batches, in two families, so that one that is torn shows.
const COUNT: &[u8] = b"batches";

/// What there is in a family.
#[derive(Debug, Clone, Default, PartialEq)]
struct Contents {
    id: u16,
    map: Map,
    metadata: Vec<u8>,
}

/// What there is in a store, by names of families.
#[derive(Debug, Clone, Default, PartialEq)]
struct Mirror {
    families: BTreeMap<String, Contents>,
    position: u64,
}

impl Mirror {
    /// `ends` are the last seqnos of openings: only behind those some are left out.
    fn apply(&mut self, group: &ChangeGroup, ends: &[u64]) {
        assert!(group.last() > self.position, "nothing is given twice");
        let follows = group.first() <= self.position + 1;
        assert!(
            follows || ends.contains(&self.position),
            "{group:?} behind {}",
            self.position
        );
        for change in group.changes() {
            let change = change.unwrap();
            let id = change.family_id;
            let family = self.families.entry(change.family.to_string()).or_default();
            if family.id != id {
                // Another one of that name was dropped.
                *family = Contents {
                    id,
                    ..Contents::default()
                };
            }
            let map = &mut family.map;
            match change.op {
                ChangeOp::Put { key, value } => drop(map.insert(key.into(), value.into())),
                ChangeOp::Delete { key } => drop(map.remove(key)),
                ChangeOp::DeleteRange { from, to } => {
                    map.retain(|k, _| &**k < from || to.is_some_and(|to| &**k >= to));
                }
                ChangeOp::Metadata { value } => family.metadata = value.into(),
                other => panic!("{other:?}"),
            }
        }
        self.position = group.last();
    }

    fn count(&self, family: &str) -> Option<&Vec<u8>> {
        self.families.get(family)?.map.get(COUNT)
    }
}

/// A machine of either kind.
struct Host {
    fs: SimFs,
    pm: SimPm,
    options: Options,
}

impl Host {
    fn new(rng: &mut Rng) -> Host {
        let steps = Steps::new();
        let mut options = drawn(rng);
        if rng.one_in(4) {
            options.level0.shape = Some(Shape::Immutables);
        } else if rng.one_in(3) {
            options.preset = Preset::Leveled;
            options.level0.shape = Some(Shape::Ssd);
            options.dram = 4 << 20;
            options.pm = 4 << 30;
        }
        Host {
            fs: SimFs::new(steps.clone()),
            pm: SimPm::new(PM, steps),
            options,
        }
    }

    fn open(&self) -> Engine {
        let world = World {
            env: Env::simulated(self.fs.clone(), 7),
            sim: (self.options.preset != Preset::Leveled).then(|| self.pm.clone()),
            shadow: None,
            background: false,
        };
        Engine::open(world, Path::new("/db"), self.options.clone()).unwrap()
    }

    fn reopened(&mut self, rng: &mut Rng, killed: bool) -> Engine {
        if killed {
            let steps = Steps::new();
            self.fs = self.fs.image_killed(steps.clone());
            self.pm = self.pm.fork(steps);
        }
        let before = std::mem::replace(&mut self.options, drawn(rng));
        self.options.level0.shape = before.level0.shape;
        self.options.preset = before.preset;
        (self.options.dram, self.options.pm) = (before.dram, before.pm);
        self.open()
    }
}

fn drawn(rng: &mut Rng) -> Options {
    let mut options = options();
    options.memtable.bytes_max = *rng.pick(&[2 << 10, 16 << 10, 64 << 10]);
    options.memtable.item_bytes_max = *rng.pick(&[4 << 10, 64 << 10]);
    options.level0.shape = Some(*rng.pick(&[Shape::GlobalIndex, Shape::Ssd]));
    options.level0.merge_percent = *rng.pick(&[0, 20, 100]);
    options.flush.pm_percent = *rng.pick(&[5, 10, 40]);
    options.feed.retain_bytes = *rng.pick(&[0, 0, 64 << 10, 1 << 20]);
    options.feed.pins_percent_max = *rng.pick(&[0, 10, 60, 60]);
    options.blob.inline_bytes_max = *rng.pick(&[64, 1 << 20]);
    options.manifest.bytes_max = *rng.pick(&[512, 1 << 20]);
    options.settled()
}

struct Run {
    rng: Rng,
    host: Host,
    engine: Engine,
    feed: Option<ChangeFeed>,
    /// What the store has.
    now: Mirror,
    /// What the follower has.
    then: Mirror,
    batches: u64,
    /// The last seqno of each opening.
    ends: Vec<u64>,
    met: Met,
}

#[derive(Debug, Default, Clone, Copy)]
struct Met {
    groups: u64,
    staged: u64,
    cut_off: u64,
    resumed: u64,
    kept: u64,
    flushes: u64,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut rng = Rng::new(seed);
        let host = Host::new(&mut rng);
        let engine = host.open();
        let mut run = Run {
            rng,
            host,
            engine,
            feed: None,
            now: Mirror::default(),
            then: Mirror::default(),
            batches: 0,
            ends: Vec::new(),
            met: Met::default(),
        };
        run.now
            .families
            .insert("default".into(), Contents::default());
        run.make("other");
        run.then = run.now.clone();
        run
    }

    fn make(&mut self, name: &str) {
        let id = self
            .engine
            .family(name, &CfOptions::default())
            .unwrap()
            .id
            .0;
        let contents = Contents {
            id,
            ..Contents::default()
        };
        self.now.families.entry(name.into()).or_insert(contents);
    }

    fn write(&mut self) {
        let many = self.rng.one_in(30);
        let changes = if many { 80 } else { self.rng.below(4) };
        let mut batch = WriteBatch::new();
        self.batches += 1;
        let count = self.batches.to_be_bytes();
        for name in ["default", "other"] {
            let family = self.now.families.get_mut(name).unwrap();
            batch.put(CfId(family.id), COUNT, &count).unwrap();
            family.map.insert(COUNT.into(), count.into());
        }
        let names: Vec<String> = self.now.families.keys().cloned().collect();
        for _ in 0..changes {
            let family = self.now.families.get_mut(self.rng.pick(&names)).unwrap();
            let (cf, key) = (
                CfId(family.id),
                vec![b'k', self.rng.below(100).to_le_bytes()[0]],
            );
            let value = vec![self.rng.next_u64().to_le_bytes()[0]; self.rng.below(300)];
            match self.rng.below(20) {
                0 => {
                    let end = [b'k', key[1].saturating_add(20)];
                    batch.delete_range(cf, &key, Some(&end)).unwrap();
                    family.map.retain(|k, _| *k < key || **k >= end[..]);
                }
                1..5 => {
                    batch.delete(cf, &key).unwrap();
                    family.map.remove(&key);
                }
                5 => {
                    batch.set_metadata(cf, &value).unwrap();
                    family.metadata = value;
                }
                _ => {
                    batch.put(cf, &key, &value).unwrap();
                    family.map.insert(key, value);
                }
            }
        }
        let durability = *self
            .rng
            .pick(&[Durability::Immediate, Durability::Buffered]);
        self.engine.write(batch.iter(), durability).unwrap();
        self.now.position = self.engine.metrics().visible;
        self.met.staged += u64::from(many);
    }

    /// What comes without a change: who has not seen everything before it begins anew.
    fn ingest(&mut self) {
        let env = Env::simulated(self.host.fs.clone(), 7);
        let path = format!("/{}.sst", self.batches);
        self.batches += 1;
        let mut table = IngestWriter::create(&env, Path::new(&path)).unwrap();
        let family = self.now.families.get_mut("default").unwrap();
        for _ in 0..3 {
            let key = vec![b'k', self.rng.below(100).to_le_bytes()[0]];
            // Keys ascend.
            if table.put(&key, b"ingested").is_ok() {
                family.map.insert(key, b"ingested".into());
            }
        }
        table.finish().unwrap();
        self.engine.ingest(CF, &[path]).unwrap();
        self.now.position = self.engine.metrics().visible;
    }

    /// A copy of everything.
    fn begin_anew(&mut self) {
        self.engine.sync().unwrap();
        self.then = self.now.clone();
        self.then.position = self.engine.metrics().durable;
    }

    fn follow(&mut self, most: usize) {
        let feed = match self.feed.take() {
            Some(feed) => Ok(feed),
            None => {
                self.met.resumed += 1;
                self.engine.changes_since(self.then.position)
            }
        };
        let mut feed = match feed {
            Ok(feed) => feed,
            Err(error) => return self.cut_off(&error),
        };
        for _ in 0..most {
            match feed.next() {
                None => break,
                Some(Err(error)) => return self.cut_off(&error),
                Some(Ok(group)) => {
                    self.met.groups += 1;
                    self.then.apply(&group, &self.ends);
                    assert_eq!(self.then.count("default"), self.then.count("other"));
                }
            }
        }
        self.feed = Some(feed);
    }

    fn cut_off(&mut self, error: &Error) {
        let (since, oldest) = gone(error);
        let durable = self.engine.metrics().durable;
        assert!(since < oldest && oldest <= durable, "{error}");
        assert!(self.engine.changes_since(oldest).is_ok(), "{error}");
        self.met.cut_off += 1;
        self.begin_anew();
    }

    fn catch_up(&mut self) {
        self.engine.sync().unwrap();
        self.follow(usize::MAX);
        // Families are made and dropped without a change.
        let (now, then) = (&self.now.families, &mut self.then.families);
        then.retain(|name, family| now.get(name).is_some_and(|own| own.id == family.id));
        for (name, own) in now {
            let empty = Contents {
                id: own.id,
                ..Contents::default()
            };
            let family = then.entry(name.clone()).or_insert(empty);
            assert_eq!(family, own, "{name}");
        }
        self.check_source();
    }

    /// The store has what it should have.
    fn check_source(&self) {
        for (name, family) in &self.now.families {
            let own = self.engine.find_family(name).unwrap();
            let mut cursor = self.engine.cursor(own).unwrap();
            let mut more = cursor.seek_to_first().unwrap();
            let mut map = Map::new();
            while more {
                map.insert(cursor.key().into(), cursor.value().into());
                more = cursor.next().unwrap();
            }
            assert_eq!(map, family.map);
        }
    }

    fn reopen(&mut self) {
        self.met.flushes += self.engine.metrics().flushes;
        self.feed = None;
        self.engine.sync().unwrap();
        self.ends.push(self.engine.metrics().durable);
        let killed = self.rng.one_in(2);
        if !killed {
            self.engine.close().unwrap();
        }
        self.engine = self.host.reopened(&mut self.rng, killed);
    }

    fn step(&mut self) {
        match self.rng.below(200) {
            0..140 => self.write(),
            140..170 => {
                let most = self.rng.below(60);
                self.follow(most);
            }
            170..174 => self.feed = None,
            174..178 => drop(self.engine.flush().unwrap()),
            178..182 => drop(self.engine.reclaim().unwrap()),
            182..185 => self.catch_up(),
            185..187 => self.reopen(),
            187 => self.make("third"),
            188 if self.now.families.contains_key("third") => {
                self.engine.drop_family("third").unwrap();
                self.now.families.remove("third");
            }
            189 if self.rng.one_in(3) => self.ingest(),
            _ => {}
        }
        let kept = self.engine.metrics().feed.kept_bytes;
        self.met.kept = self.met.kept.max(kept);
    }
}

#[test]
fn a_follower_has_what_the_store_has() {
    let mut all = Met::default();
    for seed in seeds(0..explored(5, 16)) {
        let _replay = Replay::new("-p thermocline-engine a_follower_has_what", seed);
        let mut run = Run::new(seed);
        for _ in 0..1500 {
            run.step();
        }
        run.catch_up();
        run.met.flushes += run.engine.metrics().flushes;
        all.groups += run.met.groups;
        all.staged += run.met.staged;
        all.cut_off += run.met.cut_off;
        all.resumed += run.met.resumed;
        all.kept += run.met.kept;
        all.flushes += run.met.flushes;
    }
    println!("{all:?}");
    if seeds(0..2).len() == 1 {
        return;
    }
    // Of five.
    let times = explored(1, 3);
    let (groups, staged) = (1_100 * times, 55 * times);
    assert!(all.groups > groups && all.staged > staged, "{all:?}");
    let (cut_off, resumed) = (5 * times, 55 * times);
    assert!(all.cut_off > cut_off && all.resumed > resumed, "{all:?}");
    let (kept, flushes) = (times << 16, 55 * times);
    assert!(all.kept > kept && all.flushes > flushes, "{all:?}");
}

#[test]
fn a_feed_that_crosses_gaps_is_caught() {
    let caught = (0..20).any(|seed| {
        let run = || {
            let _bug = plant(Bug::FeedAcceptsGap);
            let mut run = Run::new(seed);
            (0..1500).for_each(|_| run.step());
            run.catch_up();
        };
        std::panic::catch_unwind(run).is_err()
    });
    assert!(caught);
}
