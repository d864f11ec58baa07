//! Figure 9: a compaction by threads, by coroutines, and by coroutines whose reads and writes are stages of their own
//! (`compaction.scheduler`).
//!
//! Level 0 lies on the SSD, so that there is something to read: runs that lie over each other, which are compacted by hand
//! into the level below. As in the paper, four pieces are compacted at a time and four reads and writes may be under way:
//! by four threads, each in its quarter of the keys, or by two threads with two coroutines each. So `q` is 4, `c` is 2 and
//! `k`, `max(q / c, 1)`, is 2. Tables are so small that each thread has its own. Another thread reads meanwhile.
//!
//! How busy the device was, and how long a transfer took, is told by the system, of the disk under the setting's folder. On tmpfs
//! nobody knows.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use thermocline::{Db, Result};
use thermocline_bench::clock::now;
use thermocline_bench::device::{Device, DeviceUse};
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

/// Values of `compaction.scheduler`, and by how many threads keys are compacted: the paper's `c`.
const SCHEDULERS: [(&str, usize); 3] = [("threads", 4), ("coroutines", 2), ("stages", 2)];

/// Reads and writes that may be under way: the paper's `q`.
const IO_DEPTH: &str = "4";

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
    /// The share of the time for which the device had something to do; `None` where the system does not say.
    busy: Option<f64>,
    /// How long a transfer took the device on average, in microseconds; `None` as above.
    transfer_us: Option<f64>,
    /// How long a read took meanwhile, on average, in microseconds.
    read_us: f64,
}

/// One of its figures, if it is known.
type Figure = fn(&Took) -> Option<f64>;

const SECONDS: Figure = |took| Some(took.seconds);
const MB_PER_S: Figure = |took| Some(took.mb_per_s);
const BUSY: Figure = |took| Some(100.0 * took.busy?);
const TRANSFER_US: Figure = |took| took.transfer_us;
const READ_US: Figure = |took| Some(took.read_us);

/// What is shown of it, and its unit.
const FIGURES: [(&str, &str, Figure); 7] = [
    ("Duration", "seconds", SECONDS),
    ("Jobs at a time", "jobs", |took| Some(took.jobs)),
    ("Use of the processors", "percent", |took| {
        Some(100.0 * took.cpu)
    }),
    ("Use of the device", "percent", BUSY),
    ("Bytes read and written on the SSD", "MB/s", MB_PER_S),
    (
        "Latency of the device's transfers",
        "microseconds",
        TRANSFER_US,
    ),
    ("Latency of reads meanwhile", "microseconds", READ_US),
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
             no compression, io depth {IO_DEPTH} (the paper: 2 GB, 4)"
        );
        Ok(outcome(scale, &found))
    }
}

/// The median of each figure.
fn middle(all: &[Took]) -> Took {
    let of = |figure: fn(&Took) -> f64| median(&all.iter().map(figure).collect::<Vec<_>>());
    let if_known = |figure: fn(&Took) -> Option<f64>| {
        let known: Vec<f64> = all.iter().filter_map(figure).collect();
        (!known.is_empty()).then(|| median(&known))
    };
    Took {
        seconds: of(|took| took.seconds),
        cpu: of(|took| took.cpu),
        jobs: of(|took| took.jobs),
        mb_per_s: of(|took| took.mb_per_s),
        busy: if_known(|took| took.busy),
        transfer_us: if_known(|took| took.transfer_us),
        read_us: of(|took| took.read_us),
    }
}

impl Scheduling {
    fn compact(
        setting: &Setting,
        filling: &Filling,
        (scheduler, threads): (&str, usize),
    ) -> Result<Took> {
        let keys = filling.entries();
        let more = BY_HAND.iter().copied();
        let own = [
            ("compaction.scheduler", scheduler),
            ("compaction.io_depth", IO_DEPTH),
            ("compaction.table_bytes", "2MiB"),
        ];
        let more: Vec<_> = more.chain(own).collect();
        let trial = Trial::new(setting, Side::Ssd.system(), &more, filling.size(keys))?;
        let trial = trial.with_jobs(threads)?;
        let order = Permutation::new(keys, SEED);
        let db = filling.fill(&trial, setting, Side::Ssd, |entry| order.at(entry))?;
        let bytes = || {
            let metrics = db.metrics();
            metrics.ssd_bytes_read + metrics.ssd_bytes_written
        };
        let device = Device::under(&setting.dir)?;
        let device_before = device.usage();
        let (begun, used, before) = (now(), usage(), bytes());
        let reads = read_beside(&db, keys, threads as u64)?;
        let seconds = (now() - begun).as_secs_f64();
        let device_did = since(device_before, device.usage());
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
            busy: device_did.map(|did| did.busy(seconds)),
            transfer_us: device_did.map(DeviceUse::transfer_us),
            read_us: reads.mean_us(),
        })
    }
}

/// What the device did meanwhile, if the system says so.
fn since(before: Option<DeviceUse>, after: Option<DeviceUse>) -> Option<DeviceUse> {
    Some(after?.since(before?))
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
                let figures = took.iter().map(of).chain([ratio(of, took, 0)]);
                let cells = figures.map(cell);
                [group.clone()].into_iter().chain(cells).collect()
            })
            .collect(),
    });
    let is_known = |of: Figure| found.iter().flatten().all(|took| of(took).is_some());
    let known = FIGURES.into_iter().filter(|(.., of)| is_known(*of));
    let charts = known.map(|(what, unit, of)| Chart {
        title: what.into(),
        x: "size of values".into(),
        y: unit.into(),
        groups: groups.clone(),
        series: (names.iter().enumerate())
            .map(|(n, name)| {
                Series::new(name, found.iter().filter_map(|took| of(&took[n])).collect())
            })
            .collect(),
    });
    Outcome {
        scale,
        tables: tables.into(),
        charts: charts.collect(),
        checks: checks(found),
    }
}

fn cell(figure: Option<f64>) -> String {
    figure.map_or("–".to_string(), |figure| format!("{figure:.2}"))
}

/// A figure of stages, as a part of that of another scheduler.
fn ratio(of: Figure, took: &[Took; 3], other: usize) -> Option<f64> {
    Some(of(&took[2])? / of(&took[other])?.max(f64::MIN_POSITIVE))
}

/// What the device did is held against the paper where the system tells it.
fn checks(found: &[[Took; 3]]) -> Vec<Check> {
    let all = |of: Figure, other: usize| -> Option<f64> {
        let ratios: Option<Vec<f64>> = found.iter().map(|took| ratio(of, took, other)).collect();
        ratios.map(|ratios| median(&ratios))
    };
    let at_most = |what: &str, paper: &str, ours: Option<f64>, most: f64| {
        Some(Check::at_most(
            &format!("{what}, the median of all sizes"),
            paper,
            ours?,
            most,
        ))
    };
    let at_least = |what: &str, paper: &str, ours: Option<f64>, least: f64| {
        Some(Check::at_least(
            &format!("{what}, the median of all sizes"),
            paper,
            ours?,
            least,
        ))
    };
    let checks = [
        at_most(
            "duration with stages against threads",
            "0.71 times, with values of 64 bytes",
            all(SECONDS, 0),
            0.85,
        ),
        at_most(
            "duration with stages against coroutines",
            "0.80 times, with values of 64 bytes",
            all(SECONDS, 1),
            0.95,
        ),
        at_least(
            "bytes read and written on the SSD in a second with stages against threads",
            "1.35 times the use of the device, with values of 32 bytes",
            all(MB_PER_S, 0),
            1.15,
        ),
        at_least(
            "use of the device with stages against threads",
            "1.35 times, with values of 32 bytes; close to all of it from 128 bytes on",
            all(BUSY, 0),
            1.15,
        ),
        at_most(
            "latency of the device's transfers with stages against threads",
            "0.66 times, with values of 512 bytes",
            all(TRANSFER_US, 0),
            1.0,
        ),
        at_most(
            "latency of reads meanwhile with stages against threads",
            "0.66 times that of I/O, with values of 512 bytes",
            all(READ_US, 0),
            1.0,
        ),
    ];
    checks.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use thermocline_policy::split::coroutines;

    use super::*;

    #[test]
    fn four_pieces_are_compacted_at_a_time() {
        let depth: usize = IO_DEPTH.parse().unwrap();
        for (scheduler, threads) in SCHEDULERS {
            let each = match scheduler {
                "threads" => 1,
                _ => coroutines(depth, threads),
            };
            assert_eq!(threads * each, 4, "{scheduler}");
        }
    }

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
            busy: Some(0.5 / seconds),
            transfer_us: Some(read_us),
            read_us,
        };
        let holds = |threads, stages| {
            let of_size = [threads, took(0.9, 100.0), stages];
            let checks = checks(&[of_size; VALUES.len()]);
            checks.iter().map(|check| check.holds).collect::<Vec<_>>()
        };
        assert_eq!(holds(took(1.0, 100.0), took(0.7, 90.0)), [true; 6]);
        assert_eq!(holds(took(1.0, 100.0), took(0.9, 120.0)), [false; 6]);
        // Nothing is said of the device where one of them is not known.
        let unknown = Took {
            busy: None,
            transfer_us: None,
            ..took(1.0, 100.0)
        };
        assert_eq!(holds(unknown, took(0.7, 90.0)), [true; 4]);
        let [all, cells] = [SECONDS, BUSY].map(|of| cell(of(&unknown)));
        assert_eq!((&*all, &*cells), ("1.00", "–"));
        assert_eq!(
            middle(&[took(1.0, 3.0), took(3.0, 1.0), took(2.0, 2.0)]).seconds,
            2.0
        );
        assert_eq!(middle(&[unknown]).busy, None);
        assert_eq!(middle(&[unknown, took(0.5, 1.0)]).busy, Some(1.0));
    }
}
