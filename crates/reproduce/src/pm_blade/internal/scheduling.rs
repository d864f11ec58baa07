//! Figure 9: a compaction by threads, by coroutines, and by coroutines whose reads and writes are stages of their own
//! (`compaction.scheduler`).
//!
//! Level 0 lies on the SSD, so that there is something to read: runs that lie over each other, which are compacted by hand
//! into the level below. As in the paper, four pieces are compacted at a time: by four threads, each in its quarter of the
//! keys, or by two threads with two coroutines each. Tables are so small that each thread has its own. Another thread
//! reads meanwhile.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use thermocline::{Db, Result, RuntimeOptions};
use thermocline_bench::clock::now;
use thermocline_bench::keys::{KeyMaker, Permutation};
use thermocline_bench::usage::usage;

use super::filling::{BY_HAND, Filling, Side, check};
use super::reading::{Latencies, Reader};
use crate::experiment::Measure;
use crate::outcome::{Chart, Check, Outcome, Series, Table};
use crate::outcome::{median, strings};
use crate::setting::{Setting, Tell};
use crate::trial::{KEY_BYTES, SEED, Trial};

/// Bytes of values, as in the paper.
const VALUES: [usize; 5] = [32, 64, 128, 256, 512];

/// Values of `compaction.scheduler`, and by how many threads keys are compacted.
const SCHEDULERS: [(&str, u64); 3] = [("threads", 4), ("coroutines", 2), ("stages", 2)];

/// What a compaction took.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Took {
    seconds: f64,
    /// The share of the processors that the process had, reads beside the compaction included.
    cpu: f64,
    /// How many jobs ran at a time, on average.
    jobs: f64,
    /// Read and written on the SSD in a second, of all readers and writers.
    mb_per_s: f64,
    /// How long a read took meanwhile, on average, in microseconds.
    read_us: f64,
}

/// One of its figures.
type Figure = fn(&Took) -> f64;

/// What is shown of it, and its unit.
const FIGURES: [(&str, &str, Figure); 5] = [
    ("Duration", "seconds", |took| took.seconds),
    ("Jobs at a time", "jobs", |took| took.jobs),
    ("Use of the processors", "percent", |took| 100.0 * took.cpu),
    ("Use of the SSD", "MB/s", |took| took.mb_per_s),
    ("Latency of reads meanwhile", "microseconds", |took| {
        took.read_us
    }),
];

/// The experiment.
#[derive(Debug)]
pub(crate) struct Scheduling;

impl Measure for Scheduling {
    fn measure(&self, setting: &Setting, tell: Tell<'_>) -> Result<Outcome> {
        let (mib, rounds) = match setting.quick {
            true => (8, 1),
            false => (128, 3),
        };
        let mut found = Vec::new();
        for value_bytes in VALUES {
            tell(&format!("values of {value_bytes} bytes"));
            let filling = Filling {
                mib,
                runs: 8,
                value_bytes,
            };
            let mut of_size: [Vec<Took>; 3] = Default::default();
            for _ in 0..rounds {
                for (n, took) in of_size.iter_mut().enumerate() {
                    took.push(Scheduling::compact(setting, &filling, SCHEDULERS[n])?);
                }
            }
            found.push(of_size.map(|took| middle(&took)));
        }
        let scale = format!(
            "{mib} MiB of keys that are written once, in 8 runs that lie over each other, medians of {rounds} rounds in turn, \
             no compression (the paper: 2 GB)"
        );
        Ok(outcome(scale, &found))
    }
}

/// The median of each figure.
fn middle(all: &[Took]) -> Took {
    let of = |figure: Figure| median(&all.iter().map(figure).collect::<Vec<_>>());
    Took {
        seconds: of(|took| took.seconds),
        cpu: of(|took| took.cpu),
        jobs: of(|took| took.jobs),
        mb_per_s: of(|took| took.mb_per_s),
        read_us: of(|took| took.read_us),
    }
}

impl Scheduling {
    fn compact(
        setting: &Setting,
        filling: &Filling,
        (scheduler, threads): (&str, u64),
    ) -> Result<Took> {
        let keys = filling.entries();
        let more = BY_HAND.iter().copied();
        // Two coroutines for each job thread.
        let depth = (2 * RuntimeOptions::default().jobs).to_string();
        let own = [
            ("compaction.scheduler", scheduler),
            ("compaction.io_depth", &depth),
            ("compaction.table_bytes", "2MiB"),
        ];
        let more: Vec<_> = more.chain(own).collect();
        let trial = Trial::new(setting, Side::Ssd.system(), &more, filling.size(keys))?;
        let order = Permutation::new(keys, SEED);
        let db = filling.fill(&trial, setting, Side::Ssd, |entry| order.at(entry))?;
        let bytes = || {
            let metrics = db.metrics();
            metrics.ssd_bytes_read + metrics.ssd_bytes_written
        };
        let (begun, used, before) = (now(), usage(), bytes());
        let reads = read_beside(&db, keys, threads)?;
        let seconds = (now() - begun).as_secs_f64();
        let cpu = usage().cpu_seconds - used.cpu_seconds;
        let moved = bytes() - before;
        let merges = db
            .jobs_done()
            .into_iter()
            .filter(|job| job.work == "compact");
        let worked: f64 = merges.map(|job| job.took.as_secs_f64()).sum();
        check(&db, Side::Ssd, 0)?;
        db.close()?;
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Took {
            seconds,
            cpu: cpu / seconds / cores as f64,
            jobs: worked / seconds,
            mb_per_s: moved as f64 / 1e6 / seconds,
            read_us: reads.mean_us(),
        })
    }
}

/// Compacts all keys, so many parts of them at the same time, and reads for as long as that takes.
fn read_beside(db: &Db, keys: u64, threads: u64) -> Result<Latencies> {
    let bound = |part: u64| {
        let key = KeyMaker::new(KEY_BYTES).key(part * keys / threads).to_vec();
        (1..threads).contains(&part).then_some(key)
    };
    let compact = |part: u64| {
        let (from, to) = (bound(part), bound(part + 1));
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        let to = to.map_or(Bound::Unbounded, Bound::Excluded);
        db.compact((from, to))
    };
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let compacting = scope.spawn(|| {
            let parts = thread::scope(|scope| {
                let begin = |part| scope.spawn(move || compact(part));
                let parts: Vec<_> = (0..threads).map(begin).collect();
                parts
                    .into_iter()
                    .map(thread::ScopedJoinHandle::join)
                    .collect::<Vec<_>>()
            });
            // Relaxed: it guards nothing.
            done.store(true, Ordering::Relaxed);
            parts
        });
        let latencies = Reader::new(keys).read(db, |_| done.load(Ordering::Relaxed));
        let parts = compacting
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        for part in parts {
            part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        latencies
    })
}

fn outcome(scale: String, found: &[[Took; 3]]) -> Outcome {
    let names = SCHEDULERS.map(|(name, _)| name);
    let groups: Vec<String> = VALUES.iter().map(|bytes| format!("{bytes} B")).collect();
    let tables = FIGURES.map(|(what, unit, of)| Table {
        title: format!("{what}, in {unit}"),
        columns: strings(["values", names[0], names[1], names[2], "stages/threads"]),
        rows: (groups.iter().zip(found))
            .map(|(group, took)| {
                let ours = took.iter().map(of).map(|figure| format!("{figure:.2}"));
                let ratio = format!("{:.2}", ratio(of, took, 0));
                [group.clone()]
                    .into_iter()
                    .chain(ours)
                    .chain([ratio])
                    .collect()
            })
            .collect(),
    });
    let charts = FIGURES.map(|(what, unit, of)| Chart {
        title: what.into(),
        x: "size of values".into(),
        y: unit.into(),
        groups: groups.clone(),
        series: (names.iter().enumerate())
            .map(|(n, name)| Series::new(name, found.iter().map(|took| of(&took[n])).collect()))
            .collect(),
    });
    Outcome {
        scale,
        tables: tables.into(),
        charts: charts.into(),
        checks: checks(found),
    }
}

/// A figure of stages, as a part of that of another scheduler.
fn ratio(of: Figure, took: &[Took; 3], other: usize) -> f64 {
    of(&took[2]) / of(&took[other]).max(f64::MIN_POSITIVE)
}

fn checks(found: &[[Took; 3]]) -> Vec<Check> {
    let seconds: Figure = |took| took.seconds;
    let all = |of, other| -> Vec<f64> { found.iter().map(|took| ratio(of, took, other)).collect() };
    vec![
        Check::at_most(
            "duration with stages against threads, the median of all sizes",
            "0.71 times, with values of 64 bytes",
            median(&all(seconds, 0)),
            0.85,
        ),
        Check::at_most(
            "duration with stages against coroutines, the median of all sizes",
            "0.80 times, with values of 64 bytes",
            median(&all(seconds, 1)),
            0.95,
        ),
        Check::at_least(
            "use of the SSD with stages against threads, the median of all sizes",
            "1.35 times, with values of 32 bytes",
            median(&all(|took| took.mb_per_s, 0)),
            1.15,
        ),
        Check::at_most(
            "latency of reads meanwhile with stages against threads, the median of all sizes",
            "0.66 times, with values of 512 bytes",
            median(&all(|took| took.read_us, 0)),
            1.0,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_schedulers_compact_what_was_written() {
        let folder = crate::setting::folder();
        let setting = Setting::quick(folder.path());
        let outcome = Scheduling.measure(&setting, &mut |_| {}).unwrap();
        assert_eq!(outcome.tables.len(), FIGURES.len());
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn slow_stages_are_told() {
        let took = |seconds: f64, read_us| Took {
            seconds,
            cpu: 0.5,
            jobs: 2.0,
            mb_per_s: 100.0 / seconds,
            read_us,
        };
        let holds = |stages| {
            let of_size = [took(1.0, 100.0), took(0.9, 100.0), stages];
            let checks = checks(&[of_size; VALUES.len()]);
            checks.iter().map(|check| check.holds).collect::<Vec<_>>()
        };
        assert_eq!(holds(took(0.7, 90.0)), [true; 4]);
        assert_eq!(holds(took(0.9, 120.0)), [false; 4]);
        assert_eq!(
            middle(&[took(1.0, 3.0), took(3.0, 1.0), took(2.0, 2.0)]).seconds,
            2.0
        );
    }
}
