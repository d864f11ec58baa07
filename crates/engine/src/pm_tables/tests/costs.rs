//! The cost models, asked: what merges level 0 inside persistent memory, and what leaves it. The clock stands still,
//! so that unit costs are the usual ones, and every count is as of now.

use thermocline_base::{Codec, FileId};
use thermocline_env::Storage;
use thermocline_env::simulated::SimClock;
use thermocline_pm::PmOff;
use thermocline_policy::cost::UnitCosts;
use thermocline_policy::pick::Reason;
use thermocline_policy::tuning::DELETES_PAUSE_NS;

use super::*;
use crate::flush::Extent;
use crate::sync::Arc;
use crate::tests::version_of;
use crate::{CompactionUse, Level0Plan};

pub(super) fn with(set: impl FnOnce(&mut Options)) -> (Machine, Engine) {
    with_clock(Arc::new(SimClock::new()), set)
}

fn with_clock(clock: Arc<SimClock>, set: impl FnOnce(&mut Options)) -> (Machine, Engine) {
    let machine = Machine::new(PM);
    let mut own = options();
    own.flush.automatic = false;
    own.partition.rate_sample = 1;
    set(&mut own);
    let mut world = machine.world();
    world.env.clock = clock;
    let engine = Engine::open(world, Path::new("/db"), own).unwrap();
    (machine, engine)
}

pub(super) fn plan(engine: &Engine) -> Level0Plan {
    engine.plan().level0.unwrap()
}

pub(super) fn done(engine: &Engine) -> CompactionUse {
    engine.metrics().compaction
}

fn fill(engine: &Engine, keys: std::ops::Range<u16>, value: usize) {
    for n in keys {
        put(engine, CfId::DEFAULT, &n.to_be_bytes(), &vec![7; value]);
    }
    engine.flush().unwrap();
}

pub(super) fn read(engine: &Engine, keys: std::ops::Range<u16>, times: usize) {
    for _ in 0..times {
        for n in keys.clone() {
            get(engine, &n.to_be_bytes());
        }
    }
}

pub(super) fn settle(engine: &Engine) {
    while engine.compact_once().unwrap() {}
}

#[test]
fn reads_pay_for_a_merge_and_for_no_second_one() {
    let (_machine, engine) = with(|_| ());
    assert_eq!(plan(&engine).units, UnitCosts::default());
    for _ in 0..4 {
        fill(&engine, 0..100, 20);
    }
    // Nobody reads, and it is too small for the sake of writes.
    settle(&engine);
    let before = plan(&engine);
    assert_eq!((before.slices.len(), before.slices[0].runs), (1, 4));
    let decisions = before.slices[0].decisions.unwrap();
    assert_eq!((decisions.reads.gain, decisions.writes), (0.0, None));
    assert_eq!(done(&engine).internal.jobs, 0);
    read(&engine, 0..100, 3);
    let decision = plan(&engine).slices[0].decisions.unwrap().reads;
    // 300 reads in the life of a count, each of 3 tables too many by half, of 500 ns; 400 records of 1 µs.
    let ratio = decision.gain / decision.cost;
    assert!((0.55..0.57).contains(&ratio) && !decision.due, "{decision}");
    settle(&engine);
    assert_eq!(done(&engine).internal.jobs, 0);
    read(&engine, 0..100, 5);
    assert!(plan(&engine).slices[0].decisions.unwrap().reads.due);
    let next = engine.plan().families[0].next.clone().unwrap();
    assert_eq!((next.reason, next.from, next.to), (Reason::Internal, 0, 0));
    settle(&engine);
    let did = done(&engine);
    assert_eq!((did.internal.jobs, did.costs.by_reads), (1, 1));
    assert_eq!(did.internal.entries_dropped, 300);
    let text = &did.costs.last[0];
    assert!(text.starts_with("internal: eq. 1, gain "), "{text}");
    // However much is read.
    read(&engine, 0..100, 50);
    settle(&engine);
    assert_eq!(plan(&engine).slices[0].decisions, None);
    assert_eq!(done(&engine).internal.jobs, 1);
}

#[test]
fn overwritten_records_pay_for_a_merge_and_others_do_not() {
    let story = |overwrites: bool| {
        let (_machine, engine) = with(|own| {
            own.compaction.table_bytes = 256 << 10;
            own.level0.pm_percent = 20;
        });
        for round in 0..4u16 {
            for n in 0..300u16 {
                // The same ones, or others between them.
                let key = if overwrites { 4 * n } else { 4 * n + round };
                put(&engine, CfId::DEFAULT, &key.to_be_bytes(), &[7; 300]);
            }
            // And no compaction.
            engine.inner.memtables.seal_active().unwrap();
            engine.inner.flusher.flush_sealed(Extent::All).unwrap();
        }
        let slice = plan(&engine).slices[0].clone();
        settle(&engine);
        (slice, done(&engine))
    };
    let (slice, did) = story(false);
    let decision = slice.decisions.unwrap().writes.unwrap();
    assert_eq!((slice.updates, decision.gain), (0, 0.0), "{slice:?}");
    assert_eq!(did.internal.jobs, 0);
    let (slice, did) = story(true);
    assert_eq!(slice.updates, slice.writes, "{slice:?}");
    assert!(
        did.costs.by_writes > 0 && did.internal.entries_dropped > 0,
        "{did:?}"
    );
    assert_eq!(did.costs.by_reads, 0);
    assert!(
        did.costs.last[0].starts_with("internal: eq. 2, gain "),
        "{did:?}"
    );
}

/// What is read most stays in persistent memory, and level 0 fills again before anything else leaves.
#[test]
fn what_is_read_stays_when_level_0_is_full() {
    let (machine, engine) = with(|own| {
        own.level0.pm_percent = 25;
        own.compaction.table_bytes = 32 << 10;
    });
    // Others in each round, between those of before: nothing is superseded.
    let keys = |from: u16, round: u16| (from..from + 100).map(move |n| 20 * n + round);
    let mut rounds = 0;
    while files(&machine) == 0 {
        assert!(rounds < 20, "it never gets full");
        // Slices of their own.
        for from in [0, 100, 200, 300, 400, 500u16] {
            for n in keys(from, rounds) {
                put(&engine, CfId::DEFAULT, &n.to_be_bytes(), &[7; 400]);
            }
            engine.flush().unwrap();
        }
        for n in keys(300, rounds).chain(keys(300, rounds)) {
            get(&engine, &n.to_be_bytes());
        }
        rounds += 1;
    }
    let did = done(&engine);
    assert!(did.costs.by_warmth > 0, "{did:?}");
    assert!(
        did.costs
            .last
            .iter()
            .any(|text| text.starts_with("major: eq. 3, ")),
        "{did:?}"
    );
    let after = plan(&engine);
    assert!(
        !after.drains && after.bytes <= after.thresholds.major,
        "{after:?}"
    );
    let version = version_of(&engine);
    let level0 = thermocline_version::Place::new(CfId::DEFAULT, thermocline_version::Level::ZERO);
    let within = |n: u16| {
        version
            .level(level0)
            .unwrap()
            .may_have(&(20 * n).to_be_bytes())
            .count()
    };
    assert!(within(350) > 0, "what is read stays");
    let left: usize = [50, 150, 250, 450, 550].into_iter().map(within).sum();
    assert!(left < 5 * usize::from(rounds), "something has left");
    for n in (0..rounds).flat_map(|round| keys(0, round).chain(keys(500, round))) {
        assert_eq!(get(&engine, &n.to_be_bytes()), Some(vec![7; 400]));
    }
    // Nothing more is due, and nothing flaps.
    let jobs = did.reasons;
    settle(&engine);
    assert_eq!(done(&engine).reasons, jobs);
}

#[test]
fn the_printed_forms_and_none_can_be_chosen() {
    let jobs = |form: &str, times: usize| {
        let (_machine, engine) = with(|own| own.set("level0.internal", form).unwrap());
        for _ in 0..4 {
            fill(&engine, 0..100, 20);
        }
        read(&engine, 0..100, times);
        settle(&engine);
        (done(&engine).internal.jobs, engine.plan().level0.is_some())
    };
    assert_eq!(jobs("off", 20), (0, false));
    assert_eq!(jobs("corrected", 20), (1, true));
    // In print a merge must save more than a second in each second.
    assert_eq!(jobs("printed", 20), (0, true));
}

/// Where level 0 lies over much of the base level it is cheaper to gather files first.
#[test]
fn level_0_spills_where_it_lies_over_much() {
    let next = |form: &str, base: u16| {
        let (_machine, engine) = with(|own| {
            own.level0.pm_percent = 20;
            own.compaction.table_bytes = 64 << 10;
            own.compaction.compression_last = Codec::None;
            own.set("level0.internal", form).unwrap();
        });
        for from in (0..base).step_by(1000) {
            fill(&engine, from..from + 1000, 400);
            compact_all(&engine);
        }
        // Nothing there is superseded.
        let mut rounds = 0..10u16;
        while plan(&engine).bytes < plan(&engine).thresholds.major {
            for n in (rounds.next().unwrap()..4000).step_by(10) {
                put(&engine, CfId::DEFAULT, &n.to_be_bytes(), &[8; 400]);
            }
            // And no compaction.
            engine.inner.memtables.seal_active().unwrap();
            engine.inner.flusher.flush_sealed(Extent::All).unwrap();
        }
        let next = engine.plan().families[0].next.clone().unwrap();
        (next.reason, next.from, next.to)
    };
    assert_eq!(next("corrected", 4000), (Reason::Spill, 0, 0));
    assert_eq!(next("corrected", 0), (Reason::Level0, 0, 6));
    // As in the paper.
    assert_eq!(next("printed", 4000), (Reason::Level0, 0, 6));
}

/// What stands in level 0 above files, or above what a running job takes, hides it before and after.
#[test]
fn what_leaves_persistent_memory_stands_where_it_stood() {
    let (machine, engine) = with(|own| {
        own.set("level0.internal", "off").unwrap();
        own.compaction.level0_tables = 5;
    });
    let inner = &engine.inner;
    let mut model = Model::new();
    let mut round = 0u8;
    // Keys that are nowhere but in level 0; what came three rounds ago goes, and a range.
    let mut flush = |model: &mut Model| {
        round += 1;
        // All lie over each other.
        for key in [vec![0], vec![31]] {
            put(&engine, CfId::DEFAULT, &key, &[round]);
            model.insert(key, vec![round]);
        }
        for n in 0..40 {
            let key = vec![round, n];
            put(&engine, CfId::DEFAULT, &key, &[round; 30]);
            model.insert(key, vec![round; 30]);
        }
        let old = round.saturating_sub(3);
        for n in 0..20 {
            delete(&engine, CfId::DEFAULT, &[old, n]);
            model.remove(&vec![old, n]);
        }
        let mut batch = WriteBatch::new();
        let gone = [old, 20]..[old, 30];
        batch
            .delete_range(CfId::DEFAULT, &gone.start, Some(&gone.end))
            .unwrap();
        engine.write(batch.iter(), Durability::Immediate).unwrap();
        model.retain(|key, _| key[..] < gone.start[..] || key[..] >= gone.end[..]);
        inner.memtables.seal_active().unwrap();
        inner.flusher.flush_sealed(Extent::All).unwrap();
    };
    let check = |engine: &Engine, model: &Model| {
        check_cursor(engine.cursor(ALL).unwrap(), model);
        for key in (0..30).flat_map(|n| (0..40).map(move |m| [n, m])) {
            assert_eq!(get(engine, &key).as_ref(), model.get(&key[..]), "{key:?}");
        }
    };
    for _ in 0..4 {
        flush(&mut model);
        assert!(inner.compactor.spill_all(CfId::DEFAULT).unwrap());
        check(&engine, &model);
    }
    assert_eq!((in_pm(&engine), files(&machine)), ((0, 0), 4));
    // One more would be too many files to ask: there it merges, above them.
    flush(&mut model);
    assert!(!inner.compactor.spill_all(CfId::DEFAULT).unwrap());
    flush(&mut model);
    let merged = |engine: &Engine| done(engine).internal.jobs;
    engine.compact_level0(CfId::DEFAULT).unwrap();
    assert_eq!(merged(&engine), 1);
    check(&engine, &model);
    // A job takes all that is there. What comes meanwhile merges, and spills, and both stand above.
    put(&engine, CfId::DEFAULT, b"\x01", b"into a file");
    model.insert(vec![1], b"into a file".to_vec());
    inner.memtables.seal_active().unwrap();
    inner
        .flusher
        .flush_exclusive(&inner.memtables.hold_writer_up())
        .unwrap();
    let job = inner.compactor.picker.take_due().unwrap();
    flush(&mut model);
    flush(&mut model);
    inner.compactor.merge_one_slice(CfId::DEFAULT).unwrap();
    assert!(inner.compactor.spill_all(CfId::DEFAULT).unwrap());
    check(&engine, &model);
    inner.compactor.run(job).unwrap();
    check(&engine, &model);
    engine.close().unwrap();
    check(&open(&machine), &model);
}

/// Bytes that no compressor makes fewer.
fn noise(n: u16, seed: u8) -> Vec<u8> {
    let mut rng = Rng::new(u64::from(n) << 8 | u64::from(seed));
    let words = (0..50).map(|_| rng.next_u64().to_le_bytes());
    words.flatten().collect()
}

/// A merge in parts over a file that lies under all of it comes to an end.
#[test]
fn merges_in_parts_end_above_a_file() {
    let (_machine, engine) = with(|own| {
        own.set("level0.internal", "off").unwrap();
        own.compaction.table_bytes = 64 << 10;
        own.level0.pm_percent = 60;
    });
    let mut model = Model::new();
    let fill = |model: &mut Model, value: u8| {
        for n in 0..1000u16 {
            let value = noise(n, value);
            put(&engine, CfId::DEFAULT, &n.to_be_bytes(), &value);
            model.insert(n.to_be_bytes().to_vec(), value);
        }
        engine.inner.memtables.seal_active().unwrap();
        engine.inner.flusher.flush_sealed(Extent::All).unwrap();
    };
    // One file, of the first key and the last one.
    for n in [0, 999u16] {
        put(&engine, CfId::DEFAULT, &n.to_be_bytes(), b"below");
    }
    engine.inner.memtables.seal_active().unwrap();
    engine.inner.flusher.flush_sealed(Extent::All).unwrap();
    assert!(engine.inner.compactor.spill_all(CfId::DEFAULT).unwrap());
    fill(&mut model, 1);
    fill(&mut model, 2);
    engine.compact_level0(CfId::DEFAULT).unwrap();
    let jobs = done(&engine).internal.jobs;
    assert!(
        (2..20).contains(&jobs),
        "{jobs}, in parts {:?} {:?}",
        in_pm(&engine),
        engine.plan().families
    );
    check_cursor(engine.cursor(ALL).unwrap(), &model);
}

/// What has come back between the thresholds since level 0 was drained stays.
#[test]
fn level_0_drains_no_more_until_it_is_full_again() {
    let (_machine, engine) = with(|own| {
        own.level0.pm_percent = 20;
        own.compaction.table_bytes = 32 << 10;
    });
    let fill_to = |bytes: &dyn Fn(&Level0Plan) -> u64| {
        let mut n = 0u16;
        while plan(&engine).bytes < bytes(&plan(&engine)) {
            for _ in 0..100 {
                n = n.wrapping_mul(5).wrapping_add(77);
                put(&engine, CfId::DEFAULT, &n.to_be_bytes(), &[8; 300]);
            }
            engine.inner.memtables.seal_active().unwrap();
            engine.inner.flusher.flush_sealed(Extent::All).unwrap();
        }
    };
    fill_to(&|plan| plan.thresholds.major);
    assert!(plan(&engine).drains);
    settle(&engine);
    let by_warmth = done(&engine).costs.by_warmth;
    assert!(by_warmth > 0 && !plan(&engine).drains);
    fill_to(&|plan| plan.thresholds.keep + (64 << 10));
    assert!(!plan(&engine).drains);
    settle(&engine);
    assert_eq!(done(&engine).costs.by_warmth, by_warmth);
}

/// Where a byte of this key of the default family lies, in the newest table that has it: what is overwritten goes unread.
fn place_of_a_key(engine: &Engine, key: &[u8]) -> PmOff {
    let version = version_of(engine);
    let tables = version.pm_tables();
    let of_default = tables.filter(|(_, of)| of.iter().any(|(at, _)| at.cf == CfId::DEFAULT));
    let mut files: Vec<FileId> = of_default.map(|(table, _)| table.file).collect();
    files.sort_unstable();
    let found = files.into_iter().rev().find_map(|file| {
        let table = engine.inner.common.catalog.table_files.pm.get(file)?;
        let part = PmPart::whole(table, CfId::DEFAULT);
        part.get(key, SeqNo(u64::MAX - 1), true).unwrap()
    });
    let FoundValue::Inline(value) = found.unwrap().value else {
        panic!("it is inline");
    };
    PmOff(value.at().0)
}

/// A slice that cannot be read, and is to leave persistent memory, comes before the levels of all families. They have their turn all
/// the same, and it has its own again when it has rested.
#[test]
fn what_cannot_leave_persistent_memory_holds_up_nobody_else() {
    let clock = Arc::new(SimClock::new());
    let (machine, engine) = with_clock(clock.clone(), |own| {
        own.compaction.table_bytes = 64 << 10;
        own.level0.pm_percent = 20;
    });
    let other = engine.family("other", &CfOptions::default()).unwrap().id;
    let fill = |n: u16| {
        for cf in [CfId::DEFAULT, other] {
            put(&engine, cf, &n.to_be_bytes(), &[7; 300]);
        }
    };
    let mut keys = 0..;
    while !engine.plan().level0.is_some_and(|plan| plan.drains) {
        keys.by_ref().take(200).for_each(fill);
        engine.inner.memtables.seal_active().unwrap();
        engine.inner.flusher.flush_sealed(Extent::All).unwrap();
    }
    let leaving = plan(&engine).slices;
    let leaving = leaving
        .iter()
        .find(|of| !of.stays && of.family == CfId::DEFAULT);
    let at = place_of_a_key(&engine, &leaving.unwrap().first);
    machine.rot(at);
    let has_left = || {
        let slices = plan(&engine).slices;
        slices
            .iter()
            .all(|of| of.first != leaving.unwrap().first || of.family != CfId::DEFAULT)
    };
    let fails = || (0..9).find_map(|_| engine.compact_once().err());
    assert_eq!(fails().unwrap().kind(), ErrorKind::Corruption);
    let by_warmth = done(&engine).costs.by_warmth;
    settle(&engine);
    assert!(!has_left() && done(&engine).costs.by_warmth > by_warmth);
    // It is due, and fails again, and rests for twice as long.
    clock.advance_ns(DELETES_PAUSE_NS);
    assert!(fails().is_some());
    clock.advance_ns(DELETES_PAUSE_NS);
    settle(&engine);
    machine.rot(at);
    clock.advance_ns(DELETES_PAUSE_NS);
    settle(&engine);
    assert!(has_left() && done(&engine).failed == 2);
}

/// A table that cannot be read keeps its own slice from being merged, and no other one; by hand it is tried again.
#[test]
fn what_cannot_be_merged_holds_up_nobody_else() {
    let (machine, engine) = with(|own| {
        own.compaction.table_bytes = 64 << 10;
        own.level0.pm_percent = 20;
    });
    let other = engine.family("other", &CfOptions::default()).unwrap().id;
    for _ in 0..4 {
        for cf in [CfId::DEFAULT, other] {
            for n in 0..200u16 {
                put(&engine, cf, &n.to_be_bytes(), &[7; 300]);
            }
        }
        engine.inner.memtables.seal_active().unwrap();
        engine.inner.flusher.flush_sealed(Extent::All).unwrap();
    }
    let at = place_of_a_key(&engine, &[0, 20]);
    machine.rot(at);
    let error = (0..2).find_map(|_| engine.compact_once().err()).unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    settle(&engine);
    let did = done(&engine);
    assert_eq!((did.internal.jobs, did.failed), (1, 1), "{did:?}");
    machine.rot(at);
    engine.compact_level0(CfId::DEFAULT).unwrap();
    assert_eq!(done(&engine).internal.jobs, 2);
}

/// A part of it is superseded: too little for equation 2, but enough for the sake of room.
#[test]
fn what_a_merge_would_give_back_does_not_leave_a_level_0_that_is_full() {
    // Of 250 records each time, `again` are of keys of before.
    let story = |again: u16| {
        let (machine, engine) = with(|own| {
            own.compaction.table_bytes = 32 << 10;
            own.level0.pm_percent = 30;
        });
        let (mut from, mut rounds) = (0, 0..20);
        while !engine.plan().level0.is_some_and(|plan| plan.drains) {
            rounds.next().unwrap();
            for n in from - from.min(again)..from + 250 - again {
                put(&engine, CfId::DEFAULT, &n.to_be_bytes(), &[7; 700]);
            }
            from += 250 - again;
            engine.inner.memtables.seal_active().unwrap();
            engine.inner.flusher.flush_sealed(Extent::All).unwrap();
        }
        let before = plan(&engine);
        let next = engine.plan().families[0].next.clone().unwrap().reason;
        engine.compact_once().unwrap();
        for n in 0..from {
            assert_eq!(get(&engine, &n.to_be_bytes()), Some(vec![7; 700]));
        }
        (before, next, done(&engine), files(&machine))
    };
    let (before, next, did, files) = story(100);
    let mut decisions = before.slices.iter().filter_map(|slice| slice.decisions);
    assert!(decisions.all(|d| d.due().is_none()), "{before:?}");
    let done = (did.costs.by_room, did.internal.jobs, files);
    assert_eq!(done, (1, 1, 0), "{before:?} {did:?}");
    assert_eq!(next, Reason::Internal);
    let told = did.costs.last.last().unwrap();
    assert!(
        told.starts_with("internal: level 0 is nearly full; about "),
        "{told}"
    );
    let (before, next, did, files) = story(0);
    assert_eq!((did.costs.by_room, did.internal.jobs), (0, 0), "{before:?}");
    assert!(files > 0 && next != Reason::Internal, "{next:?}");
}

/// What is overwritten there keeps its blob file until a merge finds that out; references are too short for an
/// equation.
#[test]
fn long_values_that_are_overwritten_there_do_not_gather() {
    let (_machine, engine) = with(|own| {
        own.blob.inline_bytes_max = 100;
        own.blob.generation_bytes = 20 << 10;
    });
    let mut most = 0;
    for n in 0..60 {
        put(&engine, CfId::DEFAULT, b"k", &[n; 5000]);
        engine.flush().unwrap();
        settle(&engine);
        most = most.max(engine.metrics().blobs.bytes);
    }
    assert_eq!(get(&engine, b"k"), Some(vec![59; 5000]));
    let did = done(&engine);
    assert!(most < (20 + 3 * 5) << 10, "{most} {did:?}");
    // Each time that newer runs refer to so much, and not more often: every fifth flush or so.
    assert!((8..=15).contains(&did.internal.jobs), "{did:?}");
    assert_eq!(did.costs.by_room, did.internal.jobs);
    let says = "internal: newer runs refer to much in blob files; ";
    let mut told = did.costs.last.iter();
    assert!(told.any(|told| told.starts_with(says)), "{did:?}");
}

/// Where the disk is full they make room, however little they are.
#[test]
fn long_values_that_are_overwritten_there_make_room_on_the_disk() {
    let machine = Machine::new(PM);
    machine.fs.limit(8 << 20);
    let mut own = options();
    own.blob.inline_bytes_max = 1000;
    let engine = Engine::open(machine.world(), Path::new("/db"), own).unwrap();
    for n in 0..60u8 {
        let mut batch = WriteBatch::new();
        batch.put(CfId::DEFAULT, b"k", &vec![n; 400_000]).unwrap();
        let write = || engine.write(batch.iter(), Durability::Immediate);
        // This disk has room again when its folder has been synced.
        if let Err(error) = write() {
            assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
            let site = thermocline_sst::sites::FILE_NAMED;
            machine.fs.sync_dir(Path::new("/db"), site).unwrap();
            write().unwrap();
        }
        engine.flush().unwrap();
    }
    let did = done(&engine);
    assert!(did.internal.jobs > 0 && did.costs.by_room == 0, "{did:?}");
}
