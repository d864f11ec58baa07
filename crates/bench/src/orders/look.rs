//! Lookups. Each begins with an order, as a user does who has one before him. `None`: it is not there yet.

use thermocline::records::{Row, fields};
use thermocline::{Result, Transaction};

use super::life::LAST;
use super::schema::{CUSTOMER, CUSTOMERS, MERCHANT, MERCHANTS, Tables, number};

/// Orders on one page.
const PAGE: usize = 10;

/// The last orders of the customer of this one, and the items of the last of these.
pub(super) fn orders_of_customer(
    tables: &Tables,
    txn: &mut Transaction,
    order: u64,
) -> Result<Option<u64>> {
    let Some(row) = tables.orders.get(txn, &fields![order, 0u64])? else {
        return Ok(None);
    };
    let customer = fields![number(&row, CUSTOMER)];
    let by_customer = tables.orders.index(CUSTOMERS)?;
    let last = by_customer.prefix(txn, &customer)?.rev().take(PAGE);
    let last = last.collect::<Result<Vec<Row>>>()?;
    let mut rows = 1 + last.len() as u64;
    if let Some(newest) = last.first() {
        for item in tables.items.prefix(txn, &newest[..1])? {
            item?;
            rows += 1;
        }
    }
    Ok(Some(rows))
}

/// The oldest orders of the merchant of this one that are not delivered, and what is packed of them.
pub(super) fn orders_of_merchant(
    tables: &Tables,
    txn: &mut Transaction,
    order: u64,
) -> Result<Option<u64>> {
    let Some(row) = tables.orders.get(txn, &fields![order, 0u64])? else {
        return Ok(None);
    };
    let merchant = number(&row, MERCHANT);
    let open = fields![merchant]..fields![merchant, LAST];
    let by_merchant = tables.orders.index(MERCHANTS)?;
    let open = by_merchant.range(txn, open)?.take(PAGE);
    let open = open.collect::<Result<Vec<Row>>>()?;
    let packings = &tables.beside[1];
    let packed = packings.multi_get(txn, open.iter().map(|row| &row[..2]))?;
    Ok(Some(
        1 + (open.len() + packed.iter().flatten().count()) as u64,
    ))
}

/// All rows of an order.
pub(super) fn detail(tables: &Tables, txn: &mut Transaction, order: u64) -> Result<Option<u64>> {
    let mut rows = 0;
    for table in tables.all() {
        for row in table.prefix(txn, &fields![order])? {
            row?;
            rows += 1;
        }
        if rows == 0 {
            return Ok(None);
        }
    }
    Ok(Some(rows))
}
