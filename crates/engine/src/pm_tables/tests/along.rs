//! What leaves persistent memory with a flush, and whole flushes that do. The clock stands still.

use thermocline_base::options::Shape;
use thermocline_base::planted::{Bug, plant};
use thermocline_base::{Codec, KeyRange};
use thermocline_policy::pick::Reason;
use thermocline_policy::tuning::PM_SOFT_PERCENT;
use thermocline_version::Level;

use super::costs::{done, plan, read, settle, with};
use super::*;
use crate::flush::Extent;
use crate::tests::version_of;

fn tiered(set: impl FnOnce(&mut Options)) -> (Machine, Engine) {
    with(|own| {
        own.level0.shape = Some(Shape::Tiered);
        own.level0.merge_percent = 0;
        own.level0.pm_percent = 25;
        own.compaction.table_bytes = 32 << 10;
        set(own);
    })
}

/// Writes these keys, and flushes them without compacting anything.
fn flush(engine: &Engine, keys: impl Iterator<Item = u16>, value: &[u8]) {
    for n in keys {
        put(engine, CfId::DEFAULT, &n.to_be_bytes(), value);
    }
    engine.inner.memtables.seal_active().unwrap();
    engine.inner.flusher.flush_sealed(Extent::All).unwrap();
}

/// The references of level 0, newest first: whether each lies in persistent memory, and its keys.
fn level0(engine: &Engine) -> Vec<(bool, u16, u16)> {
    let version = version_of(engine);
    let family = version.family(CfId::DEFAULT);
    let level0 = family.into_iter().flat_map(|family| family.levels());
    let level0 = level0.filter(|(level, _)| *level == Level::ZERO);
    let key = |key: &[u8]| u16::from_be_bytes([key[0], key.get(1).copied().unwrap_or(0)]);
    let tables = level0.flat_map(|(_, tables)| tables.iter());
    let tables = tables.map(|table| {
        let in_pm = version.pm_table(table.file).is_some();
        (in_pm, key(&table.range.first), key(&table.range.last))
    });
    tables.collect()
}

/// Bytes of all tables in files, of whatever level.
fn file_bytes(engine: &Engine) -> u64 {
    let version = version_of(engine);
    let family = version.family(CfId::DEFAULT);
    let levels = family.into_iter().flat_map(|family| family.levels());
    let tables = levels.flat_map(|(_, tables)| tables.iter());
    let in_files = tables.filter(|table| version.pm_table(table.file).is_none());
    in_files.map(|table| table.bytes).sum()
}

fn pm_bytes(engine: &Engine) -> u64 {
    engine.inner.common.pm_tables_use().bytes
}

#[test]
fn flushes_bypass_a_level_0_in_which_nothing_dies_and_nothing_is_read() {
    let (machine, engine) = tiered(|own| {
        own.compaction.compression = Codec::None;
        own.compaction.compression_last = Codec::None;
    });
    let mut keys = 0..u16::MAX;
    let (mut rounds, mut stayed) = (0, 0);
    let bypasses = || engine.inner.common.compactions.costs.bypasses();
    let share = engine.inner.common.options.level0_pm_bytes().unwrap();
    while !bypasses() {
        assert!(rounds < 60, "it never gets full");
        // Once it is full a part leaves, and what is not on the SSD stays.
        stayed += u32::from(engine.metrics().ranges_along > 0 && pm_bytes(&engine) > 0);
        let before = file_bytes(&engine);
        flush(&engine, keys.by_ref().take(300), &[7; 300]);
        assert!(!bypasses() || before >= share, "{before} of {share}");
        rounds += 1;
    }
    assert!(rounds > 2 && stayed > 0, "first it has room");
    let last = done(&engine).costs.last;
    let told = last.last().unwrap();
    assert!(
        told.starts_with("flush: to the SSD, 0 % are updates"),
        "{told}"
    );
    // What came has left, and what was cold of what lay there.
    let kept = pm_bytes(&engine);
    assert!(bypasses() && kept <= share / 2, "{kept} of {share}");
    let due = |engine: &Engine| engine.plan().flush.sealed_bytes_due;
    let limit = engine.inner.common.space.usage().limit_bytes;
    assert_eq!(due(&engine), limit / 100 * 50 - kept);
    flush(&engine, keys.by_ref().take(300), &[7; 300]);
    assert_eq!(pm_bytes(&engine), kept, "there is room, but nothing comes");
    // What is written again and again is worth it.
    for _ in 0..30 {
        for n in 0..10u16 {
            put(&engine, CfId::DEFAULT, &n.to_be_bytes(), &[8; 300]);
        }
    }
    flush(&engine, 0..10, &[7; 300]);
    assert!(!bypasses() && pm_bytes(&engine) > kept);
    // Memtables have what tables leave.
    let usual = limit / 100 * engine.inner.common.options.sealed_percent();
    let both = limit / 100 * PM_SOFT_PERCENT - usual;
    assert_eq!(due(&engine), both - pm_bytes(&engine));
    let last = done(&engine).costs.last;
    let told = last.last().unwrap();
    assert!(
        told.starts_with("flush: to level 0, 100 % are updates"),
        "{told}"
    );
    // And so is what is read, when it is full the next time.
    rounds = 0;
    let before = engine.metrics().ranges_along;
    while engine.metrics().ranges_along == before {
        assert!(rounds < 30, "it never gets full");
        flush(&engine, keys.by_ref().take(300), &[7; 300]);
        read(&engine, 0..100, 3);
        rounds += 1;
    }
    assert!(!bypasses());
    for n in 0..keys.start {
        assert_eq!(get(&engine, &n.to_be_bytes()), Some(vec![7; 300]));
    }
    settle(&engine);
    drop(engine);
    assert!(verified(&machine).faults.is_empty());
}

#[test]
fn what_is_cold_leaves_with_a_flush_and_what_is_read_stays() {
    // Reads are known by partitions, here by the first byte of keys.
    let (_machine, engine) = tiered(|own| {
        own.set("partition.by", "prefix").unwrap();
        own.partition.prefix_len = 1;
    });
    let hot = 256..512u16;
    let mut rounds: u8 = 0;
    while engine.metrics().ranges_along == 0 {
        assert!(rounds < 30, "it never gets full");
        flush(&engine, 0..600, &[rounds; 120]);
        read(&engine, hot.clone(), 3);
        rounds += 1;
    }
    assert!(!engine.inner.common.compactions.costs.bypasses());
    let level0 = level0(&engine);
    let within = |in_pm: bool, n: u16| {
        let tables = level0.iter().filter(|t| t.0 == in_pm);
        tables.filter(|t| (t.1..=t.2).contains(&n)).count()
    };
    assert!(within(true, 350) > 1, "{level0:?}");
    let cold = [20u16, 580].into_iter().filter(|n| within(true, *n) == 0);
    assert!(cold.count() > 0, "{level0:?}");
    let bytes = engine.metrics().bytes_along;
    assert!(bytes > 0 && pm_bytes(&engine) <= plan(&engine).thresholds.major);
    for n in 0..600u16 {
        assert_eq!(get(&engine, &n.to_be_bytes()), Some(vec![rounds - 1; 120]));
    }
}

/// Else who compacts a range by hand would always find more to be compacted, as long as somebody writes.
#[test]
fn nothing_goes_to_the_base_level_beside_who_compacts_by_hand() {
    let (_machine, engine) = tiered(|_| ());
    flush(&engine, 0..300, &[7; 300]);
    let compactions = &engine.inner.common.compactions;
    compactions.costs.bypass_always();
    let is_in_level0 = || {
        let version = version_of(&engine);
        let mut tables = version.tables_of(CfId::DEFAULT);
        tables.all(|(at, _)| at.level == Level::ZERO)
    };
    {
        let _by_hand = compactions.begin_by_hand();
        flush(&engine, (0..300).step_by(7), &[8; 300]);
        assert!(is_in_level0());
    }
    flush(&engine, (0..300).step_by(5), &[9; 300]);
    assert!(!is_in_level0());
    for n in 0..300u16 {
        let newest = [(5, 9), (7, 8), (1, 7)];
        let (_, value) = newest.into_iter().find(|(step, _)| n % step == 0).unwrap();
        assert_eq!(get(&engine, &n.to_be_bytes()), Some(vec![value; 300]));
    }
}

/// What a job takes it finds when it has written it, whatever a flush takes along meanwhile; and the flush writes where
/// the job is not in its way.
#[test]
fn nothing_is_taken_along_that_a_job_holds() {
    let story = || {
        let (_machine, engine) = tiered(|_| ());
        for round in 0..3u8 {
            flush(
                &engine,
                (0..300).step_by(1 + usize::from(round)),
                &[round; 300],
            );
        }
        let inner = &engine.inner;
        let before = done(&engine).reasons;
        let job = {
            let all = KeyRange::inclusive(&b""[..], &[0xff; 4]);
            inner.compactor.take_range(CfId::DEFAULT, &all).unwrap()
        };
        let held = pm_bytes(&engine);
        let all = inner.common.compactions.of_family(CfId::DEFAULT).0;
        assert_eq!(all.len(), 1);
        // More than there is room for.
        inner.common.compactions.costs.bypass_always();
        flush(&engine, (0..300).step_by(7), &[9; 300]);
        assert!(pm_bytes(&engine) >= held, "what the job takes is there");
        inner.compactor.run(job).unwrap();
        let jobs = |reasons: &[(Reason, u64)]| reasons.iter().map(|(_, n)| n).sum::<u64>();
        for n in 0..300u16 {
            let newest = [(7, 9), (3, 2), (2, 1), (1, 0)];
            let (_, value) = newest.into_iter().find(|(step, _)| n % step == 0).unwrap();
            assert_eq!(get(&engine, &n.to_be_bytes()), Some(vec![value; 300]));
        }
        jobs(&done(&engine).reasons) - jobs(&before)
    };
    assert_eq!(story(), 1, "the job's work counts");
    let _bug = plant(Bug::AlongBesideJob);
    let caught = std::panic::catch_unwind(story);
    assert!(!matches!(caught, Ok(1)));
}

/// Where the disk has no room for what leaves, it stays.
#[test]
fn what_finds_no_room_on_the_disk_stays_in_persistent_memory() {
    let (machine, engine) = tiered(|own| own.compaction.compression_last = Codec::None);
    let mut keys = 0..u16::MAX;
    flush(&engine, keys.by_ref().take(300), &[7; 300]);
    engine.inner.common.compactions.costs.bypass_always();
    let names = machine.world().env.storage.list(Path::new("/db")).unwrap();
    let files = names.iter().map(|name| Path::new("/db").join(name));
    let used: usize = files
        .filter_map(|path| machine.fs.contents(&path))
        .map(|f| f.len())
        .sum();
    // Room for edits, and no table.
    machine.fs.limit(used as u64 + 8192);
    flush(&engine, keys.by_ref().take(50), &[7; 300]);
    assert_eq!(engine.metrics().ranges_along, 0);
    assert!(level0(&engine).iter().all(|table| table.0));
    machine.fs.limit(u64::MAX);
    flush(&engine, keys.by_ref().take(50), &[7; 300]);
    assert_eq!((engine.metrics().ranges_along, pm_bytes(&engine)), (1, 0));
    for n in 0..keys.start {
        assert_eq!(get(&engine, &n.to_be_bytes()), Some(vec![7; 300]));
    }
}
