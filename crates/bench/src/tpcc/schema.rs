//! Tables and columns, as clause 1.3 has them.

use thermocline::records::{Decimal, Field, Row, Schema, Table, Type};
use thermocline::{Db, Error, Result};

use super::scale::DISTRICTS;

/// The nine tables.
#[derive(Debug)]
pub(super) struct Tables {
    pub warehouse: Table,
    pub district: Table,
    pub customer: Table,
    pub history: Table,
    pub new_order: Table,
    pub orders: Table,
    pub order_line: Table,
    pub item: Table,
    pub stock: Table,
}

/// The name of the first table that is opened.
pub(super) const FIRST: &str = "warehouse";

/// Of a row that was written and that no transaction deletes, and that is not there.
pub(super) fn missing(what: &str) -> Error {
    Error::InvalidArgument(format!(
        "the database has no {what} where one was written; it is damaged, or was not loaded to the end"
    ))
}

/// The index of customers by warehouse, district, last and first name.
pub(super) const BY_NAME: &str = "by_name";
/// The index of orders by warehouse, district and customer; behind that by the order's number.
pub(super) const BY_CUSTOMER: &str = "by_customer";

/// Numbers of columns that transactions name.
pub(super) mod column {
    pub const W_NAME: usize = 1;
    pub const W_TAX: usize = 7;
    pub const W_YTD: usize = 8;
    pub const D_NAME: usize = 2;
    pub const D_TAX: usize = 8;
    pub const D_YTD: usize = 9;
    pub const D_NEXT_O_ID: usize = 10;
    pub const C_ID: usize = 2;
    pub const C_CREDIT: usize = 12;
    pub const C_DISCOUNT: usize = 14;
    pub const C_BALANCE: usize = 15;
    pub const C_YTD_PAYMENT: usize = 16;
    pub const C_PAYMENT_CNT: usize = 17;
    pub const C_DELIVERY_CNT: usize = 18;
    pub const C_DATA: usize = 19;
    pub const O_ID: usize = 2;
    pub const O_C_ID: usize = 3;
    pub const O_CARRIER_ID: usize = 5;
    pub const O_OL_CNT: usize = 6;
    pub const OL_O_ID: usize = 2;
    pub const OL_I_ID: usize = 4;
    pub const OL_DELIVERY_D: usize = 6;
    pub const OL_AMOUNT: usize = 8;
    pub const I_PRICE: usize = 3;
    pub const S_QUANTITY: usize = 2;
    /// Of the first district; the others follow.
    pub const S_DIST: usize = 3;
    pub const S_YTD: usize = 13;
    pub const S_ORDER_CNT: usize = 14;
    pub const S_REMOTE_CNT: usize = 15;
}

const MONEY: Type = Type::Decimal(2);
const RATE: Type = Type::Decimal(4);

fn address(schema: Schema) -> Schema {
    let columns = ["street_1", "street_2", "city", "state", "zip"];
    columns
        .iter()
        .fold(schema, |schema, name| schema.column(name, Type::Text))
}

fn warehouse() -> Schema {
    address(
        Schema::new(FIRST)
            .column("w_id", Type::U64)
            .column("name", Type::Text),
    )
    .column("tax", RATE)
    .column("ytd", MONEY)
    .primary_key(["w_id"])
}

fn district() -> Schema {
    address(
        Schema::new("district")
            .column("w_id", Type::U64)
            .column("d_id", Type::U64)
            .column("name", Type::Text),
    )
    .column("tax", RATE)
    .column("ytd", MONEY)
    .column("next_o_id", Type::U64)
    .primary_key(["w_id", "d_id"])
}

fn customer() -> Schema {
    address(
        Schema::new("customer")
            .column("w_id", Type::U64)
            .column("d_id", Type::U64)
            .column("c_id", Type::U64)
            .column("first", Type::Text)
            .column("middle", Type::Text)
            .column("last", Type::Text),
    )
    .column("phone", Type::Text)
    .column("credit", Type::Text)
    .column("credit_lim", MONEY)
    .column("discount", RATE)
    .column("balance", MONEY)
    .column("ytd_payment", MONEY)
    .column("payment_cnt", Type::U64)
    .column("delivery_cnt", Type::U64)
    .column("data", Type::Text)
    .column("since", Type::U64)
    .primary_key(["w_id", "d_id", "c_id"])
    .index(BY_NAME, ["w_id", "d_id", "last", "first"])
}

fn history() -> Schema {
    Schema::new("history")
        .column("c_w_id", Type::U64)
        .column("c_d_id", Type::U64)
        .column("c_id", Type::U64)
        .column("payment", Type::U64)
        .column("w_id", Type::U64)
        .column("d_id", Type::U64)
        .column("date", Type::U64)
        .column("amount", MONEY)
        .column("data", Type::Text)
        .primary_key(["c_w_id", "c_d_id", "c_id", "payment"])
}

fn new_order() -> Schema {
    Schema::new("new_order")
        .column("w_id", Type::U64)
        .column("d_id", Type::U64)
        .column("o_id", Type::U64)
        .primary_key(["w_id", "d_id", "o_id"])
}

fn orders() -> Schema {
    Schema::new("orders")
        .column("w_id", Type::U64)
        .column("d_id", Type::U64)
        .column("o_id", Type::U64)
        .column("c_id", Type::U64)
        .column("entry_d", Type::U64)
        .nullable("carrier_id", Type::U64)
        .column("ol_cnt", Type::U64)
        .column("all_local", Type::Bool)
        .primary_key(["w_id", "d_id", "o_id"])
        .index(BY_CUSTOMER, ["w_id", "d_id", "c_id"])
}

fn order_line() -> Schema {
    Schema::new("order_line")
        .column("w_id", Type::U64)
        .column("d_id", Type::U64)
        .column("o_id", Type::U64)
        .column("number", Type::U64)
        .column("i_id", Type::U64)
        .column("supply_w_id", Type::U64)
        .nullable("delivery_d", Type::U64)
        .column("quantity", Type::I64)
        .column("amount", MONEY)
        .column("dist_info", Type::Text)
        .primary_key(["w_id", "d_id", "o_id", "number"])
}

fn item() -> Schema {
    Schema::new("item")
        .column("i_id", Type::U64)
        .column("im_id", Type::U64)
        .column("name", Type::Text)
        .column("price", MONEY)
        .column("data", Type::Text)
        .primary_key(["i_id"])
}

fn stock() -> Schema {
    let begin = Schema::new("stock")
        .column("w_id", Type::U64)
        .column("i_id", Type::U64)
        .column("quantity", Type::I64);
    (1..=DISTRICTS)
        .fold(begin, |schema, d| {
            schema.column(&format!("dist_{d:02}"), Type::Text)
        })
        .column("ytd", Type::I64)
        .column("order_cnt", Type::U64)
        .column("remote_cnt", Type::U64)
        .column("data", Type::Text)
        .primary_key(["w_id", "i_id"])
}

impl Tables {
    pub fn open(db: &Db) -> Result<Tables> {
        Ok(Tables {
            warehouse: Table::open(db, warehouse())?,
            district: Table::open(db, district())?,
            customer: Table::open(db, customer())?,
            history: Table::open(db, history())?,
            new_order: Table::open(db, new_order())?,
            orders: Table::open(db, orders())?,
            order_line: Table::open(db, order_line())?,
            item: Table::open(db, item())?,
            stock: Table::open(db, stock())?,
        })
    }
}

/// Dollars, of cents.
pub(super) fn money(cents: i64) -> Field {
    Field::Decimal(Decimal::new(cents, 2))
}

/// A tax or discount, of ten-thousandths.
pub(super) fn rate(units: i64) -> Field {
    Field::Decimal(Decimal::new(units, 4))
}

/// The number in a column that the schema says is one that is not NULL: an unsigned one.
pub(super) fn number(row: &Row, column: usize) -> u64 {
    row[column].as_u64().expect("the schema has a u64 here")
}

/// The same of a signed one.
pub(super) fn signed(row: &Row, column: usize) -> i64 {
    row[column].as_i64().expect("the schema has an i64 here")
}

/// The units of a decimal.
pub(super) fn units(row: &Row, column: usize) -> i64 {
    let decimal = row[column].as_decimal();
    decimal.expect("the schema has a decimal here").units
}

/// The text of a column.
pub(super) fn text(row: &Row, column: usize) -> &str {
    row[column].as_text().expect("the schema has text here")
}
