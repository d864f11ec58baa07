use std::thread;
use std::time::Duration;

use thermocline_base::ErrorKind;

use super::*;
use crate::fake::Fake;
use crate::transactions::Transactions;

/// Bytes of DRAM that it needs: those that it has taken, but for what is spare.
fn needed(txn: &Transaction<Fake>) -> u64 {
    let held = txn.held().borrow();
    held.bytes - held.spare
}

/// What it was to be is not written, and nothing is kept for it: no lock, and no DRAM.
#[test]
fn a_write_that_makes_it_too_long_gives_back_what_it_took() {
    for options in [TxnOptions::pessimistic(), TxnOptions::optimistic()] {
        let all = Transactions::new(Fake::default());
        let mut txn = all.begin(options).unwrap();
        txn.put(Family::DEFAULT, b"own", b"0").unwrap();
        txn.reading.lists_mut().writes.fill();
        let there = |txn: &Transaction<Fake>| {
            let report = all.report();
            (report.locked_keys, report.locked_ranges, needed(txn))
        };
        let before = there(&txn);
        let refused = [
            txn.put(Family::DEFAULT, b"k", b"v"),
            txn.delete(Family::DEFAULT, b"j"),
            txn.put(Family::DEFAULT, b"own", b"longer"),
            txn.delete_range(Family::DEFAULT, b"a", Some(b"c")),
        ];
        for error in refused.map(Result::unwrap_err) {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        }
        assert_eq!(there(&txn), before);
        // It goes on, where that makes it no longer.
        txn.put(Family::DEFAULT, b"own", b"1").unwrap();
    }
}

/// A reader of a range gets one of two keys that others have, and the store is closed while it waits for the other one. What
/// the first has cost is given back with it, and was taken before.
#[test]
fn a_range_that_is_refused_gives_back_what_its_keys_have_cost() {
    let all = Transactions::new(Fake::default());
    let options = TxnOptions::pessimistic().lock_timeout(Duration::MAX);
    let mut writers = Vec::new();
    for key in [b"b", b"c"] {
        let mut writer = all.begin(options).unwrap();
        writer.put(Family::DEFAULT, key, b"v").unwrap();
        writers.push(writer);
    }
    let serializable = options.isolation(Isolation::Serializable);
    let reader = all.begin(serializable).unwrap();
    let (id, before) = (reader.id(), needed(&reader));
    // For whom it waits, as soon as it does.
    let waits_for = || loop {
        let mut open = all.report().transactions.into_iter();
        let state = open.find(|state| state.id == id);
        match state.map(|state| state.waits_for) {
            Some(others) if !others.is_empty() => break others,
            _ => thread::yield_now(),
        }
    };
    let (refused, reader) = thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let first = reader.scan(Family::DEFAULT, b"a", Some(b"z")).next();
            (first.and_then(Result::err), reader)
        });
        // It waits for one key at a time, and which is first depends on where they lie.
        let first = waits_for();
        writers.retain(|writer| !first.contains(&writer.id()));
        let second = waits_for();
        all.close();
        let left: Vec<u64> = writers.iter().map(Transaction::id).collect();
        assert!(first.len() == 1 && second == left, "{first:?} {second:?}");
        reading.join().unwrap()
    });
    assert!(matches!(refused, Some(Error::Closed)), "{refused:?}");
    assert_eq!(needed(&reader), before);
    // That of the writer who is left.
    let report = all.report();
    assert_eq!((report.locked_keys, report.locked_ranges), (1, 0));
}

/// Reads keys together.
fn read(txn: &Transaction<Fake>, keys: &[&[u8]]) -> Result<()> {
    let named = keys.iter().map(|key| Ok((Family::DEFAULT, *key)));
    let found = txn.multi_get(named)?;
    assert_eq!(found.len(), keys.len());
    Ok(())
}

/// The first of them was not read either, and no commit is refused for it.
#[test]
fn keys_that_are_read_together_may_change_if_there_is_no_dram_for_one_of_them() {
    for options in [TxnOptions::pessimistic(), TxnOptions::optimistic()] {
        let options = options.isolation(Isolation::Serializable);
        let all = Transactions::new(Fake::default());
        let cost_of = |keys: &[&[u8]]| {
            let txn = all.begin(options).unwrap();
            let before = needed(&txn);
            read(&txn, keys).unwrap();
            needed(&txn) - before
        };
        let cost = cost_of(&[b"a", b"b"]);
        // One that is named twice costs once.
        assert_eq!(cost_of(&[b"a", b"b", b"a"]), cost);
        let txn = all.begin(options).unwrap();
        let memory = &txn.shared().memory;
        // Others have all that there is, and it has one byte too few.
        memory.take_anyway(memory.limit);
        txn.held().borrow_mut().spare = cost - 1;
        let before = needed(&txn);
        let refused = read(&txn, &[b"a", b"b"]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::OutOfSpace, "{refused}");
        let is_noted = |key: &[u8]| {
            let touched = txn.reading.lists().touched.borrow();
            touched.has(&OneKey::new(Family::DEFAULT.id, key))
        };
        assert!(!is_noted(b"a") && !is_noted(b"b"));
        assert_eq!((all.report().locked_keys, needed(&txn)), (0, before));
        memory.give_back(memory.limit);
        read(&txn, &[b"a", b"b"]).unwrap();
        assert!(is_noted(b"a") && is_noted(b"b"));
    }
}
