//! Values that are damaged beside what is asked for.

use thermocline::options::Codec;
use thermocline::{ColumnFamily, Result, TxnOptions, Value};
use thermocline_testkit::block_on;

use super::*;

type Entry = Result<(Vec<u8>, Value)>;

/// A store in which the values of `a` and `c` are damaged, and those of `b1` and `b2` are not.
fn damaged_around(dir: &Path, reverse: bool, flushed: bool) -> (Db, ColumnFamily) {
    let mut options = options();
    options.set("level0.shape", "global-index").unwrap();
    options.blob.inline_bytes_max = 8000;
    options.blob.compression = Codec::None;
    let db = Db::open(dir, options).unwrap();
    let order = CfOptions::default().reverse(reverse);
    let family = db.column_family("family", order).unwrap();
    for key in ["a", "b1", "b2", "c"] {
        family.put(key, vec![key.as_bytes()[0]; 20_000]).unwrap();
    }
    if flushed {
        db.flush().unwrap();
    }
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "blob") {
            continue;
        }
        let mut bytes = std::fs::read(&path).unwrap();
        for byte in [b'a', b'c'] {
            let run = [byte; 100];
            if let Some(at) = bytes.windows(100).position(|some| some == run) {
                bytes[at + 50] ^= 1;
                std::fs::write(&path, &bytes).unwrap();
            }
        }
    }
    for key in ["a", "c"] {
        refused(family.get(key), ErrorKind::Corruption, &[]);
    }
    (db, family)
}

/// The keys, none of which may be an error.
#[track_caller]
fn assert_keys(entries: impl IntoIterator<Item = Entry>, descending: bool, keys: &[&str]) {
    let entries = entries.into_iter();
    let mut found: Vec<Vec<u8>> = entries.map(|entry| entry.unwrap().0).collect();
    if descending {
        found.reverse();
    }
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    assert_eq!(found, keys);
}

#[test]
fn a_scan_is_not_told_of_damage_outside_its_range() {
    for (reverse, flushed) in [(false, false), (false, true), (true, false), (true, true)] {
        let home = home();
        let (_db, family) = damaged_around(&home.path().join("db"), reverse, flushed);
        let keys = ["b1", "b2"];
        let scan = || family.prefix("b");
        assert_keys(scan(), reverse, &keys);
        assert_keys(scan().rev(), !reverse, &keys);
        let range = || match reverse {
            false => family.range("b1".."c"),
            true => family.range("b2".."a"),
        };
        assert_keys(range(), reverse, &keys);
        assert_keys(range().rev(), !reverse, &keys);
        let mut both = scan();
        let ends = [both.next(), both.next_back()].map(Option::unwrap);
        assert_keys(ends, reverse, &keys);
        assert!(both.next_back().is_none() && both.next().is_none());
        for back in [false, true] {
            let mut scan = match back {
                false => scan().into_async(),
                true => scan().into_async_rev(),
            };
            let next = || block_on(scan.next());
            assert_keys(std::iter::from_fn(next), reverse != back, &keys);
        }
        // Who asks for all is told, at both ends.
        assert!(family.iter().any(|entry| entry.is_err()));
        assert!(family.iter().rev().any(|entry| entry.is_err()));
    }
}

#[test]
fn a_transaction_is_not_told_of_damage_outside_its_range() {
    for (reverse, flushed) in [(false, false), (false, true), (true, false), (true, true)] {
        let home = home();
        let (db, family) = damaged_around(&home.path().join("db"), reverse, flushed);
        for options in [TxnOptions::pessimistic(), TxnOptions::optimistic()] {
            let mut txn = db.transaction(options).unwrap();
            assert_keys(txn.prefix_cf(&family, "b"), reverse, &["b1", "b2"]);
            assert_keys(txn.prefix_cf(&family, "b").rev(), !reverse, &["b1", "b2"]);
            for own in ["b0", "b3"] {
                txn.put_cf(&family, own, "own").unwrap();
            }
            let keys = ["b0", "b1", "b2", "b3"];
            assert_keys(txn.prefix_cf(&family, "b"), reverse, &keys);
            assert_keys(txn.prefix_cf(&family, "b").rev(), !reverse, &keys);
            let (first, last) = match reverse {
                false => ("b", "c"),
                true => ("b9", "b"),
            };
            txn.delete_range_cf(&family, first..last).unwrap();
            assert!(txn.prefix_cf(&family, "b").next().is_none());
            assert!(txn.prefix_cf(&family, "b").next_back().is_none());
            txn.rollback();
        }
    }
}
