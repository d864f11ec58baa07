//! How many orders there are, and how far they have come; and how many must be there.
//!
//! The other checks compare tables with each other. All of them hold, too, if a transaction that committed has left
//! nothing. So what commits is counted beside the store.

use std::sync::atomic::{AtomicU64, Ordering};

use thermocline::records::fields;
use thermocline::{Result, Snapshot};

use super::life::LAST;
use super::schema::{STATE, Tables, number};

/// Of the orders from one on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Totals {
    pub orders: u64,
    /// The sum of their states.
    pub states: u64,
}

impl Totals {
    /// What is there, from order `from` on.
    pub fn there(moment: &Snapshot, tables: &Tables, from: u64) -> Result<Totals> {
        let (mut orders, mut states) = (0, 0u64);
        for row in tables.orders.range(moment, fields![from]..)? {
            orders += 1;
            states = states.wrapping_add(number(&row?, STATE));
        }
        Ok(Totals { orders, states })
    }
}

/// What must be there. Relaxed: it is read when all threads have ended.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// The first order that counts.
    from: AtomicU64,
    orders: AtomicU64,
    states: AtomicU64,
}

impl Expected {
    /// So many were loaded, all of them delivered.
    pub fn load(&self, orders: u64) {
        let states = orders * LAST;
        self.set(0, Totals { orders, states });
    }

    /// A run goes on with what is there, and changes no order before `from`.
    pub fn begin(&self, now: &Snapshot, tables: &Tables, from: u64) -> Result<()> {
        self.set(from, Totals::there(now, tables, from)?);
        Ok(())
    }

    fn set(&self, from: u64, there: Totals) {
        self.from.store(from, Ordering::Relaxed);
        self.orders.store(there.orders, Ordering::Relaxed);
        self.states.store(there.states, Ordering::Relaxed);
    }

    /// An order was placed, in its first state.
    pub fn place(&self) {
        self.orders.fetch_add(1, Ordering::Relaxed);
    }

    /// One has come to its next state.
    pub fn advance(&self) {
        self.states.fetch_add(1, Ordering::Relaxed);
    }

    /// The first order that counts.
    pub fn from(&self) -> u64 {
        self.from.load(Ordering::Relaxed)
    }

    /// What it is now.
    pub fn totals(&self) -> Totals {
        Totals {
            orders: self.orders.load(Ordering::Relaxed),
            states: self.states.load(Ordering::Relaxed),
        }
    }
}
