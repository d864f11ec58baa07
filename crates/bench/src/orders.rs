//! The life of orders: PM-Blade's retail workload (§VI-D and E).
//!
//! An order is placed with rows in ten tables. While it is *hot*, as one of the last orders, its state moves from placed
//! to paid, packed, sent and delivered; each step changes its row and that of another table, and adds an event. Then it
//! is *warm*: customers and merchants look it up, by an index first and then row by row. Later it is *cold*, and is looked
//! up rarely. Each table has ten columns, a text among them, and three indexes, as the paper says of its tables. What
//! the paper does not say is chosen: of 100 transactions 10 place an order, 40 advance one (so that most orders reach
//! their last state), 25 ask for the last orders of a customer, 10 for the open orders of a merchant, 15 for all of one
//! order. Orders age by the orders that come after them, not by a clock.
//!
//! | module | what |
//! |---|---|
//! | `schema` | tables and columns |
//! | `life` | placing an order, and its next state |
//! | `look` | lookups |
//! | `totals` | how many orders and states were added |
//! | `check` | what must be true at the end |

mod check;
mod life;
mod look;
mod schema;
mod totals;

use std::sync::atomic::{AtomicU64, Ordering};

use thermocline::{Db, Durability, Error, Result, Snapshot, TxnOptions};

use crate::oltp::attempts::{Client, Outcome};
use crate::oltp::plan::{OltpPlan, OrdersSettings};
use crate::oltp::report::Check;
use crate::oltp::tally::Tally;
use crate::rng::Rng;
use crate::watch::Watch;

use life::Order;
use schema::Tables;
use totals::Expected;

/// The kinds of transactions, by number.
const PLACE: usize = 0;
const ADVANCE: usize = 1;
const BY_CUSTOMER: usize = 2;
const BY_MERCHANT: usize = 3;
const DETAIL: usize = 4;

/// Counts for people, by number.
const ROWS_READ: usize = 0;
const COLD: usize = 1;
const MISSED: usize = 2;

/// Orders that are loaded in one transaction.
const LOADED: u64 = 20;

/// The workload on a store.
pub(crate) struct Orders {
    tables: Tables,
    settings: OrdersSettings,
    /// The number of the next order.
    next: AtomicU64,
    expected: Expected,
}

impl Orders {
    /// Names of the kinds.
    pub const KINDS: &[&str] = &["place", "advance", "by_customer", "by_merchant", "detail"];

    /// Names of the counts.
    pub const NOTES: &[&str] = &["rows_read", "lookups_of_cold_orders", "orders_not_found"];

    /// Whoever has no table of this name has none of them.
    pub const FIRST_TABLE: &str = schema::FIRST;

    /// Opens the tables, or makes them.
    pub fn open(db: &Db, plan: &OltpPlan) -> Result<Orders> {
        Ok(Orders {
            tables: Tables::open(db)?,
            settings: plan.orders,
            next: AtomicU64::new(0),
            expected: Expected::default(),
        })
    }

    /// Customers, and merchants: for each so many orders that there is something to find.
    fn people(&self) -> (u64, u64) {
        let orders = self.settings.orders;
        ((orders / 20).max(100), (orders / 200).max(10))
    }

    fn order(&self, number: u64, rng: &mut Rng) -> Order {
        let (customers, merchants) = self.people();
        let skew = self.settings.skew;
        Order {
            number,
            customer: skewed(customers, skew, rng),
            merchant: skewed(merchants, skew, rng),
            city: rng.below(50),
            items: rng.between(1, 5),
            cents: rng.between(500, 10_000),
            text: rng.text(
                self.settings.row_bytes as u64,
                self.settings.row_bytes as u64,
            ),
        }
    }

    /// Fills the tables with orders that are delivered; returns how many rows.
    pub fn load(&self, db: &Db, plan: &OltpPlan, watch: &Watch) -> Result<u64> {
        watch.begin("load", self.settings.orders);
        let one = || -> Result<u64> {
            let mut rows = 0;
            loop {
                let first = self.next.fetch_add(LOADED, Ordering::Relaxed);
                if first >= self.settings.orders || watch.is_stopped() {
                    return Ok(rows);
                }
                let last = (first + LOADED).min(self.settings.orders);
                let options = TxnOptions::optimistic().durability(Durability::Buffered);
                let mut txn = db.transaction(options)?;
                for number in first..last {
                    let order = self.order(number, &mut Rng::of_part(plan.seed, number));
                    rows += life::place(&self.tables, &mut txn, &order, life::LAST)?;
                }
                txn.commit()?;
                watch.add(last - first);
            }
        };
        let rows = std::thread::scope(|scope| {
            let handles: Vec<_> = (0..plan.threads).map(|_| scope.spawn(one)).collect();
            let mut rows = 0;
            for handle in handles {
                rows += match handle.join() {
                    Ok(result) => result?,
                    Err(panic) => std::panic::resume_unwind(panic),
                };
            }
            Ok::<u64, Error>(rows)
        })?;
        self.next.store(self.settings.orders, Ordering::Relaxed);
        self.expected.load(self.settings.orders);
        Ok(rows)
    }

    /// Goes on behind the last order that is there.
    pub fn resume(&self, db: &Db) -> Result<()> {
        let now = db.snapshot();
        let last = self.tables.orders.range(&now, ..)?.next_back();
        let Some(last) = last.transpose()? else {
            return Err(Error::InvalidArgument(
                "the database has no orders; leave --use-existing out to load some".into(),
            ));
        };
        let next = schema::number(&last, schema::ORDER) + 1;
        self.next.store(next, Ordering::Relaxed);
        // No older one is changed.
        let oldest_hot = next.saturating_sub(self.settings.hot);
        self.expected.begin(&now, &self.tables, oldest_hot)
    }

    /// The kind of the next transaction.
    pub fn draw(&self, rng: &mut Rng) -> usize {
        match rng.below(100) {
            0..10 => PLACE,
            10..50 => ADVANCE,
            50..75 => BY_CUSTOMER,
            75..85 => BY_MERCHANT,
            _ => DETAIL,
        }
    }

    /// An order of this age or less, recent ones more often.
    fn recent(&self, rng: &mut Rng, age: u64) -> u64 {
        let next = self.next.load(Ordering::Relaxed);
        let age = skewed(age.min(next).max(1), self.settings.skew, rng);
        next.saturating_sub(1 + age)
    }

    /// The order that a lookup is of, and whether it is cold.
    fn looked_up(&self, rng: &mut Rng) -> (u64, bool) {
        let oldest_warm = self.next.load(Ordering::Relaxed);
        let oldest_warm = oldest_warm.saturating_sub(self.settings.warm);
        let is_cold = rng.unit() * 100.0 < self.settings.cold_percent;
        match is_cold && oldest_warm > 0 {
            true => (rng.below(oldest_warm), true),
            false => (self.recent(rng, self.settings.warm), false),
        }
    }

    /// Makes one transaction.
    pub fn transact(
        &self,
        client: &Client<'_>,
        kind: usize,
        rng: &mut Rng,
        tally: &mut Tally,
    ) -> Result<Option<Outcome>> {
        let tables = &self.tables;
        let aborts = &mut tally.kinds[kind].aborts;
        match kind {
            PLACE => {
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                let order = self.order(number, rng);
                let done = client.transact(aborts, |txn| {
                    life::place(tables, txn, &order, 0).map(|_| Outcome::Commit)
                })?;
                if done.is_some() {
                    self.expected.place();
                }
                Ok(done)
            }
            ADVANCE => {
                let number = self.recent(rng, self.settings.hot);
                let text = rng.text(
                    self.settings.row_bytes as u64,
                    self.settings.row_bytes as u64,
                );
                let mut moved = false;
                let done = client.transact(aborts, |txn| {
                    moved = life::advance(tables, txn, number, &text)?;
                    Ok(Outcome::Commit)
                })?;
                if done.is_some() && moved {
                    self.expected.advance();
                }
                Ok(done)
            }
            _ => {
                let (number, is_cold) = self.looked_up(rng);
                let mut rows = None;
                let done = client.transact(aborts, |txn| {
                    rows = match kind {
                        BY_CUSTOMER => look::orders_of_customer(tables, txn, number)?,
                        BY_MERCHANT => look::orders_of_merchant(tables, txn, number)?,
                        _ => look::detail(tables, txn, number)?,
                    };
                    Ok(Outcome::Commit)
                })?;
                tally.notes[ROWS_READ] += rows.unwrap_or(0);
                tally.notes[COLD] += u64::from(is_cold);
                tally.notes[MISSED] += u64::from(rows.is_none());
                Ok(done)
            }
        }
    }

    /// What must be true at the end.
    pub fn check(&self, moment: &Snapshot) -> Result<Vec<Check>> {
        check::check(&self.tables, moment, &self.expected)
    }
}

/// A number below `n`, small ones more often: `k` is drawn about as often as `1 / (k + 1)^theta`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is not negative, and below n"
)]
fn skewed(n: u64, theta: f64, rng: &mut Rng) -> u64 {
    let drawn = n as f64 * rng.unit().powf(1.0 / (1.0 - theta));
    (drawn as u64).min(n - 1)
}

#[cfg(test)]
mod tests;
