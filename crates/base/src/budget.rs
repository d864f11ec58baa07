//! Budgets of DRAM: what a store may use, and what all stores of a process may use together.
//!
//! An [`Account`] is a store's, a [`Budget`] is what several accounts draw on. Memory is counted where
//! it is taken from the system ([`Account::take`]), in whatever pieces that happens. A write must not
//! fail once it was granted its place, so memory is *promised* before ([`Account::promise`]): the
//! store says how many bytes it will use at most, all its memory together, when every write that it
//! has let through is done.
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
//! A store that promises for many writes ahead keeps others from room that it may never use. So it does
//! that only with a small share of the room that is free ([`Account::has_ample_room_for`]), and gives the rest
//! back when it falls idle.
//!
//! # Memory beside the indexes
//! Blocks that are cached, tables that are open, and what flushes work with are *charged*
//! ([`Account::charge`]): counted when they are made, for as long as the [`Charge`] lives. They get what
//! promises leave, and give way to promises: who needs room asks those who can give some back
//! ([`Evict`]), first of all accounts, then of his own.
//!
//! - **B4** Whenever a promise or a charge returns, what is held and what is charged are together at most
//!   the limit, of the budget and of the account. A promise raises `held` first and looks at `charged`
//!   after; a charge raises `charged` first and looks at `held` after; both sequentially consistent. So of
//!   two that want the same room at once one sees the other at least, and gives up or has others give way.
//!
//! Some of it can never be given back while its store is open: memory in which records lie (preset
//! `leveled`). It is *kept* ([`Account::charge_kept`]), and may be half of a budget at most, so that stores
//! that came first leave room for the indexes of all.
//!
//! With B3, what is used and what is charged are together at most the limit, at every moment. There are
//! two exceptions, which [`Account::over`] tells: what has to be done even where nothing can give way
//! ([`Account::charge_over`]: a flush, by which indexes become smaller; a table that is read and not kept);
//! and an account whose own limit was lowered, before its indexes are below that.
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
