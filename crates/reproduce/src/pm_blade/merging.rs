//! Figures 7(a) and 8: what internal compaction and the cost models are good for.

use thermocline_base::Result;
use thermocline_bench::Workload;

use super::systems::{IMMUTABLES, LEVELED, PMBLADE, PMBLADE_PM, PMBLADE_SSD, TIERED};
use crate::experiment::Measure;
use crate::outcome::strings;
use crate::outcome::{Chart, Check, Outcome, Series, Table};
use crate::setting::{Setting, Tell};
use crate::trial::{Size, Trial, read_us, skewed};

/// Figure 7(a): latency of reads while as many writes come, as data grows.
#[derive(Debug)]
pub(crate) struct Reads;

impl Measure for Reads {
    fn measure(&self, setting: &Setting, tell: Tell<'_>) -> Result<Outcome> {
        let (size, steps, ops) = match setting.quick {
            true => (mib_size(8, 2_000), 2, 500),
            false => (mib_size(512, 50_000), 8, 25_000),
        };
        let systems = [PMBLADE, PMBLADE_PM, PMBLADE_SSD];
        let mut found: Vec<Vec<f64>> = Vec::new();
        for system in &systems {
            tell(system.name);
            // Level 0 is to grow, as the paper's of 80 GB does: memtables are small beside it.
            let more = [("memtable.bytes_max", "4MiB"), ("level0.pm_percent", "80")];
            let trial = Trial::loaded(setting, system, &more, size)?;
            let mut latencies = Vec::new();
            for step in 0..steps {
                let mut plan = trial.plan(setting, Workload::YcsbA);
                plan.distribution = Some(skewed(0.0));
                plan.reads = Some(ops);
                plan.seed += step;
                latencies.push(read_us(&trial.run(&plan)?));
            }
            found.push(latencies);
        }
        let share: Vec<f64> = found[0]
            .iter()
            .zip(&found[1])
            .map(|(with, without)| with / without)
            .collect();
        let least = share.iter().copied().fold(f64::INFINITY, f64::min);
        let groups: Vec<String> = (1..=steps).map(|step| (step * ops).to_string()).collect();
        let rows = groups.iter().enumerate().map(|(n, at)| {
            let cells = found.iter().map(|latencies| format!("{:.2}", latencies[n]));
            [at.clone()].into_iter().chain(cells).collect()
        });
        Ok(Outcome {
            scale: format!(
                "{} keys with values of {} bytes, {} operations, half of them reads, uniform (the paper: 10 million)",
                size.keys,
                size.value_bytes,
                steps * ops
            ),
            tables: vec![Table {
                title: "Mean latency of reads, in microseconds".into(),
                columns: [String::from("operations")]
                    .into_iter()
                    .chain(systems.iter().map(|system| system.name.to_string()))
                    .collect(),
                rows: rows.collect(),
            }],
            charts: vec![Chart {
                title: "Latency of reads while as many writes come".into(),
                x: "operations so far".into(),
                y: "microseconds".into(),
                groups,
                series: systems
                    .iter()
                    .zip(&found)
                    .map(|(system, values)| Series::new(system.name, values.clone()))
                    .collect(),
            }],
            checks: vec![Check::at_most(
                "latency of reads with internal compaction against without, at best",
                "0.18 times: 82 % less",
                least,
                0.6,
            )],
        })
    }
}

fn mib_size(mib: u64, keys: u64) -> Size {
    Size {
        pm: mib << 20,
        dram: 256 << 20,
        keys,
        value_bytes: 1024,
    }
}

/// Data of two and a half times persistent memory, as in the paper. Tables there take whole zones, which are of 4 MiB from
/// 64 MiB on: with less than this they are as large as a part of a slice, and half of level 0 would be the ends of zones.
fn beyond_pm(quick: bool) -> Size {
    match quick {
        true => mib_size(4, 2_000),
        false => mib_size(256, 640_000),
    }
}

/// Figure 8(a): bytes that updates have written to the SSD and to persistent memory.
#[derive(Debug)]
pub(crate) struct Amplification;

impl Measure for Amplification {
    fn measure(&self, setting: &Setting, tell: Tell<'_>) -> Result<Outcome> {
        let size = beyond_pm(setting.quick);
        let updates = size.keys * if setting.quick { 1 } else { 2 };
        let systems = [PMBLADE, PMBLADE_PM, TIERED, IMMUTABLES, LEVELED];
        let skews = [("uniform", 0.0), ("zipfian 0.99", 0.99)];
        // By system, then by skew: bytes on the SSD and in persistent memory for each byte written.
        let mut found: Vec<Vec<(f64, f64)>> = Vec::new();
        for system in &systems {
            let mut of_system = Vec::new();
            for (name, theta) in skews {
                tell(&format!("{}, {name}", system.name));
                let trial = Trial::loaded(setting, system, &[], size)?;
                let found = trial.settled(setting, theta, updates)?;
                of_system.push((found.ssd, found.pm));
            }
            found.push(of_system);
        }
        let rows = systems.iter().zip(&found).map(|(system, found)| {
            let cells = found
                .iter()
                .flat_map(|(ssd, pm)| [format!("{ssd:.2}"), format!("{pm:.2}")]);
            [system.name.to_string()].into_iter().chain(cells).collect()
        });
        let chart = |title: &str, of: fn(&(f64, f64)) -> f64| Chart {
            title: title.into(),
            x: "keys that are updated".into(),
            y: "bytes for each byte".into(),
            groups: skews.iter().map(|(name, _)| (*name).to_string()).collect(),
            series: systems
                .iter()
                .zip(&found)
                .map(|(system, found)| Series::new(system.name, found.iter().map(of).collect()))
                .collect(),
        };
        Ok(Outcome {
            scale: format!(
                "data of 2.5 times persistent memory ({} keys, values of 1 KiB), {updates} updates beside as many reads, \
                 background work never behind (the paper: 200 GB, 80 GB of persistent memory)",
                size.keys
            ),
            tables: vec![Table {
                title: "Bytes written for each byte of updates".into(),
                columns: strings([
                    "system",
                    "SSD, uniform",
                    "PM, uniform",
                    "SSD, zipfian",
                    "PM, zipfian",
                ]),
                rows: rows.collect(),
            }],
            charts: vec![
                chart("Written to the SSD", |(ssd, _)| *ssd),
                chart("Written to persistent memory", |(_, pm)| *pm),
            ],
            checks: amplification_checks(&found),
        })
    }
}

/// By system, then by skew: bytes on the SSD and in persistent memory for each byte written.
fn amplification_checks(found: &[Vec<(f64, f64)>]) -> Vec<Check> {
    let ratio = |skew: usize| found[0][skew].0 / found[1][skew].0.max(f64::MIN_POSITIVE);
    vec![
        Check::at_most(
            "SSD bytes with internal compaction against without, uniform",
            "0.43 times (of all bytes: 359 against 825 GB)",
            ratio(0),
            0.43,
        ),
        Check::at_most(
            "SSD bytes with internal compaction against without, zipfian",
            "less than with uniform keys",
            ratio(1),
            0.43,
        ),
        Check::at_most(
            "SSD bytes with internal compaction against leveled, uniform",
            "0.14 times (of all bytes, against RocksDB: 359 against 2573 GB)",
            found[0][0].0 / found[4][0].0,
            0.5,
        ),
        Check::at_most(
            "SSD bytes with tiered, what users get, against pm-tables without internal compaction, uniform",
            "none: the paper has no such shape",
            found[2][0].0 / found[1][0].0.max(f64::MIN_POSITIVE),
            0.43,
        ),
    ]
}

/// Figure 8(b): the share of reads that persistent memory answers.
#[derive(Debug)]
pub(crate) struct Hits;

impl Measure for Hits {
    fn measure(&self, setting: &Setting, tell: Tell<'_>) -> Result<Outcome> {
        let size = beyond_pm(setting.quick);
        let updates = size.keys;
        let systems = [PMBLADE, PMBLADE_PM, TIERED];
        let skews = [0.0, 0.5, 0.8, 0.99];
        let mut found: Vec<Vec<f64>> = Vec::new();
        for system in &systems {
            let mut of_system = Vec::new();
            for theta in skews {
                tell(&format!("{}, skew {theta}", system.name));
                let trial = Trial::loaded(setting, system, &[], size)?;
                of_system.push(trial.settled(setting, theta, updates)?.pm_share);
            }
            found.push(of_system);
        }
        let rows = systems.iter().zip(&found).map(|(system, found)| {
            let cells = found.iter().map(|share| format!("{:.0} %", share * 100.0));
            [system.name.to_string()].into_iter().chain(cells).collect()
        });
        Ok(Outcome {
            scale: format!(
                "data of 2.5 times persistent memory ({} keys, values of 1 KiB), {updates} updates beside as many reads, background \
                 work never behind",
                size.keys
            ),
            tables: vec![Table {
                title: "Reads that persistent memory answers, by skew".into(),
                columns: [String::from("system")]
                    .into_iter()
                    .chain(skews.map(|skew| skew.to_string()))
                    .collect(),
                rows: rows.collect(),
            }],
            charts: vec![Chart {
                title: "Reads that persistent memory answers".into(),
                x: "skew".into(),
                y: "share".into(),
                groups: skews.map(|skew| skew.to_string()).into(),
                series: systems
                    .iter()
                    .zip(&found)
                    .map(|(system, found)| Series::new(system.name, found.clone()))
                    .collect(),
            }],
            checks: vec![
                Check::at_least(
                    "share with the cost models against without, uniform",
                    "1.34 times",
                    found[0][0] / found[1][0].max(f64::MIN_POSITIVE),
                    1.15,
                ),
                Check::at_least(
                    "share with the cost models at skew 0.99 against uniform",
                    "grows with skew",
                    found[0][3] / found[0][0].max(f64::MIN_POSITIVE),
                    1.2,
                ),
            ],
        })
    }
}
