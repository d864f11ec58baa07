//! What deleting a part of the keys does to reads, and to the room that data takes (§4.5, figures 21 and 22): key by key in a
//! store without partitions, as one range, and as partitions.
//!
//! Keys are divided into ten parts. A run reads for some windows, deletes one part or several, and reads on. Scans begin at any key,
//! those in deleted parts included: so they have to come through what is left there. Gets ask for keys that stay. Nobody waits
//! for background work.

use std::time::Duration;

use thermocline::{Db, Result};
use thermocline_base::options::Preset;
use thermocline_bench::clock::now;
use thermocline_bench::distribution::Draw;
use thermocline_bench::keys::KeyMaker;

use crate::experiment::Measure;
use crate::outcome::{Chart, Check, Outcome, Series, Table, median};
use crate::setting::{Setting, Tell};
use crate::trial::{KEY_BYTES, SEED, Size, System, Trial, skewed};

/// Parts into which keys are divided.
const PARTS: u64 = 10;

/// Parts that are deleted.
const DROPPED: [u64; 3] = [1, 3, 5];

/// Entries of a scan.
const ENTRIES: usize = 10;

/// Windows before the delete and behind it.
const WINDOWS: [usize; 2] = [3, 12];

/// Reads behind a delete are at least so fast, as a part of those before.
const READS_BAR: f64 = 0.8;

/// Room for each byte that stays is at most so much more behind a delete than before.
const ROOM_BAR: f64 = 1.15;

/// How parts are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Points,
    Range,
    Partitions,
}

impl Way {
    const ALL: [Way; 3] = [Way::Points, Way::Range, Way::Partitions];

    fn name(self) -> &'static str {
        match self {
            Way::Points => "no partitions, key by key",
            Way::Range => "no partitions, delete_range",
            Way::Partitions => "drop_partition",
        }
    }

    /// Keys of a part have all but their last bytes in common: two, or one in tests.
    fn system(self, quick: bool) -> System {
        let set: &'static [(&str, &str)] = match (self, quick) {
            (Way::Partitions, true) => &[("partition.by", "prefix"), ("partition.prefix_len", "7")],
            (Way::Partitions, false) => {
                &[("partition.by", "prefix"), ("partition.prefix_len", "6")]
            }
            _ => &[],
        };
        System {
            name: self.name(),
            preset: Preset::Thermocline,
            set,
        }
    }
}

fn part_keys(quick: bool) -> u64 {
    if quick { 1 << 8 } else { 1 << 16 }
}

fn size(quick: bool) -> Size {
    Size {
        pm: if quick { 4 << 20 } else { 64 << 20 },
        dram: if quick { 32 << 20 } else { 256 << 20 },
        keys: PARTS * part_keys(quick),
        value_bytes: 1024,
    }
}

/// What one window saw.
#[derive(Debug, Clone, Copy)]
struct Seen {
    scans: f64,
    gets: f64,
    /// Bytes of tables on the SSD.
    ssd: u64,
}

/// One run: windows before and behind the delete, and the milliseconds that the delete took.
#[derive(Debug, Clone)]
struct Run {
    way: Way,
    dropped: u64,
    before: Vec<Seen>,
    behind: Vec<Seen>,
    delete_ms: f64,
}

impl Run {
    fn of(setting: &Setting, way: Way, dropped: u64) -> Result<Run> {
        let size = size(setting.quick);
        let trial = Trial::loaded(setting, &way.system(setting.quick), &[], size)?;
        let db = trial.open(setting)?;
        let window = Duration::from_millis(if setting.quick { 2 } else { 500 });
        let mut readers = Readers::new(&size);
        let mut windows = |count: usize, from: u64| -> Result<Vec<Seen>> {
            (0..count)
                .map(|_| readers.window(&db, window, from))
                .collect()
        };
        let first = dropped * part_keys(setting.quick);
        let before = windows(WINDOWS[0], 0)?;
        let begun = now();
        delete(&db, way, dropped, setting.quick)?;
        let delete_ms = (now() - begun).as_secs_f64() * 1e3;
        let behind = windows(WINDOWS[1], first)?;
        db.close()?;
        Ok(Run {
            way,
            dropped,
            before,
            behind,
            delete_ms,
        })
    }

    /// What `of` says of the windows behind the delete, as a part of those before.
    fn ratio(&self, of: fn(&Seen) -> f64) -> f64 {
        let all = |seen: &[Seen]| median(&seen.iter().map(of).collect::<Vec<f64>>());
        all(&self.behind) / all(&self.before).max(1e-9)
    }

    /// Room for each byte that stays in the last window, against the room for each before.
    fn room(&self) -> f64 {
        let before = self.before[WINDOWS[0] - 1].ssd.max(1) as f64;
        let stays = before * (PARTS - self.dropped) as f64 / PARTS as f64;
        self.behind[WINDOWS[1] - 1].ssd as f64 / stays
    }
}

/// Deletes the first parts.
fn delete(db: &Db, way: Way, dropped: u64, quick: bool) -> Result<()> {
    let mut keys = KeyMaker::new(KEY_BYTES);
    let part = part_keys(quick);
    let end = dropped * part;
    match way {
        Way::Points => {
            for from in (0..end).step_by(256) {
                let mut batch = db.batch();
                for index in from..(from + 256).min(end) {
                    batch.delete(keys.key(index));
                }
                batch.commit(thermocline::Durability::Immediate)?;
            }
            Ok(())
        }
        Way::Range => {
            let (first, last) = (keys.key(0).to_vec(), keys.key(end).to_vec());
            db.delete_range(first..last)
        }
        Way::Partitions => {
            let len = if quick { 7 } else { 6 };
            for n in 0..dropped {
                db.drop_partition(&keys.key(n * part)[..len])?;
            }
            Ok(())
        }
    }
}

/// Who reads.
struct Readers {
    keys: KeyMaker,
    draw: Draw,
    count: u64,
}

impl Readers {
    fn new(size: &Size) -> Readers {
        Readers {
            keys: KeyMaker::new(KEY_BYTES),
            draw: Draw::new(skewed(0.0), size.keys, SEED, 0, 0),
            count: size.keys,
        }
    }

    /// Scans for half of the time, and gets keys from `from` on for the other half.
    fn window(&mut self, db: &Db, time: Duration, from: u64) -> Result<Seen> {
        let scans = rate(time / 2, || {
            let key = self.keys.key(self.draw.index(0)).to_vec();
            let mut entries = db.range(key..).take(ENTRIES);
            entries.try_for_each(|entry| entry.map(drop))
        })?;
        let gets = rate(time / 2, || {
            let index = from + self.draw.index(0) * (self.count - from) / self.count;
            db.get(self.keys.key(index)).map(drop)
        })?;
        let tables = db.map().into_iter().flat_map(|family| family.tables);
        let on_ssd = tables.filter(|table| !table.in_pm).map(|table| table.bytes);
        Ok(Seen {
            scans,
            gets,
            ssd: on_ssd.sum(),
        })
    }
}

/// How often a second `read` was done for so long.
fn rate(time: Duration, mut read: impl FnMut() -> Result<()>) -> Result<f64> {
    let begun = now();
    let mut count = 0;
    while count == 0 || now() - begun < time {
        read()?;
        count += 1;
    }
    Ok(f64::from(count) / (now() - begun).as_secs_f64())
}

fn runs(setting: &Setting, tell: Tell<'_>) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for dropped in DROPPED {
        for way in Way::ALL {
            tell(&format!("{}, {dropped} of {PARTS} parts", way.name()));
            runs.push(Run::of(setting, way, dropped)?);
        }
    }
    Ok(runs)
}

fn scale(quick: bool) -> String {
    let size = size(quick);
    format!(
        "{} keys with values of 1 KiB in {PARTS} parts, pm of {} MiB; windows of half a second (the paper: Ceph with 10 placement groups, \
         windows of a minute)",
        size.keys,
        size.pm >> 20
    )
}

/// What each run saw in each window.
fn table(title: &str, runs: &[Run], cell: impl Fn(&Seen) -> f64) -> Table {
    let mut columns = vec!["deleted".to_string(), "delete ms".to_string()];
    let numbered = |first: isize, count: usize| (0..count).map(move |n| first + n.cast_signed());
    columns.extend(numbered(-WINDOWS[0].cast_signed(), WINDOWS[0]).map(|n| n.to_string()));
    columns.extend(numbered(1, WINDOWS[1]).map(|n| format!("+{n}")));
    let row = |run: &Run| {
        let head = [
            format!("{} %, {}", run.dropped * 100 / PARTS, run.way.name()),
            format!("{:.2}", run.delete_ms),
        ];
        let seen = run.before.iter().chain(&run.behind);
        let cells = seen.map(|seen| format!("{:.1}", cell(seen)));
        head.into_iter().chain(cells).collect()
    };
    Table {
        title: title.to_string(),
        columns,
        rows: runs.iter().map(row).collect(),
    }
}

fn chart(title: &str, y: &str, runs: &[Run], value: impl Fn(&Run) -> f64) -> Chart {
    let series = Way::ALL.iter().map(|way| {
        let own = runs.iter().filter(|run| run.way == *way);
        Series::new(way.name(), own.map(&value).collect())
    });
    Chart {
        title: title.to_string(),
        x: "deleted".to_string(),
        y: y.to_string(),
        groups: DROPPED.map(|n| format!("{} %", n * 100 / PARTS)).into(),
        series: series.collect(),
    }
}

/// Figure 21.
#[derive(Debug)]
pub(crate) struct Rates;

impl Measure for Rates {
    fn measure(&self, setting: &Setting, tell: Tell<'_>) -> Result<Outcome> {
        let runs = runs(setting, tell)?;
        let check = |run: &Run| {
            let reads = run
                .ratio(|seen| seen.scans)
                .min(run.ratio(|seen| seen.gets));
            Check::at_least(
                &format!(
                    "scans and gets behind a delete of {} % against before, the slower of both, {}",
                    run.dropped * 100 / PARTS,
                    run.way.name()
                ),
                "partitions: not slower; without partitions much slower",
                reads,
                READS_BAR,
            )
        };
        Ok(Outcome {
            scale: scale(setting.quick),
            tables: vec![
                table("Thousands of scans a second", &runs, |seen| {
                    seen.scans / 1e3
                }),
                table("Thousands of gets a second", &runs, |seen| seen.gets / 1e3),
            ],
            charts: vec![chart(
                "Scans behind a delete",
                "as a part of those before",
                &runs,
                |run| run.ratio(|seen| seen.scans),
            )],
            checks: runs.iter().map(check).collect(),
        })
    }
}

/// Figure 22.
#[derive(Debug)]
pub(crate) struct Space;

impl Measure for Space {
    fn measure(&self, setting: &Setting, tell: Tell<'_>) -> Result<Outcome> {
        let runs = runs(setting, tell)?;
        let check = |run: &Run| {
            Check::at_most(
                &format!(
                    "room on the SSD for each byte that stays, behind a delete of {} % against before, {}",
                    run.dropped * 100 / PARTS,
                    run.way.name()
                ),
                "partitions: as before; without partitions the more the more is deleted",
                run.room(),
                ROOM_BAR,
            )
        };
        Ok(Outcome {
            scale: scale(setting.quick),
            tables: vec![table("MiB of tables on the SSD", &runs, |seen| {
                seen.ssd as f64 / f64::from(1 << 20)
            })],
            charts: vec![chart(
                "Room for each byte that stays",
                "as a multiple of that before",
                &runs,
                Run::room,
            )],
            checks: runs.iter().map(check).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way deletes the same keys.
    #[test]
    fn what_is_left_is_the_same() {
        let folder = crate::setting::folder();
        let setting = Setting::quick(folder.path());
        for way in Way::ALL {
            let trial = Trial::loaded(&setting, &way.system(true), &[], size(true)).unwrap();
            let db = trial.open(&setting).unwrap();
            delete(&db, way, 3, true).unwrap();
            let left = db.iter().count() as u64;
            assert_eq!(left, 7 * part_keys(true), "{}", way.name());
            let first = db.iter().next().unwrap().unwrap().0;
            assert_eq!(*first, *KeyMaker::new(KEY_BYTES).key(3 * part_keys(true)));
        }
    }
}
