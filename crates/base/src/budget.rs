//! Budgets of DRAM: one for each store, and one for all stores of a process together.
//!
//! An [`Account`] belongs to one store. Several accounts draw on a [`Budget`]. Memory is counted when it is taken
//! from the system ([`Account::take`]), in pieces of any size. A write must not fail once it was granted its place,
//! so memory is *promised* before ([`Account::promise`]). The store says how many bytes all its memory together will
//! use at most, when every write that it has let through is done.
//!
//! # Why two stores never spend the same room
//! An account *holds* room, at least what it uses; the budget counts what all of them hold.
//!
//! - **B1** The budget's `held` is the sum of all accounts' `held`: it changes by the same amount, before
//!   the account's is raised and after the account's is lowered.
//! - **B2** A promise raises the budget's `held` by compare-exchange, and only up to the limit. So of two
//!   stores that want the last room one gets it, before either has used a byte of it.
//! - **B3** `used` ≤ `held` in every account. `take` raises `used`, and stays below what was promised, as
//!   long as the promise was no lie. `held` is lowered only by the next promise, which again covers
//!   all that is used and all writes that are under way, or by [`Account::settle`], when there are none.
//!
//! Together: the sum of all `used` is at most the sum of all `held`, which is at most the limit.
//!
//! Memory that is given back does not lower `held` at once: the promise was "at most so much in all", and
//! a write under way may take again what another gave back.
//!
//! # What a promise costs others
//! A store that promises for many writes ahead keeps others from room that it may never use. So it promises ahead
//! only a small share of the free room ([`Account::has_ample_room_for`]), and gives the rest back when it falls idle.
//!
//! # Memory beside the indexes
//! Cached blocks, open tables, and the memory that flushes work with are *charged* ([`Account::charge`]): counted
//! when they are made, for as long as the [`Charge`] lives. They get what promises leave, and give way to promises.
//! An account that needs room asks the holders that can give some back ([`Evict`]), first those of all accounts, then
//! its own.
//!
//! - **B4** Whenever a promise or a charge returns, what is held and what is charged are together at most
//!   the limit, of the budget and of the account. A promise raises `held` first and looks at `charged`
//!   after; a charge raises `charged` first and looks at `held` after; both sequentially consistent. So of
//!   two that want the same room at once one sees the other at least, and gives up or has others give way.
//!
//! Some charged memory can never be given back while its store is open: the memory in which records lie (preset
//! `leveled`). It is *kept* ([`Account::charge_kept`]), and may be half of a budget at most, so that the first stores
//! leave room for the indexes of all.
//!
//! With B3, used and charged memory together are at most the limit, at every moment. There are two exceptions, which
//! [`Account::over`] tells. One is work that must be done even if nothing can give way ([`Account::charge_over`]): a
//! flush, which makes indexes smaller, or a table that is read and not kept. The other is an account whose own limit
//! was lowered, until its indexes are below that.
//!
//! # At the limits
//! - While a store is being opened nothing is promised: its indexes are rebuilt, and `take` itself asks
//!   the budget and fails where that is full. The store's own limit does not count then: a store
//!   whose limit was lowered must be opened to be helped.
//! - Should a promise have been too small, `take` goes over it, and over the limit if need be, rather
//!   than fail a write that was granted. [`Account::overdrawn`] says by how much; tests hold it at 0.
//! - The last sixteenth of either limit is left to writes that only delete.
//! - A store that is closed holds what it uses and no more, until its last reader has gone.

mod account;
mod limit;
mod shared;
mod tally;

pub use account::{Account, Charge};
pub use limit::{Full, Spare};
pub use shared::Budget;
pub use tally::Evict;

#[cfg(test)]
mod tests;
