//! A new order (clause 2.4).
//!
//! What many orders want, the district, is locked first, and stock in the order of its key: so two orders wait for each
//! other in one order, and few locks are taken before the one that is waited for. Reads that lock nothing come last: from
//! the first of them on a transaction's moment cannot move any more, and a key that has changed since would refuse it.

use thermocline::records::{Field, Row, fields};
use thermocline::{Result, Transaction};

use super::draw::{Line, NewOrder};
use super::schema::column::*;
use super::schema::{Tables, missing, money, number, signed, units};
use crate::oltp::attempts::Outcome;

/// Orders what the input says, or rolls back at an item that there is not.
pub(super) fn new_order(
    txn: &mut Transaction,
    tables: &Tables,
    input: &NewOrder,
) -> Result<Outcome> {
    let (w, d) = (input.w, input.d);
    let mut order = 0;
    let found = tables.district.update(txn, &fields![w, d], |row| {
        order = number(row, D_NEXT_O_ID);
        row[D_NEXT_O_ID] = (order + 1).into();
    })?;
    if !found {
        return Err(missing("district"));
    }
    let Some(infos) = take_stock(txn, tables, input)? else {
        return Ok(Outcome::RollBack);
    };
    let prices = tables
        .item
        .multi_get(txn, input.lines.iter().map(|line| fields![line.item]))?;
    let warehouse = tables.warehouse.get(txn, &fields![w])?;
    let district = tables.district.get(txn, &fields![w, d])?;
    let customer = tables.customer.get(txn, &fields![w, d, input.customer])?;
    let (Some(warehouse), Some(district), Some(customer)) = (warehouse, district, customer) else {
        return Err(missing("warehouse, district or customer"));
    };
    let all_local = input.lines.iter().all(|line| line.supply == w);
    let count = input.lines.len() as u64;
    let row = fields![
        w,
        d,
        order,
        input.customer,
        input.date,
        None::<u64>,
        count,
        all_local
    ];
    tables.orders.insert(txn, &row)?;
    tables.new_order.insert(txn, &fields![w, d, order])?;
    let mut total = 0;
    for (n, ((line, price), info)) in (1u64..).zip(input.lines.iter().zip(prices).zip(infos)) {
        let Some(item) = price else {
            // It has stock, so it is none that there is not.
            return Err(missing("item"));
        };
        let amount = units(&item, I_PRICE) * line.quantity;
        total += amount;
        let mut row = fields![
            w,
            d,
            order,
            n,
            line.item,
            line.supply,
            None::<u64>,
            line.quantity
        ];
        row.extend([money(amount), info]);
        tables.order_line.insert(txn, &row)?;
    }
    std::hint::black_box(to_pay(total, &warehouse, &district, &customer));
    Ok(Outcome::Commit)
}

/// Takes what is ordered out of stock. Returns the information of the district for each line; `None` if there is no such
/// item.
fn take_stock(
    txn: &mut Transaction,
    tables: &Tables,
    input: &NewOrder,
) -> Result<Option<Vec<Field>>> {
    let mut lines: Vec<(usize, &Line)> = input.lines.iter().enumerate().collect();
    lines.sort_by_key(|(_, line)| (line.supply, line.item));
    let mut infos = vec![Field::Null; lines.len()];
    let column = S_DIST + usize::try_from(input.d - 1).unwrap_or(0);
    for (at, line) in lines {
        let key = fields![line.supply, line.item];
        let found = tables.stock.update(txn, &key, |row| {
            let left = signed(row, S_QUANTITY) - line.quantity;
            row[S_QUANTITY] = (if left >= 10 { left } else { left + 91 }).into();
            row[S_YTD] = (signed(row, S_YTD) + line.quantity).into();
            row[S_ORDER_CNT] = (number(row, S_ORDER_CNT) + 1).into();
            let remote = u64::from(line.supply != input.w);
            row[S_REMOTE_CNT] = (number(row, S_REMOTE_CNT) + remote).into();
            infos[at] = row[column].clone();
        })?;
        if !found {
            return Ok(None);
        }
    }
    Ok(Some(infos))
}

/// What the customer is shown: the sum with discount and taxes, in cents.
fn to_pay(total: i64, warehouse: &Row, district: &Row, customer: &Row) -> f64 {
    let part = |row: &Row, column| units(row, column) as f64 / 10_000.0;
    let taxes = part(warehouse, W_TAX) + part(district, D_TAX);
    total as f64 * (1.0 - part(customer, C_DISCOUNT)) * (1.0 + taxes)
}
