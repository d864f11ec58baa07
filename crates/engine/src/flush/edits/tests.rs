//! Where ranges are cut, and what is there between two edits. (Edits of the longest keys are in `tests/store/many.rs`.)

use std::path::Path;

use thermocline_base::CfOptions;
use thermocline_base::options::{Options, Preset};
use thermocline_jobs::Outputs;

use super::*;
use crate::flush::tests::{Model, check_now, delete_range, get, put};
use crate::flush::write::To;
use crate::tests::Machine;
use crate::{Engine, Family};

const PM: u64 = 16 << 20;

/// Bytes that edits have of memtables here: in place of 16 MiB.
const MOST: u64 = 50_000;

const KEYS: u16 = 90;
const KEY_LEN: usize = 2000;

/// Tables of a key or two.
fn open(machine: &Machine) -> Engine {
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.flush.automatic = false;
    options.flush.rewrite_ratio = 0;
    options.compaction.table_bytes = 2 << 10;
    options.set("level0.shape", "global-index").unwrap();
    Engine::open(machine.world(), Path::new("/db"), options).unwrap()
}

fn long(n: u16) -> Vec<u8> {
    let mut key = n.to_be_bytes().to_vec();
    key.resize(KEY_LEN, b'k');
    key
}

/// Writes three memtables, of which each has keys between those of the others.
fn fill(engine: &Engine) -> (Vec<Family>, Vec<Model>) {
    let other = engine.family("other", &CfOptions::default()).unwrap();
    let families = vec![Family::DEFAULT, other];
    let mut models = vec![Model::new(), Model::new()];
    for first in 0..3 {
        for n in (first..KEYS).step_by(3) {
            for (family, model) in families.iter().zip(&mut models) {
                put(engine, family.id, &long(n), &[1; 20]);
                model.insert(long(n), vec![1; 20]);
            }
        }
        if first == 1 {
            delete_range(engine, &mut models[0], (&long(30)[..], &long(50)[..]));
        }
        engine.inner.memtables.seal_active().unwrap();
    }
    (families, models)
}

/// Before, a range was cut where families begin, and nowhere else, and of each family one table was reckoned with: what is
/// here came out as one range. With keys of 64 KB, and as many tables, the manifest refused its edit, and the flush failed
/// for ever.
#[test]
fn a_range_is_cut_within_a_family_that_one_edit_could_not_name() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    let (families, _) = fill(&engine);
    let evacuator = &engine.inner.flusher.evacuator;
    let taken = evacuator.taken_now(u64::MAX);
    let cut = |most| {
        let rest = vec![taken.rest()];
        taken.cut_for_edits(evacuator, rest, most).unwrap()
    };
    let whole = cut(NAMED_BYTES);
    assert_eq!((whole.spans, whole.named), (vec![taken.rest()], vec![0]));
    let Cut { spans, named } = cut(MOST);
    assert!((20..100).contains(&spans.len()), "{}", spans.len());
    assert_eq!(spans.len(), named.len());
    // They follow each other from beginning to end.
    assert_eq!(spans[0].from, Position::first());
    assert_eq!(spans[spans.len() - 1].to, None);
    for pair in spans.windows(2) {
        assert_eq!(pair[0].to.as_ref(), Some(&pair[1].from));
    }
    for (span, reckoned) in spans.iter().zip(&named) {
        let mut keys = 0;
        for family in &families {
            let within = |n: &u16| match span.of(family.id) {
                Some((from, to)) => {
                    let key = long(*n);
                    &key[..] >= from && to.is_none_or(|to| &key[..] < to)
                }
                None => false,
            };
            keys += (0..KEYS).filter(within).count() as u64;
        }
        let most = keys * KEYS_A_TABLE * (KEY_LEN as u64 + BESIDE_KEY);
        assert!((1..=2 * MOST).contains(&most), "{keys} keys");
        assert!((1..=MOST).contains(reckoned), "{reckoned}");
    }
}

#[test]
fn ranges_of_usual_keys_stay_whole_however_they_are_taken() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    for n in 0..2000u16 {
        put(&engine, CfId::DEFAULT, &n.to_be_bytes(), &[1; 100]);
    }
    engine.inner.memtables.seal_active().unwrap();
    let evacuator = &engine.inner.flusher.evacuator;
    let taken = evacuator.taken_now(u64::MAX);
    let rest = || vec![taken.rest()];
    let whole = taken.cut_for_edits(evacuator, rest(), NAMED_BYTES).unwrap();
    assert_eq!(whole.spans, rest());
    // Looked at or not: 200 KB are in tables of 2 KiB, and these name two bytes each time, with what is beside them.
    let looked_at = taken.cut_for_edits(evacuator, rest(), 150_000).unwrap();
    assert_eq!(looked_at.spans, rest());
    assert!(looked_at.named[0] < 150_000, "{:?}", looked_at.named);
}

/// Between any two edits each record is there once, for readers, and after a crash.
#[test]
fn what_is_named_piece_by_piece_is_there_once_at_each_moment() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    let (families, models) = fill(&engine);
    let keys: Vec<Vec<u8>> = (0..KEYS).map(long).collect();
    let inner = &engine.inner;
    let flusher = &inner.flusher;
    let catalog = &inner.common.catalog;
    let taken = flusher.evacuator.take(u64::MAX);
    let made = flusher.begin_flush(&taken.memtables, "a test".into());
    let rest = vec![taken.rest()];
    let cut = taken.cut_for_edits(&flusher.evacuator, rest, MOST).unwrap();
    let mut bytes_of_edits = 0;
    for (n, span) in cut.spans.iter().enumerate() {
        let mut outputs = Outputs::default();
        flusher
            .flush_writer
            .write_tables(&taken.memtables, span, &[], To::Files, &mut outputs)
            .unwrap();
        let before = catalog.edits().manifest_bytes();
        let named = (&outputs, &[][..]);
        let evacuator = &flusher.evacuator;
        evacuator.name_tables(&taken, span, named, &made).unwrap();
        flusher.making.release(&outputs);
        let edit = catalog.edits().manifest_bytes() - before;
        assert!(edit <= MOST, "{edit} bytes");
        bytes_of_edits += edit;
        // Only the last one says that the memtables are flushed.
        let is_last = n + 1 == cut.spans.len();
        assert_eq!(catalog.edits().state().evacuation().is_none(), is_last);
        check_now(&engine, &families, &models, &keys);
        let killed = machine.killed();
        let copy = open(&killed);
        check_now(&copy, &families, &models, &keys);
        copy.flush().unwrap();
        check_now(&copy, &families, &models, &keys);
    }
    assert!(
        bytes_of_edits > 2 * MOST,
        "{bytes_of_edits}: one edit would have been too long"
    );
    inner.common.reclaim.take_up_to(0);
    drop(taken);
    engine.flush().unwrap();
    check_now(&engine, &families, &models, &keys);
}

/// Records lie in DRAM: no floor outlives the process.
fn open_in_dram(machine: &Machine) -> Engine {
    let mut options = Options {
        preset: Preset::Leveled,
        dram: 4 << 20,
        ..Options::default()
    };
    options.flush.automatic = false;
    Engine::open(machine.world(), Path::new("/db"), options).unwrap()
}

/// Names by one edit what sealed memtables have of the default family up to a key.
fn name_up_to(engine: &Engine, key: &[u8]) {
    let flusher = &engine.inner.flusher;
    let taken = flusher.evacuator.take(u64::MAX);
    let made = flusher.begin_flush(&taken.memtables, "a test".into());
    let to = Position {
        cf: CfId::DEFAULT,
        key: key.into(),
    };
    let span = Span {
        from: Position::first(),
        to: Some(to),
    };
    let mut outputs = Outputs::default();
    flusher
        .flush_writer
        .write_tables(&taken.memtables, &span, &[], To::Files, &mut outputs)
        .unwrap();
    let named = (&outputs, &[][..]);
    let evacuator = &flusher.evacuator;
    evacuator.name_tables(&taken, &span, named, &made).unwrap();
    flusher.making.release(&outputs);
    flusher.common.reclaim.take_up_to(0);
}

/// A memtable of which one edit has named some keys was sealed: what came into it before the front nobody would read. (Here
/// a write would seal it before, since it spans many seqnos after a crash; elsewhere memtables span more.)
#[test]
fn a_memtable_in_dram_of_which_some_keys_were_named_takes_no_writes_after_a_crash() {
    let machine = Machine::new(PM);
    let engine = open_in_dram(&machine);
    put(&engine, CfId::DEFAULT, b"a", b"old");
    put(&engine, CfId::DEFAULT, b"z", b"old");
    engine.inner.memtables.seal_active().unwrap();
    name_up_to(&engine, b"m");
    let killed = machine.killed();
    let next = open_in_dram(&killed);
    let view = next.inner.common.catalog.view_to_keep();
    let front = view.front().expect("the rest is not named");
    assert!(!front.takes(&view.memtables[0]), "it takes writes");
    drop(view);
    put(&next, CfId::DEFAULT, b"b", b"new");
    put(&next, CfId::DEFAULT, b"y", b"new");
    let check = |store: &Engine| {
        assert_eq!(get(store, b"a").as_deref(), Some(&b"old"[..]));
        assert_eq!(get(store, b"b").as_deref(), Some(&b"new"[..]));
        assert_eq!(get(store, b"y").as_deref(), Some(&b"new"[..]));
        assert_eq!(get(store, b"z").as_deref(), Some(&b"old"[..]));
    };
    check(&next);
    check(&open_in_dram(&killed.killed()));
    next.flush().unwrap();
    check(&next);
    drop(next);
    check(&open_in_dram(&killed));
}
