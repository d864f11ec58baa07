//! Memory per key and speed of the index, for one thread.
//!
//! ```text
//! cargo run --release -p thermocline-art --features examples --example memory -- memory [millions…]
//! cargo run --release -p thermocline-art --features examples --example memory -- speed
//! ```
#![expect(
    clippy::cast_possible_truncation,
    reason = "key bytes are cut out of random numbers"
)]

use std::hint::black_box;
use std::ops::{Bound, ControlFlow};
use std::time::{Duration, Instant};

use thermocline_art::{Direction, KeySource, Leaf, Tree};
use thermocline_base::Result;

type Key = [u8; 16];

/// Keys in one run of memory, numbered.
struct Flat(Vec<Key>);

impl KeySource for Flat {
    #[inline]
    fn key(&self, leaf: Leaf) -> Result<&[u8]> {
        Ok(&self.0[(leaf.offset() / 8) as usize])
    }

    fn check(&self, _leaf: Leaf) -> Result<()> {
        Ok(())
    }
}

fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn random(n: u64) -> Key {
    (u128::from(mix(2 * n)) << 64 | u128::from(mix(2 * n + 1))).to_be_bytes()
}

fn digits(n: u64) -> Key {
    let bytes = random(n);
    // 16 bits for each digit, so that the ten are equally likely.
    let wide = [bytes, random(n + (1 << 40))].concat();
    std::array::from_fn(|i| b'0' + (u16::from_be_bytes([wide[2 * i], wide[2 * i + 1]]) % 10) as u8)
}

/// The number, big-endian, then zeros (the character).
fn padded(n: u64) -> Key {
    let mut key = [b'0'; 16];
    key[..8].copy_from_slice(&n.to_be_bytes());
    key
}

/// The numbers below `count` in an order without pattern.
fn permuted(count: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..count).collect();
    for i in (1..count).rev() {
        order.swap(i as usize, (mix(i) % (i + 1)) as usize);
    }
    order
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = run();
    (result, start.elapsed())
}

fn rate(count: usize, time: Duration) -> String {
    let per_second = count as f64 / time.as_secs_f64();
    format!("{:>6.2} M/s {:>5.0} ns", per_second / 1e6, 1e9 / per_second)
}

fn insert(tree: &Tree, source: &Flat, numbers: impl Iterator<Item = usize>) {
    for i in numbers {
        let key = &source.0[i];
        let leaf = Leaf::of(key, 8 * i as u64);
        let guard = tree.pin();
        let done = tree.update(&guard, key, source, |_| Ok(Some(leaf.into())));
        done.expect("the source never fails");
    }
}

fn get(tree: &Tree, source: &Flat, numbers: impl Iterator<Item = usize>) {
    for i in numbers {
        let guard = tree.pin();
        let found = tree.get(&guard, &source.0[i], source);
        let found = found.expect("the source never fails");
        assert!(black_box(found).is_some());
    }
}

/// Scans of 50 keys from random ones; returns how many keys were visited.
fn scan(tree: &Tree, source: &Flat, scans: usize, direction: Direction) -> usize {
    let mut visited = 0;
    for n in 0..scans {
        let from = &source.0[(mix(n as u64) % source.0.len() as u64) as usize];
        let guard = tree.pin();
        let mut left = 50;
        tree.scan(&guard, Bound::Included(from), direction, source, |entry| {
            black_box(entry.leaf());
            visited += 1;
            left -= 1;
            Ok(if left == 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        })
        .expect("the source never fails");
    }
    visited
}

fn memory(millions: &[usize]) {
    println!("keys    M   live/key  retained/key  total/key   worst so far   insert");
    for (name, make) in [("random", random as fn(u64) -> Key), ("digits", digits)] {
        let last = millions.iter().max().copied().unwrap_or(0) * 1_000_000;
        let source = Flat((0..last as u64).map(make).collect());
        let tree = Tree::new();
        let (mut done, mut worst, mut spent) = (0, 0.0f64, Duration::ZERO);
        for end in (100_000..=last).step_by(100_000) {
            spent += timed(|| insert(&tree, &source, done..end)).1;
            done = end;
            let use_ = tree.memory();
            let per_key = |bytes: u64| bytes as f64 / tree.len() as f64;
            let total = per_key(use_.live_bytes + use_.retained_bytes);
            worst = worst.max(total);
            if millions.contains(&(done / 1_000_000)) && done % 1_000_000 == 0 {
                println!(
                    "{name} {:>3}   {:>8.2}  {:>12.2}  {total:>9.2}   {worst:>12.2}   {}  {:?}",
                    done / 1_000_000,
                    per_key(use_.live_bytes),
                    per_key(use_.retained_bytes),
                    rate(done, spent),
                    use_.nodes,
                );
            }
        }
    }
}

fn speed() {
    const COUNT: usize = 3_000_000;
    for (name, make) in [
        ("padded", padded as fn(u64) -> Key),
        ("random", random),
        ("digits", digits),
    ] {
        let source = Flat(permuted(COUNT as u64).into_iter().map(make).collect());
        let lookups: Vec<usize> = permuted(COUNT as u64).iter().map(|&n| n as usize).collect();
        let tree = Tree::new();
        let inserts = timed(|| insert(&tree, &source, 0..COUNT)).1;
        let gets = timed(|| get(&tree, &source, lookups.iter().copied())).1;
        let updates = timed(|| insert(&tree, &source, lookups.iter().copied())).1;
        let absent = Flat((COUNT as u64..2 * COUNT as u64).map(make).collect());
        let misses = timed(|| {
            for key in &absent.0 {
                let guard = tree.pin();
                let found = tree.get(&guard, key, &source);
                assert!(black_box(found.expect("the source never fails")).is_none());
            }
        });
        let pins = timed(|| (0..COUNT).for_each(|_| drop(black_box(tree.pin()))));
        println!("{name}: {COUNT} keys");
        println!("  insert        {}", rate(COUNT, inserts));
        println!("  get           {}", rate(COUNT, gets));
        println!("  get (absent)  {}", rate(COUNT, misses.1));
        println!("  update        {}", rate(COUNT, updates));
        println!("  pin           {}", rate(COUNT, pins.1));
        for direction in [Direction::Forward, Direction::Reverse] {
            let (visited, time) = timed(|| scan(&tree, &source, 200_000, direction));
            let rate = rate(200_000, time);
            println!("  scan of 50    {rate}  {direction:?}, {visited} visited");
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("speed") => speed(),
        Some("memory") => {
            let mut millions: Vec<usize> = arguments.filter_map(|a| a.parse().ok()).collect();
            if millions.is_empty() {
                millions = vec![1, 2, 5, 10, 20];
            }
            memory(&millions);
        }
        _ => eprintln!("usage: memory speed | memory memory [millions of keys…]"),
    }
}
