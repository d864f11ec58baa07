//! Figure 9: random writes by the length of values, and what the SSD has to write for them, with values apart from their
//! keys (§4.4) and in tables.
//!
//! The paper writes 80 GB of each length, and shows rates. Here every key is loaded once, and then as many are drawn and
//! overwritten: what is overwritten has to be collected where values lie apart. Both times background work is waited for:
//! what it writes counts, and so does its time in the rates.
//!
//! The paper keeps values of 256 bytes in tables (§4.4), so the gain in figure 9a is one by those. Here they lie apart,
//! too: what the SSD has to write is compared at each length.

use thermocline::Result;
use thermocline_base::options::Preset;
use thermocline_bench::{Report, Workload};

use crate::experiment::Measure;
use crate::outcome::{Chart, Check, Outcome, Series, Table, strings};
use crate::setting::{Setting, Tell};
use crate::trial::{KEY_BYTES, Size, System, Trial};

/// With all values apart: the preset has the shortest ones in tables.
const APART: System = System {
    name: "values apart",
    preset: Preset::FlatLsm,
    set: &[("blob.value_bytes_min", "256")],
};

const IN_TABLES: System = System {
    name: "values in tables",
    preset: Preset::FlatLsm,
    set: &[("blob.value_bytes_min", "0")],
};

const SYSTEMS: [&System; 2] = [&APART, &IN_TABLES];

/// Bytes of values, as in the paper.
const LENGTHS: [usize; 7] = [256, 512, 1 << 10, 4 << 10, 8 << 10, 16 << 10, 64 << 10];

/// For tests.
const LENGTHS_QUICK: [usize; 2] = [256, 4 << 10];

/// The rate in bytes of the longest values is so many times that of the shortest at least.
const GAIN: f64 = 2.0;

fn lengths(quick: bool) -> &'static [usize] {
    match quick {
        true => &LENGTHS_QUICK,
        false => &LENGTHS,
    }
}

fn size(quick: bool, value_bytes: usize) -> Size {
    let (pm, times): (u64, u64) = if quick { (4 << 20, 2) } else { (64 << 20, 5) };
    Size {
        pm,
        dram: (2 * pm).max(32 << 20),
        keys: pm * times / (KEY_BYTES + value_bytes) as u64,
        value_bytes,
    }
}

/// The experiment.
#[derive(Debug)]
pub(crate) struct Lengths;

/// What values of one length came to in one store.
struct Run {
    value_bytes: usize,
    load: Report,
    overwrites: Report,
}

impl Measure for Lengths {
    fn measure(&self, setting: &Setting, tell: Tell<'_>) -> Result<Outcome> {
        // By system, and then by length.
        let mut runs = Vec::new();
        for system in SYSTEMS {
            let mut of_system = Vec::new();
            for &bytes in lengths(setting.quick) {
                tell(&format!("values of {bytes} bytes, {}", system.name));
                of_system.push(Run::of(setting, system, size(setting.quick, bytes))?);
            }
            runs.push(of_system);
        }
        Ok(outcome(setting.quick, &runs))
    }
}

impl Run {
    fn of(setting: &Setting, system: &System, size: Size) -> Result<Run> {
        let trial = Trial::new(setting, system, &[], size)?;
        let mut plan = trial.plan(setting, Workload::FillRandom);
        plan.use_existing = false;
        plan.drain = true;
        let load = trial.run(&plan)?;
        let mut plan = trial.plan(setting, Workload::Overwrite);
        plan.drain = true;
        Ok(Run {
            value_bytes: size.value_bytes,
            load,
            overwrites: trial.run(&plan)?,
        })
    }

    /// Bytes of keys and values that a load has come to in a second.
    fn loaded_bytes(&self) -> f64 {
        self.load.ops_per_sec * (KEY_BYTES + self.value_bytes) as f64
    }

    /// Bytes on the SSD for each byte that was loaded, and for each that was overwritten.
    fn written(&self) -> [f64; 2] {
        let of = [&self.load, &self.overwrites];
        of.map(|report| report.write_amplification_ssd)
    }

    fn row(&self, system: &System) -> Vec<String> {
        let [loaded, overwritten] = self.written();
        vec![
            format!("{} bytes, {}", self.value_bytes, system.name),
            format!("{:.1}", self.load.ops_per_sec / 1e3),
            format!("{:.1}", self.loaded_bytes() / 1e6),
            format!("{loaded:.2}"),
            format!("{:.1}", self.overwrites.ops_per_sec / 1e3),
            format!("{overwritten:.2}"),
        ]
    }
}

fn outcome(quick: bool, runs: &[Vec<Run>]) -> Outcome {
    let some = size(quick, LENGTHS_QUICK[0]);
    let rows = runs.iter().zip(SYSTEMS);
    let rows = rows.flat_map(|(runs, system)| runs.iter().map(move |run| run.row(system)));
    let series = |figure: fn(&Run) -> f64| -> Vec<Series> {
        let systems = runs.iter().zip(SYSTEMS);
        systems
            .map(|(runs, system)| Series::new(system.name, runs.iter().map(figure).collect()))
            .collect()
    };
    let chart = |title: &str, y: &str, figure: fn(&Run) -> f64| Chart {
        title: title.into(),
        x: "bytes of a value".into(),
        y: y.into(),
        groups: lengths(quick).iter().map(usize::to_string).collect(),
        series: series(figure),
    };
    Outcome {
        scale: format!(
            "{} MiB of each length (paper: 80 GB), and as much overwritten, {} MiB of persistent memory, preset flat-lsm",
            (some.keys * (KEY_BYTES + some.value_bytes) as u64).div_ceil(1 << 20),
            some.pm >> 20
        ),
        tables: vec![Table {
            title: "Random writes, to the end of background work".into(),
            columns: strings([
                "values",
                "load, K/s",
                "load, MB/s",
                "SSD bytes a byte",
                "overwrites, K/s",
                "their SSD bytes a byte",
            ]),
            rows: rows.collect(),
        }],
        charts: vec![
            chart("Random writes", "MB/s", |run| run.loaded_bytes() / 1e6),
            chart("SSD bytes of a load", "for each byte", |run| {
                run.written()[0]
            }),
            chart("SSD bytes of overwrites", "for each byte", |run| {
                run.written()[1]
            }),
        ],
        checks: checks(runs),
    }
}

/// Of what lies apart, beside what lies in tables.
fn checks(runs: &[Vec<Run>]) -> Vec<Check> {
    let [apart, in_tables] = runs else {
        return Vec::new();
    };
    let more = |nth: usize| {
        let both = apart.iter().zip(in_tables);
        let ratios =
            both.map(|(apart, tables)| apart.written()[nth] / tables.written()[nth].max(1e-9));
        ratios.fold(0.0, f64::max)
    };
    let rate = |run: Option<&Run>| run.map_or(0.0, Run::loaded_bytes);
    vec![
        Check::at_most(
            "SSD bytes of a load with values apart by those with values in tables, at the length where that is most",
            "none: the claim is ours",
            more(0),
            1.0,
        ),
        Check::at_most(
            "SSD bytes of overwrites with values apart by those with values in tables, at the length where that is most",
            "none: the claim is ours",
            more(1),
            1.0,
        ),
        Check::at_least(
            "Bytes a second of the longest values, apart, by those of the shortest, in tables (figure 9a)",
            "12.67 times",
            rate(apart.last()) / rate(in_tables.first()).max(1e-9),
            GAIN,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Were the options not taken, both would write the same.
    #[test]
    fn values_lie_apart_in_one_and_in_tables_in_the_other() {
        let folder = crate::setting::folder();
        let setting = Setting::quick(folder.path());
        for (system, is_apart) in [(&APART, true), (&IN_TABLES, false)] {
            let size = size(true, LENGTHS_QUICK[0]);
            let trial = Trial::loaded(&setting, system, &[], size).unwrap();
            let db = trial.open(&setting).unwrap();
            assert_eq!(db.metrics().blobs.files > 0, is_apart, "{}", system.name);
            db.close().unwrap();
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn the_worst_length_decides() {
        let folder = crate::setting::folder();
        let setting = Setting::quick(folder.path());
        let run = Run::of(&setting, &APART, size(true, LENGTHS_QUICK[0])).unwrap();
        let with = |ssd: [f64; 2], ops_per_sec: f64| Run {
            value_bytes: run.value_bytes,
            load: Report {
                write_amplification_ssd: ssd[0],
                ops_per_sec,
                ..run.load.clone()
            },
            overwrites: Report {
                write_amplification_ssd: ssd[1],
                ..run.overwrites.clone()
            },
        };
        let holds = |apart: [Run; 2]| -> Vec<bool> {
            let in_tables = vec![with([2.0, 4.0], 1.0), with([2.0, 4.0], 9.0)];
            let checks = checks(&[apart.into(), in_tables]);
            checks.iter().map(|check| check.holds).collect()
        };
        let good = [with([1.0, 4.0], 9.0), with([2.0, 1.0], 3.0)];
        assert_eq!(holds(good), [true, true, true]);
        let bad = [with([1.0, 4.1], 0.1), with([2.1, 1.0], 1.5)];
        assert_eq!(holds(bad), [false, false, false]);
    }
}
