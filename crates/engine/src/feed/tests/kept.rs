//! What is kept for feeds, beside the stores' other uses of memory.

use super::*;
use crate::{Runtime, RuntimeOptions, Setup};

/// Much more than there is DRAM for its indexes.
const KEPT: u64 = 12 << 20;
const DRAM: u64 = 1 << 20;
const BATCH: u64 = 500;
const KEYS: u64 = 200_000;

fn with_dram(dram: u64) -> Options {
    let mut options = options();
    options.pm = 16 << 20;
    options.dram = dram;
    options.memtable.bytes_max = 1 << 20;
    options.blob.inline_bytes_max = 100;
    options.feed.retain_bytes = KEPT;
    options
}

fn key(n: u64) -> [u8; 8] {
    // Neighbours share no prefix, so that indexes are large.
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn value(n: u64) -> Vec<u8> {
    // Some are long.
    vec![n.to_le_bytes()[0]; if n % 5000 == 7 { 500 } else { 8 }]
}

fn check(engine: &Engine) {
    let get = |n: u64| engine.get(CF, &key(n), <[u8]>::to_vec).unwrap();
    for n in (0..KEYS).step_by(997).chain([7, 5007]) {
        assert_eq!(get(n), Some(value(n)), "{n}");
    }
    assert_eq!(engine.get(CF, b"gone", <[u8]>::to_vec).unwrap(), None);
    assert_eq!(engine.get(CF, b"last", |v| v.len()).unwrap(), Some(1));
    // All of it, and from the blob files what they have.
    let mut n = 0;
    for group in since(engine, 0) {
        let group = group.unwrap();
        for change in group.changes() {
            if let ChangeOp::Put {
                key: found,
                value: is,
            } = change.unwrap().op
                && found.len() == 8
            {
                assert_eq!((found, &*is), (&key(n)[..], &value(n)[..]));
                n += 1;
            }
        }
    }
    assert_eq!(n, KEYS);
}

/// In a runtime that has no more.
fn open_in_little(machine: &Machine, options: Options) -> Result<Engine> {
    let runtime = Runtime::new(RuntimeOptions {
        dram: DRAM,
        workers: 1,
        ..RuntimeOptions::default()
    });
    let setup = Setup {
        runtime: Some(runtime.unwrap()),
        ..Setup::default()
    };
    Engine::open_with(machine.world(), Path::new("/db"), options, setup)
}

/// Keeps much, and opens the store again with little DRAM.
fn reopened(machine: &Machine) -> Result<()> {
    let engine = open(machine, &with_dram(64 * DRAM));
    let write = |batch: WriteBatch| engine.write(batch.iter(), Durability::Immediate).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(CF, b"gone", b"1").unwrap();
    batch.delete_range(CF, b"gone", Some(b"gonf")).unwrap();
    write(batch);
    for from in (0..KEYS).step_by(usize::try_from(BATCH).unwrap()) {
        let mut batch = WriteBatch::new();
        for n in from..from + BATCH {
            batch.put(CF, &key(n), &value(n)).unwrap();
        }
        write(batch);
    }
    engine.flush().unwrap();
    // In no table.
    let mut batch = WriteBatch::new();
    batch.put(CF, b"last", b"2").unwrap();
    write(batch);
    let kept = engine.metrics().feed;
    assert!(kept.kept_bytes > 4 * DRAM, "{kept:?}");
    check(&engine);
    engine.close()?;
    drop(engine);
    for killed in [false, true] {
        let machine = match killed {
            true => &machine.killed(),
            false => machine,
        };
        let engine = open_in_little(machine, with_dram(DRAM))?;
        let metrics = engine.metrics();
        let recovery = metrics.recovery;
        assert_eq!((recovery.records, recovery.kept_records), (1, KEYS + 2));
        assert!(metrics.feed.kept_bytes > 4 * DRAM);
        check(&engine);
        // Who only reads finds the same.
        drop(engine);
        let only_reads = Options {
            read_only: true,
            ..with_dram(DRAM)
        };
        check(&open_in_little(machine, only_reads)?);
    }
    Ok(())
}

#[test]
fn what_is_kept_needs_no_dram_when_a_store_is_opened() {
    reopened(&Machine::new(16 << 20)).unwrap();
    let _bug = plant(Bug::IndexKeptAtOpen);
    let error = reopened(&Machine::new(16 << 20)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
}
