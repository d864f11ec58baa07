//! The cache of blocks: whose blocks it gives, how many bytes it keeps, and what it does with errors.

use std::sync::Arc;

use thermocline_base::budget::{Account, Budget, Spare};
use thermocline_base::{BlobRef, ErrorKind, FileId, SeqNo};
use thermocline_env::fault::{Fault, FaultStorage, Plan, Repeat};
use thermocline_env::{File, OpenMode, Storage};
use thermocline_sst::{
    BlockCache, CachedSource, FoundValue, StoreCache, TablePart, WriteOptions, get, open_table,
};

use crate::common::*;

const KEYS: u64 = 2000;

/// Parts of a cache of which it is counted what fits. On a machine with many processors it would have so many that each is as small as a
/// block or two, once all of them are to be small.
const PARTS: usize = 8;

fn key(n: u64) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// A table of `KEYS` keys with values of 200 bytes `byte`.
fn write(storage: &dyn Storage, file: u64, byte: u8) -> Arc<dyn File> {
    let entries = (0..KEYS).map(|n| Entry::put(&key(n), n + 1, &[byte; 200]));
    let contents = Contents::of(entries.collect());
    contents
        .write(storage, file, WriteOptions::default())
        .unwrap();
    storage.open(&path(file), OpenMode::Read).unwrap()
}

struct Reader {
    part: TablePart,
    source: CachedSource,
}

impl Reader {
    fn new(store: &StoreCache, file: Arc<dyn File>, number: u64) -> Reader {
        let table = open_table(&*file, identity(number)).unwrap();
        Reader {
            part: TablePart::whole(table),
            source: store.source(file),
        }
    }

    fn blocks(&self) -> u64 {
        self.part.table().properties().data_blocks
    }

    /// The byte of key `n`'s value.
    fn byte(&self, n: u64) -> thermocline_base::Result<u8> {
        let found = get(&self.part, &key(n), SeqNo(1 << 40), &self.source)?.unwrap();
        match found.value {
            FoundValue::Inline(value) => Ok(value[0]),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn blocks_are_found_where_they_were_read_and_nowhere_else() {
    let cache = BlockCache::new(64 << 20);
    // Two stores whose databases and files have the same ids, as a copied folder's have; and two
    // files of one store.
    let disks = [fresh(), fresh()];
    let stores = [cache.store(), cache.store()];
    let mut readers = Vec::new();
    for (byte, (disk, store)) in (0..).step_by(2).zip(disks.iter().zip(&stores)) {
        for file in [7, 8] {
            let byte = byte + u8::try_from(file - 7).unwrap();
            readers.push((Reader::new(store, write(disk, file, byte), file), byte));
        }
    }
    for _ in 0..3 {
        for (reader, byte) in &readers {
            for n in (0..KEYS).step_by(17) {
                assert_eq!(reader.byte(n).unwrap(), *byte);
            }
        }
    }
    let usage = cache.usage();
    assert!(usage.hits > 2 * usage.misses, "{usage:?}");
    assert_eq!(usage.blocks, usage.misses, "all fit");
    assert_eq!(usage.bytes, cache.bytes());
}

#[test]
fn the_budget_is_kept_whatever_is_read() {
    for bytes_max in [0, 10_000, 100_000, 300_000] {
        let disk = fresh();
        let cache = BlockCache::new(bytes_max);
        let store = cache.store();
        let readers: Vec<Reader> = (1..4)
            .map(|file| {
                let byte = u8::try_from(file).unwrap();
                Reader::new(&store, write(&disk, file, byte), file)
            })
            .collect();
        let all: u64 = readers.iter().map(Reader::blocks).sum();
        for round in 0..2 {
            for (reader, byte) in readers.iter().zip(1..) {
                for n in 0..KEYS {
                    assert_eq!(reader.byte(n * 7 % KEYS).unwrap(), byte, "{round}");
                    let bytes = cache.bytes();
                    assert!(bytes <= bytes_max, "{bytes} of {bytes_max}");
                }
            }
        }
        let usage = cache.usage();
        assert_eq!(usage.bytes_max, bytes_max);
        assert!(usage.misses > all, "{usage:?}: more than fits was read");
        assert_eq!(usage.blocks > 0, bytes_max > 0, "{usage:?}");
    }
}

/// What is read often stays while ten times as much as the cache holds is read once, as by a scan; and goes where that is read often,
/// too. A cache that lets the oldest go would have none of it left in either case.
#[test]
fn what_is_read_once_pushes_nothing_out_that_is_read_often() {
    /// About as many keys as a block has.
    const STEP: usize = 18;
    let missed_after = |times: usize| {
        let disk = fresh();
        let cache = BlockCache::new(200_000);
        let store = cache.store();
        let often = Reader::new(&store, write(&disk, 1, 1), 1);
        let read_often = || {
            let before = cache.usage().misses;
            (0..KEYS / 4)
                .step_by(STEP)
                .for_each(|n| assert_eq!(often.byte(n).unwrap(), 1));
            cache.usage().misses - before
        };
        let blocks = read_often();
        for _ in 0..3 {
            assert_eq!(read_often(), 0, "they fit");
        }
        for file in 2..8 {
            let scanned = Reader::new(&store, write(&disk, file, 2), file);
            for n in (0..KEYS).step_by(STEP) {
                (0..times).for_each(|_| assert_eq!(scanned.byte(n).unwrap(), 2));
            }
        }
        (read_often(), blocks)
    };
    let (missed, blocks) = missed_after(1);
    assert!(missed * 10 <= blocks, "{missed} of {blocks}");
    let (missed, blocks) = missed_after(8);
    assert!(missed * 2 > blocks, "{missed} of {blocks}");
}

/// Keys of a table with many small index blocks.
const MORE: u64 = 5 * KEYS;

/// How many calls it takes to read all of them from anywhere, twice, the second time.
fn calls_of(disk: &FaultStorage, reader: &Reader, bytes_max: u64) -> u64 {
    let cache = reader.source.cache().cache().clone();
    let all = || {
        let before = disk.calls();
        for n in 0..MORE {
            // Those that follow each other are far from each other.
            assert_eq!(reader.byte(n * 997 % MORE).unwrap(), 1);
            assert!(cache.bytes() <= bytes_max);
        }
        disk.calls() - before
    };
    all();
    all()
}

fn write_more(disk: &FaultStorage, file: u64) -> Arc<dyn File> {
    let entries = (0..MORE).map(|n| Entry::put(&key(n), n + 1, &[1; 200]));
    let contents = Contents::of(entries.collect());
    let options = WriteOptions {
        index_block_bytes: 128,
        ..WriteOptions::default()
    };
    contents.write(disk, file, options).unwrap();
    disk.open(&path(file), OpenMode::Read).unwrap()
}

#[test]
fn index_blocks_stay_until_their_file_goes() {
    for (bytes_max, calls_max) in [(40_000, MORE * 11 / 10), (300, u64::MAX)] {
        let disk = FaultStorage::over_sim(fresh());
        let store = BlockCache::new(bytes_max).store();
        // Of a table that is deleted none is kept.
        let mut calls = Vec::new();
        for file in [7, 8, 9] {
            let reader = Reader::new(&store, write_more(&disk, file), file);
            calls.push(calls_of(&disk, &reader, bytes_max));
            store.forget_files(&[FileId(file)].into());
        }
        // Not one data block in fifty fits: a read of a value is one call, of its data block. Without
        // preference 10,000 reads are 16,200 calls.
        assert!(calls.iter().all(|calls| *calls < calls_max), "{calls:?}");
        store.evict(u64::MAX);
        assert_eq!(store.cache().bytes(), 0, "all give way to others");
    }
}

#[test]
fn large_index_blocks_are_not_kept_beyond_the_budget() {
    let disk = fresh();
    // No two data blocks can be told apart by less than 20,000 bytes.
    let key = |n: u64| [vec![b'k'; 20_000], key(n)].concat();
    let entries = (0..600).map(|n| Entry::put(&key(n), n + 1, &[1; 10]));
    let contents = Contents::of(entries.collect());
    contents.write(&disk, 7, WriteOptions::default()).unwrap();
    let file = disk.open(&path(7), OpenMode::Read).unwrap();
    for bytes_max in [1 << 20, 4 << 20, 16 << 20] {
        let store = BlockCache::new(bytes_max).store();
        let reader = Reader::new(&store, file.clone(), 7);
        for n in 0..600 {
            let found = get(&reader.part, &key(n), SeqNo(1 << 40), &reader.source).unwrap();
            assert!(found.is_some());
            let bytes = store.cache().bytes();
            assert!(bytes <= bytes_max, "{bytes} of {bytes_max}");
        }
        while store.cache().bytes() > 0 {
            let before = store.cache().bytes();
            store.evict(100_000);
            let after = store.cache().bytes();
            assert!(after <= before.saturating_sub(100_000), "{before} {after}");
        }
    }
}

#[test]
fn threads_that_miss_a_block_together_read_it_once() {
    let disk = fresh();
    let cache = BlockCache::new(64 << 20);
    let reader = Reader::new(&cache.store(), write(&disk, 7, 1), 7);
    let begin = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                begin.wait();
                for n in 0..KEYS {
                    assert_eq!(reader.byte(n).unwrap(), 1);
                }
            });
        }
    });
    let usage = cache.usage();
    assert_eq!(usage.misses, usage.blocks, "{usage:?}");
    assert!(usage.blocks >= reader.blocks());
}

#[test]
fn an_error_is_told_and_not_kept() {
    let disk = FaultStorage::over_sim(fresh());
    let cache = BlockCache::new(64 << 20);
    let reader = Reader::new(&cache.store(), write(&disk, 7, 1), 7);
    for n in [0, KEYS / 2, KEYS - 1] {
        disk.arm(Plan {
            fault: Fault::Eio,
            op: None,
            at: disk.calls_for(Fault::Eio, None),
            repeat: Repeat::Once,
        });
        let error = reader.byte(n).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert_eq!(reader.byte(n).unwrap(), 1);
    }
}

/// A store's account that may have `limit` bytes, and does not promise anything yet.
fn account(limit: u64) -> Arc<Account> {
    let account = Account::new(Budget::new(u64::MAX), limit);
    account.opened();
    account
}

#[test]
fn blocks_are_charged_and_give_way_to_promises_and_come_back() {
    let disk = fresh();
    let cache = BlockCache::in_parts(PARTS, 10 << 20);
    let account = account(400_000);
    let store = cache.store_of(&account);
    account.add_evicting(Arc::downgrade(&cache) as _);
    let reader = Reader::new(&store, write(&disk, 7, 1), 7);
    let read = || {
        for n in 0..KEYS {
            assert_eq!(reader.byte(n * 7 % KEYS).unwrap(), 1);
            assert_eq!(account.charged(), cache.bytes());
            let both = account.held() + account.charged();
            assert!(both <= 400_000, "{both}");
        }
    };
    read();
    // The cache is made of parts that each hold whole blocks.
    let before = cache.bytes();
    assert!(before > 300_000, "{before}");
    account.promise(300_000, Spare::Keep).unwrap();
    assert!(cache.bytes() <= 100_000);
    read();
    let less = cache.bytes();
    assert!(less > 50_000 && less <= 100_000, "{less}");
    account.settle();
    read();
    assert!(cache.bytes() > 300_000, "{}", cache.bytes());
    account.promise(375_000, Spare::Keep).unwrap();
    read();
    store.forget();
    assert_eq!((cache.bytes(), account.charged()), (0, 0));
}

#[test]
fn a_store_with_a_small_limit_makes_room_among_its_own_blocks() {
    for order in [[0, 1], [1, 0]] {
        let disks = [fresh(), fresh()];
        let cache = BlockCache::in_parts(PARTS, 10 << 20);
        let accounts = [account(100_000), account(10 << 20)];
        let stores = [0, 1].map(|i| cache.store_of(&accounts[i]));
        let readers = [0, 1].map(|i| Reader::new(&stores[i], write(&disks[i], 7, 1), 7));
        for i in order {
            for n in 0..KEYS {
                assert_eq!(readers[i].byte(n).unwrap(), 1);
                assert!(accounts[0].charged() <= 100_000);
            }
        }
        let (small, large) = (accounts[0].charged(), accounts[1].charged());
        assert_eq!(small + large, cache.bytes());
        assert!(small > 80_000, "{small}");
        let misses = cache.usage().misses;
        for n in 0..KEYS {
            assert_eq!(readers[1].byte(n).unwrap(), 1);
        }
        assert_eq!(
            cache.usage().misses,
            misses,
            "the other one's are all there"
        );
        stores[0].forget();
        assert_eq!(cache.bytes(), large);
    }
}

/// Wherever in the cache they lie.
#[test]
fn a_store_with_a_small_limit_keeps_the_blocks_that_it_reads_often() {
    /// About as many keys as a block has.
    const STEP: usize = 18;
    let disk = fresh();
    let cache = BlockCache::in_parts(PARTS, 10 << 20);
    let account = account(200_000);
    let (store, _other) = (cache.store_of(&account), cache.store());
    let often = Reader::new(&store, write(&disk, 7, 1), 7);
    let scanned = Reader::new(&store, write(&disk, 8, 2), 8);
    let read_often = || {
        let before = cache.usage().misses;
        (0..20).for_each(|n| assert_eq!(often.byte(50 * n).unwrap(), 1));
        cache.usage().misses - before
    };
    assert!(read_often() >= 20);
    for n in (0..KEYS).step_by(STEP).cycle().take(500) {
        assert_eq!(scanned.byte(n).unwrap(), 2);
        assert_eq!(read_often(), 0);
        assert!(account.charged() <= 200_000);
    }
    let misses = cache.usage().misses;
    assert!(misses > 400, "{misses}: what is read once goes");
}

#[test]
fn a_full_store_without_blocks_lets_none_of_others_go() {
    let disks = [fresh(), fresh()];
    let cache = BlockCache::in_parts(PARTS, 10 << 20);
    let full = account(100_000);
    let _beside = full.charge(100_000).unwrap();
    let stores = [cache.store_of(&full), cache.store()];
    let readers = [0, 1].map(|i| Reader::new(&stores[i], write(&disks[i], 7, 1), 7));
    for n in 0..KEYS {
        assert_eq!(readers[1].byte(n).unwrap(), 1);
    }
    let bytes = cache.bytes();
    for n in 0..KEYS {
        assert_eq!(readers[0].byte(n).unwrap(), 1);
    }
    stores[0].evict(u64::MAX);
    assert_eq!((cache.bytes(), full.charged()), (bytes, 100_000));
}

#[test]
fn nothing_goes_for_a_block_that_is_too_large_to_be_kept() {
    let disk = fresh();
    let cache = BlockCache::new(100_000);
    let account = account(90_000);
    let store = cache.store_of(&account);
    let small = Reader::new(&store, write(&disk, 7, 1), 7);
    for n in 0..KEYS {
        assert_eq!(small.byte(n).unwrap(), 1);
    }
    let before = (cache.bytes(), account.charged());
    assert!(before.0 > 40_000, "{before:?}");
    let entry = Entry::put(&key(0), 1, &vec![2; 300_000]);
    let contents = Contents::of(vec![entry]);
    contents.write(&disk, 8, WriteOptions::default()).unwrap();
    let file = disk.open(&path(8), OpenMode::Read).unwrap();
    let large = Reader::new(&store, file, 8);
    for _ in 0..2 {
        assert_eq!(large.byte(0).unwrap(), 2);
    }
    assert_eq!((cache.bytes(), account.charged()), before);
}

#[test]
fn who_is_left_alone_makes_room_among_all_blocks() {
    let disk = fresh();
    let cache = BlockCache::in_parts(PARTS, 10 << 20);
    let store = cache.store();
    let other = Reader::new(&cache.store(), write(&disk, 7, 1), 7);
    assert_eq!(other.byte(0).unwrap(), 1);
    store.evict(u64::MAX);
    assert!(cache.bytes() > 0);
    drop(other);
    store.evict(u64::MAX);
    assert_eq!(cache.bytes(), 0);
}

/// A value lies in a file of its own number, so no block is taken for one; and whoever asks with another key does not get it.
#[test]
fn values_are_found_by_who_they_belong_to() {
    let cache = BlockCache::in_parts(PARTS, 1 << 20);
    let account = account(1 << 20);
    let (store, other) = (cache.store_of(&account), cache.store());
    let at = |file, offset| BlobRef {
        file: FileId(file),
        offset,
        len: 4,
    };
    assert_eq!(store.find_value((CF, b"key"), at(9, 64)), None);
    store.keep_value((CF, b"key"), at(9, 64), b"text");
    let kept = cache.bytes();
    assert!(kept >= 7 && account.charged() == kept);
    assert!(store.has_value(at(9, 64)) && !store.has_value(at(9, 72)));
    let found = store.find_value((CF, b"key"), at(9, 64));
    assert_eq!(found.as_deref(), Some(&b"text"[..]));
    for (key, at) in [
        (b"kex", at(9, 64)),
        (b"key", at(8, 64)),
        (b"key", at(9, 72)),
    ] {
        assert_eq!(store.find_value((CF, key), at), None);
    }
    assert_eq!(other.find_value((CF, b"key"), at(9, 64)), None);
    // A long one takes the room of many.
    store.keep_value((CF, b"key"), at(9, 128), &[1; (64 << 10) + 1]);
    assert!(!store.has_value(at(9, 128)));
    store.forget_files(&[FileId(9)].into());
    assert_eq!((cache.bytes(), account.charged()), (0, 0));
    // As blocks do, they give way.
    for n in 0..2000 {
        store.keep_value((CF, b"key"), at(9, n * 8), &[1; 1000]);
        assert!(cache.bytes() <= 1 << 20 && account.charged() <= 1 << 20);
    }
    assert!(account.charged() > 1 << 19);
    store.evict(1 << 19);
    assert!(account.charged() <= 1 << 19);
    // A cache of no bytes keeps none.
    let none = BlockCache::new(0).store();
    none.keep_value((CF, b"key"), at(9, 64), b"text");
    assert!(!none.has_value(at(9, 64)) && none.find_value((CF, b"key"), at(9, 64)).is_none());
}
