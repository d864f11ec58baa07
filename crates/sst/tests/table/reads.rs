//! How much a reader reads, and the protocol by which it asks.

use std::cell::Cell;
use std::sync::Arc;

use thermocline_base::{Result, SeqNo};
use thermocline_sst::{
    BlobFile, BlobWriter, Block, BlockHandle, BlockKind, BlockSource, Cursor, FileSource,
    FoundValue, Get, KeyRef, Move, Opening, Step, SyncCursor, Table, TablePart, TableWriter,
    WriteOptions, get, open_table_to_scan,
};
use thermocline_testkit::Rng;

use crate::common::*;
use crate::edges::{all_options, reads_back};

/// A lookup of any version reads one data block at most.
#[test]
fn many_versions_of_a_key_over_several_blocks() {
    let mut entries = Vec::new();
    for key in ["a", "b", "c"] {
        let versions = if key == "b" { 1000 } else { 3 };
        entries.extend(
            (1..=versions)
                .rev()
                .map(|s| Entry::put(key.as_bytes(), s * 2, &[1; 50])),
        );
    }
    let contents = Contents::of(entries);
    for options in all_options() {
        reads_back(&contents, options, "versions");
    }
    let fs = fresh();
    let meta = contents.write(&fs, 7, WriteOptions::default()).unwrap();
    assert!(meta.properties.data_blocks > 10);
    let (table, source) = open(&fs, 7).unwrap();
    let counting = Counting::new(source);
    let part = TablePart::whole(table);
    for seqno in 0..=2001 {
        for key in ["", "a", "aa", "b", "bb", "c", "d"] {
            counting.reads.set(0);
            let found = get(&part, key.as_bytes(), SeqNo(seqno), &counting).unwrap();
            assert_eq!(found.map(kept), contents.get(key.as_bytes(), SeqNo(seqno)));
            assert!(counting.reads.get() <= 1, "{key} at {seqno}");
        }
    }
}

struct Counting {
    source: FileSource,
    reads: Cell<u32>,
}

impl Counting {
    fn new(source: FileSource) -> Counting {
        let reads = Cell::new(0);
        Counting { source, reads }
    }
}

impl BlockSource for Counting {
    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Arc<Block>> {
        self.reads.set(self.reads.get() + 1);
        let block = self.source.block(table, handle)?;
        assert!(block.charge() >= 12 && block.kind() == handle.kind);
        Ok(block)
    }
}

/// Without compression, blocks of small entries each lie within one page.
#[test]
fn a_random_read_is_one_page() {
    let entries = (0..5000u64).map(|n| Entry::put(format!("user{n:08}").as_bytes(), n, &[7; 100]));
    let contents = Contents::of(entries.collect());
    let fs = fresh();
    let meta = contents.write(&fs, 7, WriteOptions::default()).unwrap();
    let p = meta.properties;
    let (table, source) = open(&fs, 7).unwrap();
    let part = TablePart::whole(table);
    let pages = Pages(source, Cell::new((0, 0)));
    for entry in &contents.entries {
        get(&part, &entry.key, SeqNo::MAX, &pages).unwrap().unwrap();
    }
    let (reads, over) = pages.1.get();
    assert_eq!((reads, over), (5000, 0));
    let lost = meta.bytes - p.data_bytes;
    println!(
        "{} data blocks, {lost} of {} bytes are not theirs",
        p.data_blocks, meta.bytes
    );
    assert!(lost < meta.bytes / 20);
}

/// Counts reads of data blocks, and those on more than one page.
struct Pages(FileSource, Cell<(u32, u32)>);

impl BlockSource for Pages {
    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Arc<Block>> {
        if handle.kind == BlockKind::Data {
            let (reads, over) = self.1.get();
            let last = handle.offset + u64::from(handle.len) - 1;
            self.1.set((
                reads + 1,
                over + u32::from(handle.offset / 4096 != last / 4096),
            ));
        }
        self.0.block(table, handle)
    }
}

#[test]
fn who_goes_through_a_table_has_all_of_it_but_the_filter() {
    let entries = (0..2000u64).map(|n| Entry::put(format!("{n:06}").as_bytes(), n, b"v"));
    let fs = fresh();
    Contents::of(entries.collect())
        .write(&fs, 7, WriteOptions::default())
        .unwrap();
    let (whole, source) = open(&fs, 7).unwrap();
    let table = open_table_to_scan(&*source.0, identity(7)).unwrap();
    assert!(table.charge() + 2000 < whole.charge());
    assert!((0..1000u64).all(|n| table.may_contain(&n.to_be_bytes())));
    let mut cursor = SyncCursor::new(TablePart::whole(table), source);
    let (mut there, mut seen) = (cursor.first().unwrap(), 0);
    while there {
        seen += 1;
        there = cursor.next().unwrap();
    }
    assert_eq!(seen, 2000);
}

/// A key that is not there is denied without a read, mostly.
#[test]
fn the_filter_spares_reads() {
    let entries = (0..2000u64).map(|n| Entry::put(format!("{n:06}").as_bytes(), n, b"v"));
    let fs = fresh();
    Contents::of(entries.collect())
        .write(&fs, 7, WriteOptions::default())
        .unwrap();
    let (table, source) = open(&fs, 7).unwrap();
    assert!(table.charge() > 2000);
    let counting = Counting::new(source);
    let part = TablePart::whole(table);
    for n in 0..2000 {
        let key = format!("{n:06}x");
        assert!(
            get(&part, key.as_bytes(), SeqNo::MAX, &counting)
                .unwrap()
                .is_none()
        );
    }
    assert!(counting.reads.get() < 40, "{}", counting.reads.get());
}

/// A move that is begun gives up the one before, wherever that one stood.
#[test]
fn a_move_may_be_given_up() {
    let mut rng = Rng::new(8);
    let contents = random_contents(&mut rng, 400);
    let options = WriteOptions {
        block_bytes: 128,
        index_block_bytes: 64,
        ..WriteOptions::default()
    };
    let fs = fresh();
    contents.write(&fs, 7, options).unwrap();
    let (table, source) = open(&fs, 7).unwrap();
    let part = TablePart::whole(table);
    let mut cursor = Cursor::new(part.clone());
    let mut given_up = 0;
    for _ in 0..3000 {
        let target = rng.pick(&contents.entries);
        let to = match rng.below(6) {
            0 => Move::First,
            1 => Move::Last,
            2 => Move::Next,
            3 => Move::Prev,
            4 => Move::Seek(target.at()),
            _ => Move::SeekForPrev(target.at()),
        };
        let mut patience = rng.below(4);
        let mut step = match cursor.start(to) {
            Ok(step) => step,
            Err(e) => {
                assert!(matches!(to, Move::Next | Move::Prev), "{e}");
                continue;
            }
        };
        while let Step::Need(handle) = step {
            assert!(!cursor.is_at_entry());
            if patience == 0 {
                given_up += 1;
                break;
            }
            patience -= 1;
            let block = source.block(part.table(), handle).unwrap();
            step = cursor.supply(block).unwrap();
        }
        let exact = matches!(to, Move::Seek(_) | Move::SeekForPrev(_));
        if step == Step::Done(true) && exact {
            assert_eq!(cursor.key(), target.at());
        }
    }
    assert!(given_up > 500, "{given_up}");
}

/// What is known without a block is answered without one; else the same block is asked for however
/// often one asks.
#[test]
fn a_lookup_asks_for_what_it_needs() {
    let contents = Contents::of(
        (0..100u8)
            .map(|n| Entry::put(&[b'k', n], u64::from(n), &[1; 99]))
            .collect(),
    );
    let fs = fresh();
    contents.write(&fs, 7, WriteOptions::default()).unwrap();
    let (table, source) = open(&fs, 7).unwrap();
    let part = TablePart::limited(table, Some(b"k\x10"), Some(b"k\x20"));
    let mut outside = Get::new(&part, b"k\x20", SeqNo::MAX);
    assert!(matches!(outside.start(), Step::Done(None)));
    let mut within = Get::new(&part, b"k\x1f", SeqNo::MAX);
    let Step::Need(handle) = within.start() else {
        panic!("it is in a block");
    };
    assert!(matches!(within.start(), Step::Need(again) if again == handle));
    let block = source.block(part.table(), handle).unwrap();
    let Step::Done(Some(found)) = within.supply(block).unwrap() else {
        panic!("it is there");
    };
    assert_eq!(found.seqno, SeqNo(0x1f));
    let target = KeyRef::new(b"k\x1f", SeqNo::MAX);
    let mut cursor = Cursor::new(part);
    assert!(matches!(cursor.start(Move::Next), Ok(Step::Done(false))));
    assert!(matches!(cursor.start(Move::Seek(target)), Ok(Step::Need(n)) if n == handle));
}

/// Tables are shared by threads; readers and writers may move between them, as coroutines do.
#[test]
fn what_is_shared_and_what_moves() {
    fn shared<T: Send + Sync>() {}
    fn moves<T: Send>() {}
    shared::<Table>();
    shared::<TablePart>();
    shared::<Block>();
    shared::<BlobFile>();
    shared::<FoundValue>();
    moves::<Get<'_>>();
    moves::<Cursor>();
    moves::<Opening>();
    moves::<TableWriter>();
    moves::<BlobWriter>();
}
