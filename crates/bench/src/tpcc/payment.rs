//! A payment (clause 2.5).
//!
//! The warehouse comes first: all payments of a warehouse want it.

use thermocline::records::{Reader, Row, Table, fields};
use thermocline::{ColumnFamily, Result, Transaction};

use super::draw::{Payment, Who};
use super::schema::column::*;
use super::schema::{BY_NAME, Tables, missing, money, number, text, units};
use crate::oltp::attempts::Outcome;

/// Longest data of a customer, in bytes.
const DATA_MAX: usize = 500;

/// Pays what the input says.
pub(super) fn payment(txn: &mut Transaction, tables: &Tables, input: &Payment) -> Result<Outcome> {
    let (w, d) = (input.w, input.d);
    let mut names = [String::new(), String::new()];
    let has_warehouse = tables.warehouse.update(txn, &fields![w], |row| {
        row[W_YTD] = money(units(row, W_YTD) + input.amount);
        names[0] = text(row, W_NAME).into();
    })?;
    let has_district = tables.district.update(txn, &fields![w, d], |row| {
        row[D_YTD] = money(units(row, D_YTD) + input.amount);
        names[1] = text(row, D_NAME).into();
    })?;
    if !has_warehouse || !has_district {
        return Err(missing("warehouse or district"));
    }
    let (c_w, c_d) = input.customer_at;
    let Some(customer) = customer_id(&tables.customer, txn, (c_w, c_d), &input.who)? else {
        return Err(missing("customer of a name"));
    };
    let mut count = 0;
    let found = tables
        .customer
        .update(txn, &fields![c_w, c_d, customer], |row| {
            row[C_BALANCE] = money(units(row, C_BALANCE) - input.amount);
            row[C_YTD_PAYMENT] = money(units(row, C_YTD_PAYMENT) + input.amount);
            count = number(row, C_PAYMENT_CNT) + 1;
            row[C_PAYMENT_CNT] = count.into();
            if text(row, C_CREDIT) == "BC" {
                let begin = format!("{customer} {c_d} {c_w} {d} {w} {} ", input.amount);
                let mut data = begin + text(row, C_DATA);
                data.truncate(DATA_MAX);
                row[C_DATA] = data.into();
            }
        })?;
    if !found {
        return Err(missing("customer"));
    }
    let mut row = fields![c_w, c_d, customer, count, w, d, input.date];
    row.extend([money(input.amount), names.join("    ").into()]);
    tables.history.insert(txn, &row)?;
    Ok(Outcome::Commit)
}

/// The number of a customer: of those of one last name, in the order of first names, the one in the middle.
pub(super) fn customer_id<R: Reader<Family = ColumnFamily>>(
    table: &Table,
    reader: &R,
    (w, d): (u64, u64),
    who: &Who,
) -> Result<Option<u64>> {
    let name = match who {
        Who::Id(id) => return Ok(Some(*id)),
        Who::LastName(name) => name.as_str(),
    };
    let rows = table.index(BY_NAME)?.prefix(reader, &fields![w, d, name])?;
    let rows = rows.collect::<Result<Vec<Row>>>()?;
    let middle = rows.len().div_ceil(2).checked_sub(1);
    Ok(middle.map(|at| number(&rows[at], C_ID)))
}
