//! Gaps beside writers, against what is really there at each moment.

use std::collections::BTreeMap;

use thermocline_base::budget::{Budget, Spare};
use thermocline_base::planted::plant;
use thermocline_testkit::{Replay, Rng, seeds};

use super::*;

const KEYS: u8 = 24;

fn below(rng: &mut Rng, bound: u8) -> u8 {
    u8::try_from(rng.below(bound.into())).unwrap()
}

/// A write: its seqno is its place, from 1 on.
struct Write {
    key: u8,
    puts: bool,
    /// Whether it is in the index, and has looked at the gaps.
    indexed: bool,
}

/// A store of one family, whose groups are indexed in any order.
struct World {
    writes: Vec<Write>,
    visible: u64,
    gaps: Arc<Gaps>,
}

impl World {
    fn new() -> World {
        World {
            writes: Vec::new(),
            visible: 0,
            gaps: Gaps::new(None),
        }
    }

    fn granted(&self) -> u64 {
        self.writes.len() as u64
    }

    /// The keys that have a value at `seqno`.
    fn at(&self, seqno: u64) -> Vec<u8> {
        let mut keys: BTreeMap<u8, bool> = BTreeMap::new();
        for write in self.writes.iter().zip(1..).filter(|(_, n)| *n <= seqno) {
            keys.insert(write.0.key, write.0.puts);
        }
        let puts = keys.into_iter().filter(|(_, puts)| *puts);
        puts.map(|(key, _)| key).collect()
    }

    fn index(&mut self, i: usize) {
        let write = &mut self.writes[i];
        if !std::mem::replace(&mut write.indexed, true) && write.puts {
            self.gaps.put(&[write.key]);
        }
        let is_done = |n: u64| self.writes[usize::try_from(n).unwrap()].indexed;
        while self.visible < self.granted() && is_done(self.visible) {
            self.visible += 1;
        }
    }

    /// A cursor at `seqno` finds the gap around `key`, some of it.
    fn gap_at(&self, seqno: u64, key: u8, rng: &mut Rng) -> Option<(Vec<u8>, Vec<u8>)> {
        let there = self.at(seqno);
        if there.contains(&key) {
            return None;
        }
        let before = there.iter().rev().find(|k| **k < key);
        let start = before.map_or(0, |k| k + 1);
        let end = there.iter().find(|k| **k > key).map_or(KEYS, |k| *k);
        let start = start + below(rng, key - start + 1);
        let end = end - below(rng, end - key);
        Some((vec![start], vec![end]))
    }

    /// Whoever reads now, or reads on since an earlier moment, passes nothing that he sees.
    fn check(&self, seqno: u64) {
        let list = self.gaps.list.load();
        for key in self.at(seqno) {
            let over = list.over(&[key], SeqNo(seqno));
            assert_eq!(over, None, "key {key} at {seqno}: {list:?}");
        }
        for pair in list.0.windows(2) {
            assert!(pair[0].start < pair[0].end && pair[0].end <= pair[1].start);
        }
        assert!(list.is_small());
    }
}

fn run(seed: u64) -> usize {
    let mut rng = Rng::new(seed);
    let mut world = World::new();
    let mut passes = 0;
    // What cursors have found and not noted yet, and those who read on.
    let mut found = Vec::new();
    let mut reading = Vec::new();
    for _ in 0..400 {
        match rng.below(10) {
            0..3 => {
                let key = below(&mut rng, KEYS);
                let puts = rng.one_in(3);
                world.writes.push(Write {
                    key,
                    puts,
                    indexed: false,
                });
            }
            3..7 => {
                let open: Vec<usize> = (0..world.writes.len())
                    .filter(|&i| !world.writes[i].indexed)
                    .collect();
                if !open.is_empty() {
                    world.index(*rng.pick(&open));
                }
            }
            7 => {
                let key = below(&mut rng, KEYS);
                let seen = world.visible;
                let gap = world.gap_at(seen, key, &mut rng);
                found.extend(gap.map(|gap| (gap, seen)));
            }
            8 if !found.is_empty() => {
                let i = rng.below(found.len());
                let ((start, end), seen): ((Vec<u8>, Vec<u8>), u64) = found.swap_remove(i);
                let granted = SeqNo(world.granted());
                world.gaps.note((&start, &end), SeqNo(seen), granted);
            }
            _ => reading.push(world.visible),
        }
        reading.truncate(4);
        world.check(world.visible);
        for &seqno in &reading {
            world.check(seqno);
        }
        if rng.one_in(20) {
            reading.clear();
        }
        let list = world.gaps.list.load();
        let now = SeqNo(world.visible);
        passes += (0..KEYS)
            .filter(|k| list.over(&[*k], now).is_some())
            .count();
    }
    passes
}

#[test]
fn what_is_passed_is_never_visible() {
    let mut passes = 0;
    for seed in seeds(0..500) {
        let _replay = Replay::new("-p thermocline-memtable what_is_passed", seed);
        passes += run(seed);
    }
    assert!(
        std::env::var_os("THERMOCLINE_SEED").is_some() || passes > 100_000,
        "{passes}: gaps are hardly ever of use"
    );
}

#[test]
fn planted_gaps_that_are_not_cut_or_noted_too_early_are_noticed() {
    for bug in [Bug::GapForgetsPut, Bug::GapBesideWriters] {
        let noticed = (0..50).any(|seed| {
            let _planted = plant(bug);
            std::panic::catch_unwind(|| run(seed)).is_err()
        });
        assert!(noticed, "{bug:?}");
    }
}

#[test]
fn gaps_stay_few_however_they_are_cut() {
    let gaps = Gaps::new(None);
    let key = |n: u32| n.to_be_bytes();
    gaps.note((&key(0), &key(1 << 20)), SeqNo(9), SeqNo(9));
    let mut most = 0;
    for n in (0..1 << 20).step_by(1 << 10) {
        gaps.put(&key(n));
        let list = gaps.list.load();
        assert!(list.is_small() && list.over(&key(n), SeqNo(9)).is_none());
        most = most.max(list.0.len());
    }
    assert!(most > 10, "{most}");
    // Many small ones, and then one over all of them.
    for n in 0..1000 {
        gaps.note((&key(4 * n), &key(4 * n + 2)), SeqNo(10), SeqNo(10));
        assert!(gaps.list.load().is_small());
    }
    gaps.note((&key(0), &key(5000)), SeqNo(11), SeqNo(11));
    let list = gaps.list.load();
    let (start, end) = list.over(&key(77), SeqNo(11)).unwrap();
    assert!(*start <= key(0)[..] && *end >= key(5000)[..]);
    assert_eq!(
        list.over(&key(77), SeqNo(10)),
        None,
        "as of the later moment"
    );
}

/// Gaps never keep DRAM from writes: they are given up, and noted again when there is some.
#[test]
fn gaps_give_way_to_writes() {
    let limit = 4 * GAPS_CHARGE;
    let budget = Budget::new(limit);
    let account = Account::new(budget, limit);
    account.opened();
    let gaps = Gaps::new(Some(&account));
    assert_eq!(account.charged(), 0, "nothing is noted yet");
    let note = || {
        gaps.note((b"a", b"c"), SeqNo(1), SeqNo(1));
        gaps.list().is_some()
    };
    assert!(note());
    assert_eq!(account.charged(), GAPS_CHARGE);
    let reader = gaps.list().unwrap();
    account.promise(limit, Spare::Use).unwrap();
    assert_eq!((account.charged(), gaps.list().is_some()), (0, false));
    assert!(!note(), "there is no DRAM");
    assert!(
        reader.over(b"b", SeqNo(1)).is_some(),
        "who reads reads to its end"
    );
    account.promise(0, Spare::Keep).unwrap();
    assert!(note());
    drop(gaps);
    assert_eq!(account.charged(), 0);
}
