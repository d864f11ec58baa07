//! What only reads: the status of a customer's last order (clause 2.6), and how much is low in stock (clause 2.8).

use std::collections::BTreeSet;

use thermocline::records::{Row, fields};
use thermocline::{Result, Transaction};

use super::draw::Who;
use super::payment::customer_id;
use super::schema::column::*;
use super::schema::{BY_CUSTOMER, Tables, missing, number, signed};
use crate::oltp::attempts::Outcome;

/// Orders whose items are looked at.
const LAST_ORDERS: u64 = 20;

/// The last order of a customer, with its lines.
pub(super) fn order_status(
    txn: &mut Transaction,
    tables: &Tables,
    (w, d): (u64, u64),
    who: &Who,
) -> Result<Outcome> {
    let Some(customer) = customer_id(&tables.customer, txn, (w, d), who)? else {
        return Err(missing("customer of a name"));
    };
    let Some(row) = tables.customer.get(txn, &fields![w, d, customer])? else {
        return Err(missing("customer"));
    };
    let by_customer = tables.orders.index(BY_CUSTOMER)?;
    let last = by_customer
        .prefix_keys(txn, &fields![w, d, customer])?
        .next_back();
    if let Some(key) = last.transpose()? {
        let order = tables.orders.get(txn, &key)?;
        let lines = tables.order_line.prefix(txn, &key)?;
        let lines = lines.collect::<Result<Vec<Row>>>()?;
        std::hint::black_box((order, lines));
    }
    std::hint::black_box(row);
    Ok(Outcome::Commit)
}

/// How many of the items of the district's last orders are low in stock.
pub(super) fn stock_level(
    txn: &mut Transaction,
    tables: &Tables,
    (w, d): (u64, u64),
    threshold: i64,
) -> Result<Outcome> {
    let Some(district) = tables.district.get(txn, &fields![w, d])? else {
        return Err(missing("district"));
    };
    let next = number(&district, D_NEXT_O_ID);
    let range = fields![w, d, next.saturating_sub(LAST_ORDERS)]..fields![w, d, next];
    let mut items = BTreeSet::new();
    for line in tables.order_line.range(txn, range)? {
        items.insert(number(&line?, OL_I_ID));
    }
    let stock = tables
        .stock
        .multi_get(txn, items.iter().map(|item| fields![w, *item]))?;
    let low = stock
        .iter()
        .flatten()
        .filter(|row| signed(row, S_QUANTITY) < threshold);
    std::hint::black_box(low.count());
    Ok(Outcome::Commit)
}
