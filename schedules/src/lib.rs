//! The engine's threads in random orders.
//!
//! Here the engine is built with the feature `shuttle` of `thermocline-base`: its locks, atomics and
//! threads are those of a scheduler that runs one thread at a time and decides at each of their
//! operations which one is next. Persistent memory, files and the clock are simulated. So an execution
//! depends on nothing but the scheduler's decisions, and one that fails can be run again.
//!
//! # An execution (`workload`)
//! Writers put batches of each kind of durability over two column families, through memtables of a
//! few batches each, some staged, some with values in blob files, in stores of each shape of level 0; readers look through snapshots, by lookups and by cursors in both directions, and
//! look through older ones again; somebody syncs, works ahead, reclaims, flushes, compacts and lets time pass, or the
//! store's own threads do; perhaps the world ends at some instant. At the end the store is closed and
//! opened again.
//!
//! # What is checked (`seen`, `oracle`)
//! 1. Whoever looks sees each batch whole or not at all, in all families, whichever way it looks.
//! 2. A snapshot never changes. What two snapshots see is in the order of their seqnos.
//! 3. Whoever looks sees what was acknowledged before, and nothing that was not begun.
//! 4. After a crash everything acknowledged as durable is there, and all that came before it; what is
//!    there is one moment of what was, not a mixture.
//! 5. Nobody waits for ever, and every callback is made once.
//!
//! # One key (`key`)
//! A model of a single key, which batches write twice while somebody gets it: what needs a switch at two
//! particular steps of thousands is hardly ever drawn in an execution of the whole engine.
//!
//! # Reads of futures (`awaited`)
//! Another workload, of a writer, somebody who flushes, and two threads that read by futures: they find what reads that wait
//! find, and errors come to the right ones. Damage that is met beside sound tables is a second one.
//!
//! # What this does not see
//! The scheduler takes every atomic for a sequentially consistent one. Weaker orderings are the
//! business of loom's models (`crates/art/tests/loom`, `crates/commit/tests/loom`) and of the thread
//! sanitizer. Nor does it take over the swap of the view (`arc-swap`), a single step here.
//!
//! # Running it
//! The plain `cargo test` of the workspace does (`crates/testkit/tests/schedules.rs`). By itself:
//! `cargo test --manifest-path schedules/Cargo.toml -- --nocapture`; with `THERMOCLINE_EXPLORE=n` there are `12n`
//! times as many executions. A failure prints the command that repeats it.

pub mod awaited;
pub mod key;
pub mod oracle;
pub mod place;
pub mod reached;
pub mod run;
pub mod seen;
pub mod workload;
