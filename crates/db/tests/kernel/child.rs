//! A process that uses the store above the shim, and reports what it sees and what was acknowledged.
//!
//! A report is a line in a file that does not lie on the device, written with one system call:
//!
//! ```text
//! open             a store was opened; what it has follows
//! has F K N        key K of family F has what operation N has put there
//! seen             that was all
//! begin N          operation N begins
//! done N           it was acknowledged
//! failed N WHY     it was refused; 0 is the close at the end
//! refused WHY      the store could not be opened
//! stuck            so many operations were refused in a row that it ends
//! wrong WHAT       something that must never be
//! end              the process has done everything
//! ```

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use thermocline::{Db, Error, Options};
use thermocline_base::planted::{self, Bug};

use crate::work::{self, FAMILIES, Kind, Shape};

/// The environment variable that tells the child what to do.
pub(crate) const TASK: &str = "THERMOCLINE_KERNEL_CHILD";

/// The environment variable that says which bug the engine has, by its name.
pub(crate) const BUG: &str = "THERMOCLINE_KERNEL_BUG";

/// Operations that fail in a row before the child gives up.
const FAILURES_MAX: usize = 4;

/// What the child is told.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub shape: Shape,
    /// Whether the files lie on a disk, and not in shared memory.
    pub disk: bool,
    pub seed: u64,
    /// The number of the first operation, and how many there are.
    pub first: u64,
    pub ops: u64,
    /// Whether it closes the store in the end, or just ends.
    pub closes: bool,
    /// Whether it opens the store once more, and looks at every byte.
    pub checks: bool,
    pub root: PathBuf,
    pub report: PathBuf,
}

impl Task {
    pub fn text(&self) -> String {
        format!(
            "{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}",
            self.shape.name(),
            self.disk,
            self.seed,
            self.first,
            self.ops,
            self.closes,
            self.checks,
            self.root.display(),
            self.report.display()
        )
    }

    pub fn parse(text: &str) -> Task {
        let lines: Vec<&str> = text.split('\n').collect();
        let [shape, disk, seed, first, ops, closes, checks, root, report] = lines[..] else {
            panic!("a bad task: {text}");
        };
        let shape = Shape::ALL.into_iter().find(|s| s.name() == shape).unwrap();
        Task {
            shape,
            disk: disk.parse().unwrap(),
            seed: seed.parse().unwrap(),
            first: first.parse().unwrap(),
            ops: ops.parse().unwrap(),
            closes: closes.parse().unwrap(),
            checks: checks.parse().unwrap(),
            root: root.into(),
            report: report.into(),
        }
    }
}

struct Life<'a> {
    task: &'a Task,
    options: Options,
    report: File,
}

impl Life<'_> {
    fn say(&mut self, line: &str) {
        let line = format!("{}\n", line.replace('\n', " "));
        self.report.write_all(line.as_bytes()).unwrap();
    }

    fn dir(&self) -> PathBuf {
        self.task.root.join("db")
    }

    /// Opens the store and reports everything in it.
    fn open(&mut self) -> Option<Db> {
        let opened = Db::open(self.dir(), self.options.clone()).and_then(|db| {
            let families = work::families(&db)?;
            let mut text = String::from("open\n");
            for (f, family) in families.iter().enumerate() {
                for entry in family.iter() {
                    let (key, value) = entry?;
                    let n = std::str::from_utf8(&key).ok().and_then(|key| {
                        let key: u16 = key.strip_prefix("key/")?.parse().ok()?;
                        Some((key, work::writer(&value, (f, key))?))
                    });
                    text += &match n {
                        Some((key, n)) => format!("has {f} {key} {n}\n"),
                        None => {
                            format!("wrong value of {} in {}\n", key.escape_ascii(), FAMILIES[f])
                        }
                    };
                }
            }
            text += "seen";
            Ok((db, text))
        });
        match opened {
            Ok((db, text)) => {
                self.report.write_all(text.as_bytes()).unwrap();
                self.say("");
                Some(db)
            }
            Err(error) => {
                self.say(&format!("refused {}: {error}", kind(&error)));
                None
            }
        }
    }

    fn run(&mut self) {
        let task = self.task;
        let Some(mut db) = self.open() else { return };
        let mut failures = 0;
        for n in task.first..task.first + task.ops {
            let op = work::operation(task.seed, n);
            self.say(&format!("begin {n}"));
            let result = work::perform(&db, &task.root, n, &op);
            match result {
                Ok(()) if op.kind == Kind::Reopen => {
                    let closed = db.close();
                    match &closed {
                        Ok(()) => self.say(&format!("done {n}")),
                        Err(error) => self.fail(n, error),
                    }
                    // A fault may be for once.
                    let again = match self.open() {
                        None => self.open(),
                        opened => opened,
                    };
                    let Some(opened) = again else { return };
                    db = opened;
                }
                Ok(()) => {
                    failures = 0;
                    self.say(&format!("done {n}"));
                }
                Err(error) => {
                    failures += 1;
                    self.fail(n, &error);
                }
            }
            if failures == FAILURES_MAX {
                self.say("stuck");
                break;
            }
        }
        if !task.closes {
            self.say("end");
            std::process::exit(0);
        }
        if let Err(error) = db.close() {
            self.fail(0, &error);
        }
        if task.checks {
            self.check();
        }
        self.say("end");
    }

    fn fail(&mut self, n: u64, error: &Error) {
        self.say(&format!("failed {n} {}: {error}", kind(error)));
    }

    fn check(&mut self) {
        drop(self.open());
        match Db::verify(self.dir(), self.options.clone()) {
            Ok(report) if report.faults.is_empty() => {}
            Ok(report) => self.say(&format!("wrong verify: {:?}", report.faults)),
            Err(error) => self.say(&format!("wrong verify: {error}")),
        }
    }
}

fn kind(error: &Error) -> String {
    format!("{:?}", error.kind())
}

/// What the child does.
pub(crate) fn run(task: &Task) {
    if let Ok(name) = std::env::var(BUG) {
        let bug = Bug::ALL.iter().find(|bug| format!("{bug:?}") == name);
        planted::plant_in_process(*bug.expect("a bug that there is"));
    }
    let path: &Path = &task.report;
    let report = File::options().append(true).create(true).open(path);
    let mut life = Life {
        task,
        options: work::options(task.shape, task.disk, task.seed),
        report: report.unwrap(),
    };
    life.run();
}
