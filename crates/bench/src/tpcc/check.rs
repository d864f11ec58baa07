//! The consistency conditions 1 to 4 (clause 3.3.2), and whether all is there that committed.

use std::collections::BTreeMap;

use thermocline::records::{Row, Table, fields};
use thermocline::{Result, Snapshot};

use super::scale::DISTRICTS;
use super::schema::column::*;
use super::schema::{Tables, number, units};
use super::totals::Totals;
use crate::oltp::report::Check;

/// What is counted of a table in one district.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counted {
    rows: u64,
    first: u64,
    last: u64,
    /// Of a column, over all rows.
    sum: u64,
}

fn counted(
    table: &Table,
    moment: &Snapshot,
    (w, d): (u64, u64),
    (id, summed): (usize, Option<usize>),
) -> Result<Option<Counted>> {
    let mut all = None::<Counted>;
    for row in table.prefix(moment, &fields![w, d])? {
        let row: Row = row?;
        let id = number(&row, id);
        let sum = summed.map_or(0, |column| number(&row, column));
        all = Some(match all {
            None => Counted {
                rows: 1,
                first: id,
                last: id,
                sum,
            },
            Some(before) => Counted {
                rows: before.rows + 1,
                last: id,
                sum: before.sum + sum,
                ..before
            },
        });
    }
    Ok(all)
}

/// All four, of every warehouse and district; and of all of them together whether they have what is expected.
pub(super) fn check(
    moment: &Snapshot,
    tables: &Tables,
    (warehouses, expected): (u64, Totals),
) -> Result<Vec<Check>> {
    let mut paid = Check::new("1. a warehouse has got what its districts have");
    let mut next = Check::new("2. a district's next order follows its last one");
    let mut gaps = Check::new("3. new orders have no gaps");
    let mut lines = Check::new("4. orders have as many lines as they say");
    for w in 1..=warehouses {
        let row = tables.warehouse.get(moment, &fields![w])?;
        let ytd = row.map(|row| units(&row, W_YTD));
        let mut districts = BTreeMap::new();
        for row in tables.district.prefix(moment, &fields![w])? {
            let row = row?;
            districts.insert(
                number(&row, 1),
                (units(&row, D_YTD), number(&row, D_NEXT_O_ID)),
            );
        }
        let sum: i64 = districts.values().map(|(ytd, _)| ytd).sum();
        paid.ask(
            ytd == Some(sum) && districts.len() as u64 == DISTRICTS,
            || {
                format!(
                    "warehouse {w} has {ytd:?} cents, its {} districts {sum}",
                    districts.len()
                )
            },
        );
        for (d, (_, next_o_id)) in districts {
            let orders = counted(&tables.orders, moment, (w, d), (O_ID, Some(O_OL_CNT)))?;
            let new = counted(&tables.new_order, moment, (w, d), (O_ID, None))?;
            let all_lines = counted(&tables.order_line, moment, (w, d), (OL_O_ID, None))?;
            let place = format!("district {d} of warehouse {w}");
            let last = orders.map(|orders| orders.last);
            let is_next = |last: u64| last + 1 == next_o_id;
            next.ask(
                last.is_some_and(is_next) && new.is_none_or(|new| is_next(new.last)),
                || format!("{place} goes on with {next_o_id} behind {orders:?}, new {new:?}"),
            );
            gaps.ask(
                new.is_none_or(|new| new.last - new.first + 1 == new.rows),
                || format!("{place} has new orders {new:?}"),
            );
            let said = orders.map_or(0, |orders| orders.sum);
            let there = all_lines.map_or(0, |lines| lines.rows);
            lines.ask(said == there, || {
                format!("{place} has {there} lines, and its orders say {said}")
            });
        }
    }
    let there = Totals::there(moment, tables)?;
    Ok(vec![paid, next, gaps, lines, whole(&there, &expected)])
}

/// Of transactions that change the same, one may be lost as a whole, and the conditions hold.
fn whole(there: &Totals, expected: &Totals) -> Check {
    let mut whole = Check::new("5. orders, payments and deliveries that committed are there");
    whole.ask(there.next == expected.next, || {
        let (there, expected) = (there.next, expected.next);
        format!("the numbers of next orders add up to {there}, and should to {expected}")
    });
    whole.ask(there.paid == expected.paid, || {
        let (there, expected) = (there.paid, expected.paid);
        format!("warehouses have {there} cents, and were paid {expected}")
    });
    whole.ask(there.waiting == expected.waiting, || {
        let (there, expected) = (there.waiting, expected.waiting);
        format!("{there} orders are not delivered, and should be {expected}")
    });
    whole
}

#[cfg(test)]
mod tests;
