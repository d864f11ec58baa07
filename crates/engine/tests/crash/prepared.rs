//! Workloads of transactions that are prepared, committed and rolled back, over several families, amid other writes.
//! After a crash each is prepared with all of its claims, or not at all; committed as a whole, or still prepared. Whatever
//! is found prepared is resolved then (`check::write_on`), and must do just what it was prepared for.

use std::sync::Arc;

use thermocline_base::ErrorKind;
use thermocline_base::options::Options;
use thermocline_engine::Durability;
use thermocline_env::simulated::SeededRandom;

use crate::flush;
use crate::groups::rare_write_back;
use crate::life::Life;
use crate::oracle::{Change, Op, Step};
use crate::staged;
use crate::workload::{batch, below, run, value};

/// Batches are staged from 4 KiB on.
pub fn small_items(options: &mut Options) {
    staged::small_items(options);
}

/// Memtables are sealed soon, and the manifest is switched often.
pub fn small_memtables(options: &mut Options) {
    flush::few_memtables(options);
    rare_write_back(options);
    options.memtable.item_bytes_max = 4 << 10;
    options.manifest.bytes_max = 1 << 10;
}

/// A key that no other transaction has.
fn key(txn: usize, n: usize) -> Vec<u8> {
    format!("txn {txn}, key {n}").into_bytes()
}

fn put(cf: u16, key: Vec<u8>, value: Vec<u8>) -> Step {
    Step::Change(Change {
        cf,
        key,
        value: Some(Arc::from(value)),
    })
}

/// Of `keys` keys in both families, with a delete, and a range that is deleted.
fn steps(txn: usize, keys: usize, len: usize, random: &SeededRandom) -> Vec<Step> {
    let cf = |n: usize| u16::try_from(n % 2).expect("small");
    let mut all = vec![Step::Clear {
        cf: cf(txn),
        from: key(txn, 90),
        to: Some(key(txn, 95)),
    }];
    all.extend((0..keys).map(|n| put(cf(n), key(txn, n), value(random, len + n))));
    all.push(Step::Change(Change {
        cf: 1,
        key: key(txn, 80),
        value: None,
    }));
    all
}

/// What is there before: the delete and the range have something to take away.
fn ground(txn: usize, random: &SeededRandom) -> Op {
    let cf = u16::try_from(txn % 2).expect("small");
    Op::Steps(vec![
        put(1, key(txn, 80), value(random, 10)),
        put(cf, key(txn, 92), value(random, 20)),
        put(0, key(txn, 0), value(random, 30)),
    ])
}

/// Nobody else changes what it claims.
fn is_claimed(life: &Life, txn: usize) {
    let family = u16::try_from(txn % 2).expect("small");
    let claimed = [
        Op::put(0, &key(txn, 0), *b"no"),
        Op::delete(1, &key(txn, 80)),
        Op::put(family, &key(txn, 93), *b"no"),
        Op::Drop("red".into()),
    ];
    for op in claimed {
        let refused = match &op {
            Op::Write(changes) => {
                let batch = Op::batch(changes);
                life.engine().write(batch.iter(), Durability::Immediate)
            }
            _ => life.engine().drop_family("red"),
        };
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict, "{op:?}");
    }
}

fn durability(random: &SeededRandom) -> Durability {
    match random.below(2) {
        0 => Durability::Immediate,
        _ => Durability::Buffered,
    }
}

fn resolve(life: &Life, txn: usize, random: &SeededRandom) {
    let name = format!("txn {txn}");
    let op = match random.below(3) {
        0 => Op::RollBack(name),
        _ => Op::Commit(name),
    };
    assert!(
        life.run_as(&op, durability(random)).unwrap(),
        "there is room"
    );
}

/// Prepares one of each size: in one record, staged when it is committed, staged when it is prepared.
fn prepare(life: &Life, txn: usize, random: &SeededRandom) {
    let (keys, len) = [(1, 9), (4, 100), (6, 900), (9, 2000)][txn % 4];
    run(life, &ground(txn, random));
    let steps = steps(txn, keys, len, random);
    run(life, &Op::Prepare(format!("txn {txn}"), steps));
}

/// Several at a time, resolved in another order, with writes beside them.
pub fn prepared(life: &mut Life, random: &SeededRandom) {
    for txn in 0..4 {
        prepare(life, txn, random);
        is_claimed(life, txn);
        assert!(life.run_as(&batch(random, 2), durability(random)).unwrap());
        if txn % 2 == 1 {
            let first = below(random, 2);
            resolve(life, txn - first, random);
            run(life, &batch(random, 2));
            resolve(life, txn - 1 + first, random);
        }
    }
}

/// Through lives that close, with flushes between.
pub fn prepared_lives(life: &mut Life, random: &SeededRandom) {
    prepare(life, 1, random);
    prepare(life, 2, random);
    life.engine().flush().unwrap();
    assert!(life.run_as(&batch(random, 2), durability(random)).unwrap());
    life.close().unwrap();
    life.open().unwrap();
    is_claimed(life, 1);
    is_claimed(life, 2);
    resolve(life, 1, random);
    prepare(life, 4, random);
    life.close().unwrap();
    life.open().unwrap();
    resolve(life, 2, random);
    life.engine().flush().unwrap();
    resolve(life, 4, random);
    run(life, &batch(random, 2));
}
