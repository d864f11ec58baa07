//! What a look at the head of a queue costs behind keys that are deleted:
//! `cargo run --release -p thermocline --features examples --example queue -- 200000`
#![expect(
    clippy::disallowed_methods,
    reason = "an example measures by the real clock"
)]

use std::time::{Duration, Instant};

use thermocline::{Db, Durability, Options};

fn main() -> thermocline::Result<()> {
    let keys: u64 = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(200_000);
    let folder = std::env::temp_dir().join(format!("thermocline-queue-{}", std::process::id()));
    let db = Db::open(&folder, Options::default())?;
    for n in 0..keys {
        db.put_with(n.to_be_bytes(), [7; 100], Durability::Buffered)?;
    }
    for n in 0..keys {
        db.delete_with(n.to_be_bytes(), Durability::Buffered)?;
    }
    let look = |what: &str| {
        let begun = Instant::now();
        let found = db.iter().next().transpose();
        println!("{what}: {:?}", begun.elapsed());
        found
    };
    look("the first look")?;
    look("the second")?;
    let (mut looks, mut puts, mut deletes) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    const ROUNDS: u64 = 10_000;
    for n in keys..keys + ROUNDS {
        let begun = Instant::now();
        db.put_with(n.to_be_bytes(), [7; 100], Durability::Buffered)?;
        puts += begun.elapsed();
        let begun = Instant::now();
        let head = db.iter().next().transpose()?;
        looks += begun.elapsed();
        assert!(head.is_some_and(|(key, _)| *key == n.to_be_bytes()));
        let begun = Instant::now();
        db.delete_with(n.to_be_bytes(), Durability::Buffered)?;
        deletes += begun.elapsed();
    }
    let each = |all: Duration| all / u32::try_from(ROUNDS).unwrap_or(1);
    println!(
        "put, look, delete, each on average: {:?}, {:?}, {:?}",
        each(puts),
        each(looks),
        each(deletes)
    );
    db.close()?;
    std::fs::remove_dir_all(&folder).ok();
    Ok(())
}
