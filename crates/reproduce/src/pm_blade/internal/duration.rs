//! Table V: how long an internal compaction takes, by the size of values, against the same work on the SSD.

use thermocline::Result;
use thermocline_bench::clock::now;
use thermocline_bench::keys::Permutation;

use super::filling::{BY_HAND, Filling, Side, check};
use crate::experiment::Measure;
use crate::outcome::{Chart, Check, Outcome, Series, Table};
use crate::outcome::{median, strings};
use crate::setting::{Setting, Tell};
use crate::trial::{SEED, Trial};

/// Bytes of values, and what the paper found, in seconds: in persistent memory, and on the SSD.
const PAPER: [(usize, [f64; 2]); 5] = [
    (512, [2.1, 4.0]),
    (1 << 10, [1.9, 3.7]),
    (4 << 10, [1.9, 3.4]),
    (16 << 10, [1.6, 2.9]),
    (64 << 10, [1.4, 2.8]),
];

/// Of one size, in seconds, on both sides.
type Seconds = [f64; 2];

/// The experiment.
#[derive(Debug)]
pub(crate) struct Duration;

impl Measure for Duration {
    fn measure(&self, setting: &Setting, tell: Tell<'_>) -> Result<Outcome> {
        let (mib, runs, rounds) = match setting.quick {
            true => (8, 12, 1),
            false => (512, 16, 3),
        };
        let mut found = Vec::new();
        for (value_bytes, _) in PAPER {
            tell(&format!("values of {value_bytes} bytes"));
            let filling = Filling {
                mib,
                runs,
                value_bytes,
            };
            let mut of_size: [Vec<f64>; 2] = Default::default();
            for _ in 0..rounds {
                for (side, seconds) in Side::BOTH.into_iter().zip(&mut of_size) {
                    seconds.push(Duration::time(setting, &filling, side)?);
                }
            }
            found.push(of_size.map(|seconds| median(&seconds)));
        }
        let scale = format!(
            "{mib} MiB of keys that are written once, in {runs} runs that lie over each other, medians of {rounds} rounds in \
             turn, one thread, no compression (the paper: 1 GB)"
        );
        Ok(outcome(scale, &found))
    }
}

impl Duration {
    /// Seconds that merging level 0 takes.
    fn time(setting: &Setting, filling: &Filling, side: Side) -> Result<f64> {
        let keys = filling.entries();
        let trial = Trial::new(setting, side.system(), &BY_HAND, filling.size(keys))?;
        let order = Permutation::new(keys, SEED);
        let db = filling.fill(&trial, setting, side, |entry| order.at(entry))?;
        let begun = now();
        side.compact(&db)?;
        let seconds = (now() - begun).as_secs_f64();
        // One run in persistent memory, or none on the SSD: all of it is in the level below.
        check(&db, side, u64::from(side == Side::Pm))?;
        db.close()?;
        Ok(seconds)
    }
}

fn outcome(scale: String, found: &[Seconds]) -> Outcome {
    let size = |bytes: usize| match bytes {
        512 => "512 B".to_string(),
        bytes => format!("{} KiB", bytes >> 10),
    };
    let ratio = |[pm, ssd]: &Seconds| pm / ssd.max(f64::MIN_POSITIVE);
    let groups: Vec<String> = PAPER.iter().map(|(bytes, _)| size(*bytes)).collect();
    let rows = PAPER.iter().zip(found).map(|((bytes, paper), ours)| {
        vec![
            size(*bytes),
            format!("{:.3}", ours[0]),
            format!("{:.3}", ours[1]),
            format!("{:.2}", ratio(ours)),
            format!("{:.2}", ratio(paper)),
        ]
    });
    let side = |n: usize| found.iter().map(|seconds| seconds[n]).collect();
    let worst = found.iter().map(ratio).fold(0.0, f64::max);
    let largest = found.last().map_or(f64::INFINITY, ratio);
    Outcome {
        scale,
        tables: vec![Table {
            title: "Time to merge level 0, in seconds".into(),
            columns: strings(["values", "PM", "SSD", "PM/SSD", "in the paper"]),
            rows: rows.collect(),
        }],
        charts: vec![Chart {
            title: "Time to merge level 0".into(),
            x: "size of values".into(),
            y: "seconds".into(),
            groups,
            series: Side::BOTH
                .iter()
                .enumerate()
                .map(|(n, at)| Series::new(at.name(), side(n)))
                .collect(),
        }],
        checks: vec![
            Check::at_most(
                "time in persistent memory against the SSD, values of 64 KiB",
                "0.50 times",
                largest,
                0.67,
            ),
            Check::at_most(
                "time in persistent memory against the SSD, the worst of all sizes",
                "0.56 times, with values of 4 KiB",
                worst,
                0.75,
            ),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_merge_what_was_written() {
        let folder = crate::setting::folder();
        let setting = Setting::quick(folder.path());
        for (value_bytes, _) in [PAPER[0], PAPER[4]] {
            let filling = Filling {
                mib: 8,
                runs: 12,
                value_bytes,
            };
            for side in Side::BOTH {
                assert!(
                    Duration::time(&setting, &filling, side).unwrap() > 0.0,
                    "{side:?}"
                );
            }
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_slow_merge_is_told() {
        let holds = |seconds: Seconds| {
            let outcome = outcome(String::new(), &[seconds; PAPER.len()]);
            outcome.checks.iter().all(|check| check.holds)
        };
        assert!(holds([1.0, 2.0]) && !holds([2.0, 2.0]));
        let mut found = [[1.0, 2.0]; PAPER.len()];
        found[1] = [1.8, 2.0];
        let checks = outcome(String::new(), &found).checks;
        assert!(checks[0].holds && !checks[1].holds);
    }
}
