//! Random reads of data on the SSD: by threads that wait and by futures of one thread (§3.4), beside what the device does by
//! itself.
//!
//! All keys are loaded and compacted, so that they lie in tables. Then the store is read in each way, and right after it the
//! device alone: random blocks of the same files, as large as the store's and aligned, with the store closed
//! (`bench deviceread`). Rounds follow each other and medians count, since a virtual disk is now faster and now slower.
//!
//! The store's cache answers some of the reads. So what is held against the device are those reads alone that it answered. Some
//! blocks lie on two units of direct I/O, where each read of the device alone is one: it is the harder measure.

use thermocline::{Error, Result};
use thermocline_base::options::Preset;
use thermocline_base::size::format_size;
use thermocline_bench::{DeviceReads, Report, Workload};

use crate::experiment::Measure;
use crate::outcome::{Chart, Check, Outcome, Series, Table, median, strings};
use crate::setting::{Setting, Tell};
use crate::trial::{KEY_BYTES, Size, System, Trial};

/// With the options that users get: the claims are about those.
const THERMOCLINE: System = System {
    name: "thermocline",
    preset: Preset::Thermocline,
    set: &[],
};

/// A way to read.
struct Way {
    name: &'static str,
    threads: usize,
    /// Futures under way at once; `None` where threads wait.
    depth: Option<usize>,
}

/// One thread that waits comes first, [`MANY`] and [`DEEP`] are others of them.
const WAYS: [Way; 5] = [
    Way {
        name: "1 thread that waits",
        threads: 1,
        depth: None,
    },
    Way {
        name: "16 threads that wait",
        threads: 16,
        depth: None,
    },
    Way {
        name: "1 thread, depth 1",
        threads: 1,
        depth: Some(1),
    },
    Way {
        name: "1 thread, depth 8",
        threads: 1,
        depth: Some(8),
    },
    Way {
        name: "1 thread, depth 32",
        threads: 1,
        depth: Some(32),
    },
];

const MANY: usize = 1;
const DEEP: usize = 4;

/// The store, and the device alone.
const SIDES: [(&str, Workload); 2] = [
    ("the store", Workload::ReadRandom),
    ("the device alone", Workload::DeviceRead),
];

/// What reads came to.
#[derive(Debug, Clone, Copy)]
struct Rate {
    per_second: f64,
    /// Processor time of a read, of the whole process, in microseconds.
    cpu_us: f64,
    /// The share of reads that the device answered.
    of_device: f64,
    /// Bytes that the device gave for a read that it answered.
    bytes: f64,
}

/// The store's, and the device's.
type Pair = [Rate; SIDES.len()];

struct Scale {
    size: Size,
    rounds: usize,
    /// Of each run.
    seconds: f64,
}

impl Scale {
    fn new(quick: bool) -> Scale {
        let value_bytes = 1024;
        let (pm, dram, data, rounds, seconds): (u64, u64, u64, _, _) = match quick {
            true => (4 << 20, 32 << 20, 4 << 20, 1, 0.02),
            false => (64 << 20, 256 << 20, 1 << 30, 3, 4.0),
        };
        Scale {
            size: Size {
                pm,
                dram,
                keys: data / (KEY_BYTES + value_bytes) as u64,
                value_bytes,
            },
            rounds,
            seconds,
        }
    }

    fn bytes(&self) -> u64 {
        self.size.keys * (KEY_BYTES + self.size.value_bytes) as u64
    }

    /// The cache of blocks may have half of `dram`. What it has just now depends on what else wants that.
    fn cache_bytes(&self) -> u64 {
        self.size.dram / 2
    }
}

impl Rate {
    fn of(report: &Report) -> Rate {
        let ops = report.ops.max(1) as f64;
        let of_device = match &report.device {
            Some(_) => 1.0,
            None => report.hits.ssd as f64 / ops,
        };
        Rate {
            per_second: report.ops_per_sec,
            cpu_us: report.cpu_seconds * 1e6 / ops,
            of_device,
            bytes: report.ssd_bytes_read as f64 / (ops * of_device).max(1.0),
        }
    }

    /// Each figure in the middle of all rounds, of at least one.
    fn middle(rounds: &[Rate]) -> Rate {
        let of = |figure: fn(&Rate) -> f64| {
            let all: Vec<f64> = rounds.iter().map(figure).collect();
            median(&all)
        };
        Rate {
            per_second: of(|rate| rate.per_second),
            cpu_us: of(|rate| rate.cpu_us),
            of_device: of(|rate| rate.of_device),
            bytes: of(|rate| rate.bytes),
        }
    }

    /// Reads a second that the device answered.
    fn device_per_second(&self) -> f64 {
        self.per_second * self.of_device
    }
}

/// A part of something that may be nothing.
fn part(what: f64, of: f64) -> f64 {
    what / of.max(f64::MIN_POSITIVE)
}

/// The experiment.
#[derive(Debug)]
pub(crate) struct Awaited;

impl Measure for Awaited {
    fn measure(&self, setting: &Setting, tell: Tell<'_>) -> Result<Outcome> {
        let scale = Scale::new(setting.quick);
        tell("loading");
        let trial = Trial::loaded(setting, &THERMOCLINE, &[], scale.size)?;
        settle(&trial, setting)?;
        let mut found: [[Vec<Rate>; SIDES.len()]; WAYS.len()] = Default::default();
        let mut device = None;
        for round in 1..=scale.rounds {
            for (way, found) in WAYS.iter().zip(&mut found) {
                for ((side, workload), found) in SIDES.into_iter().zip(found) {
                    tell(&format!("{side}, {}, round {round}", way.name));
                    let report = read(&trial, setting, way, (workload, scale.seconds))?;
                    found.push(Rate::of(&report));
                    device = report.device.or(device);
                }
            }
        }
        let device = device.expect("the device was read last");
        let found = found.map(|sides| sides.map(|rounds| Rate::middle(&rounds)));
        Ok(outcome(&scale, &device, &found))
    }
}

/// Has all data in tables on the SSD, with nothing left to be done.
fn settle(trial: &Trial, setting: &Setting) -> Result<()> {
    let db = trial.open(setting)?;
    db.compact::<&str>(..)?;
    db.drain()?;
    db.close()
}

/// Reads for so many seconds.
fn read(
    trial: &Trial,
    setting: &Setting,
    way: &Way,
    (workload, seconds): (Workload, f64),
) -> Result<Report> {
    let mut plan = trial.plan(setting, workload);
    plan.duration = Some(seconds);
    plan.threads = way.threads;
    (plan.awaited, plan.async_depth) = (way.depth.is_some(), way.depth.unwrap_or(1));
    let report = trial.run(&plan)?;
    match report.found {
        Some(found) if found < report.ops => Err(Error::InvalidArgument(
            "a key that was written is not there".to_string(),
        )),
        _ => Ok(report),
    }
}

fn outcome(scale: &Scale, device: &DeviceReads, found: &[Pair; WAYS.len()]) -> Outcome {
    let way = device.way.unwrap_or("nothing");
    let note = match device.direct {
        true => "",
        false => "; nothing is held against the device, since this file system has no direct reads",
    };
    Outcome {
        scale: format!(
            "{} keys with values of {} bytes, {} in all, {:.1} times the cache of blocks; everything in tables, uniform reads; \
             the device alone: reads of {} in {} files, several at once by {way}; medians of {} rounds of {} s{note} (our own \
             claim, the paper has other devices)",
            scale.size.keys,
            scale.size.value_bytes,
            format_size(scale.bytes()),
            part(scale.bytes() as f64, scale.cache_bytes() as f64),
            format_size(device.read_bytes),
            device.files,
            scale.rounds,
            scale.seconds
        ),
        tables: vec![table(found)],
        charts: vec![Chart {
            title: "Random reads a second".into(),
            x: "way to read".into(),
            y: "K/s".into(),
            groups: WAYS.map(|way| way.name.to_string()).into(),
            series: (SIDES.iter().enumerate())
                .map(|(n, (side, _))| {
                    let rates = found.iter().map(|pair| pair[n].per_second / 1e3);
                    Series::new(side, rates.collect())
                })
                .collect(),
        }],
        checks: checks(device.direct, found),
    }
}

fn table(found: &[Pair; WAYS.len()]) -> Table {
    let mut rows = Vec::new();
    for (way, pair) in WAYS.iter().zip(found) {
        for (n, ((side, _), rate)) in SIDES.iter().zip(pair).enumerate() {
            rows.push(vec![
                format!("{side}, {}", way.name),
                format!("{:.1}", rate.per_second / 1e3),
                format!("{:.2}", part(rate.per_second, found[0][n].per_second)),
                format!(
                    "{:.2}",
                    part(rate.device_per_second(), pair[1].device_per_second())
                ),
                format!("{:.1}", rate.cpu_us),
                format!("{:.0} %", rate.of_device * 100.0),
                format!("{:.1}", rate.bytes / 1024.0),
            ]);
        }
    }
    Table {
        title: "Random reads of data on the SSD".into(),
        columns: strings([
            "who reads",
            "K/s",
            "by 1 thread that waits",
            "by the device alone",
            "CPU µs a read",
            "answered by the device",
            "KiB of each",
        ]),
        rows,
    }
}

/// Nothing is claimed where reads are not of a device.
fn checks(direct: bool, found: &[Pair; WAYS.len()]) -> Vec<Check> {
    if !direct {
        return Vec::new();
    }
    let [one, many, deep] = [0, MANY, DEEP].map(|way| found[way][0]);
    let device = found[DEEP][1];
    vec![
        Check::at_least(
            "reads a second of one thread with a depth of 32 against one thread that waits",
            "none: the claim is ours, 4 times",
            part(deep.per_second, one.per_second),
            4.0,
        ),
        Check::at_least(
            "reads a second that the device answers one thread with a depth of 32, against the device alone at that depth",
            "none: the claim is ours, within 15 %",
            part(deep.device_per_second(), device.device_per_second()),
            0.85,
        ),
        Check::at_most(
            "processor time of a read of one thread with a depth of 32 against 16 threads that wait",
            "none: the claim is ours, less",
            part(deep.cpu_us, many.cpu_us),
            1.0,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_second: f64, cpu_us: f64, of_device: f64) -> Rate {
        Rate {
            per_second,
            cpu_us,
            of_device,
            bytes: 4096.0,
        }
    }

    #[test]
    fn the_store_and_the_device_are_read_in_all_ways() {
        let folder = crate::setting::folder();
        let setting = Setting::quick(folder.path());
        let outcome = Awaited.measure(&setting, &mut |_| {}).unwrap();
        assert_eq!(outcome.tables[0].rows.len(), WAYS.len() * SIDES.len());
        // The table rounds them, and a machine that has much else to do reads less than it can say.
        for series in &outcome.charts[0].series {
            assert_eq!(series.values.len(), WAYS.len());
            assert!(series.values.iter().all(|rate| *rate > 0.0), "{series:?}");
        }
        let is_silent = outcome.scale.contains("no direct reads");
        assert_eq!(outcome.checks.is_empty(), is_silent, "{}", outcome.scale);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn ways_are_at_their_places() {
        assert_eq!((WAYS[0].threads, WAYS[0].depth), (1, None));
        assert_eq!((WAYS[MANY].threads, WAYS[MANY].depth), (16, None));
        assert_eq!((WAYS[DEEP].threads, WAYS[DEEP].depth), (1, Some(32)));
    }

    #[test]
    fn data_is_larger_than_the_cache() {
        let scale = Scale::new(false);
        assert!(scale.bytes() >= 4 * scale.cache_bytes());
    }

    #[test]
    fn slow_reads_are_told() {
        let holds = |direct, one, many, deep, device| {
            let mut found = [[rate(1.0, 1.0, 1.0); 2]; WAYS.len()];
            (found[0][0], found[MANY][0]) = (one, many);
            found[DEEP] = [deep, device];
            let checks = checks(direct, &found);
            checks.iter().map(|check| check.holds).collect::<Vec<_>>()
        };
        let (one, many) = (rate(10.0, 50.0, 0.9), rate(50.0, 25.0, 0.9));
        let device = rate(45.0, 8.0, 1.0);
        let fast = rate(44.0, 20.0, 0.9);
        assert_eq!(holds(true, one, many, fast, device), [true; 3]);
        assert_eq!(
            holds(true, one, many, rate(39.0, 26.0, 0.9), device),
            [false; 3]
        );
        // Reads that the cache answers do not count as those of the device.
        assert_eq!(
            holds(true, one, many, rate(44.0, 20.0, 0.8), device),
            [true, false, true]
        );
        assert!(holds(false, one, many, fast, device).is_empty());
    }

    #[test]
    fn the_middle_of_all_rounds_counts() {
        let rounds = [
            rate(3.0, 1.0, 0.5),
            rate(1.0, 9.0, 0.7),
            rate(2.0, 5.0, 0.6),
        ];
        let middle = Rate::middle(&rounds);
        assert_eq!((middle.per_second, middle.cpu_us), (2.0, 5.0));
        assert_eq!(middle.device_per_second(), 1.2);
    }
}
