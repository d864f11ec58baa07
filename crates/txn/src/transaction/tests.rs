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
