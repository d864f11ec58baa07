//! Figure 23: memory by the number of partitions.
//!
//! Each store has as many keys, is read until its cache has what it will have, and is then asked what it has of DRAM; beside
//! that stands what the operating system says of the process. All is one process, and allocators keep some of what was
//! freed: so one store comes before all that count, trident comes first, and its numbers ascend. What a later store is said to
//! have is too much rather than too little.

use std::path::Path;

use thermocline::{Error, Result};
use thermocline_bench::Distribution;
use thermocline_bench::distribution::Draw;
use thermocline_bench::keys::KeyMaker;
use thermocline_env::{Env, OpenMode};

use super::store::{Store, mib};
use super::systems::{Contender, FAMILIES, PLAIN, RANGES, TRIDENT};
use crate::experiment::Measure;
use crate::outcome::{Chart, Check, Outcome, Series, Table, strings};
use crate::setting::{Setting, Tell};
use crate::trial::{KEY_BYTES, SEED, Size};

/// In this order. Nothing is deleted, so that stores without partitions are the same however they delete.
const SERIES: [&Contender; 4] = [&TRIDENT, &PLAIN, &RANGES, &FAMILIES];

/// What trident may have with the most partitions, by what it has with one.
const BAR: f64 = 1.1;

/// How much is measured.
struct Scale {
    size: Size,
    /// Numbers of partitions.
    points: &'static [u64],
    gets: u64,
}

impl Scale {
    fn new(quick: bool) -> Scale {
        let (keys, points, gets): (u64, &'static [u64], u64) = match quick {
            true => (400, &[1, 4], 100),
            false => (60_000, &[1, 10, 100, 1_000, 10_000], 60_000),
        };
        Scale {
            size: Size {
                pm: 32 << 20,
                dram: 32 << 20,
                keys,
                value_bytes: 1024,
            },
            points,
            gets,
        }
    }
}

/// What a store takes, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    /// Of the whole process.
    resident: u64,
    /// As the store has it in its books: indexes, open tables, blocks and buffers, records.
    parts: [u64; 4],
}

impl Used {
    fn dram(&self) -> u64 {
        self.parts.iter().sum()
    }

    /// What the process has beyond what it had before all of this.
    fn grown(&self, base: u64) -> u64 {
        self.resident.saturating_sub(base)
    }
}

/// What a store takes with so many partitions; `None` if there is no room for them.
fn used(
    setting: &Setting,
    scale: &Scale,
    contender: &Contender,
    partitions: u64,
) -> Result<Option<Used>> {
    match measured(setting, scale, contender, partitions) {
        Err(error) if error.is_no_room() => Ok(None),
        used => used.map(Some),
    }
}

fn measured(
    setting: &Setting,
    scale: &Scale,
    contender: &Contender,
    partitions: u64,
) -> Result<Used> {
    let store = Store::loaded(setting, contender, partitions, scale.size)?;
    let layout = store.layout();
    let mut draw = Draw::new(Distribution::Uniform, layout.keys(), SEED, 1, 0);
    let mut keys = KeyMaker::new(KEY_BYTES);
    for _ in 0..scale.gets {
        if !store.get(&mut keys, layout.at(draw.index(0)))? {
            return Err(Error::InvalidArgument(
                "a key that was written is not there".to_string(),
            ));
        }
    }
    let metrics = store.db.metrics();
    let used = Used {
        resident: resident_bytes()?,
        parts: [
            metrics.dram_index_bytes,
            metrics.dram_tables_bytes,
            metrics.dram_blocks_bytes,
            metrics.dram_records_bytes,
        ],
    };
    store.close()?;
    Ok(used)
}

/// Resident memory of this process.
fn resident_bytes() -> Result<u64> {
    let path = Path::new("/proc/self/status");
    let file = Env::real().storage.open(path, OpenMode::Read)?;
    // More than the system ever writes there.
    let mut bytes = vec![0; 64 << 10];
    let mut len = 0;
    loop {
        match file.read_at(&mut bytes[len..], len as u64)? {
            0 => break,
            read => len += read,
        }
    }
    resident_of(&String::from_utf8_lossy(&bytes[..len])).ok_or_else(|| {
        Error::Unsupported("this system does not tell the memory of a process".to_string())
    })
}

/// Of what `/proc/PID/status` says.
fn resident_of(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

/// By [`SERIES`], then by [`Scale::points`].
type Found = Vec<Vec<Option<Used>>>;

/// The experiment.
#[derive(Debug)]
pub(crate) struct Memory;

impl Measure for Memory {
    fn measure(&self, setting: &Setting, tell: Tell<'_>) -> Result<Outcome> {
        let scale = Scale::new(setting.quick);
        let base = resident_bytes()?;
        // What allocators keep of it they keep for all that follow.
        used(setting, &scale, SERIES[0], scale.points[0])?;
        let mut found = Found::new();
        for contender in SERIES {
            let mut series = Vec::new();
            for partitions in scale.points {
                tell(&format!("{}, {partitions} partitions", name(contender)));
                series.push(used(setting, &scale, contender, *partitions)?);
            }
            found.push(series);
        }
        Ok(outcome(&scale, base, &found))
    }
}

/// Nothing is deleted here, so that a store without partitions needs no word on how.
fn name(contender: &Contender) -> &'static str {
    let name = contender.name();
    name.strip_suffix(", delete_range")
        .or(name.strip_suffix(", drop_partition"))
        .unwrap_or(name)
}

fn outcome(scale: &Scale, base: u64, found: &Found) -> Outcome {
    let size = scale.size;
    Outcome {
        scale: format!(
            "{} keys with values of {} bytes, dram of {} MiB, of which the cache may have half; {} gets at random; one process, which \
             had {:.1} MiB before (the paper: 10 partitions and more in a cluster of Ceph). Only trident has \
             partitions; leveled has the same keys, and nothing divides them. Column families are loaded one after the other, \
             all else at random",
            size.keys,
            size.value_bytes,
            size.dram >> 20,
            scale.gets,
            mib(base)
        ),
        tables: vec![table(scale, base, found)],
        charts: vec![
            chart("Memory of the process", scale, found, |used| {
                used.grown(base)
            }),
            chart("DRAM in the store's books", scale, found, Used::dram),
        ],
        checks: checks(base, &found[0]),
    }
}

fn table(scale: &Scale, base: u64, found: &Found) -> Table {
    let mut rows = Vec::new();
    for (contender, series) in SERIES.iter().zip(found) {
        for (partitions, used) in scale.points.iter().zip(series) {
            let mut row = vec![format!("{}, {partitions}", name(contender))];
            match used {
                None => row.extend([(); 7].map(|()| "no room".to_string())),
                Some(used) => {
                    let process = [used.resident, used.grown(base), used.dram()];
                    let all = process.into_iter().chain(used.parts);
                    row.extend(all.map(|bytes| format!("{:.1}", mib(bytes))));
                }
            }
            rows.push(row);
        }
    }
    Table {
        title: "MiB of the process, since the beginning, and in the store's books".into(),
        columns: strings([
            "system, partitions",
            "resident",
            "grown",
            "DRAM in all",
            "indexes",
            "open tables",
            "blocks and buffers",
            "records",
        ]),
        rows,
    }
}

fn chart(title: &str, scale: &Scale, found: &Found, of: impl Fn(&Used) -> u64) -> Chart {
    let series = SERIES.iter().zip(found).map(|(contender, series)| {
        let used = series.iter().map(|used| used.as_ref().map_or(0, &of));
        Series::new(name(contender), used.map(mib).collect())
    });
    Chart {
        title: title.into(),
        x: "partitions".into(),
        y: "MiB; none where there was no room".into(),
        groups: scale.points.iter().map(u64::to_string).collect(),
        series: series.collect(),
    }
}

/// Of trident, with the most partitions against one.
fn checks(base: u64, trident: &[Option<Used>]) -> Vec<Check> {
    let ends = match trident {
        [Some(one), .., Some(most)] => Some((one, most)),
        _ => None,
    };
    // With no room for the most it would be no figure.
    let ratio = |of: &dyn Fn(&Used) -> u64| {
        ends.map_or(f64::INFINITY, |(one, most)| {
            of(most) as f64 / of(one).max(1) as f64
        })
    };
    let check = |what: &str, ours: f64| {
        Check::at_most(
            &format!("{what} of trident with the most partitions against one"),
            "grows to about 6 % of all memory, and then no more",
            ours,
            BAR,
        )
    };
    vec![
        check(
            "memory of the process",
            ratio(&|used: &Used| used.grown(base)),
        ),
        check("DRAM in the books", ratio(&Used::dram)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_has_its_row() {
        let folder = crate::setting::folder();
        let setting = Setting::quick(folder.path());
        let scale = Scale::new(true);
        let outcome = Memory.measure(&setting, &mut |_| ()).unwrap();
        let rows = &outcome.tables[0].rows;
        assert_eq!(rows.len(), SERIES.len() * scale.points.len());
        assert!(!rows.concat().contains(&"no room".to_string()));
        let used = used(&setting, &scale, &TRIDENT, 4).unwrap().unwrap();
        assert!(used.resident > 1 << 20 && used.dram() > 0, "{used:?}");
    }

    #[test]
    fn what_the_system_says_is_read() {
        let status = "Name:\tx\nVmHWM:\t  99 kB\nVmRSS:\t   12 kB\nRssAnon:\t 3 kB\n";
        assert_eq!(resident_of(status), Some(12 << 10));
        assert_eq!(resident_of("Name:\tx\n"), None);
    }

    #[test]
    fn growth_and_a_lack_of_room_are_told() {
        let used = |resident, index| {
            Some(Used {
                resident,
                parts: [index, 0, 0, 0],
            })
        };
        let holds = |all: &[Option<Used>]| -> Vec<bool> {
            let checks = checks(1000, all);
            checks.iter().map(|check| check.holds).collect()
        };
        let more = used(9000, 1);
        assert_eq!(holds(&[used(2000, 100), more, used(2100, 109)]), [true; 2]);
        assert_eq!(holds(&[used(2000, 100), more, used(2101, 111)]), [false; 2]);
        assert_eq!(holds(&[used(2000, 100), None]), [false; 2]);
    }
}
