//! What all warehouses have together, and what they must have.
//!
//! The consistency conditions compare rows with each other. All of them hold, too, if a transaction that committed has
//! left nothing. So what commits is added up beside the store.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use thermocline::{Result, Snapshot};

use super::scale::{DISTRICTS, Scale};
use super::schema::column::*;
use super::schema::{Tables, number, units};

/// What all warehouses have together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Totals {
    /// The sum of the numbers that districts give their next orders.
    pub next: u64,
    /// Orders that are not delivered.
    pub waiting: u64,
    /// Cents that the warehouses have got.
    pub paid: i64,
}

impl Totals {
    /// What is loaded.
    fn loaded(scale: Scale) -> Totals {
        let districts = scale.warehouses * DISTRICTS;
        Totals {
            next: districts * (scale.customers + 1),
            waiting: districts * scale.new_orders,
            paid: (districts * scale.customers * 1000).cast_signed(),
        }
    }

    /// What is there.
    pub fn there(moment: &Snapshot, tables: &Tables) -> Result<Totals> {
        let mut there = Totals {
            next: 0,
            waiting: 0,
            paid: 0,
        };
        for row in tables.warehouse.range(moment, ..)? {
            there.paid = there.paid.wrapping_add(units(&row?, W_YTD));
        }
        for row in tables.district.range(moment, ..)? {
            there.next = there.next.wrapping_add(number(&row?, D_NEXT_O_ID));
        }
        for row in tables.new_order.range(moment, ..)? {
            row?;
            there.waiting += 1;
        }
        Ok(there)
    }
}

/// What must be there. Relaxed: it is read when all threads have ended. Who delivers an order may count that before who
/// placed it does, so the numbers may be below 0 in between, and wrap.
#[derive(Debug, Default)]
pub(super) struct Expected {
    next: AtomicU64,
    waiting: AtomicU64,
    paid: AtomicI64,
}

impl Expected {
    /// The tables were loaded.
    pub fn load(&self, scale: Scale) {
        self.begin(Totals::loaded(scale));
    }

    /// A run begins with this.
    pub fn begin(&self, there: Totals) {
        self.next.store(there.next, Ordering::Relaxed);
        self.waiting.store(there.waiting, Ordering::Relaxed);
        self.paid.store(there.paid, Ordering::Relaxed);
    }

    /// An order was placed.
    pub fn order(&self) {
        self.next.fetch_add(1, Ordering::Relaxed);
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// One was delivered.
    pub fn deliver(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// So many cents were paid.
    pub fn pay(&self, cents: i64) {
        self.paid.fetch_add(cents, Ordering::Relaxed);
    }

    /// What it is now.
    pub fn totals(&self) -> Totals {
        Totals {
            next: self.next.load(Ordering::Relaxed),
            waiting: self.waiting.load(Ordering::Relaxed),
            paid: self.paid.load(Ordering::Relaxed),
        }
    }
}
