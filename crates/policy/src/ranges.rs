//! What a flush does with each range of keys: whether it stays in persistent memory, leaves it with what lies there below, or
//! goes past it: under pressure a cold range may go straight to the base level, together with all that level 0 has of it.
//!
//! A range is *cold* if level 0 is full, and cost does not keep what it has there (equation 3). Where flushes *skip* level 0 every
//! range leaves.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use thermocline_base::CfId;
use thermocline_base::options::Shape;

use crate::cost::Form;
use crate::level0::{Because, Level0Plan, Memory};
use crate::rewrite::Contents;
use crate::tuning::{
    RANGE_MARKS, RANGE_STEP_MAX, RANGE_THREADS, RANGES_MAX, SINKING_BRINGS, SINKING_DRAM_EACH,
};

/// What a flush brings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coming<'a> {
    /// Each memtable, as a whole.
    pub memtables: &'a [Contents],
    /// Bytes of them that are in no table yet, about: all, unless the flush was begun before.
    pub left_bytes: u64,
    /// Level 0's share of persistent memory, in bytes.
    pub share: u64,
    /// What a flush takes at least where it need not be more: [`flush::usual_bytes`](crate::flush::usual_bytes).
    pub usual_bytes: u64,
    /// When.
    pub now_ns: u64,
    /// Records that were written until then, ever.
    pub written: u64,
    /// Whether scans have asked for it ([`crate::scans`]).
    pub for_scans: bool,
}

/// Where level 0 begins to be cold, or ends to be: a family, a key, and whether it is cold from there on. Ascending.
pub type Colds = Vec<(CfId, Vec<u8>, bool)>;

/// What a flush does not leave in persistent memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Leaving {
    /// It is everything.
    pub all: bool,
    /// And there is nothing to be taken along.
    pub alone: bool,
    /// Where level 0 changes between what is cold and what is not.
    pub colds: Colds,
    /// Why flushes skip level 0 from now on, or do not any more.
    pub because: Option<Because>,
}

impl Leaving {
    /// Everything.
    pub fn all(plan: &Level0Plan) -> Leaving {
        Leaving {
            all: true,
            alone: plan.bytes == 0,
            colds: Vec::new(),
            because: None,
        }
    }
}

impl Coming<'_> {
    /// What comes to level 0: what is superseded within a memtable goes nowhere, and what is in tables has come.
    fn live_bytes(&self) -> u64 {
        let live = |m: &Contents| {
            let bytes = u128::from(m.bytes) * u128::from(m.keys.min(m.records));
            let bytes = bytes / u128::from(m.records.max(1));
            u64::try_from(bytes).unwrap_or(m.bytes)
        };
        let live: u64 = self.memtables.iter().map(live).sum();
        let all: u64 = self.memtables.iter().map(|m| m.bytes).sum();
        let left = u128::from(live) * u128::from(self.left_bytes) / u128::from(all.max(1));
        u64::try_from(left).unwrap_or(live)
    }

    /// Which part of what is written into persistent memory now will be superseded before level 0's share is full: as
    /// many as in the memtables, reckoned up to that many bytes; or as many as were found in level 0, if that is more.
    fn updates(&self, plan: &Level0Plan) -> f64 {
        let share = self.share as f64;
        let (mut all, mut updates) = (0.0, 0.0);
        for memtable in self.memtables {
            let (records, bytes) = (memtable.records as f64, memtable.bytes.max(1) as f64);
            let own = records - (memtable.keys as f64).min(records);
            all += records;
            updates += (own * (share / bytes).max(1.0)).min(records);
        }
        let writes: u64 = plan.slices.iter().map(|slice| slice.writes).sum();
        let found: u64 = plan.slices.iter().map(|slice| slice.updates).sum();
        (updates / f64::max(all, 1.0)).max(found as f64 / writes.max(1) as f64)
    }
}

/// What a flush does not leave in persistent memory.
pub fn leaving(plan: &Level0Plan, coming: &Coming<'_>, memory: &mut Memory) -> Leaving {
    if plan.form != Form::Corrected || coming.for_scans {
        return Leaving::default();
    }
    let come = plan.bytes.saturating_add(coming.live_bytes());
    let full = plan.drains || come >= plan.full_bytes;
    let updates = coming.updates(plan);
    let before = memory.is_skipped();
    // While there is less on the SSD than here, to keep what comes is to have most of all.
    let much = plan.file_bytes >= coming.share;
    let at = (coming.now_ns, coming.written);
    let (skips, because) = memory.skips(plan, updates, at, full && much);
    // With the last one that skips comes more than there is to be room for.
    if skips || before && coming.left_bytes > coming.usual_bytes {
        return Leaving {
            because,
            ..Leaving::all(plan)
        };
    }
    Leaving {
        all: false,
        alone: false,
        colds: if full { colds(plan) } else { Vec::new() },
        because,
    }
}

/// Where level 0 of a family changes between what is cold and what is not.
#[derive(Debug, Default)]
struct OfFamily {
    changes: Colds,
    /// Bytes of it that are cold.
    cold_bytes: u64,
}

/// Where a full level 0 is cold.
fn colds(plan: &Level0Plan) -> Colds {
    let mut families = BTreeMap::<CfId, OfFamily>::new();
    for slice in &plan.slices {
        let of = families.entry(slice.family).or_default();
        // What is about to be merged for room stays so long.
        let cold = !slice.stays && !slice.makes_room;
        let before = of.changes.last();
        if before.is_none_or(|(.., before)| *before != cold) {
            of.changes.push((slice.family, slice.first.clone(), cold));
        }
        of.cold_bytes += if cold { slice.bytes } else { 0 };
    }
    let families = few(families.into_values().collect());
    let mut colds: Colds = families.into_iter().flat_map(|of| of.changes).collect();
    colds.sort_unstable_by(|(a, from_a, _), (b, from_b, _)| (a, from_a).cmp(&(b, from_b)));
    colds
}

/// The same with no more changes than [`RANGES_MAX`], as each is an edit. Families have an even part of them, and what others leave. Where
/// that would not be enough for a beginning and an end, those have them of which most is cold. What lies behind a family's last change
/// is as that one says, and a family without any is nowhere cold: so what is left out is not, either.
fn few(mut families: Vec<OfFamily>) -> Vec<OfFamily> {
    let all: usize = families.iter().map(|of| of.changes.len()).sum();
    if all <= RANGES_MAX {
        return families;
    }
    families.retain(|of| of.changes.iter().any(|(.., cold)| *cold));
    families.sort_by_key(|of| Reverse(of.cold_bytes));
    families.truncate(RANGES_MAX / 2);
    // Those first that may leave something.
    families.sort_by_key(|of| of.changes.len());
    let (mut left, mut others) = (RANGES_MAX, families.len());
    for of in &mut families {
        shorten(&mut of.changes, left / others);
        left -= of.changes.len();
        others -= 1;
    }
    families
}

/// The first changes of a family, two places or more of them. A beginning without its end would have all leave that lies behind, what
/// stays among it.
fn shorten(changes: &mut Colds, places: usize) {
    if changes.len() <= places {
        return;
    }
    let is_cold = |change: Option<&(CfId, Vec<u8>, bool)>| change.is_some_and(|(.., cold)| *cold);
    // Of two places neither is for what is not cold before anything is.
    if places == 2 && !is_cold(changes.first()) {
        changes.remove(0);
    }
    changes.truncate(places);
    if is_cold(changes.last()) {
        changes.pop();
    }
}

/// Whether a flush goes to the base level, where the shape has it so: not if it `rewrites` memtables that are mostly dead into
/// persistent memory.
pub fn sinks(shape: Shape, rewrites: bool) -> bool {
    shape.sinks() && !rewrites
}

/// Bytes that a flush into the base level which is due takes at least, of the oldest memtables, where that and level 0 have so much
/// `below` ([`base_and_above`](crate::pick::base_and_above)). It takes few, so that their room comes back soon, but so much that
/// what it may have to write anew is little beside it.
pub fn sinks_bytes(below: u64) -> u64 {
    below.saturating_mul(SINKING_BRINGS).max(1)
}

/// How many ranges may be merged into files at the same time by a store with so much DRAM: each holds blocks of what it reads and
/// pieces of what it writes.
pub fn sinking_fits(dram: u64) -> u64 {
    (dram / SINKING_DRAM_EACH).max(1)
}

/// Into how many ranges a flush of so many bytes is cut for its size, where a range has so many.
pub fn count(bytes: u64, range_bytes: u64) -> u64 {
    (bytes / range_bytes.max(1)).clamp(1, RANGES_MAX as u64)
}

/// Of so many keys each such one is looked at, to find where so many ranges end.
pub fn step(keys: u64, count: u64) -> u64 {
    (keys / (count * RANGE_MARKS)).clamp(1, RANGE_STEP_MAX)
}

/// Which of so many marks, by number, are the ends of so many ranges, but for the last one, ascending: so that each range has as
/// many marks as another one, or one more. Fewer marks are the ends of fewer ranges.
///
/// ```
/// use thermocline_policy::ranges::ends;
/// assert_eq!(ends(35, 4).collect::<Vec<_>>(), [8, 17, 26]);
/// assert_eq!(ends(3, 4).collect::<Vec<_>>(), [1, 2]);
/// ```
pub fn ends(marks: usize, count: u64) -> impl Iterator<Item = usize> {
    let ranges = usize::try_from(count).unwrap_or(1).min(marks);
    (1..ranges).map(move |n| n * marks / ranges)
}

/// How many of so many bytes are left of a flush that was begun before, about, where so many of all marks lie behind its front.
pub fn left(bytes: u64, marks: usize, behind: usize) -> u64 {
    // Behind the last mark there is something, too.
    let left = u128::from(bytes) * (behind as u128 + 1) / (marks as u128 + 1);
    u64::try_from(left).unwrap_or(bytes)
}

/// A range, when its turn has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Whether ranges are evacuated at all.
    pub evacuates: bool,
    /// Whether it is one of those that leave.
    pub leaves: bool,
    /// Its bytes in memtables, about.
    pub bytes: u64,
    /// Persistent memory that is promised.
    pub promised: Option<u64>,
    /// Whether room is made on a full disk.
    pub relieving: bool,
}

/// What becomes of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It stays in persistent memory, or goes into files if nothing is promised.
    Stays,
    /// It is merged with what lies below it in level 0, out of persistent memory.
    Leaves,
    /// Likewise, for lack of room: what lies below goes along whatever it costs.
    LacksRoom,
}

impl Range {
    fn lacks_room(&self) -> bool {
        self.promised.is_none_or(|promised| promised < self.bytes)
    }

    /// Whether room is promised anew before: the ranges before may have made some.
    pub fn asks_again(&self) -> bool {
        self.evacuates && !self.leaves && self.lacks_room()
    }

    /// What becomes of it.
    pub fn fate(&self) -> Fate {
        match self.evacuates && self.lacks_room() && !self.relieving {
            true => Fate::LacksRoom,
            false if self.leaves => Fate::Leaves,
            false => Fate::Stays,
        }
    }
}

/// How many ranges of so many bytes are written at once. `threads` is what the options say, 0 where they do not; and `cores`
/// are there, none of them in a store without threads.
pub fn group_most(threads: usize, cores: usize, promised: Option<u64>, bytes: u64) -> usize {
    let threads = match threads {
        0 => cores.clamp(1, RANGE_THREADS),
        threads => threads,
    };
    let fit = promised.map_or(1, |promised| promised / bytes.max(1));
    usize::try_from(fit).unwrap_or(usize::MAX).clamp(1, threads)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cost::{Thresholds, UnitCosts};
    use crate::level0::SlicePlan;

    /// The `n`th slice of a family.
    fn slice(family: u16, n: u8, cold: bool, bytes: u64) -> SlicePlan {
        SlicePlan {
            family: CfId(family),
            first: vec![n],
            tables: 1,
            runs: 1,
            bytes,
            reads: 0.0,
            records: 1,
            writes: 0,
            updates: 0,
            decisions: None,
            makes_room: false,
            holds_blobs: false,
            stays: !cold,
            place: usize::from(n),
            free: true,
        }
    }

    fn plan_of(slices: Vec<SlicePlan>) -> Level0Plan {
        Level0Plan {
            form: Form::Corrected,
            units: UnitCosts::default(),
            thresholds: Thresholds::new(1 << 30, slices.len(), 0, 0),
            bytes: 1 << 30,
            file_bytes: 0,
            drains: true,
            is_filling: true,
            full_bytes: 1 << 30,
            rates: (0.0, 0.0),
            slices,
        }
    }

    fn colds_of(slices: Vec<SlicePlan>) -> Colds {
        colds(&plan_of(slices))
    }

    /// So many slices of a family, of which every other one is cold.
    fn striped(family: u16, slices: u8) -> impl Iterator<Item = SlicePlan> {
        (0..slices).map(move |n| slice(family, n, n % 2 == 0, 1))
    }

    /// Whether a key lies where level 0 is cold, as a flush finds it.
    fn is_cold(colds: &Colds, family: u16, n: u8) -> bool {
        let before = |at: &&(CfId, Vec<u8>, bool)| at.0 == CfId(family) && at.1[..] <= [n][..];
        let last = colds.iter().rfind(before);
        last.is_some_and(|(.., cold)| *cold)
    }

    /// If places were given out in the order of families, the first would have them all, and whatever later ones have would stay in
    /// persistent memory.
    #[test]
    fn each_family_has_its_part_of_what_is_cold() {
        let places = |colds: &Colds, family: u16| {
            let own = colds.iter().filter(|(cf, ..)| *cf == CfId(family));
            own.count()
        };
        let colds = colds_of(
            striped(1, 40)
                .chain(striped(2, 4))
                .chain(striped(3, 40))
                .collect(),
        );
        let each = [1, 2, 3].map(|family| places(&colds, family));
        assert_eq!(each, [6, 4, 6]);
        assert!(colds.is_sorted_by(|a, b| (a.0, &a.1) < (b.0, &b.1)));
        assert!((0..4).all(|n| is_cold(&colds, 2, n) == (n % 2 == 0)));
        assert!((0..6).all(|n| is_cold(&colds, 3, n) == (n % 2 == 0)));
        // What is nowhere cold needs no place, and of many families those have some of which most is cold.
        let warm = (0..20).map(|family| slice(family, 0, false, 1 << 20));
        let many = (20u16..60).flat_map(|family| {
            let bytes = u64::from(family);
            [
                slice(family, 0, true, bytes),
                slice(family, 1, false, bytes),
            ]
        });
        let colds = colds_of(warm.chain(many).collect());
        assert_eq!(colds.len(), RANGES_MAX);
        let has = |family: u16| is_cold(&colds, family, 0) && !is_cold(&colds, family, 1);
        assert!((52..60).all(has) && !(0..52).any(has), "{colds:?}");
    }

    /// However many changes are left out, and whichever is the first.
    #[test]
    fn what_stays_is_not_said_to_be_cold() {
        let cases = [1, 3, 5, 8].map(|families| [(families, 0), (families, 1)]);
        for (families, first) in cases.into_iter().flatten() {
            let of_family = |family| (0..40).map(move |n| slice(family, n, n % 2 == first, 1));
            let colds = colds_of((0..families).flat_map(of_family).collect());
            assert!(colds.len() <= RANGES_MAX);
            for family in 0..families {
                let said: Vec<u8> = (0..40).filter(|n| is_cold(&colds, family, *n)).collect();
                assert!(!said.is_empty(), "{families} {first}: {colds:?}");
                let are_cold = said.iter().all(|n| n % 2 == first);
                assert!(are_cold, "{families} {first}: {said:?}");
            }
        }
    }

    #[test]
    fn a_family_alone_has_its_first_changes() {
        for slices in [1, 15, 16, 17, 200] {
            let colds = colds_of(striped(0, slices).collect());
            assert_eq!(colds.len(), usize::from(slices).min(RANGES_MAX));
            let told = |n: u8| usize::from(n) < RANGES_MAX && n < slices;
            assert!((0..slices).all(|n| !told(n) || is_cold(&colds, 0, n) == (n % 2 == 0)));
        }
    }

    /// Level 0 would seem full of what lies in it already, and what stays there would leave.
    #[test]
    fn what_is_written_of_a_flush_does_not_come_again() {
        let plan = Level0Plan {
            bytes: 900,
            drains: false,
            full_bytes: 1000,
            ..plan_of(striped(0, 2).collect())
        };
        // Half of its records are superseded by others.
        let memtable = Contents {
            bytes: 400,
            records: 20,
            keys: 10,
        };
        let is_full = |left_bytes| {
            let coming = Coming {
                memtables: &[memtable],
                left_bytes,
                share: 1,
                usual_bytes: 0,
                now_ns: 0,
                written: 0,
                for_scans: false,
            };
            let leaving = leaving(&plan, &coming, &mut Memory::default());
            !leaving.colds.is_empty()
        };
        assert_eq!([400, 200, 199, 0].map(is_full), [true, true, false, false]);
    }

    #[test]
    fn what_lies_before_a_front_is_not_left() {
        assert_eq!(
            [99, 50, 9, 0].map(|behind| left(1000, 99, behind)),
            [1000, 510, 100, 10]
        );
        assert_eq!(left(1000, 0, 0), 1000);
        assert_eq!(left(u64::MAX, 7, 7), u64::MAX);
    }

    proptest! {
        #[test]
        fn ranges_are_few_and_groups_fit_what_is_promised(
            bytes in 0u64..1 << 40,
            range in 0u64..1 << 30,
            keys in 0u64..1 << 40,
            (threads, cores) in (0usize..9, 0usize..65),
            promised in proptest::option::of(0u64..1 << 32),
        ) {
            let count = count(bytes, range);
            prop_assert!((1..=RANGES_MAX as u64).contains(&count));
            prop_assert!((1..=RANGE_STEP_MAX).contains(&step(keys, count)));
            let marks = cores * threads;
            let ends: Vec<usize> = ends(marks, count).collect();
            prop_assert!(ends.is_sorted_by(|a, b| a < b) && ends.iter().all(|end| (1..marks).contains(end)));
            prop_assert_eq!(ends.len() as u64 + 1, count.min(marks.max(1) as u64));
            let group = group_most(threads, cores, promised, range);
            prop_assert!(group >= 1 && group as u64 * range.max(1) <= promised.unwrap_or(0).max(range.max(1)));
        }

        #[test]
        fn only_what_lacks_room_asks_for_it(
            (evacuates, leaves, relieving) in any::<(bool, bool, bool)>(),
            bytes in 0u64..100,
            promised in proptest::option::of(0u64..100),
        ) {
            let range = Range { evacuates, leaves, bytes, promised, relieving };
            let enough = Range { promised: Some(bytes), ..range };
            prop_assert!(!enough.asks_again());
            prop_assert_eq!(enough.fate() == Fate::Leaves, leaves);
            // A flush that does not evacuate moves nothing along for want of room.
            prop_assert!(evacuates || range.fate() != Fate::LacksRoom);
            prop_assert!(!relieving || range.fate() != Fate::LacksRoom);
        }
    }
}
