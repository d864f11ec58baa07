//! Level 0 as a few tables, and what is decided of it.

use proptest::prelude::*;
use thermocline_base::{CfId, FileId, KeyRange, SeqNo};

use super::*;
use crate::cost::Form;
use crate::pick::{State, Table};

const ZONE: u64 = 64 << 10;

fn budget(bytes: u64) -> Budget {
    Budget {
        form: Form::Corrected,
        bytes,
        bytes_while_merging: bytes + bytes / 4,
        part_bytes: bytes / 8,
        table_bytes: ZONE,
        blob_bytes_max: 1 << 20,
    }
}

fn key(n: u64) -> [u8; 1] {
    [u8::try_from(n).expect("keys are small")]
}

/// Tables by first and last key, newest first.
fn tables(keys: &[[[u8; 1]; 2]]) -> Vec<Table<'_>> {
    let numbered = keys.iter().zip((1..=keys.len() as u64).rev());
    numbered
        .map(|([first, last], n)| Table {
            file: FileId(n),
            range: KeyRange::inclusive(first, last),
            bytes: ZONE,
            smallest_seqno: SeqNo(n),
            largest_seqno: SeqNo(n),
            entries: 1,
            deletes: 0,
            in_pm: true,
        })
        .collect()
}

fn contents(count: usize) -> Vec<Content> {
    let one = Content {
        entries: 1000,
        zone_bytes: Some(ZONE),
        blob_bytes: 0,
    };
    vec![one; count]
}

fn rate(reads: f64, writes: f64) -> Vec<(PartitionRate, Option<Vec<u8>>)> {
    let rate = PartitionRate {
        start: Vec::new(),
        reads,
        writes,
        updates: 0.0,
    };
    vec![(rate, None)]
}

fn planned(
    keys: &[[[u8; 1]; 2]],
    share: u64,
    (reads, writes): (f64, f64),
    memory: &Memory,
) -> Level0Plan {
    let levels = [tables(keys)];
    let family = Family {
        family: CfId::DEFAULT,
        state: State {
            levels: &levels,
            running: &[],
        },
        contents: &contents(keys.len()),
        rates: &rate(reads, writes),
    };
    plan(&budget(share), &[family], memory)
}

/// A manifest is held to less than 2^64 bytes in each level of a family, and to nothing else.
#[test]
fn levels_and_families_of_any_size_are_added_up() {
    let keys = [[key(1), key(3)], [key(5), key(7)]];
    let level0 = tables(&keys);
    let below = Table {
        range: KeyRange::inclusive(&keys[0][0], &keys[1][1]),
        bytes: u64::MAX - 1,
        in_pm: false,
        ..level0[0]
    };
    let levels = [level0, vec![below], vec![below]];
    let (contents, rates) = (contents(keys.len()), rate(1.0, 1.0));
    let family = |family| Family {
        family,
        state: State {
            levels: &levels,
            running: &[],
        },
        contents: &contents,
        rates: &rates,
    };
    let plan = plan(
        &budget(ZONE),
        &[family(CfId(0)), family(CfId(1))],
        &Memory::default(),
    );
    assert_eq!((plan.file_bytes, plan.slices.len()), (u64::MAX, 4));
}

fn ranges() -> impl Strategy<Value = Vec<[[u8; 1]; 2]>> {
    let range = (0u64..200, 0u64..40).prop_map(|(first, len)| [key(first), key(first + len)]);
    proptest::collection::vec(range, 1..20)
}

proptest! {
    #[test]
    fn all_of_level_0_is_in_some_slice_and_what_stays_fits(
        keys in ranges(),
        share in ZONE..40 * ZONE,
        reads in 0.0f64..1e6,
        writes in 0.0f64..1e6,
    ) {
        let plan = planned(&keys, share, (reads, writes), &Memory::default());
        prop_assert_eq!(plan.bytes, keys.len() as u64 * ZONE);
        prop_assert_eq!(plan.slices.iter().map(|s| s.tables).sum::<usize>(), keys.len());
        let stay = plan.slices.iter().filter(|slice| slice.stays);
        prop_assert!(stay.map(|slice| slice.bytes).sum::<u64>() <= plan.thresholds.keep);
        // Reads of a partition are divided, and none is made.
        let divided: f64 = plan.slices.iter().map(|slice| slice.reads).sum();
        prop_assert!(divided <= reads * 1.000_001);
        prop_assert!(!plan.drains || plan.bytes >= plan.thresholds.major);
        prop_assert!(plan.full_bytes >= plan.thresholds.major);
    }

    #[test]
    fn what_drains_goes_on_until_the_rest_fits_and_no_longer(keys in ranges()) {
        let mut memory = Memory::default();
        let share = ZONE * keys.len() as u64;
        let full = planned(&keys, share, (0.0, 1e5), &memory);
        memory.note_drains(&full, full.drains);
        let few = &keys[..keys.len() / 4];
        if !few.is_empty() {
            let later = planned(few, share, (0.0, 1e5), &memory);
            memory.note_drains(&later, false);
            // With room again it does not begin anew.
            let rest = planned(&keys[..keys.len() / 2 + 1], share, (0.0, 1e5), &memory);
            prop_assert!(!rest.drains || rest.bytes >= rest.thresholds.major || later.bytes > later.thresholds.keep);
        }
    }

    #[test]
    fn skipping_level_0_does_not_flap(
        keys in ranges(),
        updates in 0.0f64..1.0,
        reads in 0.0f64..1e5,
        full in any::<bool>(),
    ) {
        let mut memory = Memory::default();
        let plan = planned(&keys, ZONE, (reads, 1e5), &memory);
        let mut changes = 0;
        for n in 1..20u64 {
            let (skips, because) = memory.skips(&plan, updates, (n * 1_000_000_000, n * 100_000), full);
            prop_assert_eq!(skips, memory.is_skipped());
            changes += u64::from(because.is_some());
        }
        // Under a load that does not change it is decided once.
        prop_assert!(changes <= 1, "{} changes", changes);
    }
}

/// Of a share of twenty tables eighteen are too many, and then more than nine.
#[test]
fn what_drains_goes_on_below_where_it_began() {
    let keys: Vec<[[u8; 1]; 2]> = (0..20).map(|n| [key(2 * n), key(2 * n)]).collect();
    let with =
        |tables: usize, memory: &Memory| planned(&keys[..tables], 20 * ZONE, (0.0, 1e5), memory);
    let mut memory = Memory::default();
    assert!(!with(17, &memory).drains);
    let full = with(18, &memory);
    assert!(full.drains);
    memory.note_drains(&full, true);
    assert!(with(17, &memory).drains && with(10, &memory).drains);
    let rest = with(9, &memory);
    assert!(!rest.drains);
    memory.note_drains(&rest, false);
    assert!(!with(17, &memory).drains, "it began anew");
}

/// A manifest is held to less than 2^64 bytes in each level, and to nothing over levels and families.
#[test]
fn what_lies_below_is_of_any_size() {
    let keys = [[key(0), key(9)]];
    let own = tables(&keys);
    let below = Table {
        bytes: u64::MAX - 1,
        in_pm: false,
        ..own[0]
    };
    let levels = [own, vec![below], vec![below]];
    let family = Family {
        family: CfId::DEFAULT,
        state: State {
            levels: &levels,
            running: &[],
        },
        contents: &contents(1),
        rates: &rate(10.0, 10.0),
    };
    let plan = plan(&budget(ZONE), &[family, family], &Memory::default());
    assert_eq!(plan.file_bytes, u64::MAX);
    assert!(plan.slices.iter().all(|slice| slice.reads > 1.0));
}

/// Where flushes skip level 0 nothing is merged there, and so nothing is measured.
#[test]
fn merges_that_took_long_for_a_while_are_not_the_last_ones() {
    let skips = |merges: u64, updates: f64, flush: u64, memory: &mut Memory| {
        (0..merges).for_each(|_| memory.merged((100_000, 1_000_000_000), 0, 0));
        let plan = planned(&[[key(0), key(9)]], ZONE, (0.0, 1e5), memory);
        let at = (flush * 1_000_000_000, flush * 100_000);
        memory.skips(&plan, updates, at, true).0
    };
    let mut memory = Memory::default();
    assert!(!skips(0, 0.9, 1, &mut memory));
    // A record takes ten times as long: it is not worth it any more.
    assert!(skips(20, 0.9, 2, &mut memory));
    assert!(skips(0, 0.9, 3, &mut memory));
    assert!((4..60).any(|flush| !skips(0, 0.9, flush, &mut memory)));
    // What is not worth it anyhow stays as it is.
    assert!(skips(20, 0.1, 60, &mut memory));
    assert!((61..300).all(|flush| skips(0, 0.1, flush, &mut memory)));
}

#[test]
fn what_decides_is_said_with_its_numbers() {
    let said = Because::Skips {
        skips: true,
        updates: 0.013,
        reads: 12.4,
        writes: 3456.0,
    };
    assert_eq!(
        said.to_string(),
        "flush: to the SSD, 1 % are updates, 12 reads/s, 3456 writes/s"
    );
    let room = |in_blobs: bool| {
        let said = Because::Room {
            in_blobs,
            updates: 3,
            records: 10,
        };
        said.to_string()
    };
    assert_eq!(
        room(false),
        "internal: level 0 is nearly full; about 3 of 10 records go"
    );
    assert_eq!(
        room(true),
        "internal: newer runs refer to much in blob files; about 3 of 10 records go"
    );
}
