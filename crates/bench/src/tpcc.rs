//! TPC-C: customers of warehouses order, pay and ask, and orders are delivered.
//!
//! The tables, the rows that they begin with, the five transactions and what they draw follow TPC-C's specification,
//! revision 5.11, clauses 1 to 4: non-uniform customers and items, last names of syllables, 1 % of new orders with an
//! item that there is not, which roll back, 1 % of order lines from another warehouse, 15 % of payments by customers
//! of another one, 60 % by last name. Of 100 transactions 45 are new orders, 43 payments, and 4 each order status,
//! delivery and stock level. What differs:
//!
//! - There are no terminals. Each thread makes one transaction after the other, for a warehouse and district drawn anew
//!   each time. With `think` each thread is a terminal with a home, ten to a warehouse, and keying and thinking times
//!   (clause 5.2.5); then a run says what the specification wants to know, but for its length.
//! - A delivery is made at once, not queued, and each of its ten districts is a transaction of its own, as clause 2.7.2.2
//!   allows. Its latency is that of all ten.
//! - A row of history has no key in the specification; here it is the customer and the number of the payment.
//!
//! The tables lie in nine column families, with an index of customers by name and one of orders by customer. At the end
//! the consistency conditions 1 to 4 of clause 3.3.2 are checked, and that all is there that committed.
//!
//! | module | what |
//! |---|---|
//! | `schema` | tables and columns |
//! | `scale` | how large everything is |
//! | `draw` | non-uniform draws, names, inputs |
//! | `load` | the rows at the beginning |
//! | `new_order`, `payment`, `delivery`, `queries` | the transactions |
//! | `totals` | what all warehouses have together, and must have |
//! | `check` | what must be true at the end |

mod check;
mod delivery;
mod draw;
mod load;
mod new_order;
mod payment;
mod queries;
mod scale;
mod schema;
mod totals;

use thermocline::records::Table;
use thermocline::{Db, Error, Result, Snapshot};

use crate::clock::Duration;
use crate::oltp::attempts::{Client, Outcome};
use crate::oltp::plan::OltpPlan;
use crate::oltp::report::Check;
use crate::oltp::tally::Tally;
use crate::rng::Rng;
use crate::watch::Watch;

use draw::Draws;
use scale::{DISTRICTS, Scale};
use schema::Tables;
use totals::{Expected, Totals};

/// The kinds of transactions, by number.
const NEW_ORDER: usize = 0;
const PAYMENT: usize = 1;
const ORDER_STATUS: usize = 2;
const DELIVERY: usize = 3;
const STOCK_LEVEL: usize = 4;

/// Counts for people, by number.
const REMOTE_PAYMENTS: usize = 0;
const REMOTE_LINES: usize = 1;
const SKIPPED: usize = 2;

/// The benchmark on a store.
pub(crate) struct Tpcc {
    tables: Tables,
    scale: Scale,
    draws: Draws,
    think: bool,
    expected: Expected,
}

impl Tpcc {
    /// Names of the kinds.
    pub const KINDS: &[&str] = &[
        "new_order",
        "payment",
        "order_status",
        "delivery",
        "stock_level",
    ];

    /// Names of the counts.
    pub const NOTES: &[&str] = &[
        "payments_by_remote_customers",
        "order_lines_from_remote_warehouses",
        "districts_without_new_orders",
    ];

    /// Whoever has no table of this name has none of them.
    pub const FIRST_TABLE: &str = schema::FIRST;

    /// Opens the tables, or makes them.
    pub fn open(db: &Db, plan: &OltpPlan) -> Result<Tpcc> {
        let shrink = plan.tpcc.shrink;
        let scale = Scale {
            warehouses: plan.tpcc.warehouses,
            items: 100_000 / shrink,
            customers: 3000 / shrink,
            new_orders: 900 / shrink,
        };
        Ok(Tpcc {
            tables: Tables::open(db)?,
            scale,
            draws: Draws::new(scale, plan.seed),
            think: plan.tpcc.think,
            expected: Expected::default(),
        })
    }

    /// Fills the tables.
    pub fn load(&self, db: &Db, plan: &OltpPlan, watch: &Watch) -> Result<u64> {
        self.expected.load(self.scale);
        load::load(
            db,
            &self.tables,
            self.scale,
            (plan.seed, plan.threads),
            watch,
        )
    }

    /// Asks whether the tables that are there are of this size, and goes on with what they have.
    pub fn resume(&self, db: &Db) -> Result<()> {
        let now = db.snapshot();
        let count = |table: &Table| -> Result<u64> {
            let mut count = 0;
            for row in table.range(&now, ..)? {
                row?;
                count += 1;
            }
            Ok(count)
        };
        let (warehouses, items) = (count(&self.tables.warehouse)?, count(&self.tables.item)?);
        if (warehouses, items) == (self.scale.warehouses, self.scale.items) {
            self.expected.begin(Totals::there(&now, &self.tables)?);
            return Ok(());
        }
        Err(Error::InvalidArgument(format!(
            "the database has {warehouses} warehouses and {items} items, but the run wants {} and {}; give it the same \
             --warehouses as when it was made",
            self.scale.warehouses, self.scale.items
        )))
    }

    /// The kind of the next transaction.
    pub fn draw(&self, rng: &mut Rng) -> usize {
        match rng.below(100) {
            0..45 => NEW_ORDER,
            45..88 => PAYMENT,
            88..92 => ORDER_STATUS,
            92..96 => DELIVERY,
            _ => STOCK_LEVEL,
        }
    }

    /// How long a terminal keys before a transaction of this kind, and its user thinks after it.
    pub fn waits(&self, kind: usize, rng: &mut Rng) -> (Duration, Duration) {
        if !self.think {
            return (Duration::ZERO, Duration::ZERO);
        }
        let (keying, thinking) = match kind {
            NEW_ORDER => (18.0, 12.0),
            PAYMENT => (3.0, 12.0),
            ORDER_STATUS => (2.0, 10.0),
            _ => (2.0, 5.0),
        };
        // Of an exponential distribution, cut at ten times its mean.
        let thinks = (-rng.unit().max(1e-9).ln()).min(10.0) * thinking;
        (
            Duration::from_secs_f64(keying),
            Duration::from_secs_f64(thinks),
        )
    }

    /// The warehouse and district of the next transaction of a thread.
    fn home(&self, thread: u64, rng: &mut Rng) -> (u64, u64) {
        match self.think {
            true => (
                thread / DISTRICTS % self.scale.warehouses + 1,
                thread % DISTRICTS + 1,
            ),
            false => (
                rng.between(1, self.scale.warehouses),
                rng.between(1, DISTRICTS),
            ),
        }
    }

    /// Makes one transaction.
    pub fn transact(
        &self,
        client: &Client<'_>,
        kind: usize,
        (thread, rng): (u64, &mut Rng),
        tally: &mut Tally,
    ) -> Result<Option<Outcome>> {
        let (w, d) = self.home(thread, rng);
        let draws = &self.draws;
        let aborts = &mut tally.kinds[kind].aborts;
        match kind {
            NEW_ORDER => {
                let input = draws.new_order(rng, w, d);
                let remote = input.lines.iter().filter(|line| line.supply != w).count();
                tally.notes[REMOTE_LINES] += remote as u64;
                let done = client.transact(aborts, |txn| {
                    new_order::new_order(txn, &self.tables, &input)
                })?;
                if done == Some(Outcome::Commit) {
                    self.expected.order();
                }
                Ok(done)
            }
            PAYMENT => {
                let input = draws.payment(rng, w, d);
                tally.notes[REMOTE_PAYMENTS] += u64::from(input.customer_at.0 != w);
                let done =
                    client.transact(aborts, |txn| payment::payment(txn, &self.tables, &input))?;
                if done.is_some() {
                    self.expected.pay(input.amount);
                }
                Ok(done)
            }
            ORDER_STATUS => {
                let who = draws.customer(rng);
                client.transact(aborts, |txn| {
                    queries::order_status(txn, &self.tables, (w, d), &who)
                })
            }
            DELIVERY => {
                let delivery = (rng.between(1, 10), rng.next() >> 16);
                for district in 1..=DISTRICTS {
                    let mut skipped = false;
                    let done = client.transact(aborts, |txn| {
                        skipped = !delivery::deliver(txn, &self.tables, (w, district), delivery)?;
                        Ok(Outcome::Commit)
                    })?;
                    if done.is_none() {
                        return Ok(None);
                    }
                    match skipped {
                        true => tally.notes[SKIPPED] += 1,
                        false => self.expected.deliver(),
                    }
                }
                Ok(Some(Outcome::Commit))
            }
            _ => {
                let threshold = rng.between(10, 20).cast_signed();
                client.transact(aborts, |txn| {
                    queries::stock_level(txn, &self.tables, (w, d), threshold)
                })
            }
        }
    }

    /// What must be true at the end.
    pub fn check(&self, moment: &Snapshot) -> Result<Vec<Check>> {
        let expected = self.expected.totals();
        check::check(moment, &self.tables, (self.scale.warehouses, expected))
    }
}
