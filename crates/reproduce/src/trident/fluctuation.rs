//! Figure 21: how fast reads are before, while and after partitions are dropped, on one open store.
//!
//! One thread reads all the time: keys that stay, scans of entries that stay, and scans that begin right before what goes,
//! which are those that meet deletes. Another one waits some intervals, and drops 10 % of the partitions; waits as long,
//! and drops more until 30 % are gone; and so on. Gets and scans ask for what stays to the end, so that they ask for the
//! same before and after. The paper's become faster with less data; these need not.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use thermocline::Result;
use thermocline_bench::clock::{Instant, now};

use super::layout::{Arrangement, Course};
use super::reading::{Kind, Reader, SCAN, Tallies, nanos_since};
use super::store::Store;
use super::systems::{ALL, Contender};
use crate::beside::beside;
use crate::experiment::Measure;
use crate::outcome::{Chart, Check, Outcome, Series, Table, strings};
use crate::setting::{Setting, Tell};
use crate::trial::Size;

/// Shares of the partitions that are gone, in percent, one after the other.
const SHARES: [u64; 3] = [10, 30, 50];

/// What the rate must be after a drop, and in the slowest interval, as a part of that before.
const AFTER: f64 = 0.95;
const LOWEST: f64 = 0.8;

/// How much is measured.
struct Scale {
    size: Size,
    /// Numbers of partitions; the first is the paper's.
    partitions: &'static [u64],
    interval: Duration,
    /// Intervals before the first drop, and after each.
    intervals: u32,
    /// Intervals before anything counts, so that caches have what they will have.
    warm: u32,
}

impl Scale {
    fn new(quick: bool) -> Scale {
        let (dram, keys, millis, intervals, warm) = match quick {
            true => (16 << 20, 2_000, 4, 4, 1),
            false => (16 << 20, 131_000, 250, 8, 4),
        };
        Scale {
            size: Size {
                pm: dram,
                dram,
                keys,
                value_bytes: 1024,
            },
            partitions: if quick { &[10] } else { &[10, 1000] },
            interval: Duration::from_millis(millis),
            intervals,
            warm,
        }
    }
}

/// Times of a drop and what came after it, in nanoseconds since reading began.
#[derive(Debug, Clone, Copy)]
struct Phase {
    begun: u64,
    /// When all of it was dropped.
    dropped: u64,
    ended: u64,
}

/// Reads of one kind around a drop.
#[derive(Debug, Clone, Copy, Default)]
struct Around {
    /// Operations a second before the first drop.
    before: f64,
    /// After this one, and in the slowest interval since it began, as parts of that.
    after: f64,
    lowest: f64,
}

/// One of [`SHARES`].
#[derive(Debug, Clone, Copy, Default)]
struct Dropped {
    /// How long the drop took.
    millis: f64,
    /// By [`Kind::ALL`].
    kinds: [Around; Kind::ALL.len()],
}

/// One store.
struct Run {
    contender: &'static Contender,
    partitions: u64,
    arrangement: Arrangement,
    /// By [`SHARES`].
    drops: [Dropped; SHARES.len()],
    /// By [`Kind::ALL`]: the rate in each interval as a part of that before the first drop.
    rates: [Vec<f64>; Kind::ALL.len()],
}

impl Run {
    fn of(
        setting: &Setting,
        scale: &Scale,
        contender: &'static Contender,
        (partitions, arrangement): (u64, Arrangement),
    ) -> Result<Run> {
        let store = Store::loaded(setting, contender, partitions, scale.size)?;
        let course = Course::new(partitions, arrangement, SHARES[0]);
        let (begun, reader) = (now(), Reader::new(&store, &course));
        let (phases, tallies) = beside(
            |is_over: &AtomicBool| reader.run(begun, scale.interval, is_over),
            || drop_all(&store, &course, scale, begun),
        );
        store.close()?;
        let (tallies, (before, phases)) = (tallies?, phases?);
        let ended = phases.last().map_or(before.ended, |last| last.ended);
        let rates = Kind::ALL.map(|kind| {
            let of = base(&tallies, kind, before);
            let rates = tallies.rates(kind, tallies.touched(before.begun, ended));
            let parts = rates.into_iter().map(|rate| part(rate, of));
            parts.collect::<Vec<f64>>()
        });
        Ok(Run {
            contender,
            partitions,
            arrangement,
            drops: phases.map(|phase| around(&tallies, before, phase)),
            rates,
        })
    }

    fn name(&self) -> String {
        let (name, arrangement) = (self.contender.name(), self.arrangement.name());
        format!("{} {arrangement}, {name}", self.partitions)
    }
}

/// Drops one share after the other; returns the time before the first, and those of the drops.
fn drop_all(
    store: &Store,
    course: &Course,
    scale: &Scale,
    begun: Instant,
) -> Result<(Phase, [Phase; SHARES.len()])> {
    thread::sleep(scale.interval * scale.warm);
    let phase = |percent: u64| -> Result<Phase> {
        let from = nanos_since(begun);
        store.drop_partitions(course.gone(percent))?;
        let dropped = nanos_since(begun);
        thread::sleep(scale.interval * scale.intervals);
        Ok(Phase {
            begun: from,
            dropped,
            ended: nanos_since(begun),
        })
    };
    let before = phase(0)?;
    let mut phases = [before; SHARES.len()];
    for (percent, of) in SHARES.into_iter().zip(&mut phases) {
        *of = phase(percent)?;
    }
    Ok((before, phases))
}

/// Operations a second before the first drop.
fn base(tallies: &Tallies, kind: Kind, before: Phase) -> f64 {
    tallies.rate(kind, tallies.between(before.dropped, before.ended))
}

/// One rate as a part of another one; none of nothing.
fn part(rate: f64, of: f64) -> f64 {
    match of > 0.0 {
        true => rate / of,
        false => 0.0,
    }
}

fn around(tallies: &Tallies, before: Phase, phase: Phase) -> Dropped {
    let kinds = Kind::ALL.map(|kind| {
        let of = base(tallies, kind, before);
        let after = tallies.between(phase.dropped, phase.ended);
        let since = tallies.touched(phase.begun, phase.ended);
        Around {
            before: of,
            after: part(tallies.rate(kind, after), of),
            lowest: part(tallies.lowest(kind, since), of),
        }
    });
    Dropped {
        millis: (phase.dropped - phase.begun) as f64 / 1e6,
        kinds,
    }
}

/// The experiment.
#[derive(Debug)]
pub(crate) struct Fluctuation;

impl Measure for Fluctuation {
    fn measure(&self, setting: &Setting, tell: Tell<'_>) -> Result<Outcome> {
        let scale = Scale::new(setting.quick);
        let mut runs = Vec::new();
        for partitions in scale.partitions {
            for arrangement in Arrangement::BOTH {
                for contender in ALL {
                    let case = (*partitions, arrangement);
                    tell(&format!(
                        "{partitions} partitions, {}, {}",
                        arrangement.name(),
                        contender.name()
                    ));
                    runs.push(Run::of(setting, &scale, contender, case)?);
                }
            }
        }
        Ok(outcome(&scale, &runs))
    }
}

fn outcome(scale: &Scale, runs: &[Run]) -> Outcome {
    let size = scale.size;
    let shown = |kind: Kind| {
        let arrangement = Arrangement::Scattered;
        let is_shown =
            |run: &&Run| run.partitions == scale.partitions[0] && run.arrangement == arrangement;
        chart(kind, &runs.iter().filter(is_shown).collect::<Vec<_>>())
    };
    Outcome {
        scale: format!(
            "{} keys with values of {} bytes, dram of {} MiB, of which the cache may have half; one thread reads, another one drops \
             10, 30 and 50 % of the partitions one after the other, {:.1} s between (the paper: 10 partitions in a cluster of Ceph, \
             of which one goes, intervals of 60 s). Scans have {SCAN} entries. Rates before are those of before the first drop. That \
             stores without partitions become slower, as the paper's does, need not show: range deletes and many point deletes \
             recover by themselves here (decisions 152 and 162). Column families are loaded one after the other, all else at random",
            size.keys,
            size.value_bytes,
            size.dram >> 20,
            (scale.interval * scale.intervals).as_secs_f64()
        ),
        tables: vec![table(runs)],
        charts: [Kind::Get, Kind::Edge].map(shown).into(),
        checks: checks(runs),
    }
}

fn table(runs: &[Run]) -> Table {
    let mut columns = strings(["partitions, system, gone", "drop, ms"]);
    for kind in Kind::ALL {
        columns.push(format!("{}/s before", kind.name()));
        columns.extend(strings(["after", "lowest"]));
    }
    let mut rows = Vec::new();
    for run in runs {
        for (share, drop) in SHARES.iter().zip(&run.drops) {
            let mut row = vec![
                format!("{}, {share} %", run.name()),
                format!("{:.1}", drop.millis),
            ];
            for kind in &drop.kinds {
                row.push(format!("{:.0}", kind.before));
                row.extend([kind.after, kind.lowest].map(|part| format!("{part:.2}")));
            }
            rows.push(row);
        }
    }
    Table {
        title: "Reads a second before the first drop; after one, and in the slowest interval since, as a part of that"
            .into(),
        columns,
        rows,
    }
}

fn chart(kind: Kind, runs: &[&Run]) -> Chart {
    let rates = |run: &&Run| run.rates[kind as usize].clone();
    let longest = runs.iter().map(|run| rates(run).len()).max().unwrap_or(0);
    let series = runs.iter().map(|run| {
        let mut rates = rates(run);
        rates.resize(longest, 0.0);
        Series::new(run.contender.name(), rates)
    });
    Chart {
        title: format!("Rate of {}, scattered partitions", kind.name()),
        x: "intervals; three drops among them".into(),
        y: "part of the rate before".into(),
        groups: (1..=longest).map(|n| n.to_string()).collect(),
        series: series.collect(),
    }
}

/// Of trident, the worst of all its drops.
fn checks(runs: &[Run]) -> Vec<Check> {
    let drops = runs.iter().filter(|run| run.contender.is_trident());
    let drops: Vec<&Dropped> = drops.flat_map(|run| &run.drops).collect();
    let worst = |kind: Kind, of: fn(&Around) -> f64| {
        let all = drops.iter().map(|drop| of(&drop.kinds[kind as usize]));
        all.reduce(f64::min).unwrap_or(0.0)
    };
    let mut checks = Vec::new();
    for kind in Kind::ALL {
        let name = kind.name();
        checks.push(Check::at_least(
            &format!("rate of {name} with trident after a drop against before, the worst of all"),
            "not affected, then higher: there is less data",
            worst(kind, |around| around.after),
            AFTER,
        ));
        checks.push(Check::at_least(
            &format!("rate of {name} with trident in the slowest interval since a drop began, the worst of all"),
            "not affected",
            worst(kind, |around| around.lowest),
            LOWEST,
        ));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::super::systems::{DELETES, TRIDENT};
    use super::*;

    #[test]
    fn rows_are_complete() {
        let folder = crate::setting::folder();
        let setting = Setting::quick(folder.path());
        let scale = Scale::new(true);
        let outcome = Fluctuation.measure(&setting, &mut |_| ()).unwrap();
        let runs = scale.partitions.len() * Arrangement::BOTH.len() * ALL.len();
        assert_eq!(outcome.tables[0].rows.len(), runs * SHARES.len());
        assert_eq!(outcome.checks.len(), 2 * Kind::ALL.len());
        for chart in &outcome.charts {
            assert_eq!(chart.series.len(), ALL.len());
            let groups = chart.groups.len();
            assert!(chart.series.iter().all(|one| one.values.len() == groups));
        }
    }

    #[test]
    fn all_reads_find_what_stays_before_and_after_each_drop() {
        let folder = crate::setting::folder();
        let setting = Setting::quick(folder.path());
        let scale = Scale::new(true);
        for contender in ALL {
            for arrangement in Arrangement::BOTH {
                let store = Store::loaded(&setting, contender, 10, scale.size).unwrap();
                let course = Course::new(10, arrangement, SHARES[0]);
                let mut reader = Reader::new(&store, &course);
                for percent in [0].into_iter().chain(SHARES) {
                    store.drop_partitions(course.gone(percent)).unwrap();
                    for kind in Kind::ALL {
                        for _ in 0..50 {
                            reader.read(kind).unwrap();
                        }
                    }
                }
                store.close().unwrap();
            }
        }
    }

    #[test]
    fn only_a_fall_of_trident_is_told() {
        let run = |contender, after, lowest| {
            let around = Around {
                before: 1000.0,
                after,
                lowest,
            };
            let drop = Dropped {
                millis: 1.0,
                kinds: [around; Kind::ALL.len()],
            };
            Run {
                contender,
                partitions: 10,
                arrangement: Arrangement::Scattered,
                drops: [drop; SHARES.len()],
                rates: Kind::ALL.map(|_| Vec::new()),
            }
        };
        let holds = |runs: &[Run]| -> Vec<bool> {
            let checks = checks(runs);
            checks.iter().map(|check| check.holds).collect()
        };
        let runs = [run(&DELETES, 0.1, 0.1), run(&TRIDENT, 1.0, 0.9)];
        assert!(holds(&runs).iter().all(|holds| *holds));
        let runs = [run(&TRIDENT, 1.0, 0.9), run(&TRIDENT, 0.9, 0.85)];
        assert_eq!(holds(&runs)[..2], [false, true]);
        let runs = [run(&TRIDENT, 1.0, 0.7)];
        assert_eq!(holds(&runs)[..2], [true, false]);
    }
}
