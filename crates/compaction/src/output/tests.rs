use thermocline_testkit::explore::explored;
use thermocline_testkit::{Replay, Rng, seeds};

use super::{Cutter, Grandparent, OutputOptions};
use thermocline_base::KeyRange;

/// Where the table that ends at a cut begins, and its entries: key and bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Table {
    from: Vec<u8>,
    until: Option<Vec<u8>>,
    entries: Vec<(Vec<u8>, u64)>,
}

fn cut(
    entries: &[(Vec<u8>, u64)],
    options: OutputOptions,
    bounds: &[Vec<u8>],
    grandparents: &[Grandparent<'_>],
    (preferred, rests): (&[Vec<u8>], bool),
) -> Vec<Table> {
    let mut cutter = Cutter::new(options, bounds.to_vec(), grandparents.to_vec())
        .preferring(preferred.to_vec(), options.target_bytes / 2)
        .with_rests(rests);
    let mut tables = Vec::new();
    let mut table = Table {
        from: vec![],
        until: None,
        entries: vec![],
    };
    let end = |table: &mut Table, tables: &mut Vec<Table>, at: Vec<u8>| {
        let next = Table {
            from: at.clone(),
            until: None,
            entries: vec![],
        };
        table.until = Some(at);
        tables.push(std::mem::replace(table, next));
    };
    for entry in entries {
        let bytes = |table: &Table| table.entries.iter().map(|(_, bytes)| bytes).sum();
        while let Some(at) = cutter.cut_before(&entry.0, bytes(&table)) {
            end(&mut table, &mut tables, at);
        }
        table.entries.push(entry.clone());
    }
    for bound in cutter.rest() {
        end(&mut table, &mut tables, bound);
    }
    tables.push(table);
    tables
}

fn keys(rng: &mut Rng, n: usize) -> Vec<Vec<u8>> {
    let mut keys: Vec<_> = (0..n)
        .map(|_| vec![rng.next_u64().to_le_bytes()[0]])
        .collect();
    keys.sort();
    keys
}

#[test]
fn tables_are_cut_between_keys_at_all_bounds_and_within_limits() {
    let (mut by_size, mut by_overlap, mut by_bound, mut by_preference) = (0u64, 0u64, 0u64, 0u64);
    for seed in seeds(0..explored(600, 2_000)) {
        let _replay = Replay::new("-p thermocline-compaction tables_are_cut", seed);
        let mut rng = Rng::new(seed);
        let count = rng.below(80);
        let entries: Vec<_> = keys(&mut rng, count);
        let entries: Vec<_> = entries
            .into_iter()
            .map(|k| (k, 1 + rng.below(30) as u64))
            .collect();
        let n = rng.below(5);
        let mut bounds = keys(&mut rng, n);
        bounds.dedup();
        let n = rng.below(40);
        let mut ends = keys(&mut rng, n);
        ends.dedup();
        let grandparents: Vec<_> = ends
            .chunks_exact(2)
            .map(|pair| Grandparent {
                range: KeyRange::inclusive(&pair[0], &pair[1]),
                bytes: rng.below(100) as u64,
            })
            .collect();
        let options = OutputOptions {
            target_bytes: 1 + rng.below(300) as u64,
            grandparent_bytes_max: rng.below(1500) as u64,
        };
        let n = [0, rng.below(20)][rng.below(2)];
        let preferred = keys(&mut rng, n);
        let rests = rng.one_in(2);
        let target = options.target_bytes;
        let tables = cut(
            &entries,
            options,
            &bounds,
            &grandparents,
            (&preferred, rests),
        );
        let all: Vec<_> = tables.iter().flat_map(|t| t.entries.clone()).collect();
        assert_eq!(all, entries);
        let cuts: Vec<_> = tables.iter().filter_map(|t| t.until.clone()).collect();
        assert!(cuts.is_sorted(), "{tables:?}");
        assert!(bounds.iter().all(|bound| cuts.contains(bound)));
        for (n, table) in tables.iter().enumerate() {
            let within = |key: &Vec<u8>| {
                *key >= table.from && table.until.as_ref().is_none_or(|until| key < until)
            };
            assert!(
                table.entries.iter().all(|(key, _)| within(key)),
                "{table:?}"
            );
            let Some((last, _)) = table.entries.last() else {
                continue;
            };
            let first = &table.entries[0].0;
            let before = table.entries.iter().take_while(|(key, _)| key < last);
            let before: u64 = before.map(|(_, bytes)| bytes).sum();
            let ahead = preferred.iter().any(|key| key > last);
            let most = target + if ahead { target / 2 } else { 0 };
            assert!(before < most, "{table:?}");
            let overlap = |to: &Vec<u8>| -> u64 {
                let range = KeyRange::inclusive(first, to);
                let over = grandparents.iter().filter(|g| g.range.overlaps(&range));
                over.map(|g| g.bytes).sum()
            };
            let max = options.grandparent_bytes_max;
            assert!(overlap(last) <= max || first == last, "{table:?}");
            // Nothing is cut without a reason.
            let Some(until) = &table.until else { continue };
            let bytes: u64 = table.entries.iter().map(|(_, bytes)| bytes).sum();
            let reasons = [
                bytes >= target,
                overlap(until) > max,
                bounds.contains(until),
                (bytes >= target / 2 || rests && n > 0) && preferred.contains(until),
            ];
            assert!(
                reasons.contains(&true),
                "{table:?} before {:?}",
                tables.get(n + 1)
            );
            by_size += u64::from(reasons[0]);
            by_overlap += u64::from(reasons[1]);
            by_bound += u64::from(reasons[2]);
            by_preference += u64::from(reasons[3]);
            // Nor is a preferred place passed over by a table that is large enough.
            let passed = preferred.iter().filter(|p| first < *p && *p <= last);
            for place in passed {
                let before = table.entries.iter().take_while(|(key, _)| key < place);
                let before: u64 = before.map(|(_, bytes)| bytes).sum();
                assert!(before < target / 2 || target < 2, "{table:?} {place:?}");
            }
        }
        let again = cut(
            &entries,
            options,
            &bounds,
            &grandparents,
            (&preferred, rests),
        );
        assert_eq!(tables, again);
    }
    let least = by_size.min(by_overlap).min(by_bound).min(by_preference);
    let enough = least > explored(25, 100) || seeds(0..2).len() == 1;
    assert!(enough, "{by_size} {by_overlap} {by_bound} {by_preference}");
}

/// Of keys that are spread alike: what makes the slices of level 0.
#[test]
fn the_next_run_ends_its_tables_where_the_last_one_did() {
    for seed in seeds(0..50) {
        let _replay = Replay::new("-p thermocline-compaction the_next_run_ends", seed);
        let mut rng = Rng::new(seed);
        let run = |rng: &mut Rng| -> Vec<(Vec<u8>, u64)> {
            let numbers: std::collections::BTreeSet<u64> =
                (0..2000).map(|_| rng.next_u64()).collect();
            let entries = numbers.into_iter().map(|n| (n.to_be_bytes().to_vec(), 1));
            entries.collect()
        };
        let options = OutputOptions {
            target_bytes: 200,
            ..OutputOptions::default()
        };
        let cuts = |run: &[(Vec<u8>, u64)], preferred: &[Vec<u8>]| -> Vec<Vec<u8>> {
            let tables = cut(run, options, &[], &[], (preferred, false));
            tables.into_iter().filter_map(|table| table.until).collect()
        };
        let first = cuts(&run(&mut rng), &[]);
        for _ in 0..3 {
            let next = cuts(&run(&mut rng), &first);
            let common = next.iter().filter(|cut| first.contains(cut)).count();
            // All but where what is left is too small at the end.
            assert!(common + 1 >= first.len(), "{first:?} {next:?}");
        }
    }
}

#[test]
fn each_preferred_cut_has_its_own_least_bytes() {
    let keys = |keys: &[&str]| keys.iter().map(|key| key.as_bytes().to_vec()).collect();
    let options = OutputOptions {
        target_bytes: 100,
        ..OutputOptions::default()
    };
    let cutter = || {
        Cutter::new(options, vec![], vec![])
            .preferring(keys(&["c", "g"]), 50)
            .preferring(keys(&["e", "g"]), 10)
    };
    let cut = |bytes: u64, next: &str| {
        let mut cutter = cutter();
        assert_eq!(cutter.cut_before(b"a", 0), None);
        cutter.cut_before(next.as_bytes(), bytes)
    };
    assert_eq!(cut(20, "d"), None);
    assert_eq!(cut(50, "d").unwrap(), b"c");
    assert_eq!(cut(20, "f").unwrap(), b"e");
    // Of several between two entries the last one; of one that was named twice the less.
    assert_eq!(cut(60, "f").unwrap(), b"e");
    assert_eq!(cut(20, "h").unwrap(), b"g");
    // The last one at which it may end.
    let mut cutter = cutter().preferring(keys(&["f"]), 90);
    assert_eq!(cutter.cut_before(b"a", 0), None);
    assert_eq!(cutter.cut_before(b"f", 60).unwrap(), b"e");
}

/// Parts of the keys that are a little more than a full table.
#[test]
fn what_is_left_of_a_part_is_a_table_where_that_is_wanted() {
    let options = OutputOptions {
        target_bytes: 100,
        ..OutputOptions::default()
    };
    let parts = 20u8;
    let starts: Vec<Vec<u8>> = (1..parts).map(|part| vec![part]).collect();
    let entries = (0..parts).flat_map(|part| (0..160).map(move |n| (vec![part, n], 1)));
    let entries: Vec<(Vec<u8>, u64)> = entries.collect();
    let tables = |rests: bool| {
        let tables = cut(&entries, options, &[], &[], (&starts, rests));
        let reaches_over = |table: &&Table| {
            let part = |entry: &(Vec<u8>, u64)| entry.0[0];
            table.entries.first().map(part) != table.entries.last().map(part)
        };
        let over = tables.iter().filter(reaches_over).count();
        (tables.len(), over)
    };
    assert_eq!(tables(true), (2 * usize::from(parts), 0));
    let (all, over) = tables(false);
    assert!(all < 30 && over > 5, "{all}, {over}");
}
