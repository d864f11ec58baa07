//! Tables on the SSD that end where partitions begin.

use super::*;

/// Of how many bytes of tables the table lies in one partition, and how many there are.
fn apart(engine: &Engine) -> (u64, u64) {
    let version = version(engine);
    let partitions = version.partitions(CfId::DEFAULT);
    let (mut alone, mut all) = (0, 0);
    for (_, table) in version.tables() {
        all += table.bytes;
        let (first, last) = (&table.range.first[..], &table.range.last[..]);
        if partitions.of(first).start == partitions.of(last).start {
            alone += table.bytes;
        }
    }
    (alone, all)
}

/// Ten partitions, written and compacted in random order; then every third is dropped: bytes of tables that are left before
/// anything is written anew, and bytes that there were.
fn dropped(by: PartitionBy, cuts: bool) -> (u64, u64) {
    let machine = Machine::new(PM);
    let mut options = options();
    options.set("level0.shape", "ssd").unwrap();
    options.compaction.table_bytes = 24 << 10;
    options.compaction.base_bytes = 64 << 10;
    options.partition.by = by;
    options.partition.cuts = cuts;
    options.partition.prefix_len = 7;
    options.partition_keys = (1..10).map(|n| key(n << 8)).collect();
    let engine = open(&machine, &options);
    let (mut rng, mut model) = (Rng::new(5), Model::new());
    for n in 1..=4000u64 {
        let key = key((rng.below(10) as u64) << 8 | rng.below(250) as u64);
        put(&engine, CfId::DEFAULT, &key, &[3; 100]);
        model.insert(key, vec![3; 100]);
        if n % 400 == 0 {
            flush(&engine);
            while engine.compact_once().unwrap() {}
        }
    }
    let (alone, all) = apart(&engine);
    assert!(!cuts || alone > all / 10 * 9, "{alone} of {all}");
    let written = |engine: &Engine| -> u64 {
        let levels = engine.metrics().compaction.levels;
        levels.iter().map(|level| level.bytes_written).sum()
    };
    for n in [1, 4, 7] {
        let mut start = key(n << 8);
        if by == PartitionBy::Prefix {
            start.truncate(7);
        }
        let (from, to) = engine.partition_at(CfId::DEFAULT, &start).unwrap();
        delete_range(&engine, &mut model, (&from, to.as_deref().unwrap()));
    }
    let (before, mut left) = (written(&engine), all);
    // What goes unread, and what is divided, costs nothing; then the levels are too small for what lies above them.
    while engine.compact_once().unwrap() && written(&engine) == before {
        left = apart(&engine).1;
    }
    check(&engine, &model);
    engine.close().unwrap();
    let report = crate::verify(&machine.world(), Path::new("/db"), &options).unwrap();
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    (left, all)
}

#[test]
fn a_dropped_partition_leaves_little_where_tables_end_at_its_start() {
    for by in [PartitionBy::Keys, PartitionBy::Prefix] {
        let (left, all) = dropped(by, true);
        assert!(left * 100 < all * 75, "{by:?}: {left} of {all}");
    }
    // Nothing else ends tables at prefixes.
    let (left, all) = dropped(PartitionBy::Prefix, false);
    assert!(left * 100 > all * 90, "{left} of {all}");
}
