//! What level 0 falls into, and what is read of it.

use thermocline_base::Codec;
use thermocline_version::{Level, Place};

use super::costs::{plan, read, settle, with};
use super::*;
use crate::Level0Plan;
use crate::flush::Extent;
use crate::tests::version_of;

fn write(engine: &Engine, keys: impl Iterator<Item = u16>) {
    for n in keys {
        put(engine, CfId::DEFAULT, &n.to_be_bytes(), &[7; 200]);
    }
}

/// Without a compaction behind it.
fn flush(engine: &Engine) {
    engine.inner.memtables.seal_active().unwrap();
    engine.inner.flusher.flush_sealed(Extent::All).unwrap();
}

/// The first keys of slices.
fn firsts(plan: &Level0Plan) -> Vec<u16> {
    let first = |key: &[u8]| u16::from_be_bytes(key.try_into().unwrap());
    plan.slices
        .iter()
        .map(|slice| first(&slice.first))
        .collect()
}

/// The base level has several tables, and level 0 what was written of the first and the last of these keys.
fn with_a_gap() -> (Machine, Engine) {
    let (machine, engine) = with(|own| own.compaction.compression_last = Codec::None);
    for from in (0..1000).step_by(100) {
        write(&engine, from..from + 100);
        flush(&engine);
        compact_all(&engine);
    }
    let base = Place::new(CfId::DEFAULT, Level(6));
    let version = version_of(&engine);
    assert!(version.level(base).unwrap().len() >= 8);
    write(&engine, 0..150);
    flush(&engine);
    write(&engine, 850..1000);
    flush(&engine);
    (machine, engine)
}

/// Where slices have left, what comes does not join those that stay.
#[test]
fn what_comes_where_level_0_has_nothing_is_a_slice_of_its_own() {
    let (_machine, engine) = with_a_gap();
    let before = firsts(&plan(&engine));
    assert!(
        before.iter().all(|first| *first < 150 || *first >= 850),
        "{before:?}"
    );
    // Less than a slice has, and more than what would not be worth a table.
    for round in 0..3 {
        write(&engine, (round..1000).step_by(10));
        flush(&engine);
        let slices = firsts(&plan(&engine));
        // Beside both, and some between.
        for range in [0..150, 150..300, 300..700, 780..860] {
            let within = slices.iter().any(|first| range.contains(first));
            assert!(within, "{range:?} of {slices:?}");
        }
    }
}

/// A slice is read as often as all the data in its range is, wherever that lies.
#[test]
fn reads_are_divided_by_all_the_data_in_a_range() {
    let (_machine, engine) = with(|own| own.compaction.compression_last = Codec::None);
    write(&engine, 0..300);
    flush(&engine);
    compact_all(&engine);
    // As many records here and there. Below the first ones lie ten times as many, below the others none.
    write(&engine, (0..300).step_by(10));
    flush(&engine);
    write(&engine, 500..530);
    flush(&engine);
    read(&engine, 0..300, 1);
    let plan = plan(&engine);
    assert_eq!(firsts(&plan), [0, 500]);
    let [below, alone] = &plan.slices[..] else {
        panic!()
    };
    assert_eq!(below.records, alone.records);
    assert!(below.reads > 8.0 * alone.reads, "{plan:?}");
    assert!(
        below.reads + alone.reads <= plan.rates.0 * 1.001,
        "{plan:?}"
    );
    // What is read where level 0 has nothing is no slice's.
    let (_machine, engine) = with(|own| own.compaction.compression_last = Codec::None);
    write(&engine, 0..300);
    flush(&engine);
    compact_all(&engine);
    write(&engine, 500..530);
    flush(&engine);
    read(&engine, 0..300, 1);
    let plan = super::costs::plan(&engine);
    assert_eq!(firsts(&plan), [500]);
    assert!(plan.slices[0].reads < plan.rates.0 / 5.0, "{plan:?}");
}

/// Without cost models level 0 leaves as a whole when it is full, as in the paper's PMBlade-PM.
#[test]
fn without_costs_all_of_a_full_level_0_leaves() {
    let (_machine, engine) = with(|own| {
        own.level0.pm_percent = 40;
        own.set("level0.internal", "off").unwrap();
    });
    let bytes = || engine.inner.common.pm_tables_use().bytes;
    let mut round = 0;
    let mut most = 0;
    loop {
        write(&engine, (round..3000).step_by(10));
        flush(&engine);
        most = bytes().max(most);
        round += 1;
        settle(&engine);
        if bytes() < most {
            break;
        }
        assert!(round < 30, "it never gets full");
    }
    assert!(most > PM / 10 * 4 / 2, "{most}");
    assert_eq!(bytes(), 0, "of {most}");
}
