//! Figures 20 and 21, and table 1: random writes that never pause, over time.
//!
//! The paper writes 80 GB of 4 KiB values through 12 GiB of PMTables. Here it is a sixteenth of both. What stalls writers shows
//! as troughs: intervals in which fewer writes are made than on average.
//!
//! The paper's writer takes 17 µs for a value, which its disk carries. Where memory is faster than that a writer that never
//! pauses is held back most of the time, whatever the system: the disk's rate is what there is. So each system also writes at
//! a rate that `flat-lsm` carries: half of what it came to. What writers wait for there is what the paper speaks of.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use thermocline::Result;
use thermocline_base::options::Preset;
use thermocline_bench::clock::now;
use thermocline_bench::{Operation, Report, Workload};

use crate::beside::beside;
use crate::experiment::Measure;
use crate::outcome::{Chart, Check, Outcome, Series, Table, strings};
use crate::setting::{Setting, Tell};
use crate::trial::{Size, System, Trial, latency, trusted};

pub(super) const FLAT_LSM: System = System {
    name: "flat-lsm",
    preset: Preset::FlatLsm,
    set: &[],
};

/// In the place of RocksDB.
const LEVELED: System = System {
    name: "leveled",
    preset: Preset::Leveled,
    set: &[],
};

/// This engine's own.
const THERMOCLINE: System = System {
    name: "thermocline",
    preset: Preset::Thermocline,
    set: &[],
};

const SYSTEMS: [&System; 3] = [&FLAT_LSM, &LEVELED, &THERMOCLINE];

/// Between two looks at how far the writer is.
const LOOK: Duration = Duration::from_millis(20);

/// Intervals into which each run is cut.
const INTERVALS: usize = 40;

/// An interval with less than this part of the mean is a trough.
const TROUGH: f64 = 0.5;

fn size(quick: bool) -> Size {
    let (pm, times): (u64, u64) = if quick { (4 << 20, 2) } else { (768 << 20, 7) };
    let value_bytes = if quick { 1024 } else { 4096 };
    Size {
        pm,
        dram: (pm / 2).max(32 << 20),
        keys: pm * times / value_bytes as u64,
        value_bytes,
    }
}

/// The part of its highest rate at which it writes then.
const CARRIED: f64 = 0.5;

/// One run.
struct Run {
    report: Report,
    /// Writes a second in each interval.
    rates: Vec<f64>,
}

impl Run {
    fn of(setting: &Setting, system: &System, size: Size, rate: Option<f64>) -> Result<Run> {
        let trial = Trial::new(setting, system, &[], size)?;
        let mut plan = trial.plan(setting, Workload::FillRandom);
        plan.use_existing = false;
        plan.drain = rate.is_none();
        plan.rate = rate;
        let watch = setting.watch.part();
        let look = |is_over: &AtomicBool| {
            let (begun, mut looks) = (now(), Vec::new());
            while !is_over.load(Ordering::Relaxed) {
                let seen = watch.snapshot();
                if seen.total == size.keys {
                    looks.push(((now() - begun).as_secs_f64(), seen.done));
                }
                thread::sleep(LOOK);
            }
            looks
        };
        let (report, looks) = beside(look, || thermocline_bench::run(&plan, &watch));
        Ok(Run {
            report: trusted(report?)?,
            rates: rates(&looks, size.keys),
        })
    }

    fn p999(&self) -> f64 {
        latency(&self.report, Operation::Write).map_or(0.0, |write| write.p999)
    }

    /// Writes a second, to the last one, in the mean.
    fn mean(&self) -> f64 {
        self.rates.iter().sum::<f64>() / (self.rates.len() as f64).max(1.0)
    }

    /// The slowest interval by the mean; 0 if there is none.
    fn lowest(&self) -> f64 {
        let lowest = self.rates.iter().copied().reduce(f64::min);
        lowest.unwrap_or(0.0) / self.mean().max(1e-9)
    }

    fn troughs(&self) -> usize {
        let least = TROUGH * self.mean();
        self.rates.iter().filter(|rate| **rate < least).count()
    }

    /// The part of the time until the last write for which the engine has held the writer back.
    fn held_back(&self) -> f64 {
        let seconds = self.report.ops as f64 / self.mean().max(1e-9);
        self.report.stall_ms / 1e3 / seconds.max(1e-9)
    }

    fn row(&self, system: &System) -> Vec<String> {
        let write = latency(&self.report, Operation::Write);
        let of = |figure: Option<f64>| figure.map_or("–".into(), |us| format!("{us:.1}"));
        vec![
            system.name.to_string(),
            format!("{:.1}", self.report.ops_per_sec / 1e3),
            format!("{:.2}", self.lowest()),
            format!("{} of {}", self.troughs(), self.rates.len()),
            of(write.map(|write| write.avg)),
            of(write.map(|write| write.p90)),
            of(write.map(|write| write.p99)),
            of(write.map(|write| write.p999)),
            format!("{:.1}", self.held_back() * 100.0),
            format!("{:.1}", self.report.stall_ms_max),
            format!("{:.2}", self.report.write_amplification_ssd),
        ]
    }
}

/// Of looks at a run, each a time and how much was done until then, the rate in each of some intervals of the same length.
fn rates(looks: &[(f64, u64)], all: u64) -> Vec<f64> {
    // From the last one before the first write to the first behind the last.
    let begin = looks.iter().rposition(|(_, done)| *done == 0).unwrap_or(0);
    let end = looks.iter().position(|(_, done)| *done >= all);
    let looks = &looks[begin..end.map_or(looks.len(), |end| end + 1)];
    let ([(from, _), ..], [.., (to, _)]) = (looks, looks) else {
        return Vec::new();
    };
    // No shorter than two looks.
    let count = (looks.len() / 2).clamp(1, INTERVALS);
    let length = ((to - from) / count as f64).max(1e-9);
    let done_at = |time: f64| {
        let next = looks.partition_point(|(at, _)| *at < time);
        match (next.checked_sub(1).map(|n| looks[n]), looks.get(next)) {
            (Some((at, done)), Some((next, then))) => {
                done as f64 + (then - done) as f64 * (time - at) / (next - at).max(1e-9)
            }
            (None, Some((_, done))) => *done as f64,
            _ => looks[looks.len() - 1].1 as f64,
        }
    };
    let at = |n: usize| done_at(from + length * n as f64);
    (0..count).map(|n| (at(n + 1) - at(n)) / length).collect()
}

/// The experiment.
#[derive(Debug)]
pub(crate) struct Writing;

impl Measure for Writing {
    fn measure(&self, setting: &Setting, tell: Tell<'_>) -> Result<Outcome> {
        let size = size(setting.quick);
        let mut runs = Vec::new();
        for system in SYSTEMS {
            tell(&format!("random writes, {}", system.name));
            runs.push(Run::of(setting, system, size, None)?);
        }
        let rate = runs[0].report.ops_per_sec * CARRIED;
        let mut carried = Vec::new();
        for system in SYSTEMS {
            tell(&format!("at {:.0} writes a second, {}", rate, system.name));
            carried.push(Run::of(setting, system, size, Some(rate))?);
        }
        Ok(outcome(size, rate, (&runs, &carried)))
    }
}

fn table(title: String, runs: &[Run]) -> Table {
    let rows = runs.iter().zip(SYSTEMS);
    Table {
        title,
        columns: strings([
            "system",
            "K/s",
            "slowest interval by mean",
            "intervals below half",
            "µs, mean",
            "p90",
            "p99",
            "p99.9",
            "held back, %",
            "longest delay, ms",
            "SSD bytes a byte",
        ]),
        rows: rows.map(|(run, system)| run.row(system)).collect(),
    }
}

fn chart(title: &str, runs: &[Run]) -> Chart {
    let longest = runs.iter().map(|run| run.rates.len()).max().unwrap_or(0);
    let series = runs.iter().zip(SYSTEMS).map(|(run, system)| {
        let mut rates: Vec<f64> = run.rates.iter().map(|rate| rate / 1e3).collect();
        rates.resize(longest, 0.0);
        Series::new(system.name, rates)
    });
    Chart {
        title: title.into(),
        x: "fortieths of the run's time".into(),
        y: "thousand writes a second".into(),
        groups: (1..=longest).map(|n| n.to_string()).collect(),
        series: series.collect(),
    }
}

fn outcome(size: Size, rate: f64, (runs, carried): (&[Run], &[Run])) -> Outcome {
    let asked = format!(
        "The same at {:.1} thousand writes a second, or as many as it can",
        rate / 1e3
    );
    Outcome {
        scale: format!(
            "{} keys with values of {} bytes once each, {} MiB of persistent memory (the paper: 80 GB, 12 GiB)",
            size.keys,
            size.value_bytes,
            size.pm >> 20
        ),
        tables: vec![
            table("Random writes, to the end of background work".into(), runs),
            table(asked, carried),
        ],
        charts: vec![
            chart("Writes over the time of each run", runs),
            chart("The same at a rate that flat-lsm carries", carried),
        ],
        checks: match (runs, carried) {
            ([flat, leveled, ..], [carried, behind, ..]) => {
                checks([flat, leveled], [carried, behind])
            }
            _ => Vec::new(),
        },
    }
}

/// Of runs as fast as can be, and of those at a rate: of flat-lsm and of leveled.
fn checks([flat, leveled]: [&Run; 2], [carried, behind]: [&Run; 2]) -> Vec<Check> {
    vec![
        Check::at_most(
            "Time of flat-lsm by that of leveled (figure 21)",
            "0.04 of RocksDB's",
            leveled.report.ops_per_sec / flat.report.ops_per_sec.max(1e-9),
            0.5,
        ),
        Check::at_most(
            "Latency of a write at the 99.9th percentile by that of leveled, at that rate (table 1)",
            "0.12 of RocksDB's (539.64 against 4,452.84 µs)",
            carried.p999() / behind.p999().max(1e-9),
            0.25,
        ),
        Check::at_least(
            "The slowest interval of flat-lsm by its mean (figure 20: troughs are few)",
            "lowest throughput much higher than that of others",
            flat.lowest(),
            TROUGH,
        ),
        Check::at_most(
            "Part of the time for which flat-lsm holds the writer back, at that rate (figure 22)",
            "0.086, at 256 bytes",
            carried.held_back(),
            0.1,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_intervals() {
        // Ten a second for two seconds, then nothing for two, then twenty a second.
        let done = |n: u64| match n {
            0..=20 => n,
            21..=40 => 20,
            _ => 20 + 2 * (n - 40),
        };
        let looks: Vec<(f64, u64)> = (0..=60).map(|n| (n as f64 / 10.0, done(n))).collect();
        let rates = rates(&looks, 60);
        assert_eq!(rates.len(), 30);
        let near = |rate: f64, is: f64| (rate - is).abs() < 0.01;
        assert!(
            rates[..10].iter().all(|rate| near(*rate, 10.0)),
            "{rates:?}"
        );
        assert!(
            rates[10..20].iter().all(|rate| near(*rate, 0.0)),
            "{rates:?}"
        );
        assert!(
            rates[20..].iter().all(|rate| near(*rate, 20.0)),
            "{rates:?}"
        );
        assert!(super::rates(&[], 60).is_empty());
        assert_eq!(super::rates(&[(0.0, 60)], 60).len(), 1);
    }
}
