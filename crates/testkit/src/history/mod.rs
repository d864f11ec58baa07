//! Histories: what concurrent clients of a store did and saw, recorded and then judged.
//!
//! A test's clients call the store as they like and note, as plain data, when each call began and
//! ended and what it wrote or saw. Afterwards a check looks for an explanation: one order of all
//! commits in which every read saw exactly the commits before it. Where there is none, the store has
//! broken a promise, and the check names the anomaly and the operations that prove it.
//!
//! # Time
//! Steps of a [`Clock`] that all clients share, taken before and after each call. If one call's last
//! step is below another's first, the one returned before the other began; only then does the store
//! owe an order. No clock of the machine is asked.
//!
//! # What is promised
//! Commits are atomic and lie in one total order. A read sees a prefix of that order: every commit
//! that was acknowledged before the read's moment began, none that began after its moment ended, and
//! of all others whole commits without a gap. Whoever takes a snapshot reads at the moment of taking
//! it, however late. A read after a crash sees a prefix that holds all that was durable.
//!
//! # Two oracles
//! - [`commits`] trusts the values to say who wrote them: each carries the writer and the writer's
//!   count of commits. So each read tells how far it saw each writer, and a few rules turn that into
//!   a place in the order. Works for blind writes of many writers to the same keys, and for what is
//!   found after a crash.
//! - [`lists`] trusts nothing but the lists themselves: every key holds a list, every write appends an
//!   element that is used only once, and from the lists seen follow the order of versions and who
//!   depends on whom (Adya's write-write, write-read and read-write dependencies).
//!
//! Both end at a graph of what must lie before what ([`Class::Cycle`] names its cycles as Adya does),
//! made of a number of edges linear in what was recorded, and look for strongly connected parts, so
//! checking is near-linear.

mod anomaly;
mod clock;
pub mod commits;
mod cycle;
mod graph;
pub mod lists;
#[cfg(test)]
mod serial;
mod time;

pub use anomaly::{Anomaly, Class, CycleKind, Order, Report};
pub use clock::Clock;

/// How a write ended, as its client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was acknowledged, and had returned at this step.
    Acknowledged(u64),
    /// It was refused, and had returned at this step: it must never be seen.
    Failed(u64),
    /// Nobody knows: it was in flight when the store died.
    Unknown,
}

impl Outcome {
    /// The step at which it had returned, if it was acknowledged.
    pub fn acknowledged(self) -> Option<u64> {
        match self {
            Outcome::Acknowledged(step) => Some(step),
            Outcome::Failed(_) | Outcome::Unknown => None,
        }
    }

    /// The step at which it had returned, if it did.
    pub fn returned(self) -> Option<u64> {
        match self {
            Outcome::Acknowledged(step) | Outcome::Failed(step) => Some(step),
            Outcome::Unknown => None,
        }
    }
}
