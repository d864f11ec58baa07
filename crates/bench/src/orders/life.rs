//! Placing an order, and its next state.

use thermocline::records::{Row, Table, fields};
use thermocline::{Result, Transaction};

use super::schema::{BESIDE, STATE, TEXT, Tables, money, number};

/// The last state: delivered. The others are placed (0), paid, packed and sent.
pub(super) const LAST: u64 = 4;

/// An order that is placed.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub number: u64,
    pub customer: u64,
    pub merchant: u64,
    pub city: u64,
    pub items: u64,
    /// Of each item.
    pub cents: u64,
    pub text: String,
}

impl Order {
    fn row(&self, line: u64, state: u64, cents: u64) -> Row {
        let mut row = fields![self.number, line, self.customer, self.merchant, state];
        row.push(money(cents));
        let reference = (line > 0).then_some(line);
        row.extend(fields![self.city, reference, line == 0, self.text.as_str()]);
        row
    }
}

/// Inserts an order in this state into all tables; returns how many rows.
pub(super) fn place(
    tables: &Tables,
    txn: &mut Transaction,
    order: &Order,
    state: u64,
) -> Result<u64> {
    let total = order.items * order.cents;
    tables.orders.insert(txn, &order.row(0, state, total))?;
    for line in 0..order.items {
        tables
            .items
            .insert(txn, &order.row(line, state, order.cents))?;
    }
    for line in 0..=state {
        tables.events.insert(txn, &order.row(line, line, total))?;
    }
    for table in &tables.beside {
        table.insert(txn, &order.row(0, state, total))?;
    }
    Ok(1 + order.items + state + 1 + BESIDE.len() as u64)
}

/// Moves an order to its next state, in its row, in the row of what is done for that, and with an event. Nothing happens to
/// one that is delivered, or that is being placed. Returns whether something happened.
pub(super) fn advance(
    tables: &Tables,
    txn: &mut Transaction,
    order: u64,
    text: &str,
) -> Result<bool> {
    let key = fields![order, 0u64];
    let Some(row) = tables.orders.get_for_update(txn, &key)? else {
        return Ok(false);
    };
    let state = number(&row, STATE) + 1;
    if state > LAST {
        return Ok(false);
    }
    tables
        .orders
        .update(txn, &key, |row| row[STATE] = state.into())?;
    if let Some(table) = beside(tables, state) {
        table.update(txn, &key, |row| {
            row[STATE] = state.into();
            row[TEXT] = text.into();
        })?;
    }
    let mut event = row;
    event[1] = state.into();
    event[STATE] = state.into();
    event[TEXT] = text.into();
    tables.events.insert(txn, &event)?;
    Ok(true)
}

/// Where it is noted that an order has come to this state: payments, packings, deliveries, and deliveries again.
fn beside(tables: &Tables, state: u64) -> Option<&Table> {
    let number = usize::try_from(state.min(3)).ok()?;
    tables.beside.get(number.checked_sub(1)?)
}
