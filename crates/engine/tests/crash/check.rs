//! What must hold in a recovered state, and crashes inside and after the recovery.

use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use thermocline_base::checksum::hash64_seeded;
use thermocline_base::options::Options;
use thermocline_base::planted::{Bug, plant};
use thermocline_base::{Point, Site};
use thermocline_env::Storage;
use thermocline_testkit::explore::one_in;
use thermocline_version::Manifest;

use crate::explore::Planted;
use crate::feed::feed_agrees;
use crate::life::{Life, dir};
use crate::oracle::{Change, Expect, Model, Op};
use crate::snapshot::{Budget, Snapshot, State};
use crate::space::{SPACE, space_is_sound};
use crate::states::{is_sampled, replayed};

/// What was counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stats {
    /// Instants at which crashes were tried.
    pub points: u64,
    /// Different states recovered.
    pub states: u64,
    /// Stores opened on a state that a crash or kill left.
    pub recoveries: u64,
    /// Of the states, those of crashes inside a recovery.
    pub inside: u64,
    /// Of the states, those of crashes after writing in a second life.
    pub chained: u64,
    /// Kills continued.
    pub kills: u64,
}

/// Explores snapshots and collects what is wrong.
pub struct Checker<'a> {
    pub stats: Stats,
    pub sites: BTreeSet<Site>,
    pub violations: Vec<String>,
    options: &'a Options,
    seed: u64,
    /// Violations after which it stops.
    patience: usize,
    /// Planted while a state is opened.
    bug: Option<Bug>,
    /// Few states of each point.
    narrow: bool,
    /// Of the points inside a recovery, and of those of a second life, one in so many is crashed at.
    later_one_in: u64,
    /// States from which on no second life is crashed in.
    enough: Option<u64>,
    /// What was recovered from each state, by digest.
    known: HashMap<u64, Arc<Model>>,
}

pub type Verdict<T> = Result<T, String>;
type Taken = Arc<Mutex<Vec<Snapshot>>>;

/// Where in an exploration a snapshot was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// In the first life.
    First,
    /// While a state of the first life was recovered.
    Inside,
    /// After that, while the second life wrote.
    Chained,
}

impl<'a> Checker<'a> {
    pub fn new(options: &'a Options, seed: u64, planted: Planted) -> Checker<'a> {
        Checker {
            stats: Stats::default(),
            sites: BTreeSet::new(),
            violations: Vec::new(),
            options,
            seed,
            patience: if planted.is_any() { 1 } else { 5 },
            bug: planted.recovery,
            narrow: planted.narrow,
            // In a plain run more of the states are to come from first lives. Who looks for a bug tries them all.
            later_one_in: match planted.is_any() || replayed().is_some() {
                true => 1,
                false => one_in(8),
            },
            enough: planted.enough,
            known: HashMap::new(),
        }
    }

    /// Whether enough is wrong to stop.
    pub fn is_enough(&self) -> bool {
        self.violations.len() >= self.patience
    }

    /// Recovers from the states of `snapshot`.
    pub fn explore(&mut self, snapshot: &Snapshot, level: Level) {
        self.stats.points += 1;
        self.sites.insert(snapshot.point.site);
        let budget = match level {
            Level::First if !self.narrow => Budget::WIDE,
            Level::First | Level::Inside | Level::Chained => Budget::NARROW,
        };
        let draw = self.draw(snapshot.point.step);
        // The control: on a share of the points every word is varied, read or not.
        let prune = !draw.is_multiple_of(8) && !snapshot.is_settled();
        let reads = prune.then(|| self.probe(snapshot, level));
        for state in snapshot.states(budget, reads.as_ref(), draw) {
            if self.is_enough() {
                return;
            }
            self.state(snapshot, &state, level, None);
        }
    }

    /// The words that recovery reads in the newest state, which is checked with that, and, in the first life, in the oldest.
    fn probe(&mut self, snapshot: &Snapshot, level: Level) -> BTreeSet<u64> {
        let mut reads = BTreeSet::new();
        self.state(snapshot, &snapshot.newest(), level, Some(&mut reads));
        if level == Level::First {
            reads.append(&mut self.reads_of(snapshot, &snapshot.oldest()));
        }
        reads
    }

    /// The words that recovery reads in a state.
    fn reads_of(&mut self, snapshot: &Snapshot, state: &State) -> BTreeSet<u64> {
        let mut life = snapshot.life(state, self.options, self.seed);
        life.pm.track_reads(true);
        // What goes wrong here goes wrong again when the state is checked.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let _bug = self.bug.map(plant);
            life.open().map(|()| drop(life.dump(&[])))
        }));
        self.stats.recoveries += 1;
        life.pm.reads()
    }

    /// Checks a state that is not known. Adds the words that recovery reads there to `reads`.
    fn state(
        &mut self,
        snapshot: &Snapshot,
        state: &State,
        level: Level,
        reads: Option<&mut BTreeSet<u64>>,
    ) {
        let digest = snapshot.digest(state);
        if let Some(model) = self.known.get(&digest) {
            if let Err(why) = snapshot.expect.accept(&model.clone()) {
                self.violation(snapshot, state, level, &why);
            }
            if let Some(reads) = reads {
                reads.append(&mut self.reads_of(snapshot, state));
            }
            return;
        }
        self.stats.states += 1;
        match level {
            Level::First => {}
            Level::Inside => self.stats.inside += 1,
            Level::Chained => self.stats.chained += 1,
        }
        let checked = caught(|| self.check(snapshot, state, level, digest, reads));
        match checked {
            Ok(model) => drop(self.known.insert(digest, model)),
            Err(why) => self.violation(snapshot, state, level, &why),
        }
    }

    fn violation(&mut self, snapshot: &Snapshot, state: &State, level: Level, why: &str) {
        let point = snapshot.point;
        let newest = snapshot.newest();
        let lost: Vec<usize> = (0..state.pm.len())
            .filter(|&i| state.pm[i] != newest.pm[i])
            .collect();
        self.violations.push(format!(
            "step {} ({:?} {:?}, {level:?}): {why}\n  older words {lost:?} of {}, files {:?}",
            point.step,
            point.when,
            point.site.0,
            state.pm.len(),
            state.fs
        ));
    }

    fn draw(&self, step: u64) -> u64 {
        hash64_seeded(&step.to_le_bytes(), self.seed ^ self.stats.states)
    }

    /// Recovers from one state. Returns what was found there.
    fn check(
        &mut self,
        snapshot: &Snapshot,
        state: &State,
        level: Level,
        digest: u64,
        reads: Option<&mut BTreeSet<u64>>,
    ) -> Verdict<Arc<Model>> {
        let mut life = snapshot.life(state, self.options, digest);
        let deep = level == Level::First && digest.is_multiple_of(16) && !self.narrow;
        // Now and then the recovery is not only crashed but killed.
        let kills = digest.is_multiple_of(256);
        let inside = deep.then(|| self.watch(&life, kills));
        let model = self.open_noting(&mut life, &snapshot.expect, reads)?;
        life.observe(None);
        for mut snapshot in inside.into_iter().flat_map(|taken| take(&taken)) {
            // The same bytes give the same answer however often their recovery is cut short.
            snapshot.expect.allowed = vec![model.clone()];
            self.explore(&snapshot, Level::Inside);
            self.kill(&snapshot);
        }
        // What was decided is durable before the store answers.
        self.again(&life, snapshot.point, "after recovery")?;
        if digest.is_multiple_of(self.goes_on_one_in(level)) {
            self.go_on(life, snapshot, deep)?;
        }
        Ok(model)
    }

    /// Of how many states one is written on. A crash of a second life leaves what a crash of the first does; of many such
    /// states a share is enough to see that a third life goes on. In a plain run half of the others do; all in which a
    /// second life is watched are among those.
    fn goes_on_one_in(&self, level: Level) -> u64 {
        match level {
            Level::Chained => 4,
            Level::First | Level::Inside if self.later_one_in > 1 => 2,
            Level::First | Level::Inside => 1,
        }
    }

    /// Opens the store in `life` and reads it; it must hold what is expected.
    fn open(&mut self, life: &mut Life, expect: &Expect) -> Verdict<Arc<Model>> {
        self.open_noting(life, expect, None)
    }

    /// As `open`. Adds the words that were read to `reads`.
    fn open_noting(
        &mut self,
        life: &mut Life,
        expect: &Expect,
        reads: Option<&mut BTreeSet<u64>>,
    ) -> Verdict<Arc<Model>> {
        if expect.exists && !Manifest::exists(&life.fs, dir()).map_err(say("looking"))? {
            return Err("the database is gone".into());
        }
        life.pm.track_reads(reads.is_some());
        let bug = self.bug.map(plant);
        self.stats.recoveries += 1;
        let opened = life.open().map_err(say("recovery"));
        drop(bug);
        opened?;
        let found = life.dump(&expect.allowed);
        if let Some(reads) = reads {
            reads.append(&mut life.pm.reads());
            life.pm.track_reads(false);
        }
        let model = expect.accept(&found?)?;
        feed_agrees(life.engine(), &model, expect.fed)?;
        life.tracker.lock().unwrap().holds(&model);
        blob_files_are_named(life)?;
        times_are_past(life)?;
        Ok(model)
    }

    /// Recovers from what is durable in `life` now: it must be what the store shows.
    fn again(&mut self, life: &Life, point: Point, when: &str) -> Verdict<()> {
        let now = Snapshot::of(life, point);
        let mut life = now.life(&now.oldest(), self.options, self.seed ^ point.step);
        self.open(&mut life, &now.expect)
            .map(drop)
            .map_err(|why| format!("again {when}: {why}"))
    }

    /// Writes on in a second life, crashes, closes, opens.
    fn go_on(&mut self, mut life: Life, snapshot: &Snapshot, deep: bool) -> Verdict<()> {
        let chained = deep.then(|| self.watch(&life, false));
        let written = write_on(&life, snapshot.expect.seen);
        life.observe(None);
        written.map_err(|why| format!("writing on: {why}"))?;
        for snapshot in chained.into_iter().flat_map(|taken| take(&taken)) {
            // One second life alone may bring more states than a whole part is to have.
            if self.enough.is_some_and(|most| self.stats.states >= most) {
                self.sites.insert(snapshot.point.site);
            } else {
                self.explore(&snapshot, Level::Chained);
            }
        }
        self.again(&life, snapshot.point, "after writing on")?;
        let expect = life.tracker.lock().unwrap().expect();
        if self.options.in_dram() {
            // Its memtables do not stay where they are.
            life.engine().flush().map_err(say("flushing"))?;
            expect.accept(&life.dump(&expect.allowed)?)?;
            self.again(&life, snapshot.point, "after flushing")?;
        }
        let used = life.engine().metrics().space;
        life.close().map_err(say("closing"))?;
        // What lies in DRAM is gone, and comes back packed.
        let lasts = !self.options.in_dram();
        if lasts {
            space_is_sound(&life, used).map_err(|why| format!("space: {why}"))?;
        }
        self.open(&mut life, &expect)
            .map_err(|why| format!("reopening after a close: {why}"))?;
        let after = life.engine().metrics().space;
        let zones = (after.zones_attached, after.zones_free);
        if lasts && zones != (used.zones_attached, used.zones_free) {
            return Err(format!("space {used:?} became {after:?} by reopening"));
        }
        life.close().map_err(say("closing again"))?;
        let report = life.verify().map_err(say("verify"))?;
        match report.faults.first() {
            Some(fault) => Err(format!("verify: {fault:?}")),
            None => Ok(()),
        }
    }

    /// Puts snapshots of the points of `life` aside, in a plain run of a share of them.
    fn watch(&self, life: &Life, forks: bool) -> Taken {
        let taken = Taken::default();
        let (sink, one_in, salt) = (taken.clone(), self.later_one_in, self.draw(0));
        let snapshot = Snapshot::taker(life, forks);
        life.observe(Some(Arc::new(move |point| {
            if is_sampled(point.step, salt, one_in) {
                sink.lock().unwrap().push(snapshot(point));
            }
        })));
        taken
    }

    /// Goes on in a world whose process was killed at `snapshot`: what the next process reads need
    /// not be durable, and must be once it answers (rule 3 of recovery).
    pub fn kill(&mut self, snapshot: &Snapshot) {
        let Some(mut life) = snapshot.killed(self.options, self.draw(1)) else {
            return;
        };
        self.stats.kills += 1;
        let done = caught(|| {
            let inside = self.watch(&life, false);
            let opened = self.open(&mut life, &snapshot.expect);
            life.observe(None);
            opened?;
            for snapshot in take(&inside) {
                self.explore(&snapshot, Level::Inside);
            }
            self.explore(&Snapshot::of(&life, snapshot.point), Level::Chained);
            if snapshot.point.site.0.starts_with("halloc: part") && snapshot.expect.exists {
                use_new_part(&life)?;
                self.again(&life, snapshot.point, "after using a part found")?;
            }
            self.go_on(life, snapshot, true)
        });
        if let Err(why) = done {
            let why = format!("after a kill: {why}");
            self.violation(snapshot, &snapshot.newest(), Level::First, &why);
        }
    }
}

fn take(taken: &Taken) -> Vec<Snapshot> {
    std::mem::take(&mut taken.lock().unwrap())
}

pub fn say(doing: &str) -> impl Fn(thermocline_base::Error) -> String {
    move |error| format!("{doing} failed: {error}")
}

/// A panic is a violation like any other.
pub fn caught<T>(work: impl FnOnce() -> Verdict<T>) -> Verdict<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("a panic: {}", text.unwrap_or("of another kind")))
    })
}

/// A few writes of each kind; what they did must show. `seen` is the highest seqno anybody was ever
/// shown: it must not be given out again (rule 5).
pub fn write_on(life: &Life, seen: u64) -> Verdict<()> {
    let model = life.tracker.lock().unwrap().expect().allowed[0].clone();
    let (first, last) = (model.data.keys().next(), model.data.keys().next_back());
    // What is prepared can be resolved, and is in the way of the rest until it is.
    let prepared = model.prepared.keys().cloned();
    let resolved = prepared.enumerate().map(|(n, name)| match n % 2 {
        0 => Op::Commit(name),
        _ => Op::RollBack(name),
    });
    let mut ops: Vec<Op> = resolved.collect();
    ops.push(Op::put(0, b"written on", *b"a new value"));
    ops.extend(first.map(|(cf, key)| Op::put(*cf, key, [9; 200])));
    ops.extend(last.map(|(cf, key)| Op::delete(*cf, key)));
    let families = model.families.iter().map(|family| family.id).cycle();
    ops.push(Op::Write(
        (0..model.families.len().max(2))
            .zip(families)
            .map(|(n, cf)| Change {
                cf,
                key: vec![b'b', n.to_le_bytes()[0]],
                value: Some(vec![7; 30].into()),
            })
            .collect(),
    ));
    let mut fresh = true;
    for op in &ops {
        let done = life.run(op).map_err(say("a write"))?;
        if done && fresh {
            fresh = false;
            let visible = life.engine().visible().0;
            if visible <= seen {
                return Err(format!(
                    "seqno {visible} was given out again: {seen} had been seen"
                ));
            }
        }
    }
    if has_tables(life)? {
        life.engine().flush().map_err(say("flushing on"))?;
    }
    let expect = life.tracker.lock().unwrap().expect();
    expect
        .accept(&life.dump(&expect.allowed)?)
        .map(drop)
        .map_err(|why| format!("after writing on: {why}"))
}

/// No seqno of which the manifest says when it was written is given out again: what is written with it would be younger.
fn times_are_past(life: &Life) -> Verdict<()> {
    let metrics = life.engine().metrics();
    match metrics.write_times {
        Some(times) if times.newest_seqno > metrics.visible => Err(format!(
            "what comes behind seqno {} is thought to be older than it is: {times:?}",
            metrics.visible
        )),
        _ => Ok(()),
    }
}

/// What a crash leaves of blob files the open removes.
fn blob_files_are_named(life: &Life) -> Verdict<()> {
    let names = life.fs.list(dir()).map_err(say("listing"))?;
    let there = names.iter().filter(|name| name.ends_with(".blob")).count() as u64;
    let blobs = life.engine().metrics().blobs;
    match there == blobs.files {
        true => Ok(()),
        false => Err(format!("{there} blob files, of which {blobs:?} are named")),
    }
}

/// Whether something was flushed, in this life or before, or almost.
fn has_tables(life: &Life) -> Verdict<bool> {
    let names = life.fs.list(dir()).map_err(say("listing"))?;
    let in_pm = life.engine().metrics().pm_tier.tables > 0;
    Ok(in_pm || names.iter().any(|name| name.ends_with(".sst")))
}

/// Writes until zones behind the first part are in use, if there are any.
fn use_new_part(life: &Life) -> Verdict<()> {
    let first = SPACE.part_bytes_first;
    let mut n = 0;
    loop {
        let space = life.engine().metrics().space;
        if space.region_bytes == first || space.attached_bytes > first {
            return Ok(());
        }
        n += 1;
        let op = Op::put(0, &[b'p', n], [n; 15_000]);
        life.run(&op).map_err(say("filling the first part"))?;
    }
}
