//! What a store takes of the SSD whose values lie apart from its tables, while keys are overwritten at random: the most of it at any
//! moment, jobs and flushes under way among it.
//!
//! # The model
//! Keys lie in as many ranges as the base level has tables, a table each. All keys are written as often. A flush goes range by range,
//! a group of them at a time, and an edit names what the group has made: tables in place of those that were there, and a blob file for
//! each `reach` ranges. Of each range a part of what was alive is garbage then: that of keys that `b` bytes hit at random
//! among `n`, `1 - exp(-b / n)`. Where a job has a table, a range goes to level 0, beside the old values, until the next flush of it.
//!
//! When to collect, which files, out of which of them a job moves values and how many jobs run is asked of [`collect`], as a real
//! store does; how far writers are held back, of [`pressure`](crate::pressure). A job writes a table anew and a file beside it. The
//! device is shared by what goes on. What is written by a flush or job is there from then on, what it replaces until its end.
//!
//! # What it leaves out
//! Levels above and below, merges of level 0, other presets' flushes, readers that keep files, and chance. A real store of these sizes has more on the
//! SSD: 1.58 for each byte that lives, where the model had 1.44 to 1.50, without headers of values (decision 153). So it tells one rule from another one, and is no promise.

use std::ops::Range;

use thermocline_base::FileId;

use super::merge::whole;
use super::setting::SECOND;
use crate::collect::{self, Allowance, BlobFile, Copies, Moves, Referring};
use crate::pressure::{Debt, Slope};

/// Seconds of a step.
const STEP_S: f64 = 0.02;

/// Nothing that is less of a byte is alive.
const BYTE: f64 = 1.0;

/// A store whose keys are overwritten at random. Sizes in bytes of values.
#[derive(Debug, Clone, PartialEq)]
pub struct Overwrites {
    /// What is allowed, and what a flush is thought to bring.
    pub allowance: Allowance,
    /// All values, each once.
    pub live_bytes: u64,
    /// Tables of the base level, and the bytes of each.
    pub tables: usize,
    /// See `tables`.
    pub table_bytes: u64,
    /// Persistent memory, and a memtable of it.
    pub pm_bytes: u64,
    /// See `pm_bytes`.
    pub memtable_bytes: u64,
    /// Sealed memtables from which on they are flushed.
    pub flushed: u64,
    /// Ranges that an edit of a flush names.
    pub group: usize,
    /// Ranges whose values a file of a flush has. Divides `group`.
    pub reach: usize,
    /// Jobs that run beside a flush.
    pub jobs: usize,
    /// What the device reads or writes in a second.
    pub device_per_s: f64,
    /// Written in a second, if nobody is held back.
    pub writes_per_s: f64,
    /// How much is written.
    pub user_bytes: u64,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RoomTaken {
    /// The most bytes on the SSD for each byte that lives.
    pub peak: f64,
    /// A mean over time.
    pub mean: f64,
    /// Bytes written to the SSD for each byte that was overwritten.
    pub written: f64,
    /// Bytes overwritten in a second.
    pub per_s: f64,
}

/// Puts a store through this. It begins with all values in files as a flush leaves them.
///
/// ```
/// use thermocline_policy::collect::Allowance;
/// use thermocline_policy::simulate::{Overwrites, overwrite};
/// let store = Overwrites {
///     allowance: Allowance { percent_max: 130, flush_bytes: 45 << 20 },
///     live_bytes: 512 << 20,
///     tables: 8,
///     table_bytes: 3 << 20,
///     pm_bytes: 64 << 20,
///     memtable_bytes: 10 << 20,
///     flushed: 4,
///     group: 2,
///     reach: 1,
///     jobs: 3,
///     device_per_s: 400e6,
///     writes_per_s: 120e6,
///     user_bytes: 512 << 20,
/// };
/// let taken = overwrite(&store);
/// assert!(taken.peak > taken.mean && taken.mean > 1.0);
/// ```
pub fn overwrite(of: &Overwrites) -> RoomTaken {
    let mut run = Overwriting::new(of);
    let (mut user, mut steps) = (0.0, 0.0_f64);
    let mut taken = RoomTaken::default();
    while user < of.user_bytes as f64 {
        user += run.step();
        steps += 1.0;
        let now = run.on_ssd() / of.live_bytes as f64;
        taken.peak = taken.peak.max(now);
        taken.mean += now;
    }
    taken.mean /= steps.max(1.0);
    taken.written = run.written / user.max(1.0);
    taken.per_s = user / (steps * STEP_S).max(STEP_S);
    taken
}

/// A blob file.
struct File {
    id: FileId,
    bytes: f64,
    /// Bytes that are alive, by range.
    live: Vec<(usize, f64)>,
}

impl File {
    fn alive(&self) -> f64 {
        self.live.iter().map(|(_, bytes)| bytes).sum()
    }

    fn of(&self, range: usize) -> f64 {
        let own = self.live.iter().filter(|(of, _)| *of == range);
        own.map(|(_, bytes)| bytes).sum()
    }

    fn seen(&self) -> BlobFile {
        BlobFile {
            file: self.id,
            bytes: whole(self.bytes),
            live: whole(self.alive().min(self.bytes)),
        }
    }
}

/// Work of which so many bytes are left to be read or written.
struct Task {
    left: f64,
    all: f64,
    /// Of values that it writes, and of tables.
    values: f64,
    tables: f64,
}

impl Task {
    /// What reads so much, and writes this.
    fn new(read: f64, values: f64, tables: f64) -> Task {
        let all = read + values + tables;
        Task {
            left: all,
            all,
            values,
            tables,
        }
    }

    /// What is written of it, beside what it replaces.
    fn made(&self) -> f64 {
        (1.0 - self.left.max(0.0) / self.all) * (self.values + self.tables)
    }
}

/// A job that moves values.
struct Job {
    range: usize,
    victims: Vec<FileId>,
    work: Task,
}

/// Ranges of a flush that are named together.
struct Group {
    ranges: Range<usize>,
    /// Whether they go to level 0, since a job has the first one.
    is_met: bool,
    work: Task,
}

/// A flush: what it has taken, and what it is at.
struct Flush {
    taken: f64,
    group: Group,
}

struct Overwriting<'a> {
    of: &'a Overwrites,
    files: Vec<File>,
    next: u64,
    /// Of each range what lies in level 0, by flushes.
    level0: Vec<Vec<f64>>,
    /// Whether a flush or a job has its table.
    held: Vec<bool>,
    active: f64,
    sealed: f64,
    flush: Option<Flush>,
    jobs: Vec<Job>,
    written: f64,
}

impl<'a> Overwriting<'a> {
    fn new(of: &'a Overwrites) -> Overwriting<'a> {
        let mut run = Overwriting {
            of,
            files: Vec::new(),
            next: 1,
            level0: vec![Vec::new(); of.tables],
            held: vec![false; of.tables],
            active: 0.0,
            sealed: 0.0,
            flush: None,
            jobs: Vec::new(),
            written: 0.0,
        };
        let flushes = (of.live_bytes / (of.flushed * of.memtable_bytes)).max(1);
        for _ in 0..flushes {
            let all = 0..of.tables;
            let each = run.of_range() / flushes as f64;
            let live: Vec<(usize, f64)> = all.map(|range| (range, each)).collect();
            run.add(&live);
        }
        run
    }

    /// What is alive in a range.
    fn of_range(&self) -> f64 {
        self.of.live_bytes as f64 / self.of.tables as f64
    }

    fn table(&self) -> f64 {
        self.of.table_bytes as f64
    }

    /// Files with this, of as many ranges each as a file reaches over.
    fn add(&mut self, live: &[(usize, f64)]) {
        let reach = self.of.reach;
        for own in live.chunk_by(|(a, _), (b, _)| a / reach == b / reach) {
            self.files.push(File {
                id: FileId(self.next),
                bytes: own.iter().map(|(_, bytes)| bytes).sum(),
                live: own.to_vec(),
            });
            self.next += 1;
        }
    }

    fn seen(&self) -> Vec<BlobFile> {
        self.files.iter().map(File::seen).collect()
    }

    /// Bytes on the SSD: what is named, and what is written beside it.
    fn on_ssd(&self) -> f64 {
        let files: f64 = self.files.iter().map(|file| file.bytes).sum();
        let level0: f64 = self.level0.iter().flatten().sum();
        let jobs: f64 = self.jobs.iter().map(|job| job.work.made()).sum();
        let flush = self.flush.as_ref().map_or(0.0, |of| of.group.work.made());
        files + level0 + jobs + flush + self.table() * self.of.tables as f64
    }

    /// Returns how much was written.
    fn step(&mut self) -> f64 {
        let user = self.write();
        self.begin_flush();
        while self.begin_job() {}
        let doing = self.jobs.len() + usize::from(self.flush.is_some());
        let each = self.of.device_per_s * STEP_S / doing.max(1) as f64;
        self.go_on_with_flush(each);
        self.go_on_with_jobs(each);
        user
    }

    fn write(&mut self) -> f64 {
        let files = self.seen();
        let live = files.iter().map(|file| file.live).sum();
        let taken = self.sealed + self.flush.as_ref().map_or(0.0, |of| of.taken);
        let debt = Debt {
            pm_bytes: whole(taken + self.active),
            garbage_bytes: files.iter().map(BlobFile::garbage).sum(),
            ..Debt::default()
        };
        let slope = Slope {
            garbage: collect::limits(live, self.of.allowance),
            ..Slope::new(self.of.pm_bytes, self.of.pm_bytes, u64::MAX)
        };
        let delay = slope.delay(&debt).map_or(0.0, |of| of.nanos_per_byte);
        let each = (1.0 / self.of.writes_per_s).max(delay / SECOND);
        let room = (self.of.pm_bytes as f64 - taken - self.active).max(0.0);
        let user = (STEP_S / each).min(room);
        self.active += user;
        let memtable = self.of.memtable_bytes as f64;
        while self.active >= memtable {
            self.active -= memtable;
            self.sealed += memtable;
        }
        user
    }

    fn begin_flush(&mut self) {
        let due = (self.of.flushed * self.of.memtable_bytes) as f64;
        if self.flush.is_none() && self.sealed >= due {
            let taken = std::mem::take(&mut self.sealed);
            let group = self.begin_group(0, taken);
            self.flush = Some(Flush { taken, group });
        }
    }

    fn begin_group(&mut self, first: usize, taken: f64) -> Group {
        let mut end = (first + self.of.group).min(self.of.tables);
        while end > first + 1 && self.held[first..end].contains(&true) {
            end = first + (end - first) / 2;
        }
        let is_met = self.held[first];
        let ranges = (end - first) as f64;
        let values = taken / self.of.tables as f64 * ranges;
        let tables = self.table() * ranges;
        let work = match is_met {
            true => Task::new(0.0, values, 0.0),
            false => Task::new(tables, values, tables),
        };
        if !is_met {
            self.held[first..end].fill(true);
        }
        Group {
            ranges: first..end,
            is_met,
            work,
        }
    }

    fn go_on_with_flush(&mut self, bytes: f64) {
        let Some(mut flush) = self.flush.take() else {
            return;
        };
        flush.group.work.left -= bytes;
        if flush.group.work.left <= 0.0 {
            let each = flush.taken / self.of.tables as f64;
            self.name(&flush.group, each);
            let next = flush.group.ranges.end;
            if next >= self.of.tables {
                return;
            }
            flush.group = self.begin_group(next, flush.taken);
        }
        self.flush = Some(flush);
    }

    /// The edit of a group whose ranges have so much each.
    fn name(&mut self, group: &Group, each: f64) {
        if group.is_met {
            self.level0[group.ranges.start].push(each);
            self.written += each * (1.0 + self.table() / self.of_range());
            return;
        }
        let mut live = Vec::new();
        for range in group.ranges.clone() {
            self.held[range] = false;
            for bytes in std::mem::take(&mut self.level0[range]) {
                let hit = self.hit(range, bytes);
                self.add(&[(range, hit)]);
            }
            let hit = self.hit(range, each);
            self.written += hit + self.table();
            live.push((range, hit));
        }
        self.add(&live);
    }

    /// So many bytes overwrite what is alive in a range. Returns those of them that live themselves.
    fn hit(&mut self, range: usize, bytes: f64) -> f64 {
        let part = 1.0 - (-bytes / self.of_range()).exp();
        let all = self.files.iter_mut().flat_map(|file| &mut file.live);
        for (_, live) in all.filter(|(of, _)| *of == range) {
            *live *= 1.0 - part;
        }
        self.of_range() * part
    }

    /// Begins a job if one is due beside those that run.
    fn begin_job(&mut self) -> bool {
        let files = self.seen();
        let live = files.iter().map(|file| file.live).sum();
        let percent_max = self.of.allowance.percent_max;
        let copies = Copies::of(live, percent_max);
        let moving: f64 = self.jobs.iter().map(|job| job.work.values).sum();
        if self.jobs.len() >= self.of.jobs || !copies.let_begin(whole(moving)) {
            return false;
        }
        let tables = self.of.tables as u64;
        let referring = Referring {
            tables,
            bytes: tables * self.of.table_bytes,
        };
        let moves = Moves::by_tables(&files, percent_max, (referring, u64::MAX));
        let victims = collect::victims(&files, self.of.allowance, moves);
        let is_victim = |file: &&File| victims.binary_search(&file.id).is_ok();
        let victims: Vec<&File> = self.files.iter().filter(is_victim).collect();
        let refers = |range: usize| victims.iter().map(|file| file.of(range)).sum::<f64>();
        let free = (0..self.of.tables).filter(|range| !self.held[*range]);
        let free = free.map(|range| (range, refers(range)));
        // As `pick` does: of equal ones the first.
        let most = free.rev().max_by(|(_, a), (_, b)| a.total_cmp(b));
        let Some((range, _)) = most.filter(|(_, bytes)| *bytes >= BYTE) else {
            return false;
        };
        let own = victims.iter().filter(|file| file.of(range) > 0.0);
        let own = own.map(|file| (file.seen(), whole(file.of(range))));
        let victims = collect::of_job(own.collect(), copies.of_job(self.of.table_bytes));
        let is_chosen = |file: &&File| victims.binary_search(&file.id).is_ok();
        let chosen = self.files.iter().filter(is_chosen);
        let values: f64 = chosen.map(|file| file.of(range)).sum();
        self.held[range] = true;
        self.jobs.push(Job {
            range,
            victims,
            work: Task::new(values + self.table(), values, self.table()),
        });
        true
    }

    fn go_on_with_jobs(&mut self, bytes: f64) {
        for mut job in std::mem::take(&mut self.jobs) {
            job.work.left -= bytes;
            match job.work.left <= 0.0 {
                true => self.end(&job),
                false => self.jobs.push(job),
            }
        }
    }

    /// The edit of a job. Files of which nothing is alive go.
    fn end(&mut self, job: &Job) {
        let mut moved = 0.0;
        for file in &mut self.files {
            if job.victims.binary_search(&file.id).is_ok() {
                moved += file.of(job.range);
                file.live.retain(|(of, _)| *of != job.range);
            }
        }
        self.files.retain(|file| file.alive() >= BYTE);
        self.held[job.range] = false;
        self.written += moved + self.table();
        self.add(&[(job.range, moved)]);
    }
}
