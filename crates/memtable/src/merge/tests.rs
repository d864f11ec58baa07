//! What a merged index shows, holds and leaves out, against everything that was written.

use std::collections::{BTreeMap, BTreeSet};

use thermocline_base::budget::Budget;
use thermocline_base::planted::plant;
use thermocline_base::sync::AtomicU64;
use thermocline_base::{ErrorKind, Kind, SeqNo};
use thermocline_halloc::Space;
use thermocline_testkit::{Replay, Rng, seeds};

use super::*;
use crate::fixture::{self, Registered, Row, memtable_and_zones};
use crate::{Checked, Direction, Lookup, NeededCheck, Neighbours, Position};

type Zones = BTreeMap<u64, Vec<Zone>>;

/// A key of a family.
type Key = (u16, Vec<u8>);

/// A version: seqno, memtable, whether it is a put.
type Written = (u64, u64, bool);

/// What a reader sees of a key: a seqno, and whether that is a put.
type Seen = (u64, bool);

fn account() -> Arc<Account> {
    Account::new(Budget::new(u64::MAX), u64::MAX)
}

/// What nobody needs, of everything that is settled.
fn without<'a>(registered: &'a Registered, dead: &'a dyn Fn(u64) -> bool) -> Without<'a> {
    let readers = Readers {
        settled: SeqNo::MAX,
        moments: registered,
        exists: &|_, _| true,
    };
    Without { readers, dead }
}

fn nobody(_: u64) -> bool {
    false
}

fn merge_with(
    inputs: &[Arc<Memtable>],
    zones: &Zones,
    limit: usize,
    without: Without<'_>,
) -> Result<Option<Memtable>> {
    Ok(parts_of(inputs, &[], zones, limit, without)?.pop())
}

/// What comes in the place of these, newest first, if all parts but the newest one end with these memtables.
fn parts_of(
    inputs: &[Arc<Memtable>],
    ends: &[u64],
    zones: &Zones,
    limit: usize,
    without: Without<'_>,
) -> Result<Vec<Memtable>> {
    let of = |id| zones[&id].clone();
    let mut merging = Merging::new(inputs.to_vec(), ends.to_vec(), of, &account()).unwrap();
    while merging.step(limit, without)? {}
    Ok(merging.finish())
}

/// A memtable of the model: all versions that were written into it.
struct Run {
    space: Arc<Space>,
    /// Newest first.
    view: Vec<Arc<Memtable>>,
    zones: Zones,
    /// All versions of each key, ascending.
    written: BTreeMap<Key, Vec<Written>>,
    /// Seqnos of versions that a merge has left out.
    gone: BTreeSet<u64>,
    seqno: u64,
    memtables: u64,
    deletes: bool,
}

impl Run {
    fn new() -> Run {
        Run {
            space: fixture::space(16 << 20, 256 << 10),
            view: Vec::new(),
            zones: Zones::new(),
            written: BTreeMap::new(),
            gone: BTreeSet::new(),
            seqno: 0,
            memtables: 0,
            deletes: true,
        }
    }

    fn add(&mut self, rng: &mut Rng, readers: &[u64]) {
        self.memtables += 1;
        let keys: [&[u8]; 8] = [b"", b"a", b"ab", b"abc", b"b", b"ba", b"c", b"zz"];
        let mut rows: Vec<Row<'_>> = Vec::new();
        for _ in 0..1 + rng.below(20) {
            self.seqno += 1;
            let cf = [0u16, 1, 300][rng.below(3)];
            let (key, put) = (*rng.pick(&keys), !self.deletes || !rng.one_in(3));
            rows.push((cf, key, self.seqno, put));
            let written = self.written.entry((cf, key.to_vec())).or_default();
            written.push((self.seqno, self.memtables, put));
        }
        let (memtable, zones) = memtable_and_zones(&self.space, self.memtables, &rows, readers);
        memtable.seal();
        self.zones.insert(self.memtables, zones);
        self.view.insert(0, Arc::new(memtable));
    }

    /// What a reader at `seqno` sees.
    fn at(&self, seqno: u64) -> BTreeMap<Key, Seen> {
        let seen = self.written.iter().filter_map(|(key, all)| {
            let last = all.iter().rfind(|(s, ..)| *s <= seqno)?;
            Some((key.clone(), (last.0, last.2)))
        });
        seen.collect()
    }

    /// The same through the indexes, by gets and by scans.
    fn check(&self, seqno: u64) {
        let model = self.at(seqno);
        let visible = AtomicU64::new(seqno);
        for (cf, key) in self.written.keys() {
            let mut found = self.view.iter().filter_map(|m| {
                let latest = seqno == self.seqno;
                let found = match latest {
                    true => m.get_latest(CfId(*cf), key, &visible, true),
                    false => m.get(CfId(*cf), key, SeqNo(seqno), true),
                };
                match found.unwrap() {
                    Lookup::Record(record) => Some((record.seqno.0, record.kind == Kind::Put)),
                    _ => None,
                }
            });
            let wanted = model.get(&(*cf, key.clone()));
            assert_eq!(found.next().as_ref(), wanted, "{cf} {key:?} at {seqno}");
        }
        let mut scanned = BTreeMap::new();
        for memtable in &self.view {
            for cf in memtable.families() {
                for entry in scan(memtable, cf, seqno) {
                    scanned.entry(entry.0).or_insert(entry.1);
                }
            }
        }
        assert_eq!(scanned, model, "at {seqno}");
    }
}

/// What a scan of one index shows, each key once and in order.
fn scan(memtable: &Memtable, cf: CfId, seqno: u64) -> Vec<(Key, Seen)> {
    let mut out = Vec::new();
    let (direction, from) = (Direction::Forward, Bound::Unbounded);
    let more = memtable.scan(cf, from, direction, SeqNo(seqno), 1000, &mut out);
    assert!(!more.unwrap());
    let records = out.iter().map(|e| memtable.record(e.at, true).unwrap());
    let visible = records.filter(|record| record.seqno.0 <= seqno);
    let rows: Vec<_> = visible
        .map(|r| ((cf.0, r.key.to_vec()), (r.seqno.0, r.kind == Kind::Put)))
        .collect();
    assert!(rows.is_sorted_by(|a, b| a.0 < b.0));
    rows
}

/// Memtables come, any run of neighbours is merged, merged again, or divided by age, in steps of any size; readers come
/// and go. Each sees what it saw.
#[test]
fn merged_indexes_show_what_their_memtables_did() {
    let (mut merges, mut divided) = (0, 0);
    for seed in seeds(0..60) {
        let _replay = Replay::new("-p thermocline-memtable merged_indexes_show", seed);
        let mut rng = Rng::new(seed);
        let mut run = Run::new();
        let mut readers: Vec<u64> = Vec::new();
        for _ in 0..40 {
            match rng.below(10) {
                0..4 => {
                    if rng.one_in(2) {
                        readers.push(run.seqno);
                    }
                    run.add(&mut rng, &readers);
                }
                4 if !readers.is_empty() => {
                    readers.remove(rng.below(readers.len()));
                }
                _ if run.view.len() > 1 => {
                    let from = rng.below(run.view.len());
                    let to = from + 1 + rng.below(run.view.len() - from);
                    let ends = match rng.one_in(3) {
                        true => some_ends(&run.view[from..to], &mut rng),
                        false => Vec::new(),
                    };
                    let limit = 1 + rng.below(9);
                    let parts = make_anew(&mut run, from..to, &ends, &readers, limit);
                    merges += 1;
                    divided += usize::from(parts > 1);
                }
                _ => {}
            }
            readers.iter().for_each(|&reader| run.check(reader));
            run.check(run.seqno);
        }
    }
    assert!(merges > 100 && divided > 50, "{merges}, {divided}");
}

/// Some of the memtables that these lead to, oldest first.
fn some_ends(newest_first: &[Arc<Memtable>], rng: &mut Rng) -> Vec<u64> {
    let homes = newest_first.iter().rev().flat_map(|m| m.homes());
    let mut ends: Vec<u64> = homes.map(|home| home.id()).collect();
    ends.retain(|_| rng.one_in(2));
    ends
}

fn merge_some(run: &mut Run, range: std::ops::Range<usize>, readers: &[u64], limit: usize) {
    make_anew(run, range, &[], readers, limit);
}

/// Puts one index in the place of these, or several of which all but the newest one end with `ends`. Returns how many.
fn make_anew(
    run: &mut Run,
    range: std::ops::Range<usize>,
    ends: &[u64],
    readers: &[u64],
    limit: usize,
) -> usize {
    let inputs = &run.view[range.clone()];
    let registered = Registered(readers.iter().map(|&r| SeqNo(r)).collect());
    let nobody_needs = without(&registered, &nobody);
    let parts = parts_of(inputs, ends, &run.zones, limit, nobody_needs).unwrap();
    // They hold the homes of what they lead to, and no others: what a newer one hides keeps none, whichever part that is in.
    let mut ours = BTreeMap::<u64, u64>::new();
    for home in inputs.iter().flat_map(|m| m.homes()) {
        ours.insert(home.id(), 0);
    }
    for all in run.written.values() {
        let versions: Vec<_> = all
            .iter()
            .filter(|(seqno, id, _)| ours.contains_key(id) && !run.gone.contains(seqno))
            .collect();
        for (i, (seqno, id, _)) in versions.iter().enumerate() {
            let next = versions.get(i + 1).map(|next| next.0);
            let read = |next| readers.iter().any(|r| (*seqno..next).contains(r));
            if next.is_none_or(read) {
                *ours.entry(*id).or_default() += 1;
            } else {
                run.gone.insert(*seqno);
            }
        }
    }
    let wanted: Vec<u64> = ours
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|(id, _)| *id)
        .collect();
    let part_of = |id: &u64| ends.iter().filter(|end| *end < id).count();
    let wanted: Vec<Vec<u64>> = wanted
        .chunk_by(|a, b| part_of(a) == part_of(b))
        .map(<[u64]>::to_vec)
        .collect();
    let homes = |part: &Memtable| -> Vec<u64> {
        let homes = part.homes().iter();
        homes.map(|home| home.id()).collect()
    };
    let found: Vec<Vec<u64>> = parts.iter().rev().map(homes).collect();
    assert_eq!(found, wanted, "homes at {}", run.seqno);
    let are_ready = parts
        .iter()
        .all(|part| part.is_merged() && part.is_sealed());
    assert!(are_ready);
    run.view.splice(range, parts.into_iter().map(Arc::new));
    wanted.len()
}

#[test]
#[should_panic(expected = "at ")]
fn a_merge_that_forgets_readers_is_found() {
    let _planted = plant(Bug::MergeForgetsReaders);
    merged_indexes_show_what_their_memtables_did();
}

/// A home has one holder more for each index that leads to one of its records, and no other.
#[test]
fn a_home_is_held_by_the_indexes_that_lead_to_it() {
    let space = fixture::space(1 << 20, 256 << 10);
    let mut zones = Zones::new();
    let mut memtable = |id, rows: &[Row<'_>]| {
        let (memtable, owned) = memtable_and_zones(&space, id, rows, &[]);
        zones.insert(id, owned);
        Arc::new(memtable)
    };
    let one = memtable(1, &[(0, b"k", 1, true), (0, b"l", 2, true)]);
    let two = memtable(
        2,
        &[(0, b"k", 3, true), (0, b"l", 4, true), (7, b"m", 5, true)],
    );
    let homes = [one.homes()[0].clone(), two.homes()[0].clone()];
    let held = || homes.each_ref().map(|home| Arc::strong_count(home) - 1);
    let free = Registered(vec![]);
    let reader = Registered(vec![SeqNo(1)]);
    let inputs = [two, one];
    let both = merge_with(&inputs, &zones, 1, without(&reader, &nobody));
    let both = Arc::new(both.unwrap().unwrap());
    assert_eq!(held(), [2, 2]);
    let newer = merge_with(&inputs, &zones, 100, without(&free, &nobody));
    let newer = newer.unwrap().unwrap();
    assert_eq!(held(), [2, 3]);
    assert_eq!((newer.keys(), both.keys()), (3, 3));
    drop(inputs);
    assert_eq!(held(), [1, 2]);
    // What was found dead is left out, and what is not gets another index.
    let dead = |id| id == 2;
    let old = merge_with(
        std::slice::from_ref(&both),
        &zones,
        1,
        without(&reader, &dead),
    );
    let old = old.unwrap().unwrap();
    assert_eq!((old.keys(), old.id()), (1, 1));
    drop((both, newer));
    assert_eq!(held(), [1, 0]);
    let dead = |id| id == 1;
    let nothing = merge_with(&[Arc::new(old)], &zones, 1, without(&reader, &dead));
    assert!(nothing.unwrap().is_none());
    assert_eq!(held(), [0, 0]);
}

/// What a newer part hides keeps no memtable alive, unless somebody reads it.
#[test]
fn what_a_newer_part_hides_goes_when_nobody_reads_it() {
    let space = fixture::space(1 << 20, 256 << 10);
    let mut zones = Zones::new();
    let mut memtable = |id, rows: &[Row<'_>]| {
        let (memtable, owned) = memtable_and_zones(&space, id, rows, &[]);
        memtable.seal();
        zones.insert(id, owned);
        Arc::new(memtable)
    };
    let oldest = memtable(1, &[(0, b"k", 1, true)]);
    let middle = memtable(2, &[(0, b"l", 2, true)]);
    let newest = memtable(3, &[(0, b"k", 3, true)]);
    let reader = Registered(vec![SeqNo(2)]);
    let free = Registered(vec![]);
    let inputs = [newest, middle, oldest];
    let wide = merge_with(&inputs, &zones, 1, without(&reader, &nobody));
    let wide = [Arc::new(wide.unwrap().unwrap())];
    assert_eq!((wide[0].keys(), wide[0].homes().len()), (2, 3));
    let ids = |parts: &[Memtable]| -> Vec<u64> { parts.iter().map(Memtable::id).collect() };
    let all = parts_of(&wide, &[1, 2], &zones, 1, without(&reader, &nobody)).unwrap();
    assert_eq!(ids(&all), [3, 2, 1]);
    let seen = |part: &Memtable, key: &[u8], seqno| {
        let found = part.get(CfId(0), key, SeqNo(seqno), true).unwrap();
        match found {
            Lookup::Record(record) => Some(record.seqno.0),
            _ => None,
        }
    };
    let at_two: Vec<_> = all.iter().map(|part| seen(part, b"k", 2)).collect();
    assert_eq!(at_two, [None, None, Some(1)]);
    assert_eq!(seen(&all[0], b"k", 3), Some(3));
    // The reader has gone. The oldest one is needed no more as a part, and is left out of what is divided only now.
    let newer: Vec<&Memtable> = all[..2].iter().rev().collect();
    let around = Neighbours {
        newer: &newer,
        is_oldest: true,
    };
    let readers = without(&free, &nobody).readers;
    let check = NeededCheck::new(&all[2], readers, around).only(1);
    let checked = check.keys(&Position::default(), 10).unwrap();
    assert_eq!(checked, Checked::Nothing);
    let left = parts_of(&wide, &[1, 2], &zones, 1, without(&free, &nobody)).unwrap();
    assert_eq!(ids(&left), [3, 2]);
    assert_eq!(seen(&left[0], b"k", 3), Some(3));
}

/// A flush reckons with it: no key is longer than is said of its family, in merged indexes too.
#[test]
fn the_longest_key_of_each_family_is_known() {
    let space = fixture::space(4 << 20, 256 << 10);
    let (long, longer) = (vec![1; 5000], vec![0; 6000]);
    let mut zones = Zones::new();
    let mut memtable = |id, rows: &[Row<'_>]| {
        let (memtable, owned) = memtable_and_zones(&space, id, rows, &[]);
        zones.insert(id, owned);
        Arc::new(memtable)
    };
    let one = memtable(1, &[(0, b"k", 1, true), (7, &long, 2, true)]);
    let two = memtable(
        2,
        &[
            (0, b"l", 3, true),
            (7, &longer, 4, false),
            (7, b"", 5, true),
        ],
    );
    let known = |memtable: &Memtable| [0, 7, 8].map(|cf| memtable.longest_key(CfId(cf)));
    let [short, of_one, none] = known(&one);
    assert!((1..1024).contains(&short), "{short}");
    assert_eq!((of_one, none), (5000, 0));
    assert_eq!(known(&two), [short, 6000, 0]);
    let free = Registered(vec![]);
    let merged = merge_with(&[two, one], &zones, 2, without(&free, &nobody));
    assert_eq!(known(&merged.unwrap().unwrap()), [short, 6000, 0]);
}

/// Each memtable of a merged index is needed as long as it was by itself; no longer, unless a reader
/// keeps a tombstone that hides nothing.
#[test]
fn a_memtable_is_needed_in_a_merged_index_as_it_was_alone() {
    let mut found = BTreeSet::new();
    for seed in seeds(0..60) {
        let _replay = Replay::new("-p thermocline-memtable a_memtable_is_needed_in", seed);
        let mut rng = Rng::new(seed);
        let mut run = Run::new();
        run.deletes = rng.one_in(2);
        let mut readers: Vec<u64> = Vec::new();
        for _ in 0..2 + rng.below(4) {
            if rng.one_in(3) {
                readers.push(run.seqno);
            }
            run.add(&mut rng, &readers);
        }
        let single = run.view.clone();
        let to = 1 + rng.below(run.view.len() - 1);
        merge_some(&mut run, to - 1..single.len(), &readers, 5);
        if rng.one_in(2) {
            let ends = some_ends(&run.view[to - 1..], &mut rng);
            make_anew(&mut run, to - 1..to, &ends, &readers, 5);
        }
        readers.retain(|_| rng.one_in(2));
        let registered = Registered(readers.iter().map(|&r| SeqNo(r)).collect());
        let readers = without(&registered, &nobody).readers;
        for (i, alone) in single.iter().enumerate() {
            let id = alone.id();
            let in_view = |m: &&Arc<Memtable>| m.homes().iter().any(|h| h.id() == id);
            let Some(at) = run.view.iter().position(|m| in_view(&m)) else {
                continue;
            };
            let is_oldest = i + 1 == single.len();
            let newer = |view: &[Arc<Memtable>], at: usize, limit| {
                let newer: Vec<&Memtable> = view[..at].iter().rev().map(|m| &**m).collect();
                let mut from = Position::default();
                loop {
                    let around = Neighbours {
                        newer: &newer,
                        is_oldest,
                    };
                    let memtable = &view[at];
                    match NeededCheck::new(memtable, readers, around)
                        .only(id)
                        .keys(&from, limit)
                    {
                        Ok(Checked::SoFar(at)) => from = at,
                        other => break other.unwrap() != Checked::Nothing,
                    }
                }
            };
            let merged = newer(&run.view, at, 1 + rng.below(5));
            let alone = newer(&single, i, 100);
            let same = merged == alone || run.deletes && merged;
            assert!(same, "memtable {id}: {merged}, alone {alone}");
            found.insert((merged, run.view[at].is_merged()));
        }
    }
    assert_eq!(found.len(), 4, "{found:?}");
}

#[test]
fn families_that_are_gone_are_left_out() {
    let space = fixture::space(1 << 20, 256 << 10);
    let rows: &[Row<'_>] = &[(1, b"k", 1, true), (2, b"k", 2, true)];
    let (one, owned) = memtable_and_zones(&space, 1, rows, &[]);
    let zones = Zones::from([(1, owned)]);
    let free = Registered(vec![]);
    let mut without = without(&free, &nobody);
    without.readers.exists = &|cf, _| cf != CfId(1);
    let merged = merge_with(&[Arc::new(one)], &zones, 10, without).unwrap();
    let families: Vec<CfId> = merged.unwrap().families().collect();
    assert_eq!(families, [CfId(2)]);
}

#[test]
fn a_record_that_has_rotted_ends_the_merge() {
    let space = fixture::space(1 << 20, 256 << 10);
    let rows: &[Row<'_>] = &[(0, b"key", 1, true), (0, b"kez", 2, true)];
    let (one, owned) = memtable_and_zones(&space, 1, rows, &[]);
    let zones = Zones::from([(1, owned)]);
    let mut entries = Vec::new();
    one.scan_versions(CfId(0), Bound::Unbounded, None, 10, &mut entries)
        .unwrap();
    let at = entries[1].at;
    fixture::rot(space.region(), at.plus(4), &[1, 0, 0, 0]);
    let free = Registered(vec![]);
    let merged = merge_with(&[Arc::new(one)], &zones, 10, without(&free, &nobody));
    assert_eq!(merged.unwrap_err().kind(), ErrorKind::Corruption);
}

/// What is promised for a step is enough for it.
#[test]
fn a_step_takes_no_more_than_its_bound() {
    for seed in seeds(0..10) {
        let _replay = Replay::new("-p thermocline-memtable a_step_takes_no_more", seed);
        let mut rng = Rng::new(seed);
        let mut run = Run::new();
        let mut readers = Vec::new();
        for _ in 0..8 {
            run.add(&mut rng, &readers);
            readers.push(run.seqno - rng.below(3) as u64);
            readers.sort_unstable();
        }
        let registered = Registered(readers.iter().map(|&r| SeqNo(r)).collect());
        let account = account();
        account.opened();
        let of = |id| run.zones[&id].clone();
        let ends = some_ends(&run.view, &mut rng);
        let mut merging = Merging::new(run.view.clone(), ends, of, &account).unwrap();
        loop {
            let limit = 1 + rng.below(20);
            let need = account.used() + merging.bound(limit, readers.len() + 1);
            let promised = account.promise(need, thermocline_base::budget::Spare::Keep);
            promised.unwrap();
            if !merging.step(limit, without(&registered, &nobody)).unwrap() {
                break;
            }
        }
        let used: u64 = merging.finish().iter().map(Memtable::index_bytes).sum();
        assert_eq!(account.overdrawn(), 0);
        assert!(used > 0);
    }
}

/// A step takes more keys of one input than it asks that for at once.
#[test]
fn an_input_is_asked_again_within_a_step() {
    let space = fixture::space(16 << 20, 256 << 10);
    let keys: Vec<[u8; 2]> = (0..300u16).map(u16::to_be_bytes).collect();
    let rows: Vec<Row<'_>> = (1..)
        .zip(&keys)
        .map(|(seqno, key)| (0, &key[..], seqno, true))
        .collect();
    let (mut inputs, mut zones) = (Vec::new(), Zones::new());
    for (id, rows) in [(1, &rows[..200]), (2, &rows[200..])] {
        let (memtable, own) = memtable_and_zones(&space, id, rows, &[]);
        memtable.seal();
        inputs.insert(0, Arc::new(memtable));
        zones.insert(id, own);
    }
    let free = Registered(Vec::new());
    for limit in [64, 2 * MERGE_KEYS_EACH_MIN, 150, 1000] {
        let merged = merge_with(&inputs, &zones, limit, without(&free, &nobody));
        let merged = merged.unwrap().unwrap();
        assert_eq!(merged.keys(), 300, "{limit} keys a step");
        for key in &keys {
            let found = merged.get(CfId(0), key, SeqNo::MAX, true).unwrap();
            assert!(matches!(found, Lookup::Record(record) if record.key == key));
        }
    }
}
