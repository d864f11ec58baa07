//! Scans pay for tables.

use thermocline_base::options::Shape;

use super::costs::with;
use super::*;

const KEYS: u16 = 400;

/// A store that flushes by itself, with values of so many bytes in memtables that are sealed at so many.
fn filled_by(value_bytes: usize, memtable_bytes: u64) -> (Machine, Engine) {
    let (machine, engine) = with(|own| {
        own.flush.automatic = true;
        own.level0.shape = Some(Shape::Tiered);
        own.level0.pm_percent = 25;
        own.compaction.table_bytes = 256 << 10;
        own.memtable.bytes_max = memtable_bytes;
    });
    for n in 0..KEYS {
        put(
            &engine,
            CfId::DEFAULT,
            &n.to_be_bytes(),
            &vec![7; value_bytes],
        );
    }
    (machine, engine)
}

/// A store in whose memtables lies more than level 0's share, and that flushes by itself.
fn filled() -> (Machine, Engine) {
    let (machine, engine) = filled_by(3000, 128 << 10);
    engine.inner.memtables.seal_active().unwrap();
    assert_eq!(in_pm(&engine).0, 0, "there is room for it as it is");
    (machine, engine)
}

fn scan(engine: &Engine, times: u16) {
    for _ in 0..times {
        let mut cursor = engine.cursor(ALL).unwrap();
        let mut found = cursor.seek_to_first().unwrap();
        let mut count = 0;
        while found {
            count += 1;
            found = cursor.next().unwrap();
        }
        assert!(count >= KEYS);
    }
}

fn pm_bytes(engine: &Engine) -> u64 {
    engine.inner.common.pm_tables_use().bytes
}

#[test]
fn what_is_scanned_becomes_tables_and_all_of_it_stays_until_somebody_needs_the_room() {
    let (machine, engine) = filled();
    let share = engine.inner.common.options.level0_pm_bytes().unwrap();
    scan(&engine, 1);
    engine.work_ahead().unwrap();
    assert_eq!(in_pm(&engine).0, 0, "once is too little");
    for _ in 0..3 {
        scan(&engine, 3);
        engine.work_ahead().unwrap();
    }
    assert_eq!(
        engine.inner.common.sealed().memtables,
        0,
        "all are paid for"
    );
    let stays = pm_bytes(&engine);
    assert!(stays > share && files(&machine) == 0, "{stays} of {share}");
    // Whoever writes much needs it.
    for n in 0..KEYS {
        put(
            &engine,
            CfId::DEFAULT,
            &(1000 + n).to_be_bytes(),
            &[8; 3000],
        );
    }
    assert!(pm_bytes(&engine) <= share && files(&machine) > 0);
    for n in 0..KEYS {
        assert_eq!(get(&engine, &n.to_be_bytes()), Some(vec![7; 3000]));
        assert_eq!(get(&engine, &(1000 + n).to_be_bytes()), Some(vec![8; 3000]));
    }
    drop(engine);
    assert!(verified(&machine).faults.is_empty());
}

#[test]
fn lookups_pay_for_no_table_and_take_away_what_scans_have_paid() {
    let (_machine, engine) = filled();
    for _ in 0..5 {
        for _ in 0..2 {
            for n in 0..KEYS {
                assert!(get(&engine, &n.to_be_bytes()).is_some());
            }
        }
        scan(&engine, 2);
    }
    engine.work_ahead().unwrap();
    assert_eq!(in_pm(&engine).0, 0);
}

/// Where nothing is written any more the active memtable may have most of what is scanned.
#[test]
fn the_active_memtable_becomes_tables_when_scans_have_paid_for_it() {
    // It is sealed at an eighth of persistent memory, at the latest.
    let (machine, engine) = filled_by(3000, PM);
    let active = |engine: &Engine| engine.inner.common.catalog.view().memtables[0].clone();
    let held = active(&engine).len();
    assert!(held > 40, "{held}");
    scan(&engine, 1);
    engine.work_ahead().unwrap();
    assert_eq!(
        (active(&engine).len(), in_pm(&engine).0),
        (held, 0),
        "once is too little"
    );
    for _ in 0..3 {
        scan(&engine, 3);
        engine.work_ahead().unwrap();
    }
    assert!(active(&engine).is_empty());
    assert!(in_pm(&engine).0 > 0 && files(&machine) == 0);
    assert_eq!(
        engine.inner.common.sealed().memtables,
        0,
        "all are paid for"
    );
    for n in 0..KEYS {
        assert_eq!(get(&engine, &n.to_be_bytes()), Some(vec![7; 3000]));
    }
    // What is written later goes on in the next one.
    put(&engine, CfId::DEFAULT, b"later", b"value");
    assert_eq!(get(&engine, b"later"), Some(b"value".to_vec()));
    drop(engine);
    assert!(verified(&machine).faults.is_empty());
}

/// Whoever waits until nothing is due waits for what the active memtable is to become, too.
#[test]
fn nothing_is_due_for_scans_behind_a_drain() {
    let (machine, engine) = filled_by(3000, PM);
    scan(&engine, 10);
    assert!(engine.plan().flush.due);
    engine.drain().unwrap();
    assert!(!engine.plan().flush.due);
    assert!(in_pm(&engine).0 > 0 && files(&machine) == 0);
}

/// They read no memtable.
#[test]
fn lookups_that_tables_answer_take_away_nothing_that_scans_have_paid() {
    let (_machine, engine) = filled_by(300, 128 << 10);
    engine.flush().unwrap();
    for n in 0..100u16 {
        put(
            &engine,
            CfId::DEFAULT,
            &(1000 + n).to_be_bytes(),
            &[8; 3000],
        );
    }
    engine.inner.memtables.seal_active().unwrap();
    assert!(engine.inner.common.sealed().memtables > 0);
    for _ in 0..5 {
        for n in 0..KEYS {
            assert!(get(&engine, &n.to_be_bytes()).is_some());
        }
    }
    scan(&engine, 3);
    engine.work_ahead().unwrap();
    assert_eq!(engine.inner.common.sealed().memtables, 0);
}
