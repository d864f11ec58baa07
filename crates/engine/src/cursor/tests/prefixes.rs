//! Moves within what begins alike, where keys are divided by prefixes, against a map.

use std::ops::Bound;

use thermocline_base::Codec;
use thermocline_base::bounds::behind_prefix;
use thermocline_base::options::PartitionBy;
use thermocline_base::planted::{Bug, plant};
use thermocline_memtable::Direction;

use super::within::{bound, first};
use super::*;

/// Bytes of a prefix.
const LEN: usize = 2;

/// Keys that are shorter than a prefix, that are one, and some of each prefix.
fn all_keys() -> Vec<Vec<u8>> {
    let mut all = vec![vec![]];
    for a in 0..5u8 {
        all.push(vec![a]);
        // The last prefix of each letter has none behind it that is as long.
        for b in [0, 1, 9, 0xff] {
            all.push(vec![a, b]);
            all.extend((0..5u8).map(|c| vec![a, b, c]));
        }
    }
    all.sort();
    all
}

/// What a story is about.
struct Drawn {
    rng: Rng,
    all: Vec<Vec<u8>>,
    /// The first key of each prefix, and the first one behind it.
    prefixes: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Drawn {
    fn new(seed: u64) -> Drawn {
        let all = all_keys();
        let of = all.iter().filter(|key| key.len() == LEN);
        let prefixes = of.map(|prefix| (prefix.clone(), behind_prefix(prefix).unwrap()));
        Drawn {
            rng: Rng::new(seed),
            prefixes: prefixes.collect(),
            all,
        }
    }

    /// Bounds of a move upwards or downwards: mostly those of a prefix.
    fn bounds(&mut self, ascending: bool) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let (low, high) = match self.rng.one_in(4) {
            true => (
                bound(&mut self.rng, &self.all),
                bound(&mut self.rng, &self.all),
            ),
            false => {
                let (begin, end) = self.rng.pick(&self.prefixes);
                (Bound::Included(&begin[..]), Bound::Excluded(&end[..]))
            }
        };
        match ascending {
            true => (low, high),
            false => (high, low),
        }
    }

    /// Changes few prefixes, so that tables have none of the others.
    fn change(&mut self, engine: &Engine, model: &mut Model) {
        let (begin, end) = self.rng.pick(&self.prefixes).clone();
        if self.rng.one_in(6) {
            // It begins elsewhere, or ends elsewhere, too.
            let (from, to) = match self.rng.below(3) {
                0 => (begin, end),
                1 => (self.rng.pick(&self.all).clone(), end),
                _ => (begin, self.rng.pick(&self.all).clone()),
            };
            if from < to {
                delete_range(engine, &from, Some(&to));
                model.retain(|key, _| *key < from || *key >= to);
            }
            return;
        }
        let of = self.all.iter().filter(|key| **key >= begin && **key < end);
        let of: Vec<Vec<u8>> = of.cloned().collect();
        for key in of {
            match self.rng.below(4) {
                0 => {}
                1 => {
                    write(engine, |batch| batch.delete(CF, &key).unwrap());
                    model.remove(&key);
                }
                _ => {
                    let value = random_value(&mut self.rng);
                    put(engine, &key, &value);
                    model.insert(key, value);
                }
            }
        }
    }
}

fn random_value(rng: &mut Rng) -> Vec<u8> {
    vec![rng.next_u64().to_le_bytes()[0]; rng.below(60)]
}

/// Whether the cursor stands where the model says. Returns the key.
fn check(
    (cursor, found): (&Cursor, bool),
    model: &Model,
    range: (Bound<&[u8]>, Bound<&[u8]>),
    ascending: bool,
) -> Option<Vec<u8>> {
    let wanted = first(model, range, ascending);
    assert_eq!(found, wanted.is_some(), "{range:?} {ascending}");
    let (key, value) = wanted.map_or((&[][..], &[][..]), |(k, v)| (&k[..], &v[..]));
    assert_eq!((cursor.key(), cursor.value()), (key, value));
    wanted.map(|(key, _)| key.clone())
}

/// Seeks within bounds, steps on, and then on behind what was its end before.
fn roam(drawn: &mut Drawn, mut cursor: Cursor, model: &Model) {
    for _ in 0..30 {
        let way = *drawn.rng.pick(&[Direction::Forward, Direction::Reverse]);
        let ascending = (way == Direction::Forward) != cursor.is_reverse();
        let steps = drawn.rng.below(10);
        let widens = drawn.rng.below(10);
        let (from, until) = drawn.bounds(ascending);
        let found = cursor.seek_within(from, until, way).unwrap();
        let mut at = check((&cursor, found), model, (from, until), ascending);
        for n in 0..steps {
            let Some(key) = at else { break };
            let further = match n < widens {
                true => until,
                false => Bound::Unbounded,
            };
            let found = cursor.step_within(further, way).unwrap();
            let range = (Bound::Excluded(&key[..]), further);
            at = check((&cursor, found), model, range, ascending);
        }
    }
}

fn story(seed: u64) {
    let mut drawn = Drawn::new(seed);
    let machine = Machine::new(PM);
    let mut options = options();
    let shapes = ["global-index", "ssd", "immutables", "pm-tables"];
    let shape: &&str = drawn.rng.pick(&shapes);
    options.set("level0.shape", shape).unwrap();
    options.partition.by = PartitionBy::Prefix;
    options.partition.prefix_len = LEN as u64;
    options.partition.cuts = drawn.rng.one_in(2);
    let compaction = &mut options.compaction;
    compaction.table_bytes = *drawn.rng.pick(&[1 << 10, 16 << 10]);
    compaction.compression_level0 = Codec::None;
    compaction.compression = Codec::None;
    compaction.compression_last = Codec::None;
    let engine = open_with(&machine, &options);
    let mut model = Model::new();
    let mut held: Vec<(Snapshot, Model)> = Vec::new();
    for n in 0..60 {
        drawn.change(&engine, &mut model);
        if drawn.rng.one_in(2) {
            engine.flush().unwrap();
        }
        if drawn.rng.one_in(8) {
            engine.compact_once().unwrap();
        }
        if n % 15 == 14 {
            // Tables are cut within prefixes, too. The first key is empty.
            let at = &drawn.all[1 + (7 * n) % (drawn.all.len() - 1)];
            engine.split_partition(CF, at).unwrap();
        }
        if drawn.rng.one_in(20) {
            held.push((engine.snapshot(), model.clone()));
        }
        if n % 6 == 5 {
            roam(&mut drawn, engine.cursor(Family::DEFAULT).unwrap(), &model);
            for (snapshot, then) in &held {
                let cursor = snapshot.cursor(Family::DEFAULT).unwrap();
                roam(&mut drawn, cursor, then);
            }
        }
    }
}

#[test]
fn moves_within_a_prefix_find_what_is_there_and_go_on_behind_it() {
    for seed in seeds(0..explored(12, 100)) {
        let _replay = Replay::new("-p thermocline-engine moves_within_a_prefix", seed);
        story(seed);
    }
}

/// A table with keys on both sides of the prefix `bb`, and none that begins so, is cut within that. What lies on one side of the cut
/// has been merged with a key that does, so that the other part and that table are one run.
fn cut_beside(machine: &Machine, key: &[u8]) -> Engine {
    let mut options = options();
    options.partition.by = PartitionBy::Prefix;
    options.partition.prefix_len = LEN as u64;
    let engine = open_with(machine, &options);
    put(&engine, b"aa1", b"value");
    put(&engine, b"cc1", b"value");
    let whole = (Bound::Unbounded, Bound::Unbounded);
    engine.compact(CF, whole).unwrap();
    let cut = &b"bb5"[..];
    assert!(engine.split_partition(CF, cut).unwrap());
    put(&engine, key, b"value");
    let side = match key < cut {
        true => (Bound::Unbounded, Bound::Excluded(cut)),
        false => (Bound::Included(cut), Bound::Unbounded),
    };
    engine.compact(CF, side).unwrap();
    let version = crate::tests::version_of(&engine);
    let tables: Vec<_> = version.tables_of(CF).collect();
    let [(at, below), (beside, above)] = &tables[..] else {
        panic!("{tables:?}");
    };
    assert!(at == beside && below.is_part() != above.is_part());
    engine
}

#[test]
fn a_cut_within_a_prefix_neither_hides_nor_repeats_what_lies_beside_it() {
    let (up, down) = (Direction::Forward, Direction::Reverse);
    // The key beside the cut, one that is in no table, bounds of a move to that, and of the next one, and where that leads.
    for (beside, own, [from, until], further, next, way) in [
        (b"bb1", b"bb7", [b"bb6", b"bb7"], b"cc9", b"cc1", up),
        (b"bb1", b"bb7", [b"bb9", b"bb6"], b"aa0", b"bb1", down),
        (b"bb1", b"bb7", [b"bb9", b"bb6"], b"bb0", b"bb1", down),
        (b"bb8", b"bb2", [b"bb1", b"bb4"], b"bb9", b"bb8", up),
        (b"bb8", b"bb2", [b"bb1", b"bb4"], b"cc9", b"bb8", up),
        (b"bb8", b"bb2", [b"bb4", b"bb0"], b"aa0", b"aa1", down),
    ] {
        let machine = Machine::new(PM);
        let engine = cut_beside(&machine, beside);
        put(&engine, own, b"value");
        let at = |key: &'static [u8; 3]| Bound::Included(&key[..]);
        let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
        assert!(cursor.seek_within(at(from), at(until), way).unwrap());
        assert_eq!(cursor.key(), own);
        let found = cursor.step_within(at(further), way).unwrap();
        assert!(found, "{next:?} is missing, {way:?}");
        assert_eq!(cursor.key(), next, "{way:?}");
    }
}

/// Where a range tombstone reaches behind the bound of a move, nothing is asked for behind it. What a table denies of nothing says
/// nothing of what the next move asks for.
#[test]
fn a_table_that_was_passed_over_for_nothing_is_entered_later() {
    let machine = Machine::new(PM);
    let mut options = options();
    options.partition.by = PartitionBy::Prefix;
    options.partition.prefix_len = LEN as u64;
    let engine = open_with(&machine, &options);
    put(&engine, b"bb1", b"value");
    put(&engine, b"bd1", b"value");
    let whole = (Bound::Unbounded, Bound::Unbounded);
    engine.compact(CF, whole).unwrap();
    delete_range(&engine, b"bc", Some(b"be"));
    put(&engine, b"bc7", b"value");
    let at = |key: &'static [u8; 3]| Bound::Included(&key[..]);
    let down = Direction::Reverse;
    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
    // From the key `bd1`, which is covered, the table is left for what lies before `bc`.
    assert!(cursor.seek_within(at(b"bd9"), at(b"bc5"), down).unwrap());
    assert_eq!(cursor.key(), b"bc7");
    assert!(cursor.step_within(at(b"bb0"), down).unwrap());
    assert_eq!(cursor.key(), b"bb1");
}

#[test]
fn tables_that_are_passed_over_wrongly_are_noticed() {
    for bug in [Bug::PrefixForgetsTombstones, Bug::PassedOverForGood] {
        let caught = (0..40).any(|seed| {
            let planted = move || {
                let _bug = plant(bug);
                story(seed);
            };
            std::panic::catch_unwind(planted).is_err()
        });
        assert!(caught, "{bug:?} was not caught");
    }
}
