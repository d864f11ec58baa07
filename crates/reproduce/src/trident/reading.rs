//! One thread that reads in several ways, and how fast each of them was over time.
//!
//! The ways take turns, and each has its rate from the time that it took itself: so none is slower because another one is,
//! and of two cores one is left for whoever deletes.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thermocline_base::size::index;

use thermocline::{Error, Result};
use thermocline_bench::Distribution;
use thermocline_bench::clock::{Instant, now};
use thermocline_bench::distribution::Draw;
use thermocline_bench::keys::KeyMaker;

use super::layout::{At, Course};
use super::store::Store;
use crate::trial::{KEY_BYTES, SEED};

/// Entries of a scan.
pub(super) const SCAN: usize = 50;

/// Scans at an edge begin so many entries before it, at most.
const EDGE: u64 = 10;

/// A way to read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// A key that stays.
    Get,
    /// [`SCAN`] entries of a partition that stays.
    Scan,
    /// As many entries from right before a partition that goes: once it is gone, they lie before and behind it.
    Edge,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Get, Kind::Scan, Kind::Edge];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Get => "gets",
            Kind::Scan => "scans",
            Kind::Edge => "scans over the edge",
        }
    }
}

/// What is read in turn: gets are short.
const TURN: [Kind; 10] = [
    Kind::Get,
    Kind::Get,
    Kind::Get,
    Kind::Get,
    Kind::Scan,
    Kind::Get,
    Kind::Get,
    Kind::Get,
    Kind::Get,
    Kind::Edge,
];

/// Nanoseconds since a moment.
pub(super) fn nanos_since(begun: Instant) -> u64 {
    nanos(now() - begun)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What was done in one way in one interval.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    /// Operations; one that reaches over several intervals has a part in each.
    ops: f64,
    /// The time that they took.
    nanos: f64,
}

impl Tally {
    /// Operations for each second that they took, if there were any.
    fn rate(self) -> Option<f64> {
        (self.nanos > 0.0).then(|| self.ops * 1e9 / self.nanos)
    }
}

/// What was done in each interval, by [`Kind::ALL`].
#[derive(Debug)]
pub(super) struct Tallies {
    /// Nanoseconds of an interval.
    length: u64,
    all: Vec<[Tally; Kind::ALL.len()]>,
}

impl Tallies {
    pub fn new(length: Duration) -> Tallies {
        Tallies {
            length: nanos(length).max(1),
            all: Vec::new(),
        }
    }

    /// An operation that began and ended then, in nanoseconds.
    fn add(&mut self, kind: Kind, from: u64, to: u64) {
        let mut at = from;
        while at < to {
            let interval = at / self.length;
            let end = to.min((interval + 1) * self.length);
            let interval = index(interval);
            if self.all.len() <= interval {
                self.all.resize_with(interval + 1, Default::default);
            }
            let tally = &mut self.all[interval][kind as usize];
            tally.ops += (end - at) as f64 / (to - from) as f64;
            tally.nanos += (end - at) as f64;
            at = end;
        }
    }

    /// The intervals that lie between these times, in nanoseconds, with the one in which the first time lies.
    pub fn touched(&self, from: u64, to: u64) -> Range<usize> {
        let end = index(to / self.length).min(self.all.len());
        index(from / self.length).min(end)..end
    }

    /// Those that lie wholly between these times.
    pub fn between(&self, from: u64, to: u64) -> Range<usize> {
        let Range { start, end } = self.touched(from, to);
        let is_cut = !from.is_multiple_of(self.length);
        (start + usize::from(is_cut)).min(end)..end
    }

    /// Operations a second in all of these intervals together; 0 if there were none.
    pub fn rate(&self, kind: Kind, intervals: Range<usize>) -> f64 {
        let mut sum = Tally::default();
        for tallies in &self.all[intervals] {
            sum.ops += tallies[kind as usize].ops;
            sum.nanos += tallies[kind as usize].nanos;
        }
        sum.rate().unwrap_or(0.0)
    }

    /// In each of these intervals; 0 where nothing was read in this way, since another one took all of it.
    pub fn rates(&self, kind: Kind, intervals: Range<usize>) -> Vec<f64> {
        let tallies = self.all[intervals].iter();
        let rates = tallies.map(|tallies| tallies[kind as usize].rate());
        rates.map(Option::unwrap_or_default).collect()
    }

    /// In the slowest of those of these intervals in which anything was read in this way; 0 if there is none.
    pub fn lowest(&self, kind: Kind, intervals: Range<usize>) -> f64 {
        let tallies = self.all[intervals].iter();
        let rates = tallies.filter_map(|tallies| tallies[kind as usize].rate());
        rates.reduce(f64::min).unwrap_or(0.0)
    }
}

/// Who reads.
pub(super) struct Reader<'a> {
    store: &'a Store,
    course: &'a Course,
    draw: Draw,
    keys: KeyMaker,
}

impl<'a> Reader<'a> {
    pub fn new(store: &'a Store, course: &'a Course) -> Reader<'a> {
        let stay = course.stayers.len() as u64 * store.layout().entries;
        Reader {
            store,
            course,
            draw: Draw::new(Distribution::Uniform, stay, SEED, 1, 0),
            keys: KeyMaker::new(KEY_BYTES),
        }
    }

    /// Reads in turn until it is over, and counts by intervals since `begun`.
    pub fn run(
        mut self,
        begun: Instant,
        length: Duration,
        is_over: &AtomicBool,
    ) -> Result<Tallies> {
        let mut tallies = Tallies::new(length);
        let mut from = nanos_since(begun);
        // Relaxed: it guards nothing.
        while !is_over.load(Ordering::Relaxed) {
            for kind in TURN {
                self.read(kind)?;
                let to = nanos_since(begun);
                tallies.add(kind, from, to);
                from = to;
            }
        }
        Ok(tallies)
    }

    pub fn read(&mut self, kind: Kind) -> Result<()> {
        let drawn = self.draw.index(0);
        let entries = self.store.layout().entries;
        let (partition, entry) = (self.course.stayers[index(drawn / entries)], drawn % entries);
        let is_right = match kind {
            Kind::Get => self.store.get(&mut self.keys, At { partition, entry })?,
            Kind::Scan => {
                // So that it ends in its partition.
                let firsts = entries.saturating_sub(SCAN as u64).max(1);
                let entry = entry % firsts;
                self.scan(At { partition, entry })?
            }
            Kind::Edge => {
                let edges = &self.course.edges;
                let partition = edges[index(drawn % edges.len() as u64)];
                let entry = entries - 1 - entry % EDGE.min(entries);
                self.scan(At { partition, entry })?
            }
        };
        match is_right {
            true => Ok(()),
            false => Err(Error::InvalidArgument(format!(
                "{} do not find what stays",
                kind.name()
            ))),
        }
    }

    fn scan(&mut self, from: At) -> Result<bool> {
        Ok(self.store.scan(&mut self.keys, from, SCAN)? == SCAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_its_rate_in_each_interval() {
        let mut tallies = Tallies::new(Duration::from_nanos(100));
        // A get of 10 ns ten times, a scan over two and a half intervals, then a slower get.
        for n in 0..10 {
            tallies.add(Kind::Get, 10 * n, 10 * n + 10);
        }
        tallies.add(Kind::Scan, 100, 350);
        tallies.add(Kind::Get, 350, 390);
        let all = tallies.touched(0, 400);
        assert_eq!(all, 0..4);
        let near = |is: f64, what: f64| (is / what - 1.0).abs() < 1e-9;
        assert!(near(tallies.rate(Kind::Get, all.clone()), 11e9 / 140.0));
        assert!(near(tallies.lowest(Kind::Get, all.clone()), 1e9 / 40.0));
        assert!(near(tallies.lowest(Kind::Scan, all.clone()), 1e9 / 250.0));
        assert!(near(tallies.rate(Kind::Scan, 1..3), 1e9 / 250.0));
        let rates = tallies.rates(Kind::Get, all.clone());
        assert!(near(rates[0], 1e8) && rates[1] == 0.0 && rates[2] == 0.0);
        assert_eq!(tallies.lowest(Kind::Edge, all), 0.0);
    }

    #[test]
    fn intervals_are_those_between_two_times() {
        let mut tallies = Tallies::new(Duration::from_nanos(100));
        tallies.add(Kind::Get, 0, 1000);
        assert_eq!(tallies.touched(250, 650), 2..6);
        assert_eq!(tallies.between(250, 650), 3..6);
        assert_eq!(tallies.between(200, 600), 2..6);
        assert_eq!(tallies.between(210, 220), 2..2);
        assert_eq!(tallies.touched(5000, 9000), 10..10);
        assert_eq!(tallies.rate(Kind::Get, 10..10), 0.0);
    }
}
