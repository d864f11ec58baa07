//! What must be true of the tables.

use std::collections::HashMap;

use thermocline::records::Table;
use thermocline::{Result, Snapshot};

use super::schema::{CUSTOMERS, MERCHANTS, ORDER, STATE, STATES, Tables, cents, number};
use super::totals::{Expected, Totals};
use crate::oltp::report::Check;

/// Of each order: how many rows, and the sum of a column.
fn by_order(
    table: &Table,
    moment: &Snapshot,
    column: fn(&thermocline::records::Row) -> i64,
) -> Result<HashMap<u64, (u64, i64)>> {
    let mut all = HashMap::new();
    for row in table.range(moment, ..)? {
        let row = row?;
        let of = all.entry(number(&row, ORDER)).or_insert((0, 0));
        of.0 += 1;
        of.1 += column(&row);
    }
    Ok(all)
}

/// Asks of every order and every index, and whether all is there that committed.
pub(super) fn check(tables: &Tables, moment: &Snapshot, expected: &Expected) -> Result<Vec<Check>> {
    let mut amounts = Check::new("1. an order costs what its items cost");
    let mut events = Check::new("2. an order has an event for each state");
    let mut whole = Check::new("3. an order is in all tables");
    let mut indexes = Check::new("4. indexes have every row");
    let items = by_order(&tables.items, moment, cents)?;
    let noted = by_order(&tables.events, moment, |_| 0)?;
    let mut orders = 0;
    for row in tables.orders.range(moment, ..)? {
        let row = row?;
        orders += 1;
        let (order, state) = (number(&row, ORDER), number(&row, STATE));
        let cost = items.get(&order).map(|(_, sum)| *sum);
        amounts.ask(cost == Some(cents(&row)), || {
            format!("order {order} costs {}, its items {cost:?}", cents(&row))
        });
        let count = noted.get(&order).map(|(count, _)| *count);
        events.ask(count == Some(state + 1), || {
            format!("order {order} is in state {state} with {count:?} events")
        });
    }
    for table in tables.all() {
        let rows = by_order(table, moment, |_| 0)?;
        whole.ask(rows.len() as u64 == orders, || {
            format!("{} has {} of {orders} orders", table.name(), rows.len())
        });
        let rows: u64 = rows.values().map(|(count, _)| count).sum();
        for name in [CUSTOMERS, MERCHANTS, STATES] {
            let mut entries = 0;
            for key in table.index(name)?.keys(moment, ..)? {
                key?;
                entries += 1;
            }
            indexes.ask(entries == rows, || {
                format!("{} has {rows} rows, {name} {entries}", table.name())
            });
        }
    }
    let there = Totals::there(moment, tables, expected.from())?;
    let committed = all_that_committed(&there, &expected.totals());
    Ok(vec![amounts, events, whole, indexes, committed])
}

/// An order that is in no table agrees with itself, and so does one that is in its last state but one everywhere.
fn all_that_committed(there: &Totals, expected: &Totals) -> Check {
    let mut committed = Check::new("5. orders and states that committed are there");
    committed.ask(there.orders == expected.orders, || {
        let (there, expected) = (there.orders, expected.orders);
        format!("{there} orders are there of {expected}")
    });
    committed.ask(there.states == expected.states, || {
        let (there, expected) = (there.states, expected.states);
        format!("orders have come {there} states on, and should {expected}")
    });
    committed
}
