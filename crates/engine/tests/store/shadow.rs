//! A child process writes on a shadowed region and is killed with SIGKILL at some moment. What it had
//! not persisted dies with it, as in a power cut; then the parent opens the store and compares it with
//! what the child had reported.
//!
//! The child's threads run streams of numbered batches that follow from a seed, each on keys of its
//! own, and report the number of each batch that was acknowledged. Some are `Buffered`. So of each
//! stream the store must hold exactly the effects of its first batches: at least up to the last
//! reported one that was to be durable, at most one more than were reported, which was in flight. On
//! an ordinary mapping this would hold even if nothing were ever flushed; here a child with a planted
//! bug loses acknowledged batches, and the comparison must say so.
//!
//! The child is this test binary itself, told by an environment variable to run [`child`].

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use thermocline_base::options::Options;
use thermocline_base::planted::{Bug, plant};
use thermocline_base::{CfId, WriteBatch};
use thermocline_engine::{Durability, Engine, Family, World, verify};
use thermocline_pm::Shadow;
use thermocline_testkit::{Replay, Rng, seeds};

const CHILD: &str = "THERMOCLINE_SHADOW_CHILD";
const BUGS: [Bug; 3] = [Bug::SkipFlush, Bug::SkipFence, Bug::AckAtVisible];

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The `number`-th batch of a stream: what it sets or removes.
fn batch(seed: u64, stream: usize, number: u64) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut rng = Rng::new(seed ^ ((stream as u64) << 56) ^ number.wrapping_mul(0x1000_0001));
    let changes = match rng.below(3) {
        0 => 2 + rng.below(6),
        _ => 1,
    };
    let change = |_| {
        let key = format!("{stream}/{:04}", rng.below(50)).into_bytes();
        let value = (!rng.one_in(5)).then(|| {
            let mut value = format!("{number} ").into_bytes();
            let most = *rng.pick(&[100, 500, 500, 9000]);
            let len = rng.below(most);
            value.resize(value.len() + len, b'a');
            value
        });
        (key, value)
    };
    (0..changes).map(change).collect()
}

/// When the `number`-th batch of a stream is acknowledged. Half of the seeds buffer nothing.
fn durability(seed: u64, stream: usize, number: u64) -> Durability {
    let mut rng = Rng::new(seed ^ ((stream as u64) << 40) ^ number.wrapping_mul(0x2000_0003));
    match seed % 4 {
        0 | 1 => Durability::Immediate,
        _ if rng.one_in(3) => Durability::Immediate,
        _ => Durability::Buffered,
    }
}

fn apply(model: &mut Model, changes: Vec<(Vec<u8>, Option<Vec<u8>>)>) {
    for (key, value) in changes {
        match value {
            Some(value) => model.insert(key, value),
            None => model.remove(&key),
        };
    }
}

fn world(rng: &mut Rng) -> World {
    World {
        shadow: Some(Shadow {
            seed: rng.next_u64(),
            evictions_per_ms: *rng.pick(&[0, 1, 30, 500]),
        }),
        ..World::real()
    }
}

/// Small sizes, so that memtables, parts of the region and manifests change all the time.
fn options(rng: &mut Rng) -> Options {
    let mut options = Options {
        pm: 256 << 20,
        dram: 256 << 20,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = *rng.pick(&[64 << 10, 1 << 20, 16 << 20]);
    options.memtable.idle_ms = *rng.pick(&[0, 1, 20]);
    options.manifest.bytes_max = *rng.pick(&[512, 1 << 20]);
    options.commit.buckets = *rng.pick(&[1, 4]);
    options.commit.buffered_bytes = *rng.pick(&[256, 16 << 10, 1 << 20]);
    options.commit.buffered_ms = *rng.pick(&[1, 1000]);
    options
}

/// Not a test of its own: what the child does when a parent has started it.
#[test]
fn child() {
    let Ok(task) = std::env::var(CHILD) else {
        return;
    };
    let lines: Vec<&str> = task.split('\n').collect();
    let [dir, bug, world_seed, seed, next] = lines[..] else {
        panic!("a bad task: {task}");
    };
    let bug = BUGS.into_iter().find(|b| format!("{b:?}") == bug);
    let mut rng = Rng::new(world_seed.parse().unwrap());
    let seed: u64 = seed.parse().unwrap();
    let engine = Engine::open(world(&mut rng), Path::new(dir), options(&mut rng)).unwrap();
    println!();
    report('o', 0, 0);
    std::thread::scope(|scope| {
        for (stream, next) in next.split(' ').enumerate() {
            let next: u64 = next.parse().unwrap();
            let engine = &engine;
            scope.spawn(move || {
                let _planted = bug.map(plant);
                for number in next.. {
                    let mut changes = WriteBatch::new();
                    for (key, value) in batch(seed, stream, number) {
                        match value {
                            Some(value) => changes.put(CfId::DEFAULT, &key, &value).unwrap(),
                            None => changes.delete(CfId::DEFAULT, &key).unwrap(),
                        }
                    }
                    let durability = durability(seed, stream, number);
                    engine.write(changes.iter(), durability).unwrap();
                    report('a', stream, number);
                }
            });
        }
    });
}

fn report(kind: char, stream: usize, number: u64) {
    let line = format!("@{kind} {stream} {number}\n");
    // One system call, so that a report is there or not. The parent may be gone.
    if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
        std::process::exit(1);
    }
}

/// The child's output: its reports, among the lines of the test harness.
struct Reports(BufReader<std::process::ChildStdout>);

impl Iterator for Reports {
    type Item = (char, usize, u64);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // A line without its end was cut by the kill.
            let Some(rest) = line.strip_prefix('@').and_then(|l| l.strip_suffix('\n')) else {
                assert!(!line.contains("panicked"), "{line}");
                continue;
            };
            let words: Vec<&str> = rest.split(' ').collect();
            let kind = words[0].chars().next().unwrap();
            return Some((kind, words[1].parse().unwrap(), words[2].parse().unwrap()));
        }
    }
}

/// What the parent knows.
struct Parent {
    rng: Rng,
    seed: u64,
    dir: PathBuf,
    models: Vec<Model>,
    /// The last number of each stream whose effects are in the model: those that must be there.
    last: Vec<u64>,
    /// The last number of each stream that was reported.
    reported: Vec<u64>,
    acknowledged: u64,
    lost_buffered: u64,
}

impl Parent {
    fn new(seed: u64, home: &Path) -> Parent {
        let mut rng = Rng::new(seed);
        let streams = 1 + rng.below(3);
        Parent {
            rng,
            seed,
            dir: home.join("db"),
            models: vec![Model::default(); streams],
            last: vec![0; streams],
            reported: vec![0; streams],
            acknowledged: 0,
            lost_buffered: 0,
        }
    }

    fn start(&mut self, bug: Option<Bug>) -> (Child, Reports) {
        let next: Vec<String> = self.last.iter().map(|n| (n + 1).to_string()).collect();
        let bug = bug.map_or("none".into(), |bug| format!("{bug:?}"));
        let task = format!(
            "{}\n{bug}\n{}\n{}\n{}",
            self.dir.display(),
            self.rng.next_u64(),
            self.seed,
            next.join(" ")
        );
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "shadow::child",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(CHILD, task)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let reports = Reports(BufReader::new(child.stdout.take().unwrap()));
        (child, reports)
    }

    /// Lets a child run until it has reported `reports` times and a little longer, kills it, and
    /// takes note of everything that it reported.
    fn run(&mut self, bug: Option<Bug>, reports: usize, linger_us: u64) {
        let (mut child, mut output) = self.start(bug);
        let mut seen: Vec<_> = output.by_ref().take(reports).collect();
        assert_eq!(seen.len(), reports, "the child goes on until it is killed");
        // Only moves the kill to some point between two reports; the verdict holds for every point.
        std::thread::sleep(Duration::from_micros(linger_us));
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
        seen.extend(output);
        for (_, stream, number) in seen.into_iter().filter(|report| report.0 == 'a') {
            assert_eq!(number, self.reported[stream] + 1, "stream {stream}");
            self.reported[stream] = number;
            self.acknowledged += 1;
            if durability(self.seed, stream, number) == Durability::Immediate {
                while self.last[stream] < number {
                    self.advance(stream);
                }
            }
        }
    }

    fn advance(&mut self, stream: usize) {
        self.last[stream] += 1;
        let changes = batch(self.seed, stream, self.last[stream]);
        apply(&mut self.models[stream], changes);
    }

    /// Opens the store and compares it with the models; what was in flight may be there, and what was
    /// buffered may be lost from the end.
    fn check(&mut self) -> Result<(), String> {
        let mut rng = Rng::new(self.rng.next_u64());
        let (world, options) = (world(&mut rng), options(&mut rng));
        let report = verify(&world, &self.dir, &options).map_err(|e| e.to_string())?;
        if !report.faults.is_empty() {
            return Err(format!("{:?}", report.faults));
        }
        let engine = Engine::open(world, &self.dir, options).map_err(|e| e.to_string())?;
        let mut found = Model::new();
        let mut cursor = engine.cursor(Family::DEFAULT).map_err(|e| e.to_string())?;
        let mut more = cursor.seek_to_first().map_err(|e| e.to_string())?;
        while more {
            found.insert(cursor.key().to_vec(), cursor.value().to_vec());
            more = cursor.next().map_err(|e| e.to_string())?;
        }
        for stream in 0..self.models.len() {
            let prefix = format!("{stream}/").into_bytes();
            let own = |key: &Vec<u8>| key.starts_with(&prefix);
            let own: Model = found.clone().into_iter().filter(|e| own(&e.0)).collect();
            let (durable, reported) = (self.last[stream], self.reported[stream]);
            while own != self.models[stream] {
                if self.last[stream] > reported {
                    return Err(format!(
                        "stream {stream} is not as after {durable} to {} batches",
                        reported + 1
                    ));
                }
                self.advance(stream);
            }
            self.lost_buffered += reported.saturating_sub(self.last[stream]);
            self.reported[stream] = self.last[stream];
        }
        Ok(())
    }
}

fn home(seed: u64) -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if seed.is_multiple_of(2) && memory.is_dir() {
        return tempfile::tempdir_in(memory).unwrap();
    }
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[test]
fn what_was_acknowledged_survives_a_kill_that_loses_what_was_not_persisted() {
    let (mut kills, mut acknowledged, mut lost) = (0, 0, 0);
    for seed in seeds(300..306) {
        let _replay = Replay::new("-p thermocline-engine --test store shadow", seed);
        let home = home(seed);
        let mut parent = Parent::new(seed, home.path());
        for life in 0..12 {
            let reports = match parent.rng.below(4) {
                // Killed while it recovers or right after.
                0 => 1,
                _ => 1 + parent.rng.below(500),
            };
            let linger_us = parent.rng.below(1500) as u64;
            parent.run(None, reports, linger_us);
            kills += 1;
            // Or the next child finds what this one left, and does again what was in flight.
            let sure = parent.last == parent.reported;
            if life == 11 || !sure || !parent.rng.one_in(4) {
                let checked = parent.check();
                checked.unwrap_or_else(|lost| panic!("after kill {life}: {lost}"));
            }
        }
        acknowledged += parent.acknowledged;
        lost += parent.lost_buffered;
    }
    println!("{kills} kills, {acknowledged} batches were acknowledged, {lost} buffered ones lost");
}

/// Kills children in which `bug` is planted, of seeds that buffer or that do not, until what they lost
/// is noticed.
fn noticed(bug: Bug, buffering: bool) {
    let seeds = (0..40).filter(|seed| (seed % 4 > 1) == buffering);
    for (tried, seed) in (1..).zip(seeds) {
        let home = home(seed);
        let mut parent = Parent::new(seed, home.path());
        let reports = 100 + parent.rng.below(300);
        parent.run(Some(bug), reports, 0);
        assert!(parent.acknowledged > 0);
        if let Err(lost) = parent.check() {
            return println!("{bug:?} was noticed after {tried} kills: {lost}");
        }
    }
    panic!("nobody noticed {bug:?}");
}

#[test]
fn a_forgotten_flush_is_noticed() {
    noticed(Bug::SkipFlush, false);
}

#[test]
fn a_forgotten_fence_is_noticed() {
    noticed(Bug::SkipFence, false);
}

#[test]
fn an_acknowledgement_before_the_buffered_writes_before_it_are_durable_is_noticed() {
    noticed(Bug::AckAtVisible, true);
}
