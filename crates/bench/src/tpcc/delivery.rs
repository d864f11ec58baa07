//! The delivery of a district's oldest new order (clause 2.7).

use thermocline::records::{Row, fields};
use thermocline::{Result, Transaction};

use super::schema::column::*;
use super::schema::{Tables, missing, money, number, units};

/// Delivers the oldest new order. Returns whether there was one.
pub(super) fn deliver(
    txn: &mut Transaction,
    tables: &Tables,
    (w, d): (u64, u64),
    (carrier, date): (u64, u64),
) -> Result<bool> {
    let oldest = tables.new_order.prefix(txn, &fields![w, d])?.next();
    let Some(oldest) = oldest.transpose()? else {
        return Ok(false);
    };
    let order = number(&oldest, O_ID);
    tables.new_order.delete(txn, &fields![w, d, order])?;
    let mut customer = 0;
    let has_order = tables.orders.update(txn, &fields![w, d, order], |row| {
        customer = number(row, O_C_ID);
        row[O_CARRIER_ID] = carrier.into();
    })?;
    let lines = tables.order_line.prefix(txn, &fields![w, d, order])?;
    let lines = lines.collect::<Result<Vec<Row>>>()?;
    let mut amount = 0;
    for mut line in lines {
        amount += units(&line, OL_AMOUNT);
        line[OL_DELIVERY_D] = date.into();
        tables.order_line.put(txn, &line)?;
    }
    let has_customer = tables
        .customer
        .update(txn, &fields![w, d, customer], |row| {
            row[C_BALANCE] = money(units(row, C_BALANCE) + amount);
            row[C_DELIVERY_CNT] = (number(row, C_DELIVERY_CNT) + 1).into();
        })?;
    match has_order && has_customer {
        true => Ok(true),
        false => Err(missing("order, or customer of one,")),
    }
}
