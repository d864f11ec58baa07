//! Tables with a learned index beside tables with a binary one: the same answers, whatever the keys are.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use thermocline_base::{Result, SeqNo};
use thermocline_env::{OpenMode, Storage};
use thermocline_sst::{
    Block, BlockHandle, BlockKind, BlockSource, Compression, FileSource, IndexKind, IndexUse,
    SyncCursor, Table, TablePart, WriteOptions, get, verify_table,
};
use thermocline_testkit::{Replay, Rng, cities, golden, seeds};

use crate::common::*;
use crate::model::{look_up, walk};

const GOLDEN: &str = include_str!("../golden/table-v1-learned.txt");

fn numbers(count: usize) -> BTreeSet<Vec<u8>> {
    (0..count)
        .map(|n| format!("{n:016}").into_bytes())
        .collect()
}

/// Names of places, made of parts that real ones have.
fn city(rng: &mut Rng) -> Vec<u8> {
    let first = [
        "Alten", "Bad ", "Ober", "Saint-", "Santa ", "New ", "Port ", "Wald", "Königs",
    ];
    let stem = [
        "berg", "hausen", "ville", "mar", "ton", "furt", "lin", "dorf", "estre", "ova",
    ];
    let last = ["", "", " am Main", "-sur-Mer", " del Norte", "stadt", "a"];
    let stems: String = (0..=rng.below(2)).map(|_| *rng.pick(&stem)).collect();
    [*rng.pick(&first), &stems, *rng.pick(&last)]
        .concat()
        .into_bytes()
}

/// Names of real ones that follow each other.
fn real_cities(count: usize, rng: &mut Rng) -> BTreeSet<Vec<u8>> {
    let names: Vec<&str> = cities().collect();
    let from = rng.below(1 + names.len().saturating_sub(count));
    let some = names[from..].iter().take(count);
    some.map(|name| name.as_bytes().to_vec()).collect()
}

fn url(rng: &mut Rng) -> Vec<u8> {
    let parts = [
        "catalogue/furniture/tables",
        "catalogue/lamps",
        "account/orders",
        "help",
    ];
    let (part, page, id) = (rng.pick(&parts), rng.below(40), rng.below(20_000));
    format!("https://www.example.com/shop/en/{part}/page/{page}/item?id={id}").into_bytes()
}

fn uuid(rng: &mut Rng) -> Vec<u8> {
    let hex: String = random_bytes(rng, 16)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
    .into_bytes()
}

/// Of two tables whose keys lie among each other, each in steps of its own.
fn in_turn(n: usize) -> Vec<u8> {
    let n = n as u64;
    match n % 2 {
        0 => [&(1000 * n).to_be_bytes()[..], b"a"].concat(),
        _ => [&(997 * n).to_be_bytes()[..], b"b/row"].concat(),
    }
}

/// Keys of each kind.
fn kinds(count: usize, rng: &mut Rng) -> Vec<(&'static str, BTreeSet<Vec<u8>>)> {
    let mut of = |make: &dyn Fn(&mut Rng, usize) -> Vec<u8>| -> BTreeSet<Vec<u8>> {
        (0..count).map(|n| make(rng, n)).collect()
    };
    let extremes = |rng: &mut Rng, _| {
        let len = 1 + rng.below(12);
        (0..len)
            .map(|_| *rng.pick(&[0, 0xff, 0, 0xff, 1]))
            .collect()
    };
    let two_tables = |rng: &mut Rng, n: usize| match n % 2 {
        0 => format!("orders/{:010}", rng.below(1 << 30)).into_bytes(),
        _ => [b"stock/", &random_bytes(rng, 8)[..]].concat(),
    };
    vec![
        ("random", of(&|rng, _| random_bytes(rng, 16))),
        ("sequential", of(&|_, n| (n as u64).to_be_bytes().to_vec())),
        ("zero-padded numbers", numbers(count)),
        ("cities", of(&|rng, _| city(rng))),
        ("UUIDs", of(&|rng, _| uuid(rng))),
        ("URLs", of(&|rng, _| url(rng))),
        (
            "last byte of 200",
            of(&|_, n| [vec![b'k'; 199], vec![n.to_le_bytes()[0]]].concat()),
        ),
        ("0x00 and 0xff", of(&extremes)),
        ("two tables", of(&two_tables)),
        // What is drawn behind them is as it was without them.
        ("real cities", real_cities(count, &mut rng.clone())),
        ("two tables in turn", (0..count).map(in_turn).collect()),
    ]
}

fn contents_of(keys: &BTreeSet<Vec<u8>>, value: usize, rng: &mut Rng) -> Contents {
    let entries = keys.iter().enumerate();
    let entry = |(n, key): (usize, &Vec<u8>)| {
        let value = random_bytes(rng, value);
        Entry::put(key, 1 + n as u64 % 900, &value)
    };
    Contents::of(entries.map(entry).collect())
}

/// Enough keys for two groups, and few bytes.
pub fn small() -> Contents {
    let mut rng = Rng::new(1);
    let mut keys = numbers(120);
    keys.extend((0..120).map(|_| [b"\xff", &random_bytes(&mut rng, 12)[..]].concat()));
    contents_of(&keys, 20, &mut rng)
}

fn options(block_bytes: usize, index: IndexKind) -> WriteOptions {
    WriteOptions {
        block_bytes,
        index,
        ..WriteOptions::default()
    }
}

/// Counts data blocks that are read, and bytes of lower index blocks.
struct Counting {
    source: FileSource,
    reads: Cell<u64>,
    lower: Cell<usize>,
}

impl Counting {
    fn new(source: FileSource) -> Counting {
        Counting {
            source,
            reads: Cell::new(0),
            lower: Cell::new(0),
        }
    }
}

impl BlockSource for &Counting {
    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Arc<Block>> {
        match handle.kind {
            BlockKind::Data => self.reads.set(self.reads.get() + 1),
            _ => self.lower.set(self.lower.get() + handle.len as usize),
        }
        self.source.block(table, handle)
    }
}

/// Writes the contents with the index that is wanted, and compares whatever is asked with the model. Which
/// index it became.
fn compared(contents: &Contents, options: WriteOptions, rng: &mut Rng) -> IndexUse {
    let fs = fresh();
    let meta = contents.write(&fs, 7, options).unwrap();
    let (table, source) = open(&fs, 7).unwrap();
    assert_eq!(*table.properties(), meta.properties);
    assert_same(&read_all(&fs, 7).unwrap(), contents, "whole");
    let file = fs.open(&path(7), OpenMode::Read).unwrap();
    let verified = verify_table(&file, identity(7));
    assert!(verified.faults.is_empty(), "{:?}", verified.faults);
    let part = TablePart::whole(Arc::clone(&table));
    let every = contents.entries.len().div_ceil(300).max(1);
    for entry in contents.entries.iter().step_by(every) {
        let found = get(&part, &entry.key, entry.seqno, &source)
            .unwrap()
            .unwrap();
        assert_eq!(found.seqno, entry.seqno, "{:?}", entry.key);
    }
    look_up(rng, &part, contents, &source);
    walk(rng, &part, contents, &source);
    meta.properties.index
}

/// Compares tables of all kinds of keys. How many have a learned index, by kind.
pub fn all_kinds(all: impl IntoIterator<Item = u64>) -> Vec<(&'static str, u32)> {
    let mut learned: Vec<(&'static str, u32)> = Vec::new();
    for seed in all {
        let _replay = Replay::new("-p thermocline-sst --test table keys_of_all_kinds", seed);
        let mut rng = Rng::new(seed);
        for (name, keys) in kinds(2000, &mut rng) {
            let value = *rng.pick(&[0, 16, 300, 1000]);
            let contents = contents_of(&keys, value, &mut rng);
            let block_bytes = *rng.pick(&[256, 4096]);
            let mut options = options(block_bytes, IndexKind::Learned);
            options.compression = *rng.pick(&[Compression::None, Compression::Lz4]);
            let used = compared(&contents, options, &mut rng);
            assert_ne!(used, IndexUse::Binary);
            options.index = IndexKind::Binary;
            assert_eq!(compared(&contents, options, &mut rng), IndexUse::Binary);
            if !learned.iter().any(|(of, _)| *of == name) {
                learned.push((name, 0));
            }
            let count = learned.iter_mut().find(|(of, _)| *of == name);
            count.unwrap().1 += u32::from(used == IndexUse::Learned);
        }
    }
    learned
}

#[test]
fn keys_of_all_kinds_are_found_as_in_a_binary_index() {
    let all = seeds(0..12);
    let learned = all_kinds(all.iter().copied());
    println!(
        "{} tables of each kind, so many of them learned: {learned:?}",
        all.len()
    );
    let is_learned = |name| learned.iter().any(|(of, count)| *of == name && *count > 0);
    assert!(all.len() < 12 || learned.iter().all(|(name, _)| is_learned(*name)));
}

/// Compares tables of keys with versions, some of which fill several blocks. How many are learned, and how many
/// fell back.
pub fn versions_over_blocks(all: impl IntoIterator<Item = u64>) -> [u32; 2] {
    let [mut learned, mut fell_back] = [0; 2];
    for seed in all {
        let _replay = Replay::new("-p thermocline-sst --test table versions_over_blocks", seed);
        let mut rng = Rng::new(seed);
        let mut entries = Vec::new();
        for n in 0..300 {
            let versions = if rng.one_in(9) { 1 + rng.below(9) } else { 1 };
            for version in (0..versions as u64).rev() {
                let len = rng.below(60);
                let value = random_bytes(&mut rng, len);
                entries.push(Entry::put(
                    format!("{n:08}").as_bytes(),
                    10 + version,
                    &value,
                ));
            }
        }
        let options = options(*rng.pick(&[64, 128, 256]), IndexKind::Learned);
        match compared(&Contents::of(entries), options, &mut rng) {
            IndexUse::Learned => learned += 1,
            _ => fell_back += 1,
        }
    }
    [learned, fell_back]
}

#[test]
fn versions_over_blocks_are_found_as_in_a_binary_index() {
    let all = seeds(0..60);
    let [learned, fell_back] = versions_over_blocks(all.iter().copied());
    println!("{learned} learned, {fell_back} fell back");
    assert!(all.len() < 60 || learned > 10 && fell_back > 3);
}

/// What is there is found in one read, as through a binary index.
#[test]
fn one_data_block_is_read_for_a_key_that_is_there() {
    let mut rng = Rng::new(2);
    for (name, keys) in kinds(2000, &mut rng) {
        let contents = contents_of(&keys, 100, &mut rng);
        let fs = fresh();
        contents
            .write(&fs, 7, options(1024, IndexKind::Learned))
            .unwrap();
        let (table, source) = open(&fs, 7).unwrap();
        let part = TablePart::whole(table);
        let counting = Counting::new(source);
        for entry in &contents.entries {
            get(&part, &entry.key, SeqNo::MAX, &&counting)
                .unwrap()
                .unwrap();
        }
        assert_eq!(
            counting.reads.get(),
            contents.entries.len() as u64,
            "{name}"
        );
    }
}

/// Numbers of 16 digits with values of 1 KiB.
#[test]
fn the_index_of_numbers_is_a_twentieth_of_the_binary_one() {
    let keys = numbers(20_000);
    let contents = contents_of(&keys, 1024, &mut Rng::new(3));
    let lens = [IndexKind::Binary, IndexKind::Learned].map(|index| {
        let fs = fresh();
        let meta = contents.write(&fs, 7, options(4096, index)).unwrap();
        let root = meta_blocks(&fs.contents(&path(7)).unwrap())[2].1;
        let (table, source) = open(&fs, 7).unwrap();
        let counting = Counting::new(source);
        let mut cursor = SyncCursor::new(TablePart::whole(table), &counting);
        let mut more = cursor.first().unwrap();
        while more {
            more = cursor.next().unwrap();
        }
        (root + counting.lower.get(), meta.properties.index)
    });
    println!("{lens:?}");
    assert_eq!(lens[1].1, IndexUse::Learned);
    assert!(20 * lens[1].0 <= lens[0].0, "{lens:?}");
}

#[test]
fn a_table_that_no_model_fits_falls_back_and_says_so() {
    // One key in so many versions that they fill many blocks.
    let versions = (0..2000u64).map(|n| Entry::put(b"key", 3000 - n, &[7; 90]));
    let versions = Contents::of(versions.collect());
    // Keys of so many bytes that training is not worth it.
    let long = (0..40u8).map(|n| Entry::put(&[&[b'k'; 50_000][..], &[n]].concat(), 1, b""));
    let long = Contents::of(long.collect());
    for contents in [Contents::default(), versions, long] {
        let options = options(1024, IndexKind::Learned);
        let used = compared(&contents, options, &mut Rng::new(4));
        assert_eq!(used, IndexUse::FellBack);
    }
}

/// The table is small enough that every bit can be flipped.
#[test]
fn no_flipped_bit_of_a_learned_index_passes() {
    let contents = small();
    let fs = fresh();
    contents
        .write(&fs, 7, options(128, IndexKind::Learned))
        .unwrap();
    let bytes = fs.contents(&path(7)).unwrap();
    let (at, len) = meta_blocks(&bytes)[2];
    for bit in 8 * at..8 * (at + len) {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs.install(&path(7), &flipped);
        assert!(open(&fs, 7).is_err(), "{bit}");
    }
}

/// Behind a right checksum: whatever an index says, a check finds it, or reads find everything.
#[test]
fn a_check_finds_an_index_that_leads_elsewhere() {
    let contents = small();
    let fs = fresh();
    contents
        .write(&fs, 7, options(128, IndexKind::Learned))
        .unwrap();
    // With the sum of all blocks each would be found.
    let bytes = without_sum(&fs.contents(&path(7)).unwrap());
    let (at, len) = meta_blocks(&bytes)[2];
    let (mut refused, mut found, mut sound) = (0, 0, 0);
    for bit in 8 * (at + 4)..8 * (at + len - 12) {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        reseal(&mut flipped, 7, at, len);
        fs.install(&path(7), &flipped);
        let Ok((table, source)) = open(&fs, 7) else {
            refused += 1;
            continue;
        };
        if !verify_table(&source.0, identity(7)).faults.is_empty() {
            found += 1;
            continue;
        }
        sound += 1;
        let part = TablePart::whole(table);
        for entry in &contents.entries {
            let there = get(&part, &entry.key, entry.seqno, &source).unwrap();
            assert!(there.is_some(), "{bit}");
        }
    }
    println!("{refused} refused, {found} found, {sound} sound");
    assert!(refused > 500 && found > 200 && sound > 50);
}

/// Numbers, names, and bytes that look random: several groups.
fn golden_contents() -> Contents {
    let key = |n: u64| match n % 3 {
        0 => format!("key{n:04}").into_bytes(),
        1 => format!("name/{}", n * n * 7919).into_bytes(),
        _ => [
            b"\xff",
            &n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[..],
        ]
        .concat(),
    };
    let mut keys: Vec<_> = (0..120u64).map(key).collect();
    keys.sort();
    let entries = (0..).zip(keys).map(|(n, key)| {
        let value = "v".repeat(20 + usize::from(key[key.len() - 1] % 4));
        Entry::put(&key, 100 - n % 3, value.as_bytes())
    });
    Contents::of(entries.collect())
}

/// Draws the root of a learned index from the drawing alone, and all else as rows.
fn drawn(bytes: &[u8]) -> String {
    let (root, len) = meta_blocks(bytes)[2];
    let rows = |len: usize| {
        vec![(32, "bytes"); len / 32]
            .into_iter()
            .chain([(len % 32, "bytes")])
    };
    let mut fields: Vec<(usize, String)> = Vec::new();
    fields.extend(rows(root).map(|(len, name)| (len, name.to_string())));
    fields.extend(crate::learned_drawing::root(bytes, root, len));
    fields.extend(rows(bytes.len() - root - len).map(|(len, name)| (len, name.to_string())));
    let fields = fields.iter().filter(|(len, _)| *len > 0);
    let fields: Vec<_> = fields.map(|(len, name)| (*len, &name[..])).collect();
    golden::annotate(bytes, &fields)
}

#[test]
fn a_table_with_a_learned_index_is_the_golden() {
    let fs = fresh();
    let options = options(128, IndexKind::Learned);
    let meta = golden_contents().write(&fs, 7, options).unwrap();
    assert_eq!(meta.properties.index, IndexUse::Learned);
    let bytes = fs.contents(&path(7)).unwrap();
    let older = without_sum(&bytes);
    golden::check("table with a learned index", GOLDEN, &drawn(&older));
    fs.install(&path(7), &golden::bytes(GOLDEN));
    assert_same(&read_all(&fs, 7).unwrap(), &golden_contents(), "golden");
}
