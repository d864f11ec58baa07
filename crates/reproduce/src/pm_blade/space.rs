//! How much persistent memory holds of data that lives, before anything of it must go to the SSD. The paper has no such
//! figure: it is a claim of ours about its PM tables and its internal compaction (§IV), against a level 0 that keeps
//! records where they were written, under one index.
//!
//! Updates of keys of which few are written often come until the first table lies on the SSD. What lives then is every
//! key that was written, once. It is a matter of room and not of speed: background work that is due is waited for after
//! each 256th part of persistent memory that was written.

use thermocline::{Db, Result};
use thermocline_bench::distribution::{Draw, THETA_DEFAULT};

use super::systems::{GLOBAL_INDEX, TIERED};
use crate::experiment::Measure;
use crate::outcome::strings;
use crate::outcome::{Chart, Check, Outcome, Series, Table};
use crate::setting::{Setting, Tell};
use crate::trial::{KEY_BYTES, SEED, Size, System, Trial, Writer, skewed};

/// Bytes of values.
const VALUES: [usize; 2] = [100, 1024];

/// Background work is waited for so often while as much as persistent memory is written.
const STEPS: u64 = 256;

/// Nobody writes more than so many times as much as persistent memory.
const TIMES_MAX: u64 = 64;

/// What `tiered` is to hold against `global-index`.
const BAR: f64 = 2.5;

/// Until the first table lay on the SSD, in bytes of keys and values.
#[derive(Debug, Clone, Copy)]
struct Held {
    live: u64,
    written: u64,
    /// Whether there was one at all.
    ended: bool,
}

fn size(quick: bool, value_bytes: usize) -> Size {
    let pm: u64 = if quick { 4 << 20 } else { 1 << 30 };
    Size {
        pm,
        dram: pm.max(32 << 20),
        keys: pm / (KEY_BYTES + value_bytes) as u64,
        value_bytes,
    }
}

/// The experiment.
#[derive(Debug)]
pub(crate) struct Space;

impl Measure for Space {
    fn measure(&self, setting: &Setting, tell: Tell<'_>) -> Result<Outcome> {
        let mut found = Vec::new();
        for value_bytes in VALUES {
            let mut of_size = Vec::new();
            for system in [&TIERED, &GLOBAL_INDEX] {
                tell(&format!("{}, values of {value_bytes} bytes", system.name));
                of_size.push(Space::hold(
                    setting,
                    system,
                    size(setting.quick, value_bytes),
                )?);
            }
            found.push([of_size[0], of_size[1]]);
        }
        Ok(outcome(setting.quick, &found))
    }
}

impl Space {
    /// Writes until there is a table on the SSD.
    fn hold(setting: &Setting, system: &System, size: Size) -> Result<Held> {
        let trial = Trial::new(setting, system, &[], size)?;
        let db = trial.open(setting)?;
        let mut draw = Draw::new(skewed(THETA_DEFAULT), size.keys, SEED, 0, 0);
        let mut writer = Writer::new(&size);
        let entry = (KEY_BYTES + size.value_bytes) as u64;
        let step = (size.pm / entry / STEPS).max(1);
        let mut seen = vec![false; usize::try_from(size.keys).expect("they fit memory")];
        let (mut live, mut written, mut held) = (0, 0, None);
        while held.is_none() && written * entry < TIMES_MAX * size.pm {
            let before = (live, written);
            for _ in 0..step {
                let index = draw.index(0);
                writer.put(&db, index)?;
                let seen = &mut seen[usize::try_from(index).expect("a key is in memory")];
                live += u64::from(!*seen);
                *seen = true;
            }
            written += step;
            setting.goes_on()?;
            db.drain()?;
            // What was there before lay in persistent memory.
            held = lies_on_ssd(&db).then_some(before);
        }
        db.close()?;
        let ended = held.is_some();
        let (live, written) = held.unwrap_or((live, written));
        Ok(Held {
            live: live * entry,
            written: written * entry,
            ended,
        })
    }
}

fn lies_on_ssd(db: &Db) -> bool {
    let tables = db.map().into_iter().flat_map(|family| family.tables);
    tables.into_iter().any(|table| !table.in_pm)
}

fn outcome(quick: bool, found: &[[Held; 2]]) -> Outcome {
    let sizes = VALUES.map(|value_bytes| size(quick, value_bytes));
    let of_pm = |bytes: u64| bytes as f64 / sizes[0].pm as f64;
    let ratio = |[tiered, global]: &[Held; 2]| match global.ended {
        true => tiered.live as f64 / global.live.max(1) as f64,
        // It holds more than was written, and nobody knows how much.
        false => 0.0,
    };
    let mut rows = Vec::new();
    for (size, held) in sizes.iter().zip(found) {
        for (system, held) in [&TIERED, &GLOBAL_INDEX].into_iter().zip(held) {
            rows.push(vec![
                format!("{}, {} bytes", system.name, size.value_bytes),
                format!("{:.1}", held.live as f64 / f64::from(1 << 20)),
                format!("{:.0} %", of_pm(held.live) * 100.0),
                format!("{:.1}", held.written as f64 / f64::from(1 << 20)),
                if held.ended { "yes" } else { "no" }.to_string(),
            ]);
        }
    }
    let check = |(size, held): (&Size, &[Held; 2])| {
        Check::at_least(
            &format!(
                "live bytes that persistent memory holds with tiered against global-index, values of {} bytes",
                size.value_bytes
            ),
            "none: the claim is ours, 2.5 times",
            ratio(held),
            BAR,
        )
    };
    Outcome {
        scale: format!(
            "pm of {} MiB, dram of {} MiB, both with their options by default; updates of {} keys with values of 100 bytes, \
             or {} with 1 KiB, zipfian 0.99: as much data as persistent memory has bytes (our own claim, the paper has \
             no such figure)",
            sizes[0].pm >> 20,
            sizes[0].dram >> 20,
            sizes[0].keys,
            sizes[1].keys
        ),
        tables: vec![Table {
            title: "Keys and values that live, before the first table lies on the SSD".into(),
            columns: strings([
                "level 0, values",
                "live MiB",
                "of pm",
                "written MiB",
                "a table on the SSD after that",
            ]),
            rows,
        }],
        charts: vec![Chart {
            title: "What lives in persistent memory before anything lies on the SSD".into(),
            x: "bytes of values".into(),
            y: "share of pm".into(),
            groups: VALUES.map(|bytes| bytes.to_string()).into(),
            series: [&TIERED, &GLOBAL_INDEX]
                .iter()
                .enumerate()
                .map(|(n, system)| {
                    let live = found.iter().map(|held| of_pm(held[n].live));
                    Series::new(system.name, live.collect())
                })
                .collect(),
        }],
        checks: sizes.iter().zip(found).map(check).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn persistent_memory_fills_before_the_ssd_is_written() {
        let folder = crate::setting::folder();
        let setting = Setting::quick(folder.path());
        let size = size(setting.quick, VALUES[1]);
        for system in [&TIERED, &GLOBAL_INDEX] {
            let held = Space::hold(&setting, system, size).unwrap();
            assert!(held.ended && held.live <= held.written, "{held:?}");
            // Some of it at least, and not more than there is.
            let share = held.live as f64 / size.pm as f64;
            assert!((0.02..1.0).contains(&share), "{}: {held:?}", system.name);
        }
    }

    #[test]
    fn too_little_is_told() {
        let held = |live| Held {
            live,
            written: 1000,
            ended: true,
        };
        let setting = Setting::quick(std::path::Path::new("."));
        let found = [[held(250), held(100)], [held(249), held(100)]];
        let checks = outcome(setting.quick, &found).checks;
        assert!(checks[0].holds && !checks[1].holds);
        // Of a level 0 that never came to its end it is not known what it would have held.
        let open = Held {
            ended: false,
            ..held(100)
        };
        let found = [[held(250), open], [open, held(40)]];
        let checks = outcome(setting.quick, &found).checks;
        assert!(!checks[0].holds && checks[1].holds);
    }
}
