//! Histories of lists that are only appended to.
//!
//! Every key holds a list, every append brings an element that is used once. A client's transaction
//! reads some lists at one moment, or reads lists and writes each back with elements appended, as one
//! batch, with the keys that it writes locked against other clients from before its reads until after
//! the commit. (The locks are the client's; the store knows nothing of them.) Such transactions are
//! strictly serializable if the store keeps its promises, so any cycle is an anomaly.
//!
//! Nothing is taken from numbers that the store or the writers gave: lists say by themselves which
//! versions came before them.
//!
//! 1. **Versions.** Of each key the longest list seen holds all others as its beginnings, else they are
//!    *divergent*. Its elements in order are the key's versions; appends that took effect unseen come
//!    behind it, each where the list that its transaction read ends. Two at one place are a *lost
//!    update*. An element that nobody appended, twice in the list, of a failed write (*G1a*), or at the
//!    end of a list though its transaction appended another behind it (*G1b*), is an anomaly by itself.
//! 2. **Dependencies.** Writers of neighbouring versions (write-write), the writer of a version and who
//!    saw it last in its list (write-read), who saw a list and the writer of the next version
//!    (read-write); the order of sessions, and real time.
//! 3. **Cycles**, named as Adya does. A half-seen batch is a G-single, a long fork a G-nonadjacent, a
//!    stale read a G-single with real time.

mod check;
#[cfg(test)]
mod tests;
mod versions;

use std::collections::HashMap;

pub use super::Outcome;
pub use check::check;

/// A transaction of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxnId(u32);

/// What one client read and appended. It runs one transaction after the other; what it reads at a
/// held snapshot belongs to the transaction that took it.
#[derive(Debug, Clone, Default)]
pub struct Client {
    txns: Vec<Txn>,
    reads: Vec<Read>,
    appends: Vec<Append>,
    /// The longest list seen of each key, of which nearly all others are beginnings.
    longest: HashMap<u32, Vec<u64>>,
    /// Lists that are not.
    strange: Vec<Vec<u64>>,
}

#[derive(Debug, Clone)]
struct Txn {
    began: u64,
    outcome: Outcome,
}

#[derive(Debug, Clone, Copy)]
struct Read {
    txn: TxnId,
    key: u32,
    list: List,
}

#[derive(Debug, Clone, Copy)]
enum List {
    /// The first so many of the longest that the client saw.
    Beginning(u32),
    /// One of the strange ones.
    Strange(u32),
}

#[derive(Debug, Clone, Copy)]
struct Append {
    txn: TxnId,
    key: u32,
    element: u64,
}

fn small(n: usize) -> u32 {
    u32::try_from(n).expect("what is recorded is counted in 32 bits")
}

impl Client {
    /// A transaction begins at step `began`. Until [`Client::end`] its outcome is unknown.
    ///
    /// # Panics
    /// If the outcome of the one before is unknown: it may come later than this one.
    pub fn begin(&mut self, began: u64) -> TxnId {
        if let Some(last) = self.txns.last() {
            assert!(
                last.outcome != Outcome::Unknown,
                "a client waits for its transactions"
            );
        }
        self.txns.push(Txn {
            began,
            outcome: Outcome::Unknown,
        });
        TxnId(small(self.txns.len() - 1))
    }

    /// The transaction saw `key` with this list, empty if it has none; of a key that it also appends
    /// to, before that.
    ///
    /// # Panics
    /// If there are 2^32 elements or lists.
    pub fn read(&mut self, txn: TxnId, key: u32, list: &[u64]) {
        let longest = self.longest.entry(key).or_default();
        let common = longest.len().min(list.len());
        let list = if longest[..common] == list[..common] {
            longest.extend_from_slice(&list[common..]);
            List::Beginning(small(list.len()))
        } else {
            self.strange.push(list.to_vec());
            List::Strange(small(self.strange.len() - 1))
        };
        self.reads.push(Read { txn, key, list });
    }

    /// The transaction writes `key` back with `element` behind all that it had and that the
    /// transaction appended already.
    pub fn append(&mut self, txn: TxnId, key: u32, element: u64) {
        self.appends.push(Append { txn, key, element });
    }

    /// The transaction has ended like this; one that only reads is acknowledged when its moment has
    /// been taken.
    pub fn end(&mut self, txn: TxnId, outcome: Outcome) {
        self.txns[txn.0 as usize].outcome = outcome;
    }

    /// Transactions noted so far.
    pub fn operations(&self) -> usize {
        self.txns.len()
    }

    fn list(&self, read: &Read) -> &[u64] {
        match read.list {
            List::Beginning(len) => &self.longest[&read.key][..len as usize],
            List::Strange(n) => &self.strange[n as usize],
        }
    }
}
