//! Figure 12: YCSB. Of the paper's seven workloads A (half reads, half updates) and E (scans), with tail latencies, which
//! it does not tell of YCSB; of its systems this engine's preset `leveled` in the place of RocksDB. Beside them stands
//! shape `global-index`, which is not MatrixKV.
//!
//! All systems have the same persistent memory, DRAM and SSD; what one does not use lies idle. In each round each of
//! them in turn loads every key, and has nothing left to be done; then comes A, then E. Another one begins each round.

use thermocline::Result;
use thermocline_bench::{Latency, Operation, Report, Workload};

use super::systems::{GLOBAL_INDEX, LEVELED, TIERED};
use crate::experiment::Measure;
use crate::outcome::{Chart, Check, Outcome, Series, Table};
use crate::outcome::{median, strings};
use crate::setting::{Setting, Tell};
use crate::trial::{Size, System, Trial, latency};

const SYSTEMS: [&System; 3] = [&TIERED, &LEVELED, &GLOBAL_INDEX];

/// What is told of a workload: the latencies of one kind of its operations.
const FIGURES: [(Workload, &str, Operation); 3] = [
    (Workload::YcsbA, "A", Operation::Read),
    (Workload::YcsbA, "A", Operation::Update),
    (Workload::YcsbE, "E", Operation::Scan),
];

/// Rounds of one of [`FIGURES`] with one system.
#[derive(Debug, Clone, Default)]
struct Rounds {
    ops_per_sec: Vec<f64>,
    p99_us: Vec<f64>,
    p999_us: Vec<f64>,
}

impl Rounds {
    fn add(&mut self, report: &Report, latency: Latency) {
        self.ops_per_sec.push(report.ops_per_sec);
        self.p99_us.push(latency.p99);
        self.p999_us.push(latency.p999);
    }

    fn ops(&self) -> f64 {
        median(&self.ops_per_sec)
    }

    /// By how much the fastest round was faster than the slowest one: what may be chance.
    fn spread(&self) -> f64 {
        let by = |of: fn(f64, f64) -> f64| self.ops_per_sec.iter().copied().reduce(of);
        by(f64::max)
            .zip(by(f64::min))
            .map_or(0.0, |(most, least)| most / least - 1.0)
    }

    fn p999(&self) -> f64 {
        median(&self.p999_us)
    }
}

/// By [`SYSTEMS`], then by [`FIGURES`].
type Found = [[Rounds; FIGURES.len()]; SYSTEMS.len()];

/// How many operations of A and of E come, and how often.
struct Scale {
    size: Size,
    ops: u64,
    scans: u64,
    rounds: usize,
}

impl Scale {
    fn new(setting: &Setting) -> Scale {
        let (pm, keys, ops, scans, rounds) = match setting.quick {
            true => (4 << 20, 4_000, 1_000, 100, 1),
            false => (128 << 20, 320_000, 320_000, 30_000, 3),
        };
        Scale {
            size: Size {
                pm,
                dram: pm.max(32 << 20),
                keys,
                value_bytes: 1024,
            },
            ops,
            scans,
            rounds,
        }
    }
}

/// The order of [`SYSTEMS`] in a round: another one begins each, so that what a machine does to whoever comes first, or last, is nobody's.
fn turns(round: usize) -> impl Iterator<Item = usize> {
    let turn = move |turn: usize| (round + turn) % SYSTEMS.len();
    (0..SYSTEMS.len()).map(turn)
}

/// The experiment.
#[derive(Debug)]
pub(crate) struct Ycsb;

impl Measure for Ycsb {
    fn measure(&self, setting: &Setting, tell: Tell<'_>) -> Result<Outcome> {
        let scale = Scale::new(setting);
        let mut found = Found::default();
        for round in 0..scale.rounds {
            for of in turns(round) {
                let system = SYSTEMS[of];
                tell(&format!("round {}, {}", round + 1, system.name));
                Ycsb::round(setting, system, &scale, &mut found[of])?;
            }
        }
        Ok(outcome(&scale, &found))
    }
}

impl Ycsb {
    /// One round of one system.
    fn round(
        setting: &Setting,
        system: &System,
        scale: &Scale,
        found: &mut [Rounds; FIGURES.len()],
    ) -> Result<()> {
        let trial = Trial::loaded(setting, system, &[], scale.size)?;
        for (workload, ops) in [(Workload::YcsbA, scale.ops), (Workload::YcsbE, scale.scans)] {
            let mut plan = trial.plan(setting, workload);
            plan.reads = Some(ops);
            let report = trial.run(&plan)?;
            for ((of, _, operation), rounds) in FIGURES.iter().zip(&mut *found) {
                if let Some(latency) = latency(&report, *operation).filter(|_| *of == workload) {
                    rounds.add(&report, latency);
                }
            }
        }
        Ok(())
    }
}

fn outcome(scale: &Scale, found: &Found) -> Outcome {
    let size = &scale.size;
    let series = |n: usize, of: fn(&Rounds) -> f64| Series {
        name: SYSTEMS[n].name.to_string(),
        values: found[n].iter().map(of).collect(),
    };
    let throughput = |n: usize| {
        let of = |figure: usize| found[n][figure].ops();
        Series::new(SYSTEMS[n].name, vec![of(0), of(2)])
    };
    let all = 0..SYSTEMS.len();
    Outcome {
        scale: format!(
            "{} keys, values of 1 KiB: 2.5 times persistent memory of {} MiB; {} MiB of DRAM; {} operations of A, {} of E, \
             one thread, every write durable, medians of {} rounds in turn (the paper: 200 GB, 80 GB of persistent memory)",
            size.keys,
            size.pm >> 20,
            size.dram >> 20,
            scale.ops,
            scale.scans,
            scale.rounds
        ),
        tables: vec![table(found)],
        charts: vec![
            Chart {
                title: "Operations a second".into(),
                x: "workload".into(),
                y: "operations a second".into(),
                groups: strings(["A", "E"]),
                series: all.clone().map(throughput).collect(),
            },
            Chart {
                title: "99.9th percentile of latencies".into(),
                x: "operation".into(),
                y: "microseconds".into(),
                groups: FIGURES
                    .iter()
                    .map(|(_, name, kind)| format!("{name}, {}", kind.name()))
                    .collect(),
                series: all.map(|n| series(n, Rounds::p999)).collect(),
            },
        ],
        checks: checks(found),
    }
}

fn table(found: &Found) -> Table {
    let mut rows = Vec::new();
    for (figure, (_, name, kind)) in FIGURES.iter().enumerate() {
        for (system, of_system) in SYSTEMS.iter().zip(found) {
            let rounds = &of_system[figure];
            rows.push(vec![
                format!("{name}, {}, {}", kind.name(), system.name),
                format!("{:.0}", rounds.ops()),
                format!("{:.0} %", rounds.spread() * 100.0),
                format!("{:.1}", median(&rounds.p99_us)),
                format!("{:.1}", rounds.p999()),
            ]);
        }
    }
    Table {
        title: "Operations a second, of both kinds together, and latencies in microseconds".into(),
        columns: strings([
            "workload, latencies of, system",
            "ops/s",
            "spread",
            "p99",
            "p99.9",
        ]),
        rows,
    }
}

fn checks(found: &Found) -> Vec<Check> {
    let [tiered, leveled, global] = found;
    let ratio = |figure: usize, of: fn(&Rounds) -> f64, other: &[Rounds]| {
        of(&tiered[figure]) / of(&other[figure]).max(f64::MIN_POSITIVE)
    };
    let mut checks = Vec::new();
    for (figure, name, paper, bar) in [
        (0, "A", "1.5 times, against RocksDB", 1.5),
        (2, "E", "2.0 times, against RocksDB", 2.0),
    ] {
        checks.push(Check::at_least(
            &format!("operations a second of {name}, tiered against leveled"),
            paper,
            ratio(figure, Rounds::ops, leveled),
            bar,
        ));
        checks.push(Check::at_least(
            &format!("operations a second of {name}, tiered against global-index"),
            "none: it is not to be slower",
            ratio(figure, Rounds::ops, global),
            1.0,
        ));
    }
    for (figure, (_, name, kind)) in FIGURES.iter().enumerate() {
        for (other, of_other) in [(&LEVELED, leveled), (&GLOBAL_INDEX, global)] {
            checks.push(Check::at_most(
                &format!(
                    "99.9th percentile of {name}, {}, tiered against {}",
                    kind.name(),
                    other.name
                ),
                "none: it is not to be longer",
                ratio(figure, Rounds::p999, of_other),
                1.0,
            ));
        }
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_has_figures_of_every_workload() {
        let folder = crate::setting::folder();
        let setting = Setting::quick(folder.path());
        let scale = Scale::new(&setting);
        for system in SYSTEMS {
            let mut found = <[Rounds; FIGURES.len()]>::default();
            Ycsb::round(&setting, system, &scale, &mut found).unwrap();
            for rounds in found {
                assert_eq!(rounds.ops_per_sec.len(), 1, "{}", system.name);
                assert!(rounds.ops_per_sec[0] > 0.0 && rounds.p999_us >= rounds.p99_us);
            }
        }
    }

    /// Were the order always the same, one system would have the machine as the last one left it, and another one as it was before.
    #[test]
    fn each_system_has_each_place_once_in_as_many_rounds() {
        let rounds: Vec<Vec<usize>> = (0..SYSTEMS.len())
            .map(|round| turns(round).collect())
            .collect();
        for place in 0..SYSTEMS.len() {
            let mut there: Vec<usize> = rounds.iter().map(|order| order[place]).collect();
            there.sort_unstable();
            assert!(there.into_iter().eq(0..SYSTEMS.len()), "{rounds:?}");
        }
    }

    #[test]
    fn slower_ones_are_told() {
        let rounds = |ops: f64, tail: f64| Rounds {
            ops_per_sec: vec![ops],
            p99_us: vec![tail],
            p999_us: vec![tail],
        };
        let of = |ops, tail| [(); FIGURES.len()].map(|()| rounds(ops, tail));
        let ours = [of(3.0, 1.0), of(1.0, 2.0), of(2.0, 2.0)];
        assert!(checks(&ours).iter().all(|check| check.holds));
        let theirs = [of(1.0, 2.0), of(3.0, 1.0), of(2.0, 1.0)];
        assert!(checks(&theirs).iter().all(|check| !check.holds));
        assert_eq!(checks(&ours).len(), 4 + 2 * FIGURES.len());
    }
}
