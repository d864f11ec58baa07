//! Random tables under random options against the model: lookups, every move of cursors, parts.

use thermocline_base::{RangeTombstone, SeqNo};
use thermocline_env::{OpenMode, Storage};
use thermocline_sst::{
    FileSource, IndexUse, KeyRef, Move, SyncCursor, TablePart, get, verify_table,
};
use thermocline_testkit::{Replay, Rng, seeds};

use crate::common::*;

#[test]
fn random_tables_read_as_they_were_written() {
    let all = seeds(0..400);
    let [looked_up, moved, two_level, learned] = random_tables(all.iter().copied());
    println!(
        "{} tables ({two_level} of two levels, {learned} learned), {looked_up} lookups, {moved} moves",
        all.len()
    );
    assert!(all.len() < 400 || two_level > 20 && learned > 4);
}

/// Panics if a table differs from the model; counts lookups, moves, tables of two levels, and those with a
/// learned index.
pub fn random_tables(all: impl IntoIterator<Item = u64>) -> [u64; 4] {
    let (mut looked_up, mut moved, mut two_level, mut learned) = (0, 0, 0, 0);
    for seed in all {
        let _replay = Replay::new("-p thermocline-sst --test table random_tables", seed);
        let mut rng = Rng::new(seed);
        let n = *rng.pick(&[0, 1, 2, 10, 100, 400, 1500]);
        let contents = random_contents(&mut rng, n);
        let options = random_options(&mut rng);
        let fs = fresh();
        let meta = contents.write(&fs, 7, options).unwrap();
        assert_eq!(meta.bytes, fs.contents(&path(7)).unwrap().len() as u64);
        let (table, source) = open(&fs, 7).unwrap();
        check_properties(&contents, &meta.properties);
        assert_eq!(table.properties().entries, meta.properties.entries);
        assert_same(&read_all(&fs, 7).unwrap(), &contents, "whole");
        let verified = verify_table(&source.0, identity(7));
        assert!(verified.faults.is_empty(), "{:?}", verified.faults);
        assert_eq!(verified.entries, contents.entries.len() as u64);
        two_level += u64::from(index_level(&fs) == Some(1));
        learned += u64::from(meta.properties.index == IndexUse::Learned);

        let whole = TablePart::whole(table);
        looked_up += look_up(&mut rng, &whole, &contents, &source);
        moved += walk(&mut rng, &whole, &contents, &source);
        for _ in 0..4 {
            let mut limit = || (!rng.one_in(3)).then(|| random_key(&mut rng, 3));
            let (lower, upper) = (limit(), limit());
            let (lower, upper) = (lower.as_deref(), upper.as_deref());
            let part = TablePart::limited(whole.table().clone(), lower, upper);
            let limited = contents.limited(lower, upper);
            let cut: Vec<_> = part.range_tombstones().map(RangeTombstone::owned).collect();
            assert_eq!(cut, limited.tombstones);
            looked_up += look_up(&mut rng, &part, &limited, &source);
            moved += walk(&mut rng, &part, &limited, &source);
        }
    }
    [looked_up, moved, two_level, learned]
}

/// The level of the root, where it is not compressed.
fn index_level(fs: &thermocline_env::sim::SimFs) -> Option<u8> {
    let bytes = fs.contents(&path(7)).unwrap();
    let (at, len) = meta_blocks(&bytes)[2];
    (bytes[at + len - 12] == 0).then(|| bytes[at + 1])
}

fn check_properties(contents: &Contents, p: &thermocline_sst::Properties) {
    use thermocline_base::Kind;
    let count = |kind| contents.entries.iter().filter(|e| e.kind == kind).count() as u64;
    assert_eq!(p.entries, contents.entries.len() as u64);
    assert_eq!(p.deletes, count(Kind::Delete));
    assert_eq!(p.merges, count(Kind::Merge));
    assert_eq!(p.range_tombstones, contents.tombstones.len() as u64);
    assert_eq!(p.cf, CF);
    let keys = contents.entries.iter().map(|e| &e.key);
    let mut distinct: Vec<_> = keys.clone().collect();
    distinct.dedup();
    assert_eq!(p.user_keys, distinct.len() as u64);
    assert_eq!(p.key_bytes, keys.map(Vec::len).sum::<usize>() as u64);
    let seqnos = contents.entries.iter().map(|e| e.seqno);
    let seqnos = seqnos.chain(contents.tombstones.iter().map(|t| t.seqno));
    let bounds = seqnos.clone().min().zip(seqnos.max());
    assert_eq!(p.seqnos, bounds);
    let smallest = contents.entries.first().map(|e| e.at().to_owned());
    let starts = contents
        .tombstones
        .iter()
        .map(|t| KeyRef::new(&t.start, t.seqno).to_owned());
    assert_eq!(p.smallest, smallest.into_iter().chain(starts).min());
    let largest = contents.entries.last().map(|e| e.at().to_owned());
    let ends = contents
        .tombstones
        .iter()
        .map(|t| KeyRef::new(&t.end, SeqNo::MAX).to_owned());
    assert_eq!(p.largest, largest.into_iter().chain(ends).max());
    let mut used = std::collections::BTreeMap::<u64, (u64, u64)>::new();
    for entry in &contents.entries {
        if let Kept::Blob(blob) = entry.value {
            let used = used.entry(blob.file.0).or_default();
            *used = (used.0 + 1, used.1 + u64::from(blob.len));
        }
    }
    let claimed = p.blobs.iter().map(|b| (b.file.0, (b.values, b.bytes)));
    assert!(claimed.eq(used));
}

pub fn random_target(rng: &mut Rng, contents: &Contents) -> (Vec<u8>, SeqNo) {
    let seqno = SeqNo(match rng.below(8) {
        0 => 0,
        1 => u64::MAX,
        _ => rng.below(4 * contents.entries.len() + 2) as u64,
    });
    match contents.entries.is_empty() || rng.one_in(3) {
        true => (random_key(rng, 6), seqno),
        false => {
            let entry = rng.pick(&contents.entries);
            let seqno = if rng.one_in(2) { entry.seqno } else { seqno };
            (entry.key.clone(), seqno)
        }
    }
}

pub fn look_up(rng: &mut Rng, part: &TablePart, contents: &Contents, source: &FileSource) -> u64 {
    for _ in 0..60 {
        let (key, seqno) = random_target(rng, contents);
        let found = get(part, &key, seqno, source).unwrap().map(kept);
        assert_eq!(found, contents.get(&key, seqno), "{key:?} at {seqno}");
    }
    60
}

/// Random moves, each compared with the model's.
pub fn walk(rng: &mut Rng, part: &TablePart, contents: &Contents, source: &FileSource) -> u64 {
    let entries = &contents.entries;
    let mut cursor = SyncCursor::new(part.clone(), source);
    let mut place: Option<usize> = None;
    for _ in 0..150 {
        let (key, seqno) = random_target(rng, contents);
        let target = KeyRef::new(&key, seqno);
        let to = match rng.below(20) {
            0 => Move::First,
            1 => Move::Last,
            2..5 => Move::Seek(target),
            5..8 => Move::SeekForPrev(target),
            8..14 => Move::Next,
            _ => Move::Prev,
        };
        place = match to {
            Move::First => Some(0),
            Move::Last => entries.len().checked_sub(1),
            Move::Seek(_) => entries.iter().position(|e| e.at() >= target),
            Move::SeekForPrev(_) => entries.iter().rposition(|e| e.at() <= target),
            Move::Next => place.map(|p| p + 1),
            Move::Prev => place.and_then(|p| p.checked_sub(1)),
        };
        place = place.filter(|p| *p < entries.len());
        assert_eq!(cursor.go(to).unwrap(), place.is_some(), "{to:?}");
        assert_eq!(cursor.is_at_entry(), place.is_some());
        if let Some(place) = place {
            assert_eq!(entry_of(&cursor), entries[place], "{to:?}");
            let found = kept(cursor.found());
            assert_eq!(
                (found.0, found.1),
                (entries[place].seqno, entries[place].kind)
            );
        }
    }
    150
}

/// The same entries under the same options give the same bytes.
#[test]
fn writing_is_deterministic() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let contents = random_contents(&mut rng, 300);
        let options = random_options(&mut rng);
        let write = || {
            let fs = fresh();
            contents.write(&fs, 1, options).unwrap();
            fs.contents(&path(1)).unwrap()
        };
        assert_eq!(write(), write());
    }
}

/// A reader that shares the table with others on many threads sees the same.
#[test]
fn a_table_is_shared_by_threads() {
    let mut rng = Rng::new(11);
    let contents = random_contents(&mut rng, 1000);
    let fs = fresh();
    contents.write(&fs, 7, random_options(&mut rng)).unwrap();
    let file = fs.open(&path(7), OpenMode::Read).unwrap();
    let table = thermocline_sst::open_table(&*file, identity(7)).unwrap();
    let part = TablePart::whole(table);
    let source = FileSource(file);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (part, source, contents) = (&part, &source, &contents);
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                look_up(&mut rng, part, contents, source);
                walk(&mut rng, part, contents, source);
            });
        }
    });
}
