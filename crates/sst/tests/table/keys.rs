//! The keys of a table in memory, made while it is written and by reading it, and lookups that begin with them.

use thermocline_base::{Kind, RangeTombstone, SeqNo};
use thermocline_env::sim::SimFs;
use thermocline_sst::{
    BlockSource, FileSource, Get, Step, TableKeys, TablePart, TableWriter, Where, WriteOptions,
};
use thermocline_testkit::{Replay, Rng, seeds};

use crate::common::*;
use crate::model::random_target;

/// Writes table 7, and has its keys as the writer collects them.
fn written(fs: &SimFs, contents: &Contents, options: WriteOptions, most: u64) -> Option<TableKeys> {
    let writer = TableWriter::create(fs, &path(7), identity(7), CF, options).unwrap();
    let mut writer = writer.with_keys(most);
    contents.add_to(&mut writer).unwrap();
    writer.finish_with_keys().unwrap().1
}

/// The same, and whether whoever reads the table finds the same keys.
fn keys_of(fs: &SimFs, contents: &Contents, options: WriteOptions) -> TableKeys {
    let keys = written(fs, contents, options, u64::MAX).unwrap();
    let (table, source) = open(fs, 7).unwrap();
    let read = TableKeys::read(&source, &table, u64::MAX).unwrap();
    assert_eq!(read.as_ref(), Some(&keys));
    keys
}

/// What was found in vain, in a block that was known, and by the index.
#[derive(Debug, Default)]
struct Met {
    not: u64,
    block: u64,
    ask: u64,
}

struct Reader<'a> {
    keys: &'a TableKeys,
    source: &'a FileSource,
    met: Met,
}

impl Reader<'_> {
    fn get(
        &mut self,
        part: &TablePart,
        key: &[u8],
        seqno: SeqNo,
    ) -> Option<(SeqNo, Kind, Option<Kept>)> {
        let place = self.keys.find(key);
        let mut get = Get::new(part, key, seqno);
        let mut step = match place {
            Where::Not => {
                self.met.not += 1;
                return None;
            }
            Where::Block(handle) => {
                self.met.block += 1;
                get.start_in(handle)
            }
            Where::Ask => {
                self.met.ask += 1;
                get.start()
            }
        };
        let mut blocks = 0;
        loop {
            match step {
                Step::Need(handle) => {
                    blocks += 1;
                    let block = self.source.block(part.table(), handle).unwrap();
                    step = get.supply(block).unwrap();
                }
                Step::Done(found) => {
                    assert!(place == Where::Ask || blocks <= 1, "{blocks} blocks");
                    return found.map(kept);
                }
            }
        }
    }
}

#[test]
fn lookups_by_keys_find_what_is_there() {
    let (mut not, mut block, mut ask) = (0, 0, 0);
    let all = seeds(0..200);
    for &seed in &all {
        let _replay = Replay::new("-p thermocline-sst --test table lookups_by_keys", seed);
        let mut rng = Rng::new(seed);
        let n = *rng.pick(&[0, 1, 2, 10, 100, 400]);
        let mut contents = random_contents(&mut rng, n);
        if rng.one_in(2) {
            contents.tombstones.clear();
        }
        let options = random_options(&mut rng);
        let fs = fresh();
        let keys = keys_of(&fs, &contents, options);
        let (table, source) = open(&fs, 7).unwrap();
        let mut reader = Reader {
            keys: &keys,
            source: &source,
            met: Met::default(),
        };
        for turn in 0..4 {
            let mut limit = || (turn > 0 && !rng.one_in(3)).then(|| random_key(&mut rng, 3));
            let (lower, upper) = (limit(), limit());
            let (lower, upper) = (lower.as_deref(), upper.as_deref());
            let part = TablePart::limited(table.clone(), lower, upper);
            let limited = contents.limited(lower, upper);
            for _ in 0..60 {
                let (key, seqno) = random_target(&mut rng, &contents);
                let found = reader.get(&part, &key, seqno);
                assert_eq!(found, limited.get(&key, seqno), "{key:?} at {seqno}");
            }
            // Of small ones all.
            let entries = contents.entries.iter().filter(|_| n <= 10);
            for entry in entries {
                for seqno in (0..=4 * n as u64).map(SeqNo).chain([SeqNo::MAX]) {
                    let found = reader.get(&part, &entry.key, seqno);
                    assert_eq!(found, limited.get(&entry.key, seqno), "{entry:?}");
                }
            }
        }
        not += reader.met.not;
        block += reader.met.block;
        ask += reader.met.ask;
    }
    println!("{not} not there, {block} in a known block, {ask} by the index");
    assert!(all.len() < 200 || not.min(block).min(ask) > 1000);
}

#[test]
fn versions_in_several_blocks_are_left_to_the_index() {
    let mut entries = Vec::new();
    for (key, versions) in [("a", 3), ("b", 1000), ("bb", 1), ("c", 200)] {
        let versions = (1..=versions).rev();
        entries.extend(versions.map(|s| Entry::put(key.as_bytes(), s * 2, &[1; 50])));
    }
    let contents = Contents::of(entries);
    let fs = fresh();
    let keys = keys_of(&fs, &contents, WriteOptions::default());
    let (table, source) = open(&fs, 7).unwrap();
    assert!(matches!(keys.find(b"a"), Where::Block(handle) if handle.offset == 0));
    assert_eq!(keys.find(b"b"), Where::Ask);
    // It does not span blocks, and lies where those that do end and begin.
    assert!(matches!(keys.find(b"bb"), Where::Block(handle) if handle.offset > 0));
    assert_eq!(keys.find(b"c"), Where::Ask);
    let part = TablePart::whole(table);
    let mut reader = Reader {
        keys: &keys,
        source: &source,
        met: Met::default(),
    };
    for seqno in (0..=2001).map(SeqNo) {
        for key in ["", "a", "aa", "b", "bb", "bbb", "c", "d"] {
            let found = reader.get(&part, key.as_bytes(), seqno);
            assert_eq!(found, contents.get(key.as_bytes(), seqno));
        }
    }
}

#[test]
fn the_empty_key_and_beginnings_of_keys_are_told_apart() {
    let there: [&[u8]; 6] = [b"", b"a", b"a\0", b"aa", b"ab", b"b\xff"];
    let not: [&[u8]; 6] = [b"\0", b"a\0\0", b"aaa", b"ac", b"b", b"b\xff\0"];
    let entries = there.map(|key| Entry::put(key, 7, b"v"));
    let mut contents = Contents::of(entries.to_vec());
    let fs = fresh();
    let keys = keys_of(&fs, &contents, WriteOptions::default());
    for key in there {
        assert!(matches!(keys.find(key), Where::Block(_)), "{key:?}");
    }
    for key in not {
        assert_eq!(keys.find(key), Where::Not, "{key:?}");
    }
    // A range tombstone may cover what is not there.
    contents.tombstones.push(RangeTombstone {
        start: b"b".to_vec(),
        end: b"c".to_vec(),
        seqno: SeqNo(9),
    });
    let fs = fresh();
    let keys = keys_of(&fs, &contents, WriteOptions::default());
    for key in not {
        assert_eq!(keys.find(key), Where::Ask, "{key:?}");
    }
    // So it is in a table that has nothing else, or nothing at all.
    contents.entries.clear();
    let fs = fresh();
    let keys = keys_of(&fs, &contents, WriteOptions::default());
    assert_eq!(keys.find(b""), Where::Ask);
    let fs = fresh();
    let keys = keys_of(&fs, &Contents::default(), WriteOptions::default());
    assert_eq!(keys.find(b""), Where::Not);
}

#[test]
fn without_room_for_all_keys_there_are_none() {
    let entries = (0..1000u32).map(|n| Entry::put(&n.to_be_bytes(), 7, b"v"));
    let contents = Contents::of(entries.collect());
    let fs = fresh();
    let keys = keys_of(&fs, &contents, WriteOptions::default());
    assert!((8000..12_000).contains(&keys.charge()), "{}", keys.charge());
    let (table, source) = open(&fs, 7).unwrap();
    // While they grow, they may take twice as much as in the end.
    for (most, there) in [(100, false), (6000, false), (2 * keys.charge() + 100, true)] {
        let found = written(&fresh(), &contents, WriteOptions::default(), most);
        assert_eq!(found.as_ref(), Some(&keys).filter(|_| there));
        let read = TableKeys::read(&source, &table, most).unwrap();
        assert_eq!(read, found);
    }
}
