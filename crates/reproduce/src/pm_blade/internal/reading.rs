//! Figure 7(b): how long reads take while level 0 is merged, in persistent memory and on the SSD, and without.
//!
//! One thread reads, of keys that are all there; another merges. Before and after that as many reads are made while nothing
//! is merged: before is the paper's noComp.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use thermocline::{Db, Error, Result};
use thermocline_bench::Distribution;
use thermocline_bench::clock::now;
use thermocline_bench::distribution::Draw;
use thermocline_bench::keys::{KeyMaker, Permutation};

use super::filling::{BY_HAND, Filling, Side, check};
use crate::beside::Over;
use crate::experiment::Measure;
use crate::outcome::strings;
use crate::outcome::{Chart, Check, Outcome, Series, Table};
use crate::setting::{Setting, Tell};
use crate::trial::{KEY_BYTES, SEED, Trial};

/// Reads of one phase, in nanoseconds, ascending.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Latencies(Vec<u64>);

impl Latencies {
    fn of(mut nanos: Vec<u64>) -> Latencies {
        nanos.sort_unstable();
        Latencies(nanos)
    }

    pub(super) fn mean_us(&self) -> f64 {
        self.0.iter().sum::<u64>() as f64 / 1e3 / self.0.len().max(1) as f64
    }

    /// 999 of 1000 took no longer: the shortest time of which that is true.
    fn p999_us(&self) -> f64 {
        let at = (self.0.len() * 999).div_ceil(1000).saturating_sub(1);
        self.0.get(at).map_or(0.0, |nanos| *nanos as f64 / 1e3)
    }
}

/// Reads before, during and after a compaction.
#[derive(Debug, Clone)]
struct Phases([Latencies; 3]);

impl Phases {
    fn before(&self) -> &Latencies {
        &self.0[0]
    }

    fn during(&self) -> &Latencies {
        &self.0[1]
    }
}

/// Reads keys that are there, drawn from all of them.
pub(super) struct Reader {
    draw: Draw,
    keys: KeyMaker,
}

impl Reader {
    pub(super) fn new(keys: u64) -> Reader {
        Reader {
            draw: Draw::new(Distribution::Uniform, keys, SEED, 1, 0),
            keys: KeyMaker::new(KEY_BYTES),
        }
    }

    /// Reads until it was told `enough`, at least once.
    pub(super) fn read(
        &mut self,
        db: &Db,
        mut enough: impl FnMut(usize) -> bool,
    ) -> Result<Latencies> {
        let mut nanos = Vec::new();
        let mut begun = now();
        loop {
            let key = self.keys.key(self.draw.index(0));
            if db.get(key)?.is_none() {
                return Err(Error::InvalidArgument(
                    "a key that was written is not there".to_string(),
                ));
            }
            let ended = now();
            nanos.push(u64::try_from((ended - begun).as_nanos()).unwrap_or(u64::MAX));
            begun = ended;
            if enough(nanos.len()) {
                return Ok(Latencies::of(nanos));
            }
        }
    }
}

/// The experiment.
#[derive(Debug)]
pub(crate) struct Reading;

impl Measure for Reading {
    fn measure(&self, setting: &Setting, tell: Tell<'_>) -> Result<Outcome> {
        let (filling, reads) = scale(setting.quick);
        let mut found = Vec::new();
        for side in Side::BOTH {
            tell(side.name());
            found.push(Reading::all_phases(setting, &filling, side, reads)?);
        }
        let [pm, ssd] = &found[..] else {
            unreachable!("there are two sides");
        };
        Ok(outcome(&filling, reads, pm, ssd))
    }
}

fn scale(quick: bool) -> (Filling, usize) {
    let (mib, runs, reads) = match quick {
        true => (8, 12, 200),
        false => (512, 16, 50_000),
    };
    let filling = Filling {
        mib,
        runs,
        value_bytes: 1024,
    };
    (filling, reads)
}

impl Reading {
    fn all_phases(
        setting: &Setting,
        filling: &Filling,
        side: Side,
        reads: usize,
    ) -> Result<Phases> {
        let keys = filling.entries();
        let trial = Trial::new(setting, side.system(), &BY_HAND, filling.size(keys))?;
        let order = Permutation::new(keys, SEED);
        let db = filling.fill(&trial, setting, side, |entry| order.at(entry))?;
        let mut reader = Reader::new(keys);
        // So that caches have what they will have.
        reader.read(&db, |done| done >= reads / 2)?;
        let before = reader.read(&db, |done| done >= reads)?;
        let during = read_beside(&mut reader, &db, side)?;
        check(&db, side, u64::from(side == Side::Pm))?;
        let after = reader.read(&db, |done| done >= reads)?;
        db.close()?;
        Ok(Phases([before, during, after]))
    }
}

/// Reads for as long as a compaction takes.
fn read_beside(reader: &mut Reader, db: &Db, side: Side) -> Result<Latencies> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let compacting = scope.spawn(|| {
            let _over = Over(&done);
            side.compact(db)
        });
        // Relaxed: it guards nothing.
        let latencies = reader.read(db, |_| done.load(Ordering::Relaxed));
        match compacting.join() {
            Ok(compacted) => compacted?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        latencies
    })
}

fn outcome(filling: &Filling, reads: usize, pm: &Phases, ssd: &Phases) -> Outcome {
    let phases = ["before", "during", "after"];
    let row = |name: &str, phases: &Phases| {
        let cells = phases.0.iter();
        let cells = cells.flat_map(|one| [one.mean_us(), one.p999_us()]);
        let cells = cells.map(|us| format!("{us:.1}"));
        let reads = [phases.during().0.len().to_string()];
        let row = [name.to_string()].into_iter().chain(cells).chain(reads);
        row.collect()
    };
    let chart = |title: &str, of: fn(&Latencies) -> f64| Chart {
        title: title.into(),
        x: "the compaction".into(),
        y: "microseconds".into(),
        groups: strings(phases),
        series: [(Side::Pm, pm), (Side::Ssd, ssd)]
            .map(|(side, phases)| Series::new(side.name(), phases.0.iter().map(of).collect()))
            .into(),
    };
    Outcome {
        scale: format!(
            "{} MiB of keys that are written once, values of {} bytes, in {} runs that lie over each other; one thread \
             merges, another one reads; {reads} reads before and after (the paper: 1 GB)",
            filling.mib, filling.value_bytes, filling.runs
        ),
        tables: vec![Table {
            title: "Latency of reads, in microseconds".into(),
            columns: strings([
                "level 0",
                "before, mean",
                "p99.9",
                "during, mean",
                "p99.9",
                "after, mean",
                "p99.9",
                "reads during",
            ]),
            rows: vec![row(Side::Pm.name(), pm), row(Side::Ssd.name(), ssd)],
        }],
        charts: vec![
            chart(
                "Mean latency of reads beside a compaction",
                Latencies::mean_us,
            ),
            chart("Their 99.9th percentile", Latencies::p999_us),
        ],
        checks: checks(pm, ssd),
    }
}

fn checks(pm: &Phases, ssd: &Phases) -> Vec<Check> {
    let ratio = |of: fn(&Latencies) -> f64, one: &Latencies, other: &Latencies| {
        of(one) / of(other).max(f64::MIN_POSITIVE)
    };
    let (mean, p999) = (Latencies::mean_us, Latencies::p999_us);
    vec![
        Check::at_most(
            "mean latency during an internal compaction against before",
            "1.7 times",
            ratio(mean, pm.during(), pm.before()),
            1.7,
        ),
        Check::at_most(
            "99.9th percentile during an internal compaction against before",
            "5.3 times",
            ratio(p999, pm.during(), pm.before()),
            5.3,
        ),
        Check::at_most(
            "mean latency during an internal compaction against one on the SSD",
            "0.23 times",
            ratio(mean, pm.during(), ssd.during()),
            0.5,
        ),
        Check::at_most(
            "99.9th percentile during an internal compaction against one on the SSD",
            "0.21 times",
            ratio(p999, pm.during(), ssd.during()),
            0.5,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_made_before_beside_and_after() {
        let folder = crate::setting::folder();
        let setting = Setting::quick(folder.path());
        let (filling, reads) = scale(setting.quick);
        for side in Side::BOTH {
            let Phases([before, during, after]) =
                Reading::all_phases(&setting, &filling, side, reads).unwrap();
            assert_eq!((before.0.len(), after.0.len()), (reads, reads));
            assert!(!during.0.is_empty() && during.mean_us() > 0.0);
        }
    }

    #[test]
    fn slow_reads_are_told() {
        let phases = |nanos: [u64; 3]| Phases(nanos.map(|nanos| Latencies::of(vec![nanos; 1000])));
        let ssd = phases([40_000, 90_000, 20_000]);
        let holds = |pm: [u64; 3]| checks(&phases(pm), &ssd).iter().all(|check| check.holds);
        assert!(holds([8_000, 13_000, 2_000]));
        assert!(!holds([8_000, 50_000, 2_000]));
        // One slow read of a thousand is above the percentile, and the second one is not.
        let mut spread = vec![1000; 1000];
        spread[7] = 1_000_000;
        let one = Latencies::of(spread.clone());
        assert!(one.mean_us() < 2.1 && one.p999_us() == 1.0);
        spread[700] = 900_000;
        assert_eq!(Latencies::of(spread).p999_us(), 900.0);
        let few = Latencies::of(vec![1000, 3000, 2000]);
        assert_eq!(few.p999_us(), 3.0);
        assert_eq!(Latencies::of(Vec::new()).p999_us(), 0.0);
    }
}
