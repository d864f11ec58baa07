//! Running scripts and counting.

use std::path::{Path, PathBuf};

use serde::Serialize;
use thermocline::{Error, Result};
use thermocline_base::WriteBatch;
use thermocline_base::sync::thread::repeat_random;

use super::instructions::Instructions;
use super::script::{KEY_BYTES, Script};
use super::store::{self, Store};
use crate::distribution::Draw;
use crate::keys::{KeyMaker, Permutation};
use crate::rng::Rng;
use crate::scratch::Scratch;
use crate::values::Values;
use crate::watch::Watch;
use crate::workload::{Operation, Workload};

/// The seed of keys and values.
const SEED: u64 = 42;

/// Keys that the load before a script writes in one commit.
const LOADED_AT_ONCE: u64 = 64;

/// What was counted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Counts {
    /// Of each script, in their order.
    pub cells: Vec<Figures>,
    /// Why instructions were not counted; `None` if they were.
    pub uncounted: Option<String>,
    /// Whether it was ended early, so that scripts are missing.
    pub interrupted: bool,
}

/// The counts of one script, for each of its operations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// The script's name.
    pub cell: &'static str,
    /// Its operations.
    pub ops: u64,
    /// Bytes of keys and values that were written.
    pub user_bytes: f64,
    /// Bytes stored in persistent memory.
    pub pm_bytes: f64,
    /// Lines of 64 bytes written back there.
    pub pm_lines: f64,
    /// Fences.
    pub pm_fences: f64,
    /// Bytes written to files.
    pub ssd_bytes_written: f64,
    /// Bytes read from files.
    pub ssd_bytes_read: f64,
    /// Syncs of files and folders.
    pub syncs: f64,
    /// Instructions of processors in user mode; `None` where they cannot be counted.
    pub instructions: Option<f64>,
}

/// Runs `scripts`, and again in a folder in `dir`, with persistent memory in `pm_dir`, if instructions can be counted. `watch` follows,
/// and can end it early.
///
/// # Errors
/// Those of the store.
pub fn count(
    scripts: &[Script],
    dir: &Path,
    pm_dir: Option<&Path>,
    watch: &Watch,
) -> Result<Counts> {
    let mut counts = Counts {
        cells: Vec::with_capacity(scripts.len()),
        uncounted: Instructions::new().err(),
        interrupted: false,
    };
    watch.begin("counting", scripts.len() as u64);
    for script in scripts {
        let mut figures = bytes(script)?;
        if counts.uncounted.is_none() {
            match instructions(script, dir, pm_dir)? {
                Ok(counted) => figures.instructions = Some(counted),
                Err(why) => counts.uncounted = Some(why),
            }
        }
        counts.cells.push(figures);
        watch.add(1);
        if watch.is_stopped() {
            counts.interrupted = counts.cells.len() < scripts.len();
            break;
        }
    }
    Ok(counts)
}

/// All that is counted in a simulated world.
pub(super) fn bytes(script: &Script) -> Result<Figures> {
    // The same reads are sampled each time.
    repeat_random();
    let store = Store::simulated(Script::options()?)?;
    let mut steps = Steps::new(script, &store);
    steps.load()?;
    let (before, syncs) = (store.metrics(), store.syncs());
    steps.run()?;
    let after = store.metrics();
    let ops = script.operations();
    let each = |count: u64| count as f64 / ops as f64;
    let figures = Figures {
        cell: script.name,
        ops,
        user_bytes: each(after.user_bytes - before.user_bytes),
        pm_bytes: each(after.pm.bytes_stored - before.pm.bytes_stored),
        pm_lines: each(after.pm.lines_written_back - before.pm.lines_written_back),
        pm_fences: each(after.pm.fences - before.pm.fences),
        ssd_bytes_written: each(after.ssd.written() - before.ssd.written()),
        ssd_bytes_read: each(after.ssd.read() - before.ssd.read()),
        syncs: each(store.syncs() - syncs),
        instructions: None,
    };
    store.close()?;
    Ok(figures)
}

/// Instructions of an operation, or why they were not counted.
fn instructions(
    script: &Script,
    dir: &Path,
    pm_dir: Option<&Path>,
) -> Result<std::result::Result<f64, String>> {
    repeat_random();
    on_the_machine(script, dir, pm_dir, |steps| {
        let counter = match Instructions::new() {
            Ok(counter) => counter,
            Err(why) => return Ok(Err(why)),
        };
        let (counted, done) = counter.of(|| steps.run());
        done?;
        Ok(counted.map(|counted| counted as f64 / script.operations() as f64))
    })
}

/// Does `work` with a store on the machine's own files that is loaded, and gone afterwards.
pub(super) fn on_the_machine<T>(
    script: &Script,
    dir: &Path,
    pm_dir: Option<&Path>,
    work: impl FnOnce(&mut Steps<'_>) -> Result<T>,
) -> Result<T> {
    let mut scratch = Scratch::new_in(dir, "thermocline-counts")?;
    let mut options = Script::options()?;
    options.pm_path = scratch.region(pm_dir)?;
    let folder: PathBuf = scratch.path().join("db");
    let store = Store::on_the_machine(&folder, options)?;
    let mut steps = Steps::new(script, &store);
    steps.load()?;
    let done = work(&mut steps)?;
    store.close()?;
    scratch.remove()?;
    Ok(done)
}

/// What a script does, step by step.
pub(super) struct Steps<'a> {
    script: &'a Script,
    store: &'a Store,
    order: Permutation,
    draw: Draw,
    rng: Rng,
    keys: KeyMaker,
    values: Values,
    /// Keys that were added to those that were loaded.
    inserted: u64,
}

impl<'a> Steps<'a> {
    fn new(script: &'a Script, store: &'a Store) -> Steps<'a> {
        Steps {
            script,
            store,
            order: Permutation::new(script.keys, SEED),
            draw: Draw::new(script.distribution, script.keys, SEED, 0, 0),
            rng: Rng::of_part(SEED, 1 << 32),
            keys: KeyMaker::new(KEY_BYTES),
            values: Values::new(script.value_bytes, 1.0, SEED),
            inserted: 0,
        }
    }

    /// Writes every key where the script works on keys that are there, and does all that is due then.
    fn load(&mut self) -> Result<()> {
        if !self.script.workload.loads_first() {
            return Ok(());
        }
        self.fill(LOADED_AT_ONCE)?;
        self.store.drain()
    }

    /// Does what is counted.
    pub fn run(&mut self) -> Result<()> {
        if !self.script.workload.loads_first() {
            return self.fill(self.script.batch);
        }
        for _ in 0..self.script.ops {
            self.operate()?;
            self.store.operated();
        }
        Ok(())
    }

    /// Writes every key once, in random order, so many in a commit.
    fn fill(&mut self, batch: u64) -> Result<()> {
        let mut at = 0;
        while at < self.script.keys {
            let until = self.script.keys.min(at + batch);
            let mut writes = WriteBatch::new();
            for i in at..until {
                let key = self.keys.key(self.order.at(i));
                store::put(&mut writes, key, self.values.next_value())?;
            }
            self.store.write(&writes)?;
            self.store.operated();
            at = until;
        }
        Ok(())
    }

    fn operate(&mut self) -> Result<()> {
        let operation = self.next();
        if operation == Operation::Insert {
            let index = self.script.keys + self.inserted;
            self.inserted += 1;
            return self.put(index);
        }
        let index = self.draw.index(self.inserted);
        if operation == Operation::Scan {
            let most = self.script.workload.scan_length();
            // As many as asked for where that is fixed, else up to as many.
            let entries = match self.script.workload.mix().is_empty() {
                true => most,
                false => 1 + self.rng.below(most),
            };
            self.store.scan(self.keys.key(index), entries)?;
            return Ok(());
        }
        if operation.finds() && !self.store.get(self.keys.key(index))? {
            return Err(Error::InvalidArgument(format!(
                "key {index} of script {} is not there",
                self.script.name
            )));
        }
        match operation {
            Operation::Read => Ok(()),
            _ => self.put(index),
        }
    }

    fn put(&mut self, index: u64) -> Result<()> {
        let mut writes = WriteBatch::new();
        let key = self.keys.key(index);
        store::put(&mut writes, key, self.values.next_value())?;
        self.store.write(&writes)
    }

    /// What comes next, by the workload's percentages.
    fn next(&mut self) -> Operation {
        let workload: Workload = self.script.workload;
        let mut place = self.rng.below(100);
        for &(operation, percent) in workload.mix() {
            if place < percent {
                return operation;
            }
            place -= percent;
        }
        // Threads of this workload always do the same.
        match workload.scans() {
            true => Operation::Scan,
            false => Operation::Read,
        }
    }
}
