//! Flushes, one after the other.

use super::super::doing::{Doing, Flushed, What};
use super::super::state::Run;
use super::*;

/// Of a value that is larger than a memtable each one that is flushed has less than a record.
#[test]
fn no_flush_begins_beside_one_of_no_whole_record() {
    let mut run = Run::new(&setting(Preset::Thermocline, 1.0, 0.0, 0.0));
    let what = What::Flush {
        memtables: Flushed {
            zones: 1 << 20,
            records: 0,
        },
        edits: Vec::new(),
    };
    // It takes as long as anybody looks.
    run.work.push(Doing {
        holds: None,
        device_bytes: 1e18,
        processor_ns: 0.0,
        what,
    });
    let mut is_due = false;
    for _ in 0..1000 {
        run.fill_memtable();
        let flushes = run.work.iter();
        let flushes = flushes.filter(|doing| matches!(doing.what, What::Flush { .. }));
        assert_eq!(flushes.count(), 1);
        is_due = run.due().is_some();
        if is_due {
            break;
        }
    }
    assert!(is_due);
}

/// What is known of the debt of levels is what a look at them finds, whatever has come to them.
#[test]
fn no_debt_is_known_of_levels_that_have_changed() {
    let mut run = Run::new(&setting(Preset::Leveled, 5.0, 0.0, 0.0));
    let mut different = Vec::new();
    for _ in 0..200 {
        run.fill_memtable();
        let known = run.store.debt();
        run.store.known_debt.set(None);
        assert_eq!(run.store.debt(), known);
        if different.last() != Some(&known) {
            different.push(known);
        }
    }
    assert!(different.len() > 4, "{different:?}");
}
