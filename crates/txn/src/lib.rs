//! Isolation: transactions above the engine (LogFree §3.2.2, §4.1 for what a commit costs below).
//!
//! A transaction reads at a *snapshot*, keeps its writes to itself, and commits them as one batch. What makes it more
//! than a batch is one question that is asked when the batch gets its place in the order of all writes: has anything
//! changed, between the snapshot and this place, of what the transaction depends on? The engine answers under the
//! writer's lock (`engine::watch`, `commit::recent`), so there is no moment between the answer and the place. Locks, which
//! pessimistic transactions take, make it likely that the answer is no. **Nothing that is promised here depends on
//! them**, but that a transaction which has a key exclusively does not lose it to another transaction.
//!
//! | module | what it has |
//! |---|---|
//! | `transaction`, `transactions`, `shared` | one transaction from beginning to end (`transaction::ending`); all of a store; what they share |
//! | `lane`, `lists` | where transactions begin and end; what one has, whose memory the next begins with |
//! | `reading`, `footprint`, `writes`, `scan` | what it sees; what must not change; its own writes and savepoints; iterators over both |
//! | `by_hash`, `same` | finding keys among few or many |
//! | `locks`, `held`, `life` | keys and ranges that are locked, queues, deadlocks; which one has; whether it may go on |
//! | `prepared` | between the two halves of a commit |
//! | `memory`, `report`, `refusal` | limits; who holds what; errors in words |
//! | `store` | what is needed of a store: [`Store`], which the engine implements |
//!
//! # Words
//! *Snapshot* or *moment*: the seqno `s` at which it reads. *Footprint*: the keys and ranges that must not change
//! between `s` and the commit. *Place*, `c`: the seqno of its first record. *Plain write*: a put, delete or batch outside
//! of transactions, or tables that are ingested.
//!
//! # What is promised, and why
//! All writes lie in one total order, that of seqnos, and become visible in that order, each as a whole. Readers at `s`
//! see exactly the writes up to `s` (`engine::snapshot`). That is given. Two things are added.
//!
//! **Lemma.** *If a transaction with snapshot `s` commits at `c`, no write with a seqno between `s` and `c` touches its
//! footprint.* All changes that are granted after it began to watch are noted under the writer's lock, in their order
//! (`commit::recent`, 1 and 2). The question is asked under that lock, in the same hold of it that grants `c`. So at that
//! time exactly the writes below `c` were granted; those above `s` are all noted, or it is refused (`recent`, 3). They
//! count whether or not they are visible yet. A range that somebody deletes counts as a change of each key in it,
//! there or not; ingested tables count as a change of all keys of their family.
//!
//! ## Serializable
//! The footprint has every key that was read, every range as far as an iterator went, and all that was written.
//! By the lemma each read at `s` would have the same result right before `c`: the keys are unchanged, and so is what
//! lies in the ranges, keys that came in included. So the transaction may as well have happened as a whole at `c`. A
//! plain write happens at its seqno. One that wrote nothing happened as a whole at `s`, without any question. So the
//! order of seqnos is an order in which all of them could have been made one after the other: **serializable**. It is
//! that of real time, too: `c` is granted while commit is called, and `s` is what was visible when the first read was
//! made, which is no earlier than whatever had been acknowledged by then. So **strictly serializable**, of serializable
//! transactions and plain writes together. (Transactions at snapshot isolation beside them keep their own promise only.)
//!
//! ## Snapshot isolation
//! The footprint has every key and range that was written, and every key that was read for update or for share. All
//! reads are at `s`. By the lemma, of two transactions that overlap and have written the same key, one has its place
//! between the snapshot and the place of the other, which is refused: **the first to commit wins**. What was only read
//! may have changed: write skew is possible, and nothing else of what Adya's model forbids. `get_for_update` and
//! `get_for_share` prevent it key by key.
//!
//! ## What is taken back
//! A write that a savepoint takes back is made by nobody, so the footprint has it no longer. Nothing that was read depended
//! on it but what the transaction read of its own. What was read of others stays in the footprint, also what was read for
//! share of a key that it had written itself.
//!
//! ## Plain writes
//! They take no lock, wait for none, and are slowed down by nothing but the note of their keys. Exactly this holds: a
//! plain write to a key of a footprint, granted between `s` and `c`, refuses the transaction; it is never overwritten
//! unseen, and never seen by half. The lock of a pessimistic transaction does *not* keep plain writes out; they win.
//! Only one that is prepared keeps them out.
//! Not covered is what is no write: dropping a family. Who has written to it is refused; who has only read it is not.
//!
//! ## A write that has read nothing
//! A transaction without a snapshot has nothing to ask: it happened right before its commit, and overwrites whatever is
//! there, as a batch does.
//!
//! ## Prepared
//! A transaction can be *prepared* first: durably, under a name, at a place p, where the same question is asked as at a commit.
//! From then on nobody changes its footprint, be it by a plain write (`engine::prepared`): so the answer holds until it is
//! committed, at c, and the lemma with it. It keeps its locks, also those of writes that it took back, and their DRAM is
//! counted; an optimistic one takes them when it is prepared. They are not what keeps others out, but what lets those wait
//! who lock. After an opening those of its footprint are taken again, keys that were read for update as if they had been
//! read for share. It waits for nothing any more, so it is in no circle, and its expiration is over.
//!
//! # A snapshot may move
//! It is taken by the first read; where that locks its key, after the lock was got: so whoever waits for a lock and then
//! reads sees what the holder before it wrote, and increments of a counter queue instead of failing. Later, when a lock
//! was got of a key that has changed since `s`, the snapshot moves to the present, `s'`, if all that was read so far is
//! locked and is in the footprint (reads for update or for share; all reads of a serializable transaction but by iterators), and the
//! footprint has not changed since `s`. Then every read so far has the same result at `s'`: as if the transaction had
//! begun later. Else it is refused the key.
//!
//! # Locks
//! Keys are locked shared (reads for share, and all reads of a serializable transaction) or exclusively (writes, reads for
//! update), ranges shared (iterators of a serializable transaction, and `delete_range`). A `delete_range` locks the first key of its
//! range exclusively before, there or not. Where two such ranges meet, one has the first key of the other: so the second
//! waits for the first. (If both lock at once, each may have its first key before either has its range: then they may be a
//! deadlock.) It does not wait for who has an absent key shared, nor, where no key is there, for who has a range shared that
//! begins behind its first key: nobody's promise is broken by that, but who of them has relied on what the other deletes,
//! and commits last, is refused.
//!
//! Locks are held until the commit has been acknowledged, and kept when a savepoint is rolled back to. A call that is refused
//! gives back what it had locked; a key that was locked before may be locked more strongly since.
//! `locks::table` says why no wake-up is lost and nobody
//! starves; `locks::graph` why every deadlock is found at once. **The victim is the youngest**: the transaction of the
//! circle that began last. It is rolled back on the spot, so that the others go on whatever its owner does. When the store
//! is closed, whoever waits is told ([`Transactions::close`]): who has the lock may be prepared, and stay so.
//!
//! A transaction that is past its `expiration` goes on as long as nobody wants what it has locked. Whoever does takes
//! the lock, and from then on it cannot commit. Both are one atomic step (`life`): either it has begun to write, and
//! keeps its locks, or it never will. One that waits for a key, and is past its expiration when that is free, is passed by
//! whoever waits behind it. What it asks for itself ends nothing of its own.
//!
//! # Invariants
//! 1. A transaction's writes are in one batch, written once, or nowhere: `commit` takes it by value.
//! 2. The footprint is asked about from the snapshot that the reads were made at.
//! 3. Whatever ends a transaction, its locks, its snapshot and its memory are given back: all of it hangs on one value;
//!    of one that is prepared on an entry that goes when it is resolved.
//! 4. A transaction waits for one lock at a time, and under no lock of the store.
//!
//! # Crash argument
//! Nothing of a transaction is at rest before it is prepared or its batch is written, and the batch is an ordinary one: one item of a chain, or, where
//! it is large, a staged chain that one edit names. So after a crash it is there whole, in all families, or not at all
//! (`commit`, `engine::stage`), and was acknowledged as its durability says. Locks and snapshots end with the process,
//! but for the locks of what is prepared, which is records (`engine::prepared`).
//!
//! # Lock order
//! A stripe of the table of locks; behind it, each by itself, the ranges, the graph; behind the graph a verdict. The lists
//! of open transactions, one a lane, and of prepared ones stand alone. All of them are leaves to the engine's locks: none of those is taken under them,
//! and they under none of those.
//!
//! # Limits
//! All transactions of a store together have a quarter of its `dram` for locks, writes, savepoints and footprints
//! ([`MEMORY_SHARE`]), and [`OPEN_MAX`] may be open. A savepoint is made past that, too; then the next write is refused. What ended ones leave for the next has a bound of its own (`lane`). The engine remembers 16 MiB of changed keys while somebody watches; a transaction that
//! was overtaken by more is refused, unless hashes show that its keys are none of them.
//!
//! # Rejected
//! - *To ask for the newest seqno of each key.* A key that was put and deleted since may have left nothing behind: dead
//!   memtables are dropped whole, tombstones go with what they hide. So an absent key may have changed, and a lock that is
//!   made of such a key would be none. And plain writes in flight have a place already, but are in no index yet.
//! - *To lock plain writes out.* Each would look into the table of locks. Noting keys under a lock that is held anyway
//!   costs a part of that, and nothing while there are no transactions.
//! - *To validate with a counter of all commits, one at a time.* Commits would not overlap.
#![forbid(unsafe_code)]

mod by_hash;
#[cfg(test)]
mod fake;
mod footprint;
mod held;
mod lane;
mod life;
mod lists;
mod locks;
mod memory;
mod options;
mod prepared;
mod reading;
mod refusal;
mod report;
mod same;
mod scan;
mod shared;
mod store;
mod sync;
mod transaction;
mod transactions;
mod widest;
mod writes;

pub use lane::OPEN_MAX;
pub use options::{Isolation, LOCK_TIMEOUT, Locking, TxnOptions};
pub use prepared::Prepared;
pub use reading::ValueOf;
pub use report::{
    LockedKey, REPORTED_LOCKS_MAX, REPORTED_MAX, TransactionState, TransactionsReport,
};
pub use scan::Scan;
pub use store::{MEMORY_SHARE, Moment, Ordered, Place, Store, Which};
pub use transaction::Transaction;
pub use transactions::Transactions;
pub use writes::Savepoint;

// Named here, not in the units: loom's models include those by path (`tests/loom`), and what tests them on the machine's
// own atomics cannot run there.
#[cfg(test)]
#[path = "locks/entry/tests.rs"]
mod entry_tests;
#[cfg(test)]
#[path = "locks/graph/tests.rs"]
mod graph_tests;
#[cfg(test)]
#[path = "locks/table/tests.rs"]
mod table_tests;
