//! Scans pay for tables.

use super::*;
use crate::tuning::SCANS_PER_RECORD;

/// A store that is written slowly, and whose memtables have most of its data.
fn scanned(scanned_per_s: f64) -> Outcome {
    run(&Setting {
        writes_per_s: 1e6,
        scanned_per_s,
        warm_bytes: 0,
        user_bytes: 4 * PM_BYTES,
        ..setting(Preset::Thermocline, 0.25, 0.0, 0.0)
    })
}

#[test]
fn what_is_scanned_becomes_tables_and_each_record_is_paid_for() {
    let plain = scanned(0.0);
    assert_eq!((plain.records_for_scans, plain.scanned), (0, 0.0));
    // Less than it takes to pay for what is written in all that time.
    let seldom = scanned(1.0);
    assert!(seldom.scanned > 0.0 && seldom.records_for_scans == 0);
    let often = scanned(1e6);
    assert!(often.records_for_scans > 0, "{often:?}");
    // What zones have beyond the records lets a little be paid twice.
    let paid = (SCANS_PER_RECORD * often.records_for_scans) as f64;
    assert!(paid <= 1.1 * often.scanned, "{often:?}");
    // Memtables are sealed before they are full.
    assert!(often.flushes > 2 * plain.flushes, "{often:?}, {plain:?}");
}
