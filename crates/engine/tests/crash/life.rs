//! One life of a store: from opening until it is closed or its world ends.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thermocline_base::filter::{CompactionFilter, Entry, Verdict};
use thermocline_base::merge::{Append, MergeOperator};
use thermocline_base::options::Options;
use thermocline_base::step::Observer;
use thermocline_base::{CfId, CfOptions, Error, Result, Site, Steps, When, WriteBatch};
use thermocline_engine::{
    Changed, Claims, Cursor, Durability, Engine, Footprint, InFlight, Report, Resolution, Setup,
    World, verify,
};
use thermocline_env::Env;
use thermocline_env::sim::SimFs;
use thermocline_pm::SimPm;

use crate::oracle::{Expect, Family, Model, Op, Prepared, Step, Tracker};

/// Most bytes of the simulated region.
pub const PM: u64 = 1 << 20;

/// An operation has returned to its caller.
pub const ACKNOWLEDGED: Site = Site("test: acknowledged");

/// Of batches by their length, one in so many is written as a transaction is.
const WATCHED: usize = 4;

/// What no change meets.
struct Nothing;

impl Footprint for Nothing {
    fn meets(&self, _: &Changed<'_>) -> bool {
        false
    }

    fn holds_for_all(&self, _: &mut dyn FnMut(u64) -> bool) -> bool {
        false
    }
}

pub fn dir() -> &'static Path {
    Path::new("/db")
}

/// The smallest region there is: zones of 16 KiB.
pub fn options() -> Options {
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.flush.automatic = false;
    // What lies in tables in persistent memory has parts of its own.
    options.set("level0.shape", "global-index").unwrap();
    // Indexes are merged as soon as memtables are sealed, whether they are read or not.
    options.level0.merge_percent = 0;
    // Reclaiming by hand is to leave alone what is not dead.
    options.flush.rewrite_ratio = 0;
    options
}

/// A store in a simulated world, and its oracle.
#[derive(Debug)]
pub struct Life {
    pub pm: SimPm,
    pub fs: SimFs,
    pub tracker: Arc<Mutex<Tracker>>,
    pub engine: Option<Engine>,
    options: Options,
    env: Env,
    /// Keys of the default family that compactions remove; they filter nothing where there are none.
    filtered: Option<Arc<Filtered>>,
    /// The TTL of the family of this name.
    ttl: Option<(String, Duration)>,
}

/// Keys that a filter removes now.
#[derive(Debug, Default)]
struct Filtered(Mutex<BTreeSet<Vec<u8>>>);

#[derive(Debug)]
struct Filter(Arc<Filtered>);

impl CompactionFilter for Filter {
    fn name(&self) -> &str {
        "tests.keys"
    }

    fn filter(&self, entry: &Entry<'_>) -> std::result::Result<Verdict, String> {
        Ok(match self.0.0.lock().unwrap().contains(entry.key()) {
            true => Verdict::Remove,
            false => Verdict::Keep,
        })
    }
}

impl Life {
    /// A store that does not exist yet.
    pub fn fresh(options: &Options, seed: u64) -> Life {
        let steps = Steps::new();
        let pm = SimPm::new(PM, steps.clone());
        Life::on(pm, SimFs::new(steps), options, seed, Expect::default())
    }

    /// A store in this world. Both simulators report to the same steps.
    pub fn on(pm: SimPm, fs: SimFs, options: &Options, seed: u64, expect: Expect) -> Life {
        Life {
            env: Env::simulated(fs.clone(), seed),
            pm,
            fs,
            tracker: Arc::new(Mutex::new(Tracker::new(expect))),
            engine: None,
            options: options.clone(),
            filtered: None,
            ttl: None,
        }
    }

    /// From here on this is expected.
    pub fn expect(&mut self, expect: &Expect) {
        self.tracker = Arc::new(Mutex::new(Tracker::new(expect.clone())));
    }

    /// Opens the store and reads it: it must hold what is expected.
    pub fn recover(&mut self) -> std::result::Result<Arc<Model>, String> {
        let expect = self.tracker.lock().unwrap().expect();
        self.open()
            .map_err(|error| format!("recovery failed: {error}"))?;
        let model = expect.accept(&self.dump(&expect.allowed)?)?;
        self.tracker.lock().unwrap().holds(&model);
        Ok(model)
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    pub fn world(&self) -> World {
        World {
            env: self.env.clone(),
            sim: Some(self.pm.clone()),
            shadow: None,
            background: false,
        }
    }

    pub fn observe(&self, observer: Option<Observer>) {
        self.pm.steps().observe(observer);
    }

    pub fn open(&mut self) -> Result<()> {
        let filter = |filtered: &Arc<Filtered>| -> (String, Arc<dyn CompactionFilter>) {
            ("default".into(), Arc::new(Filter(filtered.clone())))
        };
        let setup = Setup {
            compaction_filters: self.filtered.iter().map(filter).collect(),
            ttls: self.ttl.iter().cloned().collect(),
            ..Setup::default()
        };
        let engine = Engine::open_with(self.world(), dir(), self.options.clone(), setup)?;
        self.tracker.lock().unwrap().opened(&engine);
        self.engine = Some(engine);
        Ok(())
    }

    /// What the store holds if everything acknowledged is there.
    pub fn expected(&self) -> Arc<Model> {
        self.tracker.lock().unwrap().expect().allowed[0].clone()
    }

    /// What readers see: nothing is in flight, but the last writes may not be durable.
    pub fn visible(&self) -> Model {
        let expect = self.tracker.lock().unwrap().expect();
        Model::clone(expect.allowed.last().expect("one"))
    }

    pub fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("the store is open")
    }

    /// Does `op`. A full region refuses it without effect: `Ok(false)`.
    pub fn run(&self, op: &Op) -> Result<bool> {
        self.run_as(op, Durability::Immediate)
    }

    /// As `run`, acknowledged so.
    pub fn run_as(&self, op: &Op, durability: Durability) -> Result<bool> {
        self.tracker.lock().unwrap().begin(op);
        let done = match op {
            Op::Write(changes) if changes.len() % WATCHED == 2 => {
                self.write_watched(&Op::batch(changes), durability)
            }
            Op::Write(changes) => self.engine().write(Op::batch(changes).iter(), durability),
            Op::Steps(steps) => self.engine().write(Op::batch_of(steps).iter(), durability),
            Op::Family(name) => self.engine().family(name, &CfOptions::default()).map(drop),
            Op::Descending(name) => self
                .engine()
                .family(name, &CfOptions::default().reverse(true))
                .map(drop),
            Op::Merging(name) => {
                let appends = Append::new("");
                let options = CfOptions::default().merge_operator(appends.name());
                self.engine().family(name, &options).map(drop)
            }
            Op::Drop(name) => self.engine().drop_family(name),
            Op::Prepare(name, steps) => self.prepare(name, steps),
            Op::Commit(name) => {
                let resolution = Resolution::Commit;
                self.engine()
                    .resolve(name.as_bytes(), resolution, durability)
            }
            Op::RollBack(name) => {
                let resolution = Resolution::RollBack;
                self.engine()
                    .resolve(name.as_bytes(), resolution, durability)
            }
        };
        let refused = matches!(done, Err(Error::OutOfSpace(_)));
        if done.is_ok() || refused {
            let done = (!refused).then_some(durability);
            self.tracker.lock().unwrap().end(done);
            // The caller knows: an instant of its own, whether or not anything was fenced.
            self.pm.steps().point(ACKNOWLEDGED, When::After);
            return Ok(!refused);
        }
        done.map(|()| true)
    }

    /// Opens the store again, with a compaction filter in this life, and not in the next one.
    pub fn open_filtered(&mut self) {
        self.close().unwrap();
        self.filtered = Some(Arc::default());
        self.open().unwrap();
    }

    /// Opens the store again, with a TTL of the family of this name in this life, and not in the next one.
    pub fn open_with_ttl(&mut self, family: &str, ttl: Duration) {
        self.close().unwrap();
        self.ttl = Some((family.to_string(), ttl));
        self.open().unwrap();
    }

    /// Time passes.
    pub fn wait(&self, time: Duration) {
        let ms = u64::try_from(time.as_millis()).expect("no more than a story takes");
        self.env.clock.sleep_ms(ms);
    }

    /// Runs compactions, in which `key`, the only one of its family, expires; whether it has. That happens as a whole, as a delete would.
    pub fn expire(&self, cf: u16, key: &[u8], compact: impl FnOnce(&Engine)) -> bool {
        self.tracker.lock().unwrap().begin(&Op::delete(cf, key));
        compact(self.engine());
        let found = self.engine().get(CfId(cf), key, |_| ()).unwrap();
        let done = found.is_none().then_some(Durability::Immediate);
        self.tracker.lock().unwrap().end(done);
        self.pm.steps().point(ACKNOWLEDGED, When::After);
        done.is_some()
    }

    /// Runs compactions that remove `key` of the default family if they meet it; whether they did. That happens as a whole, as
    /// a delete would.
    pub fn filter(&self, key: &[u8], compact: impl FnOnce(&Engine)) -> bool {
        self.tracker.lock().unwrap().begin(&Op::delete(0, key));
        let filtered = self.filtered.as_ref().expect("there is a filter");
        filtered.0.lock().unwrap().insert(key.to_vec());
        compact(self.engine());
        filtered.0.lock().unwrap().clear();
        let found = self.engine().get(CfId::DEFAULT, key, |_| ()).unwrap();
        let done = found.is_none().then_some(Durability::Immediate);
        self.tracker.lock().unwrap().end(done);
        self.pm.steps().point(ACKNOWLEDGED, When::After);
        done.is_some()
    }

    /// Writes as a transaction does: watching a moment, and asking under the writer's lock.
    fn write_watched(&self, batch: &WriteBatch, durability: Durability) -> Result<()> {
        let watch = self.engine().watch()?;
        watch.write(batch.iter(), durability.into(), &Nothing)
    }

    /// Prepares as a transaction does: now and then one that has read.
    fn prepare(&self, name: &str, steps: &[Step]) -> Result<()> {
        let batch = Op::batch_of(steps);
        let claims = Claims::of(batch.iter());
        let watch = match steps.len() % 2 {
            0 => Some(self.engine().watch()?),
            _ => None,
        };
        let since = watch.as_ref().map(|w| (w, &Nothing as &dyn Footprint));
        self.engine()
            .prepare(name.as_bytes(), (batch.iter(), claims), since)
            .map(drop)
    }

    /// Lets a write be granted, and no more.
    pub fn begin(&self, op: &Op, durability: Durability) -> InFlight {
        let batch = match op {
            Op::Write(changes) => Op::batch(changes),
            Op::Steps(steps) => Op::batch_of(steps),
            _ => unreachable!("only writes can be in flight"),
        };
        let write = self.engine().begin(batch, durability).unwrap();
        self.tracker.lock().unwrap().granted(op, write.last().0);
        write
    }

    /// Lets a granted write go its way.
    pub fn carry(&self, write: InFlight, durability: Durability) {
        let last = write.last().0;
        let acknowledged = write.carry().unwrap();
        if acknowledged && durability == Durability::Immediate {
            self.tracker.lock().unwrap().told(last);
        }
        self.pm.steps().point(ACKNOWLEDGED, When::After);
    }

    /// A durable commit that adds nothing: what was buffered before it is durable, too.
    pub fn commit_nothing(&self) {
        let visible = self.engine().visible().0;
        let nothing = WriteBatch::new();
        let mode = Durability::Immediate;
        self.engine().write(nothing.iter(), mode).unwrap();
        self.tracker.lock().unwrap().told(visible);
        self.pm.steps().point(ACKNOWLEDGED, When::After);
    }

    pub fn close(&mut self) -> Result<()> {
        let closed = self.engine.take().map_or(Ok(()), |engine| engine.close());
        self.tracker.lock().unwrap().closed(closed.is_ok());
        closed
    }

    pub fn verify(&self) -> Result<Report> {
        verify(&self.world(), dir(), &self.options)
    }

    /// Everything the store holds, read in every way: both directions, and key by key. `known` are
    /// models whose keys are asked for too.
    pub fn dump(&self, known: &[Arc<Model>]) -> std::result::Result<Model, String> {
        let engine = self.engine();
        let say = |error: Error| format!("reading failed: {error}");
        let mut families = Vec::new();
        let mut data = BTreeMap::new();
        for name in engine.families() {
            let Some(family) = engine.find_family(&name) else {
                return Err(format!("family {name} is listed and not there"));
            };
            let forward = scan(engine.cursor(family), true).map_err(say)?;
            let mut backward = scan(engine.cursor(family), false).map_err(say)?;
            backward.reverse();
            if forward != backward {
                return Err("a scan forward and one backward disagree".into());
            }
            if !forward.is_sorted_by(|a, b| (a.0 < b.0) != family.reverse && a.0 != b.0) {
                return Err("a scan is not in order".into());
            }
            let cf = family.id.0;
            data.extend(forward.into_iter().map(|(k, v)| ((cf, k), v)));
            let blob = engine.metadata(family.id, |blob| Arc::from(blob));
            if let Some(blob) = blob.map_err(say)? {
                let key = family.id.metadata_key().to_vec();
                data.insert((CfId::METADATA.0, key), blob);
            }
            families.push(Family {
                id: cf,
                name,
                reverse: family.reverse,
            });
        }
        let next = known.iter().map(|model| model.next).max().unwrap_or(1);
        for id in (0..next).filter(|id| families.iter().all(|family| family.id != *id)) {
            self.is_gone(CfId(id))?;
        }
        let asked = known.iter().flat_map(|model| model.data.keys());
        for (cf, key) in asked.chain(&data.keys().cloned().collect::<Vec<_>>()) {
            if families.iter().all(|family| family.id != *cf) {
                continue;
            }
            let got = engine.get(CfId(*cf), key, |v| Arc::<[u8]>::from(v));
            let want = data.get(&(*cf, key.clone()));
            if got.map_err(say)?.as_ref() != want {
                return Err(format!("get and scan disagree about {key:?}"));
            }
        }
        let prepared = engine.prepared_claims().into_iter().map(|(name, claims)| {
            let (name, steps) = (String::from_utf8_lossy(&name).into_owned(), vec![]);
            (name, Prepared { steps, claims })
        });
        Ok(Model {
            families,
            data,
            prepared: prepared.collect(),
            next,
        })
    }

    /// Of a family that does not exist nothing is left, were one to ask by its id; the process that
    /// dropped it says so.
    fn is_gone(&self, id: CfId) -> std::result::Result<(), String> {
        let engine = self.engine();
        let family = thermocline_engine::Family { id, reverse: false };
        let left = scan(engine.cursor(family), true).map(|rows| rows.len());
        let blob = engine.metadata(id, |blob| blob.len());
        match (left, blob) {
            (Ok(0), Ok(None)) => Ok(()),
            (Err(Error::InvalidArgument(_)), Err(Error::InvalidArgument(_))) => Ok(()),
            other => Err(format!("of the dropped family {} there is {other:?}", id.0)),
        }
    }
}

type Row = (Vec<u8>, Arc<[u8]>);

fn scan(cursor: Result<Cursor>, forward: bool) -> Result<Vec<Row>> {
    let mut cursor = cursor?;
    let mut rows = Vec::new();
    let mut more = if forward {
        cursor.seek_to_first()?
    } else {
        cursor.seek_to_last()?
    };
    while more {
        rows.push((cursor.key().to_vec(), Arc::from(cursor.value())));
        more = if forward {
            cursor.next()?
        } else {
            cursor.prev()?
        };
    }
    Ok(rows)
}
