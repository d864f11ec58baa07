//! A job in parts, which are coroutines of its thread (PM-Blade §V; FlatLSM §4.3).
//!
//! Each part has its own keys, reads and writes by itself, and is a job like any other. While one waits for the device
//! another one merges. What they have made is put together in the order of keys, and one edit names it all.
//!
//! A coroutine waits at two places. Before it merges on, it waits for inputs that are about to be used up. Behind each
//! step it waits for its writes: until all are made, or, where they are made behind it, until there is room for more.
//! At no other place does it leave the thread to others. These hold up all parts of the job: opening a table, its first
//! piece, index blocks, values that are moved, the sync of a file, and a limit on the rate.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;

use thermocline_base::Result;
use thermocline_env::meter::Meter;
use thermocline_exec::{Coroutine, PIECES_MAX, rest, weave};
use thermocline_tables::{Staged, Work};

use crate::job::{Job, Recipe, Step, run};
use crate::outputs::Outputs;
use crate::sink::TableSink;
use crate::source::Input;

/// What a part reads, what becomes of it, and where that goes.
pub struct Part<'a> {
    /// Newest first.
    pub inputs: Vec<Input<'a>>,
    /// For the keys of this part.
    pub recipe: Recipe<'a>,
    /// Of its own.
    pub sink: &'a mut dyn TableSink,
}

/// What parts have in common.
struct Together<'p> {
    /// How they wait.
    staged: &'p Staged,
    work: RefCell<Work>,
    pace: RefCell<&'p mut dyn FnMut(u64) -> Result<()>>,
    /// By part: bytes that are written, and bytes of DRAM that it takes.
    written: Vec<Cell<u64>>,
    memory: Vec<Cell<u64>>,
    /// Parts that wait for a read now.
    reading: Cell<usize>,
}

fn sum(of: &[Cell<u64>]) -> u64 {
    of.iter().map(Cell::get).sum()
}

/// Runs a job to its end, its parts at the same time. The parts are given in the order of keys; more than one only
/// where the store is `staged`. The time that all of them wait is charged to the meter, the DRAM that they take to
/// `work`. Between steps it calls `pace` with the bytes written until now; an error of `pace` ends the job.
///
/// # Errors
/// As [`Job::step`]; those of `pace`. The caller lets go of the outputs in every case.
///
/// # Panics
/// If there is no part, or more than one of a store that is not staged.
pub fn run_parts(
    mut parts: Vec<Part<'_>>,
    staged: Option<(&Staged, &Meter)>,
    work: Work,
    pace: &mut dyn FnMut(u64) -> Result<()>,
    outputs: &mut Outputs,
) -> Result<()> {
    let Some((staged, meter)) = staged.filter(|_| parts.len() > 1) else {
        let whole = parts.pop().filter(|_| parts.is_empty());
        let whole = whole.expect("a job that is not divided has one part");
        let job = Job::new(whole.inputs, whole.recipe, whole.sink)?;
        return run(job, work, pace, outputs);
    };
    let cells = || parts.iter().map(|_| Cell::new(0)).collect();
    let together = Together {
        staged,
        work: RefCell::new(work),
        pace: RefCell::new(pace),
        written: cells(),
        memory: cells(),
        reading: Cell::new(0),
    };
    let mut made: Vec<Outputs> = parts.iter().map(|_| Outputs::default()).collect();
    let coroutines = parts.into_iter().zip(&mut made).enumerate();
    let coroutines = coroutines
        .map(|(n, (part, made))| -> Coroutine<'_, _> { Box::pin(together.go(n, part, made)) });
    let idle = |wait: &dyn Fn()| match together.reading.get() {
        0 => meter.writing(wait),
        _ => meter.reading(wait),
    };
    let ended = weave(coroutines.collect(), &idle);
    made.into_iter().for_each(|made| outputs.append(made));
    ended
}

impl Together<'_> {
    /// Part `n` takes so many bytes of DRAM now.
    fn charge(&self, n: usize, memory: u64) {
        self.memory[n].set(memory);
        self.work.borrow_mut().cover_bytes(sum(&self.memory));
    }

    /// Coroutine `n`.
    async fn go(&self, n: usize, part: Part<'_>, outputs: &mut Outputs) -> Result<()> {
        let mut job = Job::new(part.inputs, part.recipe, part.sink)?.resting_when_short();
        self.charge(n, job.memory());
        loop {
            self.reading.set(self.reading.get() + 1);
            poll_fn(|context| job.poll_more(context)).await;
            self.reading.set(self.reading.get() - 1);
            let Step::More { written } = job.step(outputs)? else {
                self.memory[n].set(0);
                return Ok(());
            };
            self.written[n].set(written);
            (self.pace.borrow_mut())(sum(&self.written))?;
            self.charge(n, job.memory());
            let left = if self.staged.is_ahead() {
                PIECES_MAX - 1
            } else {
                0
            };
            rest().await;
            poll_fn(|context| job.poll_written(left, context)).await;
        }
    }
}
