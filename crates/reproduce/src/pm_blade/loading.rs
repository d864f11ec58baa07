//! What a level 0 in persistent memory costs a load that gains nothing from it: every key once, in random order. The paper
//! has no such figure. Ours is that `tiered` is not slower than `global-index` by more than a tenth.
//!
//! A load of one size says little. Each comes to a wave of merges now and then, and which of both has just had
//! one when the load ends decides which was faster. So loads of several sizes are compared, both shapes in turn, and the
//! ratio in their middle counts.

use thermocline::Result;
use thermocline_bench::Workload;

use super::systems::{GLOBAL_INDEX, TIERED};
use crate::experiment::Measure;
use crate::outcome::{Chart, Check, Outcome, Series, Table};
use crate::outcome::{median, strings};
use crate::setting::{Setting, Tell};
use crate::trial::{Size, System, Trial};

/// How many loads are compared.
const LOADS: u64 = 8;

/// The smallest one has so many eighths of what persistent memory has, and each next one so many more.
const EIGHTHS: (u64, u64) = (32, 4);

/// What `tiered` is to have of the rate of `global-index`.
const BAR: f64 = 0.9;

const SYSTEMS: [&System; 2] = [&TIERED, &GLOBAL_INDEX];

/// One load.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    ops_per_sec: f64,
    /// Bytes written to the SSD for each byte of keys and values.
    ssd: f64,
}

fn sizes(quick: bool) -> Vec<Size> {
    let pm: u64 = if quick { 4 << 20 } else { 400 << 20 };
    let loads = if quick { 2 } else { LOADS };
    let keys = |n: u64| pm / 8 / 1024 * (EIGHTHS.0 + EIGHTHS.1 * n);
    let of = |n: u64| Size {
        pm,
        dram: (pm / 2).max(32 << 20),
        keys: keys(n),
        value_bytes: 1024,
    };
    (0..loads).map(of).collect()
}

/// The experiment.
#[derive(Debug)]
pub(crate) struct Loading;

impl Measure for Loading {
    fn measure(&self, setting: &Setting, tell: Tell<'_>) -> Result<Outcome> {
        let sizes = sizes(setting.quick);
        let mut found = Vec::new();
        for (n, size) in sizes.iter().enumerate() {
            let mut loads = [Load::default(); 2];
            // Who begins takes turns, too.
            for of in [n % 2, 1 - n % 2] {
                tell(&format!("{} keys, {}", size.keys, SYSTEMS[of].name));
                loads[of] = Loading::load(setting, SYSTEMS[of], *size)?;
            }
            found.push(loads);
        }
        Ok(outcome(&sizes, &found))
    }
}

impl Loading {
    fn load(setting: &Setting, system: &System, size: Size) -> Result<Load> {
        let trial = Trial::new(setting, system, &[], size)?;
        let mut plan = trial.plan(setting, Workload::FillRandom);
        plan.use_existing = false;
        plan.drain = true;
        let report = trial.run(&plan)?;
        Ok(Load {
            ops_per_sec: report.ops_per_sec,
            ssd: report.ssd_bytes_written as f64 / report.user_bytes_written.max(1) as f64,
        })
    }
}

fn outcome(sizes: &[Size], found: &[[Load; 2]]) -> Outcome {
    let rate = |[tiered, global]: &[Load; 2]| tiered.ops_per_sec / global.ops_per_sec;
    let rates: Vec<f64> = found.iter().map(rate).collect();
    let mean = |of: usize| found.iter().map(|l| l[of].ssd).sum::<f64>() / found.len() as f64;
    let mut rows = Vec::new();
    for (size, loads) in sizes.iter().zip(found) {
        for (system, load) in SYSTEMS.iter().zip(loads) {
            rows.push(vec![
                format!("{} keys, {}", size.keys, system.name),
                format!("{:.0}", load.ops_per_sec),
                format!("{:.2}", load.ssd),
            ]);
        }
    }
    let series = |of: usize| {
        let rates = found.iter().map(|loads| loads[of].ops_per_sec);
        Series::new(SYSTEMS[of].name, rates.collect())
    };
    Outcome {
        scale: format!(
            "{} to {} keys with values of 1 KiB, every one once and durable, until no work is left; pm of {} MiB, dram of \
             {} MiB, one thread (our own claim, the paper has no such figure)",
            sizes.first().map_or(0, |size| size.keys),
            sizes.last().map_or(0, |size| size.keys),
            sizes.first().map_or(0, |size| size.pm >> 20),
            sizes.first().map_or(0, |size| size.dram >> 20),
        ),
        tables: vec![Table {
            title: "Loads of several sizes".into(),
            columns: strings(["load, level 0", "ops/s", "SSD bytes a byte"]),
            rows,
        }],
        charts: vec![Chart {
            title: "Operations a second".into(),
            x: "keys".into(),
            y: "operations a second".into(),
            groups: sizes.iter().map(|size| size.keys.to_string()).collect(),
            series: vec![series(0), series(1)],
        }],
        checks: vec![
            Check::at_least(
                "operations a second of loads, tiered against global-index, in the middle of all",
                "none: it is not to be slower by more than a tenth",
                median(&rates),
                BAR,
            ),
            Check::at_most(
                "bytes written to the SSD by loads, tiered against global-index, means of all",
                "none: they are not to be more by more than a tenth",
                mean(0) / mean(1).max(f64::MIN_POSITIVE),
                1.0 / BAR,
            ),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_is_the_middle_of_all_sizes() {
        let setting = Setting::quick(std::path::Path::new("."));
        let size = sizes(setting.quick)[0];
        let pair = |rate: f64, ssd: f64| {
            let of = |ops_per_sec, ssd| Load { ops_per_sec, ssd };
            [of(rate * 1000.0, ssd), of(1000.0, 2.0)]
        };
        let holds = |pairs: &[[Load; 2]]| -> Vec<bool> {
            let sizes = vec![size; pairs.len()];
            let checks = outcome(&sizes, pairs).checks;
            checks.iter().map(|check| check.holds).collect()
        };
        let some = [pair(0.5, 2.0), pair(0.95, 2.2), pair(1.5, 2.2)];
        assert_eq!(holds(&some), [true, true]);
        let slower = [pair(0.5, 2.0), pair(0.85, 2.0), pair(1.5, 3.0)];
        assert_eq!(holds(&slower), [false, false]);
        // There are two in the middle of as many as are made: the higher one alone would reach the bar.
        let even = [0.5, 0.84, 0.94, 1.5].map(|rate| pair(rate, 2.0));
        assert_eq!(holds(&even), [false, true]);
    }
}
