//! Runs a script.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use thermocline_base::options::{Options, Preset};
use thermocline_base::{CfId, ErrorKind, Steps, WriteBatch};
use thermocline_engine::{
    Durability, Engine, Event, Family, Runtime, Setup, Snapshot, World, WriteOptions,
};
use thermocline_env::Env;
use thermocline_env::sim::SimFs;
use thermocline_env::simulated::SimClock;
use thermocline_pm::SimPm;

use crate::report;

const CF: CfId = CfId::DEFAULT;

/// What an operation takes by the clock of the script.
const OPERATION_NS: u64 = 10_000;

/// Small, so that a short script passes by every decision.
const SIZES: [(&str, &str); 10] = [
    ("pm", "2MiB"),
    ("dram", "8MiB"),
    ("pm.part_bytes_first", "256KiB"),
    ("memtable.bytes_max", "64KiB"),
    ("compaction.table_bytes", "64KiB"),
    ("compaction.base_bytes", "256KiB"),
    ("blob.inline_bytes_max", "4KiB"),
    ("level0.evacuation_threads", "1"),
    ("memtable.replay_threads", "1"),
    ("read.readahead", "4"),
];

struct Store {
    world: World,
    clock: Arc<SimClock>,
    runtime: Option<Runtime>,
    engine: Option<Engine>,
    events: Arc<Mutex<Vec<String>>>,
    snapshot: Option<Snapshot>,
    /// After so many operations a piece of background work is done; 0: never.
    every: u64,
    operations: u64,
    /// The next key in order, and the state of the keys that are drawn.
    next: u64,
    drawn: u64,
    refused: u64,
}

/// The log of a script.
pub fn run(script: &str) -> String {
    let mut store = Store::new();
    let mut log = String::new();
    for line in script.lines() {
        let command = line.split('#').next().unwrap_or_default().trim();
        if command.is_empty() {
            continue;
        }
        writeln!(log, "> {command}").unwrap();
        store.command(command);
        store.tell(&mut log);
    }
    store.command("close");
    store.tell(&mut log);
    log
}

fn number(word: &str) -> u64 {
    let (digits, unit) = match word.chars().last() {
        Some('K') => (&word[..word.len() - 1], 1000),
        Some('M') => (&word[..word.len() - 1], 1_000_000),
        _ => (word, 1),
    };
    digits
        .parse::<u64>()
        .unwrap_or_else(|_| panic!("{word} is no number"))
        * unit
}

/// The word behind `name`.
fn behind<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    let at = words.iter().position(|word| *word == name)?;
    words.get(at + 1).copied()
}

impl Store {
    fn new() -> Store {
        let steps = Steps::new();
        let clock = Arc::new(SimClock::new());
        let env = Env {
            clock: clock.clone(),
            ..Env::simulated(SimFs::new(steps.clone()), 7)
        };
        Store {
            world: World {
                env,
                sim: Some(SimPm::new(64 << 20, steps)),
                shadow: None,
                background: true,
            },
            clock,
            runtime: None,
            engine: None,
            events: Arc::default(),
            snapshot: None,
            every: 0,
            operations: 0,
            next: 0,
            drawn: 1,
            refused: 0,
        }
    }

    fn command(&mut self, command: &str) {
        let words: Vec<&str> = command.split_whitespace().collect();
        let count = |at: usize| number(words[at]);
        match words[0] {
            "open" => self.open(&words[1..]),
            "close" => self.close(),
            "put" | "delete" | "get" | "scan" => self.operate(&words),
            "delete-range" => {
                let mut batch = WriteBatch::new();
                let (from, to) = (key(count(1)), key(count(2)));
                batch.delete_range(CF, &from, Some(&to)).unwrap();
                self.write(&batch);
            }
            "work" => while self.step() {},
            "step" => (0..count(1)).for_each(|_| {
                self.step();
            }),
            "wait" => {
                self.clock.advance_ns(count(1) * 1_000_000);
                while self.step() {}
            }
            "hold" => self.snapshot = Some(self.engine().snapshot()),
            "let-go" => self.snapshot = None,
            "flush" => drop(self.engine().flush().unwrap()),
            "compact" => {
                let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
                self.engine().compact(CF, all).unwrap();
            }
            "drain" => self.engine().drain().unwrap(),
            other => panic!("{other} is no command"),
        }
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("an open store")
    }

    fn open(&mut self, words: &[&str]) {
        self.close();
        self.world.background = true;
        let mut options = Options::default();
        if let Some(name) = words.iter().find_map(|word| word.strip_prefix("preset=")) {
            options = Options::preset(Preset::parse(name).unwrap());
        }
        for (name, value) in SIZES {
            options.set(name, value).unwrap();
        }
        for word in words {
            match word.split_once('=') {
                None if *word == "inline" => self.world.background = false,
                Some(("every", n)) => self.every = number(n),
                Some(("preset", _)) => {}
                Some((name, value)) => options.set(name, value).unwrap(),
                None => panic!("{word} is no option"),
            }
        }
        let events = self.events.clone();
        let listener = move |event: &Event| {
            let mut events = events.lock().unwrap();
            events.push(format!("{event:?}"));
        };
        self.runtime = Some(Runtime::scripted(self.clock.clone()));
        let setup = Setup {
            runtime: self.runtime.clone(),
            listener: Some(Arc::new(listener)),
            ..Setup::default()
        };
        let opened = Engine::open_with(self.world.clone(), Path::new("/db"), options, setup);
        self.engine = Some(opened.unwrap());
    }

    fn close(&mut self) {
        self.snapshot = None;
        if let Some(engine) = self.engine.take() {
            engine.close().unwrap();
        }
        self.runtime = None;
    }

    fn step(&self) -> bool {
        let runtime = self.runtime.as_ref().expect("an open store");
        runtime.step().is_some()
    }

    /// An operation is done; now and then a piece of background work is.
    fn operated(&mut self) {
        self.clock.advance_ns(OPERATION_NS);
        self.operations += 1;
        if self.every > 0 && self.operations.is_multiple_of(self.every) {
            self.step();
        }
    }

    fn draw(&mut self, words: &[&str], keys: u64) -> u64 {
        if words.contains(&"seq") {
            self.next += 1;
            return (self.next - 1) % keys;
        }
        self.drawn = self
            .drawn
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let drawn = self.drawn >> 33;
        // One of twenty of all, the others of fifty.
        if words.contains(&"churn") {
            return match drawn % 20 {
                0 => 50 + drawn / 20 % keys,
                _ => drawn / 20 % 50,
            };
        }
        // Nine of ten of a tenth.
        let hot = words.contains(&"hot") && !drawn.is_multiple_of(10);
        let (place, among) = match hot {
            true => (drawn / 10, keys.div_ceil(10)),
            false => (drawn, keys),
        };
        place % among
    }

    fn write(&mut self, batch: &WriteBatch) {
        let mode = WriteOptions::from(Durability::Immediate);
        match self.engine().write(batch.iter(), mode) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::OutOfSpace => self.refused += 1,
            Err(error) => panic!("{error}"),
        }
        self.operated();
    }

    fn operate(&mut self, words: &[&str]) {
        let keys = behind(words, "of").map_or(1000, number);
        let len = behind(words, "len").map_or(100, number);
        for _ in 0..number(words[1]) {
            let n = self.draw(words, keys);
            let mut batch = WriteBatch::new();
            match words[0] {
                "put" => batch
                    .put(CF, &key(n), &value(n ^ self.operations, len))
                    .unwrap(),
                "delete" => batch.delete(CF, &key(n)).unwrap(),
                "get" => drop(self.engine().get(CF, &key(n), |_| ()).unwrap()),
                _ => scan(self.engine(), &key(n), len),
            }
            match batch.is_empty() {
                true => self.operated(),
                false => self.write(&batch),
            }
        }
    }

    /// What has happened since it was told last, and where everything is now.
    fn tell(&mut self, log: &mut String) {
        for event in self.events.lock().unwrap().drain(..) {
            writeln!(log, "  {event}").unwrap();
        }
        if let Some(engine) = &self.engine {
            report::write(engine, log);
            writeln!(log, "  refused {}", self.refused).unwrap();
        }
    }
}

fn key(n: u64) -> Vec<u8> {
    format!("key {:012}", n.wrapping_mul(7919)).into_bytes()
}

/// Bytes that no codec makes shorter.
fn value(seed: u64, len: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state.to_le_bytes()[6]
    };
    (0..len).map(|_| next()).collect()
}

fn scan(engine: &Engine, from: &[u8], entries: u64) {
    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
    let mut more = cursor.seek(from).unwrap();
    for _ in 1..entries {
        more = more && cursor.next().unwrap();
    }
}
