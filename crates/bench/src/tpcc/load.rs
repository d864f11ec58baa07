//! The rows at the beginning (clause 4.3.3).

use std::sync::atomic::{AtomicU64, Ordering};

use thermocline::records::{Field, Row, Table, fields};
use thermocline::{Db, Durability, Result, Transaction, TxnOptions};

use super::draw::name_at_first;
use super::scale::{DISTRICTS, Scale};
use super::schema::{Tables, money, rate};
use crate::rng::Rng;
use crate::watch::Watch;

/// Rows that are loaded in one transaction.
const ROWS: usize = 500;

/// Rows on their way into a store, some in one transaction.
struct Loading<'a> {
    db: &'a Db,
    watch: &'a Watch,
    txn: Option<Transaction>,
    pending: usize,
    rows: u64,
}

impl Loading<'_> {
    fn row(&mut self, table: &Table, row: &[Field]) -> Result<()> {
        let txn = match self.txn.take() {
            Some(txn) => txn,
            None => {
                let options = TxnOptions::optimistic().durability(Durability::Buffered);
                self.db.transaction(options)?
            }
        };
        table.insert(self.txn.insert(txn), row)?;
        self.pending += 1;
        match self.pending {
            ROWS => self.commit(),
            _ => Ok(()),
        }
    }

    fn commit(&mut self) -> Result<()> {
        if let Some(txn) = self.txn.take() {
            txn.commit()?;
        }
        self.watch.add(self.pending as u64);
        self.rows += self.pending as u64;
        self.pending = 0;
        Ok(())
    }
}

/// Fills all tables on so many threads; returns how many rows.
pub(super) fn load(
    db: &Db,
    tables: &Tables,
    scale: Scale,
    (seed, threads): (u64, usize),
    watch: &Watch,
) -> Result<u64> {
    watch.begin("load", 0);
    let next = AtomicU64::new(0);
    let one = || -> Result<u64> {
        let mut loading = Loading {
            db,
            watch,
            txn: None,
            pending: 0,
            rows: 0,
        };
        // Part 0 is the items, the others are warehouses.
        loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part > scale.warehouses || watch.is_stopped() {
                break;
            }
            let mut rng = Rng::of_part(seed, part);
            match part {
                0 => items(&mut loading, tables, scale, &mut rng)?,
                w => warehouse(&mut loading, tables, scale, (w, &mut rng))?,
            }
        }
        loading.commit()?;
        Ok(loading.rows)
    };
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        let mut rows = 0;
        for handle in handles {
            rows += match handle.join() {
                Ok(result) => result?,
                Err(panic) => std::panic::resume_unwind(panic),
            };
        }
        Ok(rows)
    })
}

/// 26 to 50 letters, in a tenth of the cases with "ORIGINAL" somewhere.
fn data(rng: &mut Rng) -> String {
    let mut text = rng.text(26, 50);
    if rng.percent(10) {
        let at = rng.below(text.len() as u64 - 8);
        let at = usize::try_from(at).unwrap_or(0);
        text.replace_range(at..at + 8, "ORIGINAL");
    }
    text
}

fn items(loading: &mut Loading<'_>, tables: &Tables, scale: Scale, rng: &mut Rng) -> Result<()> {
    for item in 1..=scale.items {
        let price = money(rng.between(100, 10_000).cast_signed());
        let row = fields![
            item,
            rng.between(1, 10_000),
            rng.text(14, 24),
            price,
            data(rng)
        ];
        loading.row(&tables.item, &row)?;
    }
    Ok(())
}

/// Name of 6 to 10 letters, address, tax.
fn named_place(rng: &mut Rng) -> Row {
    let mut row = fields![rng.text(6, 10)];
    row.extend(address(rng));
    row.push(rate(rng.between(0, 2000).cast_signed()));
    row
}

fn address(rng: &mut Rng) -> Row {
    let zip = rng.digits(4, 4) + "11111";
    fields![
        rng.text(10, 20),
        rng.text(10, 20),
        rng.text(10, 20),
        rng.text(2, 2),
        zip
    ]
}

fn warehouse(
    loading: &mut Loading<'_>,
    tables: &Tables,
    scale: Scale,
    (w, rng): (u64, &mut Rng),
) -> Result<()> {
    let mut row = fields![w];
    row.extend(named_place(rng));
    // What the customers of all districts have paid: 10 dollars each.
    let paid = |districts: u64| money((1000 * scale.customers * districts).cast_signed());
    row.push(paid(DISTRICTS));
    loading.row(&tables.warehouse, &row)?;
    for item in 1..=scale.items {
        let mut row = fields![w, item, rng.between(10, 100).cast_signed()];
        row.extend((0..DISTRICTS).map(|_| Field::Text(rng.text(24, 24))));
        row.extend(fields![0i64, 0u64, 0u64, data(rng)]);
        loading.row(&tables.stock, &row)?;
    }
    for d in 1..=DISTRICTS {
        let mut row = fields![w, d];
        row.extend(named_place(rng));
        row.push(paid(1));
        row.push((scale.customers + 1).into());
        loading.row(&tables.district, &row)?;
        for c in 1..=scale.customers {
            customer(loading, tables, (w, d, c), rng)?;
        }
        district_orders(loading, tables, scale, ((w, d), rng))?;
    }
    Ok(())
}

fn customer(
    loading: &mut Loading<'_>,
    tables: &Tables,
    (w, d, c): (u64, u64, u64),
    rng: &mut Rng,
) -> Result<()> {
    let mut row = fields![w, d, c, rng.text(8, 16), "OE", name_at_first(rng, c)];
    row.extend(address(rng));
    let credit = if rng.percent(10) { "BC" } else { "GC" };
    row.extend(fields![rng.digits(16, 16), credit, money(5_000_000)]);
    row.push(rate(rng.between(0, 5000).cast_signed()));
    row.extend([money(-1000), money(1000)]);
    row.extend(fields![1u64, 0u64, rng.text(300, 500), 0u64]);
    loading.row(&tables.customer, &row)?;
    let row = fields![w, d, c, 1u64, w, d, 0u64, money(1000), rng.text(12, 24)];
    loading.row(&tables.history, &row)
}

/// One order of each customer, in random order; the last ones are new.
fn district_orders(
    loading: &mut Loading<'_>,
    tables: &Tables,
    scale: Scale,
    ((w, d), rng): ((u64, u64), &mut Rng),
) -> Result<()> {
    let mut customers: Vec<u64> = (1..=scale.customers).collect();
    for i in (1..customers.len()).rev() {
        let other = usize::try_from(rng.below(i as u64 + 1)).unwrap_or(0);
        customers.swap(i, other);
    }
    for (o, c) in (1..).zip(customers) {
        let is_new = o > scale.customers - scale.new_orders;
        let carrier = (!is_new).then(|| rng.between(1, 10));
        let count = rng.between(5, 15);
        let row = fields![w, d, o, c, 0u64, carrier, count, true];
        loading.row(&tables.orders, &row)?;
        for number in 1..=count {
            let item = rng.between(1, scale.items);
            let amount = match is_new {
                true => money(rng.between(1, 999_999).cast_signed()),
                false => money(0),
            };
            let delivered = (!is_new).then_some(0u64);
            let info = rng.text(24, 24);
            let row = fields![w, d, o, number, item, w, delivered, 5i64, amount, info];
            loading.row(&tables.order_line, &row)?;
        }
        if is_new {
            loading.row(&tables.new_order, &fields![w, d, o])?;
        }
    }
    Ok(())
}
