//! Ten tables of ten columns, with three indexes each.

use thermocline::records::{Decimal, Field, Row, Schema, Table, Type};
use thermocline::{Db, Result};

/// Numbers of columns, the same in all tables.
pub(super) const ORDER: usize = 0;
pub(super) const CUSTOMER: usize = 2;
pub(super) const MERCHANT: usize = 3;
pub(super) const STATE: usize = 4;
pub(super) const AMOUNT: usize = 5;
pub(super) const TEXT: usize = 9;

/// The indexes: by customer, merchant, and state, each with the order behind it.
pub(super) const CUSTOMERS: &str = "by_customer";
pub(super) const MERCHANTS: &str = "by_merchant";
pub(super) const STATES: &str = "by_state";

/// The name of the first table that is opened.
pub(super) const FIRST: &str = "orders";

/// The tables beside that of orders, that of items and that of events: one row of each belongs to an order.
pub(super) const BESIDE: [&str; 7] = [
    "payments",
    "packings",
    "deliveries",
    "invoices",
    "coupons",
    "addresses",
    "messages",
];

/// The tables.
pub(super) struct Tables {
    pub orders: Table,
    pub items: Table,
    pub events: Table,
    /// As in [`BESIDE`].
    pub beside: Vec<Table>,
}

fn schema(name: &str) -> Schema {
    Schema::new(name)
        .column("order_id", Type::U64)
        .column("line", Type::U64)
        .column("customer_id", Type::U64)
        .column("merchant_id", Type::U64)
        .column("state", Type::U64)
        .column("amount", Type::Decimal(2))
        .column("city", Type::U64)
        .nullable("reference", Type::U64)
        .column("is_first", Type::Bool)
        .column("text", Type::Text)
        .primary_key(["order_id", "line"])
        .index(CUSTOMERS, ["customer_id", "order_id"])
        .index(MERCHANTS, ["merchant_id", "state", "order_id"])
        .index(STATES, ["state", "order_id"])
}

impl Tables {
    pub fn open(db: &Db) -> Result<Tables> {
        let table = |name: &str| Table::open(db, schema(name));
        Ok(Tables {
            orders: table(FIRST)?,
            items: table("items")?,
            events: table("events")?,
            beside: BESIDE
                .iter()
                .map(|name| table(name))
                .collect::<Result<_>>()?,
        })
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Table> {
        [&self.orders, &self.items, &self.events]
            .into_iter()
            .chain(&self.beside)
    }
}

/// Cents.
pub(super) fn money(cents: u64) -> Field {
    Field::Decimal(Decimal::new(cents.cast_signed(), 2))
}

/// The number in a column that the schema says is one that is not NULL.
pub(super) fn number(row: &Row, column: usize) -> u64 {
    row[column].as_u64().expect("the schema has a u64 here")
}

/// The cents of an amount.
pub(super) fn cents(row: &Row) -> i64 {
    let amount = row[AMOUNT].as_decimal();
    amount.expect("the schema has a decimal here").units
}
