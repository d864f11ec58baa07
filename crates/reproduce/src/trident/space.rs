//! Figure 22: space amplification after partitions were dropped: bytes on the SSD beyond those of keys and values that live,
//! as a part of these (Lethe's, as the paper has it).
//!
//! Each share is dropped from a store of its own, in which everything lies in tables. Looks come before, right after the
//! last drop, when some time has passed, when nothing is left to be done, and when all was compacted.

use std::thread;
use std::time::Duration;

use thermocline::Result;
use thermocline_bench::clock::{Instant, now};

use super::layout::{Arrangement, Course};
use super::store::{Store, mib};
use super::systems::{ALL, Contender};
use crate::experiment::Measure;
use crate::outcome::{Chart, Check, Outcome, Series, Table, strings};
use crate::setting::{Setting, Tell};
use crate::trial::Size;

/// When is looked.
const LOOKS: [&str; 6] = [
    "before",
    "right after",
    "1 s",
    "10 s",
    "at rest",
    "compacted",
];

/// Places among [`LOOKS`].
const RIGHT_AFTER: usize = 1;
const SOON: usize = 2;

/// The most that a drop may leave.
const BAR: f64 = 0.1;

/// What is dropped.
#[derive(Debug, Clone, Copy)]
struct Case {
    partitions: u64,
    arrangement: Arrangement,
    percent: u64,
}

impl Case {
    fn name(&self) -> String {
        let arrangement = self.arrangement.name();
        format!("{} % of {}, {arrangement}", self.percent, self.partitions)
    }
}

/// Numbers of partitions, and with each the shares of them that are dropped, in percent.
type Drops = &'static [(u64, &'static [u64])];

/// How much is measured.
struct Scale {
    size: Size,
    /// The first number is the paper's.
    drops: Drops,
    /// How long after the last drop the third and the fourth look come.
    waits: [Duration; 2],
    /// A store whose tables have not changed for so long is not waited for any longer.
    quiet: Duration,
}

impl Scale {
    fn new(quick: bool) -> Scale {
        let (keys, drops, millis): (u64, Drops, [u64; 3]) = match quick {
            true => (1_000, &[(10, &[50])], [1, 2, 1]),
            false => (
                64_000,
                &[(10, &[10, 30, 50]), (1000, &[50])],
                [1_000, 10_000, 2_000],
            ),
        };
        let [soon, late, quiet] = millis.map(Duration::from_millis);
        Scale {
            size: Size {
                pm: 16 << 20,
                dram: 16 << 20,
                keys,
                value_bytes: 1024,
            },
            drops,
            waits: [soon, late],
            quiet,
        }
    }

    fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for (partitions, shares) in self.drops {
            for arrangement in Arrangement::BOTH {
                cases.extend(shares.iter().map(|percent| Case {
                    partitions: *partitions,
                    arrangement,
                    percent: *percent,
                }));
            }
        }
        cases
    }
}

/// What there is at a moment, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Look {
    /// Of tables and blob files.
    ssd: u64,
    /// Of all files in the folder, as they take room.
    folder: u64,
    /// Of keys and values that live.
    live: u64,
}

impl Look {
    fn at(store: &Store) -> Result<Look> {
        Ok(Look {
            ssd: store.ssd_bytes(),
            folder: store.folder_bytes()?,
            live: store.live_bytes(),
        })
    }

    /// Less than none if keys take less room in tables than by themselves.
    fn amplification(&self) -> f64 {
        (self.ssd as f64 - self.live as f64) / self.live.max(1) as f64
    }
}

type Looks = [Look; LOOKS.len()];

/// Drops, and looks.
fn looks(setting: &Setting, scale: &Scale, contender: &Contender, case: Case) -> Result<Looks> {
    let store = Store::loaded(setting, contender, case.partitions, scale.size)?;
    let course = Course::new(case.partitions, case.arrangement, case.percent);
    let before = Look::at(&store)?;
    store.drop_partitions(course.gone(case.percent))?;
    let dropped = now();
    let right_after = Look::at(&store)?;
    let [soon, late] = scale.waits;
    thread::sleep(soon);
    let after_soon = Look::at(&store)?;
    wait(&store, dropped + late, scale.quiet);
    let after_late = Look::at(&store)?;
    store.db.drain()?;
    let at_rest = Look::at(&store)?;
    store.compact()?;
    let compacted = Look::at(&store)?;
    store.close()?;
    Ok([
        before,
        right_after,
        after_soon,
        after_late,
        at_rest,
        compacted,
    ])
}

/// Waits until then, or until tables have had as many bytes for so long.
fn wait(store: &Store, until: Instant, quiet: Duration) {
    let (mut bytes, mut since) = (store.ssd_bytes(), now());
    while now() < until && now() - since < quiet {
        thread::sleep(quiet / 20);
        let is = store.ssd_bytes();
        if is != bytes {
            (bytes, since) = (is, now());
        }
    }
}

/// What was found in a case, by [`ALL`].
type Found = (Case, Vec<Looks>);

/// The experiment.
#[derive(Debug)]
pub(crate) struct Space;

impl Measure for Space {
    fn measure(&self, setting: &Setting, tell: Tell<'_>) -> Result<Outcome> {
        let scale = Scale::new(setting.quick);
        let mut found: Vec<Found> = Vec::new();
        for case in scale.cases() {
            let mut of_case = Vec::new();
            for contender in ALL {
                tell(&format!("{}, {}", case.name(), contender.name()));
                of_case.push(looks(setting, &scale, contender, case)?);
            }
            found.push((case, of_case));
        }
        Ok(outcome(&scale, &found))
    }
}

fn outcome(scale: &Scale, found: &[Found]) -> Outcome {
    let size = scale.size;
    let [soon, late] = scale.waits.map(|wait| wait.as_secs_f64());
    let amplification = |look: &Look| format!("{:.2}", look.amplification());
    let bytes = |look: &Look| format!("{:.1} / {:.1}", mib(look.ssd), mib(look.folder));
    Outcome {
        scale: format!(
            "{} keys with values of {} bytes, dram of {} MiB, of which the cache may have half; all in tables when partitions are \
             dropped, each share from a new store. Looks {soon} s and {late} s after the last drop, the latter earlier where tables \
             have not changed for {} s; at rest no work is due (the paper: 10 partitions in a cluster of Ceph). Bytes are those of \
             tables and blob files; files of the folder have manifest and logs, too. That stores without partitions keep what was \
             deleted, as the paper's does, need not show: range deletes and many point deletes recover by themselves here \
             (decisions 152 and 162). Column families are loaded one after the other, all else at random",
            size.keys,
            size.value_bytes,
            size.dram >> 20,
            scale.quiet.as_secs_f64()
        ),
        tables: vec![
            table(
                "Space amplification: bytes on the SSD beyond those that live, by these",
                found,
                amplification,
            ),
            table(
                "MiB of tables and blob files / MiB of all files in the folder",
                found,
                bytes,
            ),
        ],
        charts: vec![
            chart(
                "Space amplification right after the drop",
                found,
                RIGHT_AFTER,
            ),
            chart("Space amplification a second later", found, SOON),
        ],
        checks: checks(found),
    }
}

fn table(title: &str, found: &[Found], cell: impl Fn(&Look) -> String) -> Table {
    let mut rows = Vec::new();
    for (case, of_case) in found {
        for (contender, looks) in ALL.iter().zip(of_case) {
            let name = format!("{}, {}", case.name(), contender.name());
            rows.push([name].into_iter().chain(looks.iter().map(&cell)).collect());
        }
    }
    Table {
        title: title.into(),
        columns: [strings(["dropped, system"]), strings(LOOKS)].concat(),
        rows,
    }
}

fn chart(title: &str, found: &[Found], look: usize) -> Chart {
    let series = ALL.iter().enumerate().map(|(n, contender)| {
        let values = found
            .iter()
            .map(|(_, of_case)| of_case[n][look].amplification());
        Series::new(
            contender.name(),
            values.map(|value| value.max(0.0)).collect(),
        )
    });
    Chart {
        title: title.into(),
        x: "what is dropped".into(),
        y: "dead bytes by live ones".into(),
        groups: found.iter().map(|(case, _)| case.name()).collect(),
        series: series.collect(),
    }
}

/// Of trident, for each number of partitions, the worst of all cases.
fn checks(found: &[Found]) -> Vec<Check> {
    let mut numbers: Vec<u64> = found.iter().map(|(case, _)| case.partitions).collect();
    numbers.dedup();
    let worst = |partitions: u64, look: usize| {
        let cases = found
            .iter()
            .filter(|(case, _)| case.partitions == partitions);
        let looks = cases.flat_map(|(_, of_case)| ALL.iter().zip(of_case));
        let ours = looks.filter(|(contender, _)| contender.is_trident());
        let all = ours.map(|(_, looks)| looks[look].amplification());
        all.fold(f64::NEG_INFINITY, f64::max)
    };
    let check = |partitions: u64, (look, when): (usize, &str)| {
        Check::at_most(
            &format!(
                "space amplification of trident {when}, {partitions} partitions, the most of all shares"
            ),
            "none from dropped partitions (figure 22, 10 partitions)",
            worst(partitions, look),
            BAR,
        )
    };
    let moments = [
        (RIGHT_AFTER, "right after a drop"),
        (SOON, "a second later"),
    ];
    let checks = numbers
        .into_iter()
        .flat_map(|partitions| moments.map(|moment| check(partitions, moment)));
    checks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_complete_and_nothing_is_left_when_all_was_compacted() {
        let folder = crate::setting::folder();
        let setting = Setting::quick(folder.path());
        let scale = Scale::new(true);
        let outcome = Space.measure(&setting, &mut |_| ()).unwrap();
        for table in &outcome.tables {
            assert_eq!(table.rows.len(), scale.cases().len() * ALL.len());
        }
        for contender in ALL {
            for case in scale.cases() {
                let looks = looks(&setting, &scale, contender, case).unwrap();
                let [before, right_after, .., compacted] = looks;
                assert_eq!(right_after.live, before.live / 100 * (100 - case.percent));
                assert!(before.amplification() < 0.2, "{looks:?}");
                let name = contender.name();
                assert!(compacted.amplification() < 0.2, "{name}: {looks:?}");
            }
        }
    }

    #[test]
    fn what_trident_leaves_is_told() {
        let of = |ssd: u64| {
            let look = Look {
                ssd,
                folder: ssd,
                live: 1000,
            };
            [look; LOOKS.len()]
        };
        let case = |partitions| Case {
            partitions,
            arrangement: Arrangement::Scattered,
            percent: 50,
        };
        let with = |bytes: u64| -> Vec<Looks> {
            let is = ALL.iter().map(|contender| contender.is_trident());
            is.map(|is| of(if is { bytes } else { 2000 })).collect()
        };
        let found = [(case(10), with(1050)), (case(1000), with(1200))];
        let checks = checks(&found);
        let holds: Vec<bool> = checks.iter().map(|check| check.holds).collect();
        assert_eq!(holds, [true, true, false, false]);
    }
}
