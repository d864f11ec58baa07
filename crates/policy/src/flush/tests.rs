//! Limits of flushes, one by one and together.

use proptest::prelude::*;

use super::*;

fn sealed() -> impl Strategy<Value = Sealed> {
    let waits = (0usize..80, 0usize..80, 0u64..3000, 0u64..3000, 1u64..3000);
    let pm = (
        100u64..5000,
        0u64..95,
        proptest::option::of(0u64..3000),
        0usize..64,
    );
    let dram = (0u64..3000, 1u64..3000, 1u64..=90, 0u64..9000, 1u64..9000);
    (waits, pm, dram).prop_map(|(waits, pm, dram)| {
        let (memtables, memtables_due, bytes, blob_bytes, blob_bytes_due) = waits;
        let (pm_bytes, sealed_percent, tables, descriptors_free) = pm;
        let (used, limit, percent, held_by_all, budget) = dram;
        Sealed {
            automatic: true,
            memtables,
            memtables_due,
            bytes,
            taken_bytes: 0,
            blob_bytes,
            blob_bytes_due,
            pm_bytes,
            sealed_percent,
            alone_percent: 50,
            tables,
            skips: false,
            descriptors_free,
            dram: Dram {
                used,
                limit,
                percent,
                held_by_all,
                budget,
            },
            scans: Scans::default(),
        }
    })
}

proptest! {
    #[test]
    fn more_that_waits_never_puts_a_flush_off(sealed in sealed(), more in 1u64..500) {
        let plan = sealed.plan();
        prop_assert_eq!(plan.due, plan.because.is_some());
        prop_assert!(!plan.due || sealed.memtables > 0);
        let larger = Sealed {
            memtables: sealed.memtables + 1,
            bytes: sealed.bytes + more,
            blob_bytes: sealed.blob_bytes + more,
            ..sealed
        };
        prop_assert!(!plan.due || larger.plan().due);
        // Room that tables leave never makes a flush due earlier.
        let usual = Sealed { tables: None, ..sealed };
        prop_assert!(plan.sealed_bytes_due >= usual.plan().sealed_bytes_due);
    }

    #[test]
    fn no_more_memtables_are_taken_than_are_asked_for(
        oldest_first in proptest::collection::vec(1u64..500, 0..12),
        least in 1u64..3000,
    ) {
        let taken = taken(oldest_first.iter().copied(), least);
        let bytes: u64 = oldest_first[..taken].iter().sum();
        prop_assert!(bytes >= least || taken == oldest_first.len());
        prop_assert!(taken == 0 || bytes - oldest_first[taken - 1] < least);
    }

    #[test]
    fn a_store_alone_is_never_crowded(sealed in sealed()) {
        prop_assert!(!sealed.dram.is_crowded(1) && !sealed.dram.is_crowded(0));
        prop_assert!(!sealed.dram.seals_for_others(CROWDED_INDEX_BYTES_MIN, 2));
    }
}

/// A store whose usual flush has 80 bytes, and whose tables for scans have 10 at least.
fn scanned(sealed_bytes: u64, scans: Scans) -> Sealed {
    Sealed {
        automatic: true,
        memtables: usize::from(sealed_bytes > 0),
        memtables_due: 0,
        bytes: sealed_bytes,
        taken_bytes: 0,
        blob_bytes: 0,
        blob_bytes_due: 1000,
        pm_bytes: 1000,
        sealed_percent: 8,
        alone_percent: 50,
        tables: Some(0),
        skips: false,
        descriptors_free: 60,
        dram: Dram {
            used: 0,
            limit: 1000,
            percent: 60,
            held_by_all: 0,
            budget: 1000,
        },
        scans,
    }
}

/// And with one memtable less, one byte less, or one place more none is.
#[test]
fn each_limit_alone_makes_a_flush_due() {
    let below = Sealed {
        memtables: 9,
        memtables_due: 10,
        bytes: 669,
        blob_bytes: 999,
        descriptors_free: DESCRIPTORS_SHORT + 1,
        dram: Dram {
            used: 599,
            limit: 1000,
            percent: 60,
            held_by_all: 599,
            budget: 1000,
        },
        ..scanned(669, Scans::default())
    };
    let because = |change: &dyn Fn(&mut Sealed)| {
        let mut sealed = below;
        change(&mut sealed);
        assert!(
            Sealed {
                memtables: 0,
                ..sealed
            }
            .plan()
            .because
            .is_none()
        );
        sealed.plan().because
    };
    assert_eq!(because(&|_| ()), None);
    let bytes = Because::Bytes {
        bytes: 670,
        due: 670,
    };
    assert_eq!(because(&|sealed| sealed.bytes = 670), Some(bytes));
    let number = Because::Number {
        memtables: 10,
        due: 10,
    };
    assert_eq!(because(&|sealed| sealed.memtables = 10), Some(number));
    let blobs = Because::Blobs {
        bytes: 1000,
        due: 1000,
    };
    assert_eq!(because(&|sealed| sealed.blob_bytes = 1000), Some(blobs));
    let few = Because::Descriptors {
        free: DESCRIPTORS_SHORT,
        due: DESCRIPTORS_SHORT,
    };
    assert_eq!(because(&|sealed| sealed.descriptors_free -= 1), Some(few));
    let dram = |used| Some(Because::Dram { used, due: 600 });
    assert_eq!(because(&|sealed| sealed.dram.used = 600), dram(600));
    assert_eq!(because(&|sealed| sealed.dram.held_by_all = 600), dram(599));
}

/// Why a flush is due for scans after so many entries, and not one sooner.
fn due_after(sealed: Sealed, entries: u64) -> (u64, bool) {
    let after = |scanned| {
        let scans = Scans {
            scanned,
            ..sealed.scans
        };
        Sealed { scans, ..sealed }.plan().because
    };
    assert_eq!(after(entries - 1), None);
    match after(entries) {
        Some(Because::Scans { due, seals, .. }) => (due, seals),
        other => panic!("{other:?}"),
    }
}

/// A manifest says how large tables in persistent memory are, and may say anything.
#[test]
fn beside_tables_of_any_size_nothing_stays() {
    let scans = Scans {
        scanned: 1 << 40,
        active_records: 100,
        active_bytes: 100,
        ..Scans::default()
    };
    let sealed = Sealed {
        tables: Some(u64::MAX),
        ..scanned(60, scans)
    };
    assert_eq!(sealed.plan().because, None);
    assert_eq!(sealed.takes_bytes(), u64::MAX);
}

#[test]
fn scans_pay_for_the_records_of_all_memtables() {
    let active = Scans {
        active_records: 100,
        active_bytes: 100,
        ..Scans::default()
    };
    assert_eq!(due_after(scanned(0, active), 200), (200, true));
    let found = Scans { found: 7, ..active };
    assert_eq!(due_after(scanned(0, found), 207), (200, true));
    let both = Scans {
        records: 50,
        ..active
    };
    assert_eq!(due_after(scanned(60, both), 300), (300, true));
    let sealed = scanned(
        60,
        Scans {
            scanned: 300,
            ..both
        },
    );
    let because = sealed.plan().because.unwrap();
    assert_eq!(
        because.to_string(),
        "flush: 300 entries were scanned, of 300; the active memtable is sealed for it"
    );
}

#[test]
fn the_active_memtable_is_sealed_for_scans_only_where_that_makes_wide_tables_at_once() {
    let narrow = Scans {
        records: 50,
        active_records: 9,
        active_bytes: 9,
        ..Scans::default()
    };
    // It counts, and stays.
    assert_eq!(due_after(scanned(60, narrow), 118), (118, false));
    let alone = Scans {
        records: 0,
        scanned: u64::MAX,
        ..narrow
    };
    assert_eq!(scanned(0, alone).plan().because, None);
    // As much as finds room are the sealed ones alone.
    let wide = Scans {
        active_records: 50,
        active_bytes: 50,
        ..narrow
    };
    assert_eq!(due_after(scanned(318, wide), 200), (200, false));
    assert_eq!(due_after(scanned(310, wide), 200), (200, true));
    // Where usual flushes take all at once nothing is sealed for scans.
    let all = Sealed {
        sealed_percent: 0,
        ..scanned(
            0,
            Scans {
                scanned: 1000,
                ..wide
            },
        )
    };
    assert_eq!(all.plan().because, None);
}
