//! What timing an operation costs, and what not timing it does: `cargo run --release -p thermocline-observe --features examples --example
//! latency_cost`. Prints nanoseconds for each call of `begin` and `end` together.

use std::sync::Arc;
use std::time::Instant;

use thermocline_env::real::RealClock;
use thermocline_observe::latency::{Latencies, Operation};

const CALLS: u32 = 10_000_000;

fn main() {
    for every in [1, 32, 1024, 0] {
        let latencies = Latencies::new(every, Arc::new(RealClock::new()));
        #[expect(
            clippy::disallowed_methods,
            reason = "the example measures time that passes"
        )]
        let begun = Instant::now();
        for _ in 0..CALLS {
            let operation = latencies.begin();
            latencies.end(Operation::Get, std::hint::black_box(operation));
        }
        let nanos = begun.elapsed().as_nanos() as f64 / f64::from(CALLS);
        println!("one of {every} timed: {nanos:.1} ns");
    }
}
