//! What transactions cost, and what they cost plain writes beside them: nanoseconds an operation on one thread,
//! transactions of so many puts beside plain batches of as many, and transactions a second of several threads.
//! `cargo run --release -p thermocline --features examples --example transactions -- 300000`
#![expect(
    clippy::disallowed_methods,
    reason = "an example measures by the real clock"
)]

use std::time::Instant;

use thermocline::{Db, Durability, Isolation, Options, Result, TxnOptions};

const THREADS: usize = 4;

fn key(n: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    key[..8].copy_from_slice(&mixed.to_be_bytes());
    key
}

/// Nanoseconds for each of `count` operations.
fn timed(name: &str, count: u64, mut operate: impl FnMut(u64) -> Result<()>) -> Result<()> {
    let begun = Instant::now();
    (0..count).try_for_each(&mut operate)?;
    let each = begun.elapsed().as_secs_f64() * 1e9 / count as f64;
    println!("{name:44} {each:8.0} ns");
    Ok(())
}

fn options() -> Options {
    Options {
        pm: 4 << 30,
        ..Options::default()
    }
}

fn main() -> Result<()> {
    let count = std::env::args().nth(1);
    let count = count.map_or(300_000, |n| n.parse().expect("how many operations"));
    let home = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let mut options = options();
    options.pm_path = Some(home.path().join("region"));
    let db = Db::open(home.path().join("db"), options)?;
    let put = |n: u64| db.put_with(key(n), [7; 100], Durability::Buffered);
    timed("puts, first", count, put)?;
    for round in 1..=3 {
        timed(&format!("puts, no transaction ({round})"), count, put)?;
        let watching = db.transaction(TxnOptions::optimistic())?;
        watching.get(key(0))?;
        timed(
            &format!("puts, a transaction watches ({round})"),
            count,
            put,
        )?;
        watching.rollback();
        // Until nobody notes any more.
        (0..10_000).try_for_each(put)?;
    }
    for kind in [TxnOptions::pessimistic(), TxnOptions::optimistic()] {
        for level in [Isolation::Snapshot, Isolation::Serializable] {
            let options = kind.isolation(level).durability(Durability::Buffered);
            let name = format!("{}, {level:?}: read and write a key", options_name(kind));
            timed(&name, count / 3, |n| {
                let mut txn = db.transaction(options)?;
                txn.get_for_update(key(n))?;
                txn.put(key(n), [8; 100])?;
                txn.commit()
            })?;
        }
    }
    beside_batches(&db, count)?;
    in_two_halves(&db, count)?;
    let begun = Instant::now();
    let each = count / 3;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS as u64)
            .map(|thread| {
                let db = &db;
                scope.spawn(move || -> Result<()> {
                    let options = TxnOptions::pessimistic().durability(Durability::Buffered);
                    for n in 0..each {
                        let mut txn = db.transaction(options)?;
                        txn.get_for_update(key(n * THREADS as u64 + thread))?;
                        txn.put(key(n * THREADS as u64 + thread), [9; 100])?;
                        txn.commit()?;
                    }
                    Ok(())
                })
            })
            .collect();
        let mut ended = threads.into_iter().map(|t| t.join().expect("no panic"));
        ended.try_for_each(|ended| ended)
    })?;
    let rate = (each * THREADS as u64) as f64 / begun.elapsed().as_secs_f64();
    println!("{THREADS} threads: {rate:.0} transactions a second");
    db.close()
}

/// Durable transactions of so many puts, which nobody is in the way of, and plain batches of as many, in turn.
fn beside_batches(db: &Db, count: u64) -> Result<()> {
    const ROUNDS: u64 = 5;
    const KINDS: u64 = 3;
    for puts in [1, 4, 16] {
        let each = (count / puts / ROUNDS / KINDS).max(1);
        let mut ratios: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        let mut plain_ns = Vec::new();
        for round in 0..ROUNDS {
            // Each has keys of its own that nobody has written lately.
            let keys = |kind: u64, n: u64| {
                let first = ((round * KINDS + kind) * each + n) * puts;
                (first..first + puts).map(key)
            };
            let nanos = |operate: &mut dyn FnMut(u64) -> Result<()>| -> Result<f64> {
                let begun = Instant::now();
                (0..each).try_for_each(operate)?;
                Ok(begun.elapsed().as_secs_f64() * 1e9 / each as f64)
            };
            let plain = nanos(&mut |n| {
                let mut batch = db.batch();
                keys(0, n).for_each(|key| {
                    batch.put(key, [7; 100]);
                });
                batch.commit(Durability::Immediate)
            })?;
            plain_ns.push(plain);
            let kinds = [
                (1, TxnOptions::pessimistic()),
                (2, TxnOptions::optimistic()),
            ];
            for (ratios, (kind, options)) in ratios.iter_mut().zip(kinds) {
                let nanos = nanos(&mut |n| {
                    let mut txn = db.transaction(options)?;
                    keys(kind, n).try_for_each(|key| txn.put(key, [7; 100]))?;
                    txn.commit()
                })?;
                ratios.push(nanos / plain);
            }
        }
        let [pessimistic, optimistic] = ratios.map(median);
        println!(
            "{puts:2} puts, durable: a batch {:.0} ns; pessimistic {pessimistic:.2} of that, optimistic {optimistic:.2}",
            median(plain_ns)
        );
    }
    Ok(())
}

/// Durable transactions of so many puts that are prepared and then committed, and such that just commit, in turn.
fn in_two_halves(db: &Db, count: u64) -> Result<()> {
    const ROUNDS: u64 = 5;
    for puts in [1, 16, 1000] {
        let each = (count / puts / ROUNDS / 2).max(1);
        let mut times: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            for (kind, times) in (0..).zip(&mut times) {
                let begun = Instant::now();
                for n in 0..each {
                    let first = ((round * 2 + kind) * each + n) * puts;
                    let mut txn = db.transaction(TxnOptions::pessimistic())?;
                    (first..first + puts).try_for_each(|n| txn.put(key(n), [7; 100]))?;
                    match kind {
                        0 => txn.commit()?,
                        _ => txn.prepare("in two halves")?.commit()?,
                    }
                }
                times.push(begun.elapsed().as_secs_f64() * 1e9 / each as f64);
            }
        }
        let [at_once, prepared] = times.map(median);
        println!(
            "{puts:4} puts, durable: committed at once {at_once:.0} ns, prepared and committed {:.2} times that",
            prepared / at_once
        );
    }
    Ok(())
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn options_name(options: TxnOptions) -> &'static str {
    match options == TxnOptions::pessimistic() {
        true => "pessimistic",
        false => "optimistic",
    }
}
