//! Room on the SSD while values are overwritten at random. The paper has no such figure: it is a claim of ours about values
//! apart from their keys (§4.4), whose garbage takes room until it is collected.
//!
//! Every key is loaded once, and background work is waited for. Then keys are drawn and overwritten without a pause, several
//! times as much as there is. The store's folder is looked at every second and at the end: what waits to be removed counts,
//! too. What lives is every key once, wherever it lies.

use thermocline::Result;
use thermocline_base::options::Preset;
use thermocline_bench::{Operation, Report, Space, Workload};

use super::writing::FLAT_LSM;
use crate::experiment::Measure;
use crate::outcome::{Chart, Check, Outcome, Series, Table, strings};
use crate::setting::{Setting, Tell};
use crate::trial::{KEY_BYTES, Size, System, Trial, latency};

/// The default preset, with values as far apart as the paper's.
const APART: System = System {
    name: "thermocline, values apart",
    preset: Preset::Thermocline,
    set: &[("blob.value_bytes_min", "512")],
};

/// The default preset: values of this size lie in tables, and the limit is none of theirs.
const IN_TABLES: System = System {
    name: "thermocline, values in tables",
    preset: Preset::Thermocline,
    set: &[],
};

/// The last one lies beside the others, for comparison.
const SYSTEMS: [&System; 3] = [&FLAT_LSM, &APART, &IN_TABLES];

const VALUE_BYTES: usize = 1024;

/// Looks of each run that are drawn.
const POINTS: usize = 20;

fn size(quick: bool) -> Size {
    let (pm, data): (u64, u64) = if quick {
        (4 << 20, 8 << 20)
    } else {
        (64 << 20, 512 << 20)
    };
    Size {
        pm,
        dram: (2 * pm).max(32 << 20),
        keys: data / (KEY_BYTES + VALUE_BYTES) as u64,
        value_bytes: VALUE_BYTES,
    }
}

/// How often as much is overwritten as there is.
fn times(quick: bool) -> u64 {
    if quick { 1 } else { 5 }
}

/// The experiment.
#[derive(Debug)]
pub(crate) struct Room;

/// What a run came to.
struct Found {
    report: Report,
    space: Space,
}

impl Measure for Room {
    fn measure(&self, setting: &Setting, tell: Tell<'_>) -> Result<Outcome> {
        let mut found = Vec::new();
        for system in SYSTEMS {
            tell(&format!("random overwrites, {}", system.name));
            found.push(Found::of(setting, system)?);
        }
        Ok(outcome(setting.quick, &found))
    }
}

impl Found {
    fn of(setting: &Setting, system: &System) -> Result<Found> {
        let size = size(setting.quick);
        let trial = Trial::new(setting, system, &[], size)?;
        let mut plan = trial.plan(setting, Workload::Overwrite);
        plan.use_existing = false;
        (plan.preload, plan.settle, plan.drain) = (true, true, true);
        plan.space = true;
        plan.reads = Some(size.keys * times(setting.quick));
        let report = trial.run(&plan)?;
        let space = report.space.clone().expect("the plan asks for it");
        Ok(Found { report, space })
    }

    /// The most bytes on the SSD for each byte that lives.
    fn most(&self) -> f64 {
        self.space.ratio.unwrap_or(f64::INFINITY)
    }

    /// The ratio at one of some looks that lie about as far apart.
    fn at(&self, point: usize) -> f64 {
        let samples = &self.space.samples;
        let nth = samples.len().saturating_sub(1) * point / (POINTS - 1);
        let sample = samples.get(nth);
        sample.and_then(|sample| sample.ratio()).unwrap_or(0.0)
    }

    fn row(&self, system: &System) -> Vec<String> {
        let looks = self.space.samples.len();
        let above = self.space.looks_above.unwrap_or(0);
        let garbage = self.space.samples.iter().map(|look| look.garbage_bytes);
        let longest = latency(&self.report, Operation::Write).map_or(0.0, |write| write.max / 1e3);
        let mib = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
        vec![
            system.name.to_string(),
            mib(self.space.ssd_bytes_max),
            format!("{:.2}", self.most()),
            format!("{:.2}", self.at(POINTS - 1)),
            format!("{above} of {looks}"),
            mib(garbage.max().unwrap_or(0)),
            format!("{:.1}", self.report.ops_per_sec / 1e3),
            format!("{:.2}", self.report.write_amplification_ssd),
            format!("{longest:.1}"),
        ]
    }
}

fn outcome(quick: bool, found: &[Found]) -> Outcome {
    let size = size(quick);
    let rows = found.iter().zip(SYSTEMS);
    let series = found.iter().zip(SYSTEMS).map(|(found, system)| {
        let ratios = (0..POINTS).map(|point| found.at(point));
        Series::new(system.name, ratios.collect())
    });
    Outcome {
        scale: format!(
            "{} keys with values of {} bytes, {} MiB in all, overwritten {} times at random, {} MiB of persistent memory (our own \
             claim, the paper has no such figure)",
            size.keys,
            size.value_bytes,
            (size.keys * (KEY_BYTES + size.value_bytes) as u64) >> 20,
            times(quick),
            size.pm >> 20
        ),
        tables: vec![Table {
            title: "Room on the SSD during random overwrites, to the end of background work".into(),
            columns: strings([
                "system",
                "most MiB",
                "for each byte that lives",
                "at the end",
                "looks above the limit",
                "known garbage, most MiB",
                "K/s",
                "SSD bytes a byte",
                "longest write, ms",
            ]),
            rows: rows.map(|(found, system)| found.row(system)).collect(),
        }],
        charts: vec![Chart {
            title: "Room on the SSD over the time of each run".into(),
            x: "twentieths of the run's time".into(),
            y: "bytes for each byte that lives".into(),
            groups: (1..=POINTS).map(|n| n.to_string()).collect(),
            series: series.collect(),
        }],
        checks: checks(found),
    }
}

/// Of stores that have their values apart.
fn checks(found: &[Found]) -> Vec<Check> {
    let apart = found.iter().zip([&FLAT_LSM, &APART]);
    let check = |(found, system): (&Found, &System)| {
        Check::at_most(
            &format!(
                "most bytes on the SSD for each byte that lives, {}",
                system.name
            ),
            "none: the claim is ours, blob.space_percent_max",
            found.most(),
            found.space.limit_percent as f64 / 100.0,
        )
    };
    apart.map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_systems_are_looked_at_until_they_rest() {
        let folder = crate::setting::folder();
        let setting = Setting::quick(folder.path());
        for system in SYSTEMS {
            let found = Found::of(&setting, system).unwrap();
            let size = size(setting.quick);
            let live = size.keys * (KEY_BYTES + size.value_bytes) as u64;
            let samples = &found.space.samples;
            assert!(samples.len() >= 2, "{}", system.name);
            assert!(samples.iter().all(|look| look.live_bytes == Some(live)));
            assert_eq!(samples.last().unwrap().ops, found.report.ops);
            assert_eq!(found.space.limit_percent, 130, "{}", system.name);
            assert!(found.most().is_finite() && found.most() > 0.0);
            assert_eq!(
                found.at(POINTS - 1),
                samples.last().unwrap().ratio().unwrap()
            );
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn more_than_the_limit_is_told() {
        let folder = crate::setting::folder();
        let found = Found::of(&Setting::quick(folder.path()), &APART).unwrap();
        let with = |ratio| Found {
            report: found.report.clone(),
            space: Space {
                ratio,
                ..found.space.clone()
            },
        };
        let checks = checks(&[with(Some(1.3)), with(Some(1.31)), with(Some(9.0))]);
        let holds: Vec<bool> = checks.iter().map(|check| check.holds).collect();
        assert_eq!(holds, [true, false]);
        assert!(!super::checks(&[with(None)])[0].holds);
    }
}
