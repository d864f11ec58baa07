//! What can be wrong with a history.

use std::fmt;

/// One promise broken, with the operations that prove it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anomaly {
    /// Which.
    pub class: Class,
    /// The proof in words.
    pub story: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.story)
    }
}

/// Kinds of anomalies. Those of Adya have his names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// A value that nobody wrote there, or one from before an earlier crash.
    Unwritten,
    /// G1a: a value of a write that had failed.
    AbortedRead,
    /// G1b: a value that its own write had replaced at once.
    IntermediateRead,
    /// Half of a batch.
    FracturedRead,
    /// A commit of a writer without an earlier one of the same writer.
    Gap,
    /// A write is missing that was acknowledged, or durable, before.
    LostWrite,
    /// A write seen before it began.
    FutureRead,
    /// One moment that answered twice, differently.
    Unrepeatable,
    /// An element that is twice in a list.
    Duplicate,
    /// Two lists of one key of which neither continues the other.
    Divergent,
    /// Two acknowledged appends to the same version of a list.
    LostUpdate,
    /// Operations each of which must lie before the next, and the last before the first.
    Cycle(CycleKind, Order),
}

/// What a cycle is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CycleKind {
    /// G0: writes only (dirty write).
    G0,
    /// G1c: writes, and reads of what was written (circular information flow).
    G1c,
    /// G-single: one read that missed a write (read skew, lost update, stale read).
    GSingle,
    /// G-nonadjacent: several such reads, never two in a row (long fork).
    GNonadjacent,
    /// G2-item: several such reads, some in a row (write skew).
    G2Item,
}

/// What else a cycle needs besides what was read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Order {
    /// Nothing.
    Data,
    /// The order of one client's operations.
    Session,
    /// That one operation returned before another began.
    RealTime,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Class::Unwritten => "a value that nobody wrote",
            Class::AbortedRead => "G1a, aborted read",
            Class::IntermediateRead => "G1b, intermediate read",
            Class::FracturedRead => "fractured read",
            Class::Gap => "a gap in a writer's commits",
            Class::LostWrite => "lost write",
            Class::FutureRead => "a read of the future",
            Class::Unrepeatable => "unrepeatable read",
            Class::Duplicate => "duplicate element",
            Class::Divergent => "divergent lists",
            Class::LostUpdate => "lost update",
            Class::Cycle(kind, order) => {
                let kind = match kind {
                    CycleKind::G0 => "G0",
                    CycleKind::G1c => "G1c",
                    CycleKind::GSingle => "G-single",
                    CycleKind::GNonadjacent => "G-nonadjacent",
                    CycleKind::G2Item => "G2-item",
                };
                let order = match order {
                    Order::Data => "",
                    Order::Session => " with session order",
                    Order::RealTime => " with real time",
                };
                return write!(f, "{kind}{order}");
            }
        };
        f.write_str(name)
    }
}

/// How many anomalies a report tells; one broken promise can show a million times.
const TOLD_MAX: usize = 12;

/// The verdict on a history.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The first anomalies, none for a history that can be explained.
    pub anomalies: Vec<Anomaly>,
    /// How many there are; of a knot of cycles only one is counted.
    pub found: u64,
    /// Operations that were checked.
    pub operations: u64,
    /// Values and lists that were seen by them.
    pub observations: u64,
    /// Things that had to lie before others.
    pub edges: u64,
}

impl Report {
    pub(super) fn add(&mut self, class: Class, story: impl FnOnce() -> String) {
        self.found += 1;
        if self.has_room() {
            let story = story();
            self.anomalies.push(Anomaly { class, story });
        }
    }

    /// Whether one more would be told.
    pub(super) fn has_room(&self) -> bool {
        self.anomalies.len() < TOLD_MAX
    }

    /// # Panics
    /// If there is an anomaly; tells them.
    pub fn assert_sound(&self) {
        assert!(self.found == 0, "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} anomalies in {} operations with {} observations",
            self.found, self.operations, self.observations
        )?;
        for anomaly in &self.anomalies {
            writeln!(f, "  {anomaly}")?;
        }
        Ok(())
    }
}
