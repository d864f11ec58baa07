//! Histories of blind writes whose values say who wrote them.
//!
//! Writers number their commits; every value that a commit puts carries its [`Stamp`]. What a read saw
//! is a set of stamps and absences. The check (see [`check`]) works in three steps:
//!
//! 1. **How far.** For each read and writer: the commits of that writer that it saw are the first `n`,
//!    for some `n` that is narrowed from both sides. A stamp says "at least this one, and none of the
//!    same writer that replaced it"; an absence lies before the first put, or behind a delete and before
//!    the next put. What was acknowledged before the read began is seen, what began after its moment
//!    is not. If nothing is left for `n`, that is an anomaly that two observations prove.
//! 2. **What before what.** What returned before what began later, so each commit before its writer's
//!    next; the last commit seen of each writer before the read, and the read before the first not
//!    seen; and for keys of several writers, each other writer's last seen write to the key before the one
//!    whose value was found.
//! 3. **Cycles** in that: long forks, reads that went back in time, causes missing from what they
//!    caused, batches in two orders.
//!
//! # How much that proves
//! An anomaly reported is one (no order explains the history). Every history that no order explains is
//! found if keys have one writer each and are not deleted, or if reads saw something of every commit
//! that might matter: there each `n` is exact. Where a key has several writers and a read of it alone
//! leaves `n` open for some of them, an impossible order between overlapping commits may pass. (The
//! tests compare with a search of all orders.)

mod bounds;
mod check;
#[cfg(test)]
mod tests;
mod versions;

use std::collections::HashMap;

pub use super::Outcome;
pub use check::check;

/// A commit: the writer, and the writer's count of commits, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stamp {
    /// The index of the writer among the clients.
    pub writer: u16,
    /// Which of its commits.
    pub number: u32,
}

impl Stamp {
    /// As eight bytes for a value.
    pub fn to_bytes(self) -> [u8; 8] {
        (u64::from(self.writer) << 32 | u64::from(self.number)).to_be_bytes()
    }

    /// From the first eight bytes of a value; `None` if they are no stamp.
    pub fn from_bytes(value: &[u8]) -> Option<Stamp> {
        let bytes = value.first_chunk::<8>()?;
        let packed = u64::from_be_bytes(*bytes);
        Some(Stamp {
            writer: u16::try_from(packed >> 32).ok()?,
            number: u32::try_from(packed & u64::from(u32::MAX)).ok()?,
        })
    }
}

impl std::fmt::Display for Stamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "commit {} of client {}", self.number, self.writer)
    }
}

/// What a commit does to one key. Keys are numbered by the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// Which key.
    pub key: u32,
    /// Whether it gets a value, which carries the stamp, or is deleted.
    pub put: bool,
}

/// A read of a client, by which more can be noted about it later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadId(u32);

/// What one client did and saw. It calls one thing after the other; snapshots that it holds are read
/// at the moment at which they were taken.
#[derive(Debug, Clone)]
pub struct Client {
    writer: u16,
    /// Its commits before these, in an earlier history of the same store.
    before: u32,
    commits: Vec<Commit>,
    writes: Vec<Write>,
    reads: Vec<Read>,
    seen: Vec<Seen>,
}

#[derive(Debug, Clone)]
struct Commit {
    began: u64,
    outcome: Outcome,
    /// Where its writes begin; they end where the next commit's begin.
    writes: usize,
}

#[derive(Debug, Clone)]
struct Read {
    /// When its moment was about to be taken and when it had been.
    moment: Moment,
}

#[derive(Debug, Clone)]
enum Moment {
    /// Between these steps; the second is 0 until it has ended.
    Live(u64, u64),
    /// After a crash: what of each writer must be there at least.
    Recovered(Vec<u32>),
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    read: ReadId,
    key: u32,
    stamp: Option<Stamp>,
}

impl Client {
    /// The client with index `writer` in the history, which has made `before` commits in an earlier one.
    pub fn new(writer: u16, before: u32) -> Client {
        Client {
            writer,
            before,
            commits: Vec::new(),
            writes: Vec::new(),
            reads: Vec::new(),
            seen: Vec::new(),
        }
    }

    /// The stamp of the next commit.
    ///
    /// # Panics
    /// After 2^32 commits.
    pub fn next_stamp(&self) -> Stamp {
        let count = u32::try_from(self.commits.len()).expect("commits are numbered in 32 bits");
        Stamp {
            writer: self.writer,
            number: self.before + count + 1,
        }
    }

    /// A commit begins at step `began`. Of two writes to one key the later counts. Until
    /// [`Client::end`] its outcome is unknown.
    ///
    /// # Panics
    /// If the outcome of the commit before is unknown: it may come later than this one.
    pub fn commit(&mut self, began: u64, writes: impl IntoIterator<Item = Write>) {
        if let Some(last) = self.commits.last() {
            assert!(
                last.outcome != Outcome::Unknown,
                "a client waits for its commits"
            );
        }
        self.commits.push(Commit {
            began,
            outcome: Outcome::Unknown,
            writes: self.writes.len(),
        });
        self.writes.extend(writes);
    }

    /// The last commit has ended like this.
    ///
    /// # Panics
    /// If there is none.
    pub fn end(&mut self, outcome: Outcome) {
        self.commits.last_mut().expect("a commit has begun").outcome = outcome;
    }

    /// A read begins at step `began`: a get, or the taking of a snapshot, iterator or cursor.
    ///
    /// # Panics
    /// After 2^32 reads.
    pub fn read(&mut self, began: u64) -> ReadId {
        self.add_read(Moment::Live(began, 0))
    }

    /// The call that chose the read's moment had returned at step `ended`.
    pub fn moment(&mut self, read: ReadId, ended: u64) {
        if let Moment::Live(_, end) = &mut self.reads[read.0 as usize].moment {
            *end = ended;
        }
    }

    /// A read of what a crash left. `at_least` is, for each client, the number of its last commit that
    /// must be there.
    ///
    /// # Panics
    /// After 2^32 reads.
    pub fn recovered(&mut self, at_least: Vec<u32>) -> ReadId {
        self.add_read(Moment::Recovered(at_least))
    }

    fn add_read(&mut self, moment: Moment) -> ReadId {
        let id = u32::try_from(self.reads.len()).expect("reads are numbered in 32 bits");
        self.reads.push(Read { moment });
        ReadId(id)
    }

    /// The read saw `key` with the value of this stamp, or without one.
    pub fn saw(&mut self, read: ReadId, key: u32, stamp: Option<Stamp>) {
        self.seen.push(Seen { read, key, stamp });
    }

    /// Commits and reads noted so far.
    pub fn operations(&self) -> usize {
        self.commits.len() + self.reads.len()
    }

    /// The number of its last commit.
    fn last(&self) -> u32 {
        self.next_stamp().number - 1
    }

    fn get(&self, number: u32) -> &Commit {
        &self.commits[(number - self.before) as usize - 1]
    }

    fn writes(&self, number: u32) -> &[Write] {
        let i = (number - self.before) as usize - 1;
        let end = self.commits.get(i + 1).map(|next| next.writes);
        &self.writes[self.commits[i].writes..end.unwrap_or(self.writes.len())]
    }
}

/// What all clients of one store did and saw.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// All who wrote or read; the index is the writer in stamps.
    pub clients: Vec<Client>,
    /// What was there before: the stamps, of earlier histories, of keys that had a value.
    pub initial: HashMap<u32, Stamp>,
}
