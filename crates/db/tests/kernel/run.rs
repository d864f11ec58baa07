//! Runs stories, and holds what the processes report against the oracle.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use thermocline_base::planted::Bug;
use thermocline_testkit::Rng;

use crate::child::{BUG, TASK, Task};
use crate::device::{Device, shim};
use crate::oracle::Oracle;
use crate::plan::{CALLS, Fault, Gap, Life};
use crate::work::Shape;

/// The exit code of a process that the shim has ended.
const ENDED: i32 = 77;

/// A folder for a device, in shared memory: nothing here needs a real disk. `None` where there is none.
pub(crate) fn home() -> Option<tempfile::TempDir> {
    let shm = Path::new("/dev/shm");
    let made = shm.is_dir().then(|| tempfile::tempdir_in(shm).ok());
    made.flatten()
}

/// This binary as a child above the shim, which runs the test `what`.
pub(crate) fn child(device: &Device, what: &str, life: &Life) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", what, "--nocapture", "--test-threads=1"])
        .env("LD_PRELOAD", shim())
        .env("KERNEL_ROOT", &device.root)
        .env("KERNEL_STATE", &device.state)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null());
    if let Some(fault) = &life.fault {
        command.env("KERNEL_PLAN", fault.text());
    }
    command
}

/// One store and what is known of it.
pub(crate) struct Run {
    shape: Shape,
    disk: bool,
    seed: u64,
    report: PathBuf,
    device: Device,
    oracle: Oracle,
    /// What is wrong with the engine, on purpose.
    pub bug: Option<Bug>,
    /// The number of the next operation.
    next: u64,
    /// Operations and openings that were refused, with a reason.
    pub refused: u64,
    /// Whether a store was poisoned.
    pub poisoned: bool,
    /// Calls that failed, by those of the lives so far.
    pub fired: Vec<(usize, &'static str, u64)>,
    pub cuts: u64,
}

impl Run {
    pub fn new(shape: Shape, disk: bool, seed: u64, home: &Path) -> Run {
        Run {
            shape,
            disk,
            seed,
            report: home.join("report"),
            device: Device::new(home),
            oracle: Oracle::new(seed),
            bug: None,
            next: 1,
            refused: 0,
            poisoned: false,
            fired: Vec::new(),
            cuts: 0,
        }
    }

    /// Runs one process after the other, and one without faults that checks; what must never be is an error.
    pub fn tell(&mut self, lives: &[Life], rng: &mut Rng) -> Result<(), String> {
        for life in lives {
            let made = self.live(life, false)?;
            if let Some(fault) = life.fault
                && let Some(error) = fault.error
            {
                let fired = made[CALLS.len()];
                self.fired.push((fault.call, error.name(), fired));
            }
            self.cuts += u64::from(life.gap == Gap::Cut);
            match life.gap {
                Gap::Keep => {}
                Gap::Lose => self.device.lose(rng),
                Gap::Evict => self.device.evict(),
                Gap::Cut => self.device.cut(rng),
            }
        }
        let last = Life {
            fault: None,
            ops: 12,
            closes: true,
            gap: Gap::Keep,
        };
        let checked = self.live(&last, true);
        checked.map_err(|why| format!("at the end: {why}"))?;
        Ok(())
    }

    /// Lets a process live. Returns how often each call was made, and how often one failed.
    pub fn live(&mut self, life: &Life, checks: bool) -> Result<Vec<u64>, String> {
        let _ = std::fs::remove_file(&self.report);
        self.device.begin();
        let task = Task {
            shape: self.shape,
            disk: self.disk,
            seed: self.seed,
            first: self.next,
            ops: life.ops,
            closes: life.closes,
            checks,
            root: self.device.root.clone(),
            report: self.report.clone(),
        };
        let mut command = child(&self.device, "child", life);
        command.env(TASK, task.text());
        if self.disk {
            command.env("KERNEL_DISK", "1");
        }
        if let Some(bug) = self.bug {
            command.env(BUG, format!("{bug:?}"));
        }
        let done = command.output().unwrap();
        let counts = self.device.counts();
        if counts.len() <= CALLS.len() {
            return Err("the shim was not loaded".into());
        }
        let hit = counts[CALLS.len()] > 0;
        self.read_report(life.fault.filter(|fault| hit && fault.error.is_some()))?;
        let said = String::from_utf8_lossy(&done.stderr);
        ended_well(done.status, hit, &said)?;
        Ok(counts)
    }

    /// Takes note of what the process has reported. What is refused must have a reason.
    fn read_report(&mut self, excuse: Option<Fault>) -> Result<(), String> {
        let mut last = "";
        let text = std::fs::read_to_string(&self.report).unwrap_or_default();
        let mut found = BTreeMap::new();
        for line in text.lines() {
            let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
            let number = || rest.split(' ').next().unwrap_or("").parse::<u64>();
            match what {
                "open" => found.clear(),
                "has" => {
                    let mut words = rest.split(' ');
                    let mut word = || words.next().expect("three numbers");
                    let place = (word().parse().unwrap(), word().parse().unwrap());
                    found.insert(place, word().parse().unwrap());
                }
                "seen" => self.oracle.sees(&found)?,
                "begin" => {
                    let n = number().unwrap();
                    self.next = n + 1;
                    self.oracle.begins(n);
                }
                "done" => self.oracle.is_acknowledged(number().unwrap()),
                "failed" | "refused" if excuse.is_some() => {
                    self.refused += 1;
                    self.poisoned |= rest.contains("Poisoned:");
                    last = rest;
                }
                // What fails once must not stop a store that is not poisoned.
                "stuck" if excuse.is_some_and(|fault| !fault.for_ever) && !self.poisoned => {
                    return Err(format!("stuck: {last}"));
                }
                "failed" | "refused" | "wrong" => return Err(line.to_string()),
                _ => {}
            }
        }
        Ok(())
    }
}

fn ended_well(status: ExitStatus, hit: bool, said: &str) -> Result<(), String> {
    let panicked = said.lines().find(|line| line.contains("panicked"));
    match (status.code(), panicked) {
        (Some(0), None) => Ok(()),
        (Some(ENDED), None) if hit => Ok(()),
        _ => Err(format!(
            "the process ended with {:?}, signal {:?}: {said}",
            status.code(),
            status.signal()
        )),
    }
}
