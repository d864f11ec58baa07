//! The engine's calls: an input is a program of them, whose effects are compared with a map's. Its first byte
//! says what level 0 is like, and whether records lie in DRAM.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;

use thermocline_base::options::{Options, Preset, Shape};
use thermocline_base::{CfOptions, ErrorKind, Result, Steps, WriteBatch};
use thermocline_engine::{Durability, Engine, Family, IngestWriter, Snapshot};
use thermocline_env::sim::SimFs;
use thermocline_pm::SimPm;

use super::world::{Contents, PM, contents, digest, dir, fresh, options, rows_of, world};
use crate::target::{Answer, Target};

pub(super) const TARGET: Target = Target {
    name: "api",
    run,
    samples,
    beginnings: None,
    runs: 2_500,
};

/// Calls of one program: enough to fill the region a few times.
const CALLS_MAX: usize = 200;

/// Copies that a program makes, and tables that it ingests, at most: they stay in its memory.
const COPIES_MAX: usize = 2;
const TABLES_MAX: usize = 12;

/// Snapshots that are held at a time.
const HELD_MAX: usize = 4;

/// An input, byte by byte: zeros behind its end.
struct Program<'a>(&'a [u8]);

impl Program<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// Mostly short, of few letters; and the longest that there are, and longer ones.
    fn key(&mut self) -> Vec<u8> {
        match self.byte() {
            255 => vec![b'k'; 65_535],
            254 => vec![b'k'; 65_536],
            len => (0..len % 5)
                .map(|_| b"\0ab\xff"[usize::from(self.byte() % 4)])
                .collect(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let fill = self.byte();
        match self.byte() {
            255 => vec![fill; (1 << 20) + 1],
            254 => vec![fill; 100_000],
            len @ 200.. => vec![fill; usize::from(len) * 50],
            len => vec![fill; usize::from(len % 40)],
        }
    }

    fn family(&mut self) -> String {
        match self.byte() % 6 {
            0..3 => "default".into(),
            5 => "x".repeat(usize::from(self.byte()) * 5),
            n => format!("family {n}"),
        }
    }
}

fn samples() -> Vec<Vec<u8>> {
    let mut rng = thermocline_testkit::Rng::new(77);
    let program = |rng: &mut thermocline_testkit::Rng, kind: u8| -> Vec<u8> {
        let calls = (0..150).flat_map(|_| {
            let [a, b, c, d] = rng.next_u64().to_le_bytes()[..4] else {
                unreachable!("four bytes")
            };
            // Half of them writes.
            let call = if a < 128 { a % 3 } else { a };
            [call, b % 8, c, d % 210]
        });
        [0, kind].into_iter().chain(calls).collect()
    };
    let one_put = vec![0, 0, 0, 0, 0, 2, 1, 1, 1, 7, 9];
    std::iter::once(one_put)
        .chain((0..2 * KINDS).map(|n| program(&mut rng, n % KINDS)))
        .collect()
}

/// How many kinds of stores there are.
const KINDS: u8 = 6;

/// The options of a kind of store.
fn options_of(kind: u8) -> Options {
    let mut options = options();
    options.memtable.bytes_max = 64 << 10;
    // Tables and levels of a few keys.
    options.compaction.level0_tables = 2;
    options.compaction.table_bytes = 4000;
    match kind % KINDS {
        0 => {}
        1 => {
            options.level0.shape = Some(Shape::GlobalIndex);
            options.level0.merge_percent = 0;
        }
        2 => options.level0.shape = Some(Shape::Immutables),
        3 => options.level0.shape = Some(Shape::Ssd),
        4 => options.level0.shape = Some(Shape::Tiered),
        _ => {
            options.preset = Preset::Leveled;
            options.level0.shape = Some(Shape::Ssd);
            options.dram = 4 * PM;
        }
    }
    options
}

/// What a snapshot sees.
type Then = (Snapshot, Vec<(Family, BTreeMap<Vec<u8>, Vec<u8>>)>);

/// A store, and what it must hold.
struct Life {
    fs: SimFs,
    pm: SimPm,
    options: Options,
    engine: Option<Engine>,
    expected: Contents,
    /// Families whose keys descend.
    reverse: BTreeMap<String, bool>,
    held: Vec<Then>,
    copies: usize,
    tables: usize,
}

fn run(input: &[u8]) -> Answer {
    let (fs, pm) = fresh();
    let mut program = Program(input.get(1..).unwrap_or_default());
    let options = options_of(program.byte());
    let mut life = Life {
        fs,
        pm,
        options,
        engine: None,
        expected: Contents::from([("default".into(), BTreeMap::new())]),
        reverse: BTreeMap::new(),
        held: Vec::new(),
        copies: 0,
        tables: 0,
    };
    let (mut calls, mut refusals) = (0, 0);
    life.open();
    for _ in 0..CALLS_MAX {
        if program.0.is_empty() {
            break;
        }
        calls += 1;
        if let Err(error) = life.call(&mut program) {
            // Too long, too large, not there, no room: and nothing has happened.
            let kinds = [
                ErrorKind::InvalidArgument,
                ErrorKind::Unsupported,
                ErrorKind::OutOfSpace,
            ];
            assert!(kinds.contains(&error.kind()), "{error}");
            refusals += 1;
        }
    }
    life.check();
    life.open();
    life.check();
    match calls > 2 * refusals {
        true => Answer::Read(digest(&life.expected)),
        false => Answer::Refused,
    }
}

impl Life {
    fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("it is open")
    }

    /// Opens it, again: every write was acknowledged as durable.
    fn open(&mut self) {
        self.held.clear();
        drop(self.engine.take());
        let opened = Engine::open(world(&self.fs, &self.pm), dir(), self.options.clone());
        self.engine = Some(opened.expect("a store opens again"));
    }

    fn check(&self) {
        let found = contents(self.engine()).expect("a store can be read");
        assert_eq!(found, self.expected, "it holds something else");
        for (snapshot, then) in &self.held {
            for (family, rows) in then {
                let found = rows_of(snapshot.cursor(*family).expect("it is held"), true);
                let found: BTreeMap<_, _> = found.expect("it is held").into_iter().collect();
                assert_eq!(&found, rows, "a snapshot has changed");
            }
        }
    }

    fn family(&self, name: &str) -> Result<Family> {
        let missing = || thermocline_base::Error::InvalidArgument(format!("there is no {name}"));
        self.engine().find_family(name).ok_or_else(missing)
    }

    fn call(&mut self, program: &mut Program<'_>) -> Result<()> {
        match program.byte() % 24 {
            0..7 => self.write(program),
            7 | 8 => self.get(program),
            9 => self.seek(program),
            10 => self.engine().flush().map(drop),
            11 => {
                let engine = self.engine.take().expect("it is open");
                engine.close()?;
                self.open();
                Ok(())
            }
            12 => {
                // As a killed process.
                self.open();
                Ok(())
            }
            13 => self.make_family(program),
            14 => self.drop_family(program),
            15 => self.delete_range(program),
            16 => self.compact(program),
            17 => self.engine().compact_once().map(drop),
            18 => {
                self.hold();
                Ok(())
            }
            19 => {
                let n = usize::from(program.byte());
                if n < self.held.len() {
                    self.held.swap_remove(n);
                }
                Ok(())
            }
            20 => self.ingest(program),
            21 => self.copy(),
            22 => self.engine().reclaim().map(drop),
            _ => {
                self.check();
                Ok(())
            }
        }
    }

    fn get(&mut self, program: &mut Program<'_>) -> Result<()> {
        let name = program.family();
        let key = program.key();
        let family = self.family(&name)?;
        let got = self.engine().get(family.id, &key, <[u8]>::to_vec)?;
        assert_eq!(
            got.as_ref(),
            self.expected[&name].get(&key),
            "a get finds another value"
        );
        Ok(())
    }

    fn make_family(&mut self, program: &mut Program<'_>) -> Result<()> {
        let (name, reverse) = (program.family(), program.byte() % 2 == 1);
        let options = CfOptions::default().reverse(reverse);
        self.engine().family(&name, &options)?;
        let made = *self.reverse.entry(name.clone()).or_insert(reverse);
        assert!(
            name == "default" || made == reverse,
            "an option that stays was changed"
        );
        self.expected.entry(name).or_default();
        Ok(())
    }

    fn drop_family(&mut self, program: &mut Program<'_>) -> Result<()> {
        let name = program.family();
        self.engine().drop_family(&name)?;
        assert_ne!(name, "default");
        self.expected.remove(&name).expect("it was there");
        self.reverse.remove(&name);
        Ok(())
    }

    fn compact(&mut self, program: &mut Program<'_>) -> Result<()> {
        let name = program.family();
        let (from, to) = (program.key(), program.key());
        let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        let range = match program.byte() % 2 {
            0 => (Bound::Unbounded, Bound::Unbounded),
            _ => range,
        };
        let family = self.family(&name)?;
        self.engine().compact(family.id, range)
    }

    fn hold(&mut self) {
        if self.held.len() == HELD_MAX {
            return;
        }
        let engine = self.engine();
        let of = |(name, rows): (&String, &BTreeMap<_, _>)| {
            let family = engine.find_family(name).expect("it is expected");
            (family, rows.clone())
        };
        let then = self.expected.iter().map(of).collect();
        let snapshot = engine.snapshot();
        self.held.push((snapshot, then));
    }

    fn delete_range(&mut self, program: &mut Program<'_>) -> Result<()> {
        let name = program.family();
        let (from, to) = (program.key(), program.key());
        let to = (!program.byte().is_multiple_of(4)).then_some(to);
        let family = self.family(&name)?;
        let mut batch = WriteBatch::new();
        batch.delete_range(family.id, &from, to.as_deref())?;
        self.engine().write(batch.iter(), Durability::Immediate)?;
        let rows = self.expected.get_mut(&name).expect("it exists");
        rows.retain(|key, _| *key < from || to.as_ref().is_some_and(|to| key >= to));
        Ok(())
    }

    /// A table of a few keys, in their order.
    fn ingest(&mut self, program: &mut Program<'_>) -> Result<()> {
        let name = program.family();
        let family = self.family(&name)?;
        if self.tables == TABLES_MAX {
            return Ok(());
        }
        self.tables += 1;
        let mut rows = BTreeMap::new();
        for _ in 0..1 + program.byte() % 8 {
            let key = program.key();
            let value = (!program.byte().is_multiple_of(4)).then(|| program.value());
            rows.insert(key, value);
        }
        let path = PathBuf::from(format!("/table {}", self.tables));
        let mut table = IngestWriter::create(&world(&self.fs, &self.pm).env, &path)?;
        for (key, value) in &rows {
            match value {
                Some(value) => table.put(key, value)?,
                None => table.delete(key)?,
            }
        }
        table.finish()?;
        self.engine().ingest(family.id, &[path])?;
        let expected = self.expected.get_mut(&name).expect("it exists");
        for (key, value) in rows {
            match value {
                Some(value) => expected.insert(key, value),
                None => expected.remove(&key),
            };
        }
        Ok(())
    }

    /// A checkpoint is a database that holds the same.
    fn copy(&mut self) -> Result<()> {
        if self.copies == COPIES_MAX {
            return Ok(());
        }
        self.copies += 1;
        let to = PathBuf::from(format!("/copy {}", self.copies));
        self.engine().checkpoint(&to)?;
        let pm = SimPm::new(PM, Steps::new());
        let copy = Engine::open(world(&self.fs, &pm), &to, self.options.clone());
        let copy = copy.expect("a copy opens");
        let found = contents(&copy).expect("a copy can be read");
        assert_eq!(found, self.expected, "a copy holds something else");
        copy.close()
    }

    fn write(&mut self, program: &mut Program<'_>) -> Result<()> {
        let mut batch = WriteBatch::new();
        let mut after = self.expected.clone();
        let count = match program.byte() {
            n @ 240.. => usize::from(n % 16),
            _ => 1,
        };
        for _ in 0..count {
            let name = program.family();
            let key = program.key();
            let family = self.family(&name)?;
            let rows = after.get_mut(&name).expect("it exists");
            if program.byte().is_multiple_of(4) {
                batch.delete(family.id, &key)?;
                rows.remove(&key);
            } else {
                let value = program.value();
                batch.put(family.id, &key, &value)?;
                rows.insert(key, value);
            }
        }
        self.engine().write(batch.iter(), Durability::Immediate)?;
        self.expected = after;
        Ok(())
    }

    fn seek(&self, program: &mut Program<'_>) -> Result<()> {
        let (name, key) = (program.family(), program.key());
        let family = self.family(&name)?;
        let mut cursor = self.engine().cursor(family)?;
        let there = cursor.seek(&key)?;
        let rows = &self.expected[&name];
        let next = match family.reverse {
            true => rows.range(..=key).next_back(),
            false => rows.range(key..).next(),
        };
        let found = there.then(|| (cursor.key().to_vec(), cursor.value().to_vec()));
        assert_eq!(
            found,
            next.map(|(k, v)| (k.clone(), v.clone())),
            "a seek went elsewhere"
        );
        Ok(())
    }
}
