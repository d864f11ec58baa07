//! A table as a map, and the comparison of a store with it.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

use thermocline::ColumnFamily;
use thermocline::records::{Decimal, Field, Reader, Row, Schema, Table, Type, fields};
use thermocline_testkit::Rng;

/// The order of values, apart from any bytes.
fn order(a: &Field, b: &Field) -> Ordering {
    match (a, b) {
        (Field::Null, Field::Null) => Ordering::Equal,
        (Field::Null, _) => Ordering::Less,
        (_, Field::Null) => Ordering::Greater,
        (Field::I64(a), Field::I64(b)) => a.cmp(b),
        (Field::U64(a), Field::U64(b)) => a.cmp(b),
        (Field::F64(a), Field::F64(b)) => a.partial_cmp(b).unwrap(),
        (Field::Decimal(a), Field::Decimal(b)) => a.units.cmp(&b.units),
        (Field::Bool(a), Field::Bool(b)) => a.cmp(b),
        (Field::Text(a), Field::Text(b)) => a.cmp(b),
        (Field::Bytes(a), Field::Bytes(b)) => a.cmp(b),
        _ => panic!("{a:?} and {b:?} are of different types"),
    }
}

/// Values that order one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuple(pub Vec<Field>);

impl Eq for Tuple {}

impl PartialOrd for Tuple {
    fn partial_cmp(&self, other: &Tuple) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Tuple {
    fn cmp(&self, other: &Tuple) -> Ordering {
        let pairs = self.0.iter().zip(&other.0).map(|(a, b)| order(a, b));
        let first = pairs.into_iter().find(|order| order.is_ne());
        first.unwrap_or(self.0.len().cmp(&other.0.len()))
    }
}

/// Columns of every type, a key of two. What is drawn for them is of few values, so that rows meet.
pub fn schema() -> Schema {
    Schema::new("t")
        .column("a", Type::I64)
        .column("f", Type::F64)
        .nullable("n", Type::U64)
        .column("b", Type::Bytes)
        .nullable("t", Type::Text)
        .column("d", Type::Decimal(2))
        .column("is", Type::Bool)
        .primary_key(["b", "a"])
}

/// Indexes that can be added, by number.
pub fn with_index(schema: Schema, number: usize) -> Schema {
    match number {
        0 => schema.index("n", ["n"]),
        1 => schema.index("t_a", ["t", "a"]),
        2 => schema.unique("d_t", ["d", "t"]),
        3 => schema.unique("is_n_b", ["is", "n", "b"]),
        _ => schema.index("f_is", ["f", "is"]),
    }
}

pub const INDEXES: usize = 5;

fn value(rng: &mut Rng, kind: Type) -> Field {
    match kind {
        Type::I64 => (*rng.pick(&[-300i64, -1, 0, 1, 255, 256])).into(),
        Type::U64 => (*rng.pick(&[0u64, 1, 255, 256, u64::MAX])).into(),
        Type::F64 => (*rng.pick(&[-1.5, -0.0, 0.0, 2.0, f64::INFINITY])).into(),
        Type::Decimal(scale) => Decimal::new(*rng.pick(&[-5, 0, 1999]), scale).into(),
        Type::Bool => rng.one_in(2).into(),
        Type::Text => (*rng.pick(&["", "a", "a\0", "a\0b", "é"])).into(),
        Type::Bytes => {
            (*rng.pick(&[&[][..], &[0], &[0, 0xff], &[0, 0], &[0xff, 0xff], &[1]])).into()
        }
    }
}

/// A row that fits.
pub fn row(rng: &mut Rng, schema: &Schema) -> Row {
    let field = |column: &thermocline::records::Column| match column.is_nullable && rng.one_in(3) {
        true => Field::Null,
        false => value(rng, column.kind),
    };
    schema.columns.iter().map(field).collect()
}

/// The row as it is stored.
fn settled(row: Row) -> Row {
    let settle = |field| match field {
        Field::F64(0.0) => Field::F64(0.0),
        other => other,
    };
    row.into_iter().map(settle).collect()
}

/// What a table must have.
#[derive(Debug, Clone)]
pub struct Model {
    pub schema: Schema,
    pub rows: BTreeMap<Tuple, Row>,
}

impl Model {
    pub fn new() -> Model {
        Model {
            schema: schema(),
            rows: BTreeMap::new(),
        }
    }

    fn picked(&self, columns: &[String], row: &[Field]) -> Tuple {
        let field = |name: &String| row[self.schema.position(name).unwrap()].clone();
        Tuple(columns.iter().map(field).collect())
    }

    pub fn key(&self, row: &[Field]) -> Tuple {
        self.picked(&self.schema.primary_key, &settled(row.to_vec()))
    }

    /// Whether the rows could be these in every unique index.
    pub fn is_unique(&self) -> bool {
        self.schema
            .indexes
            .iter()
            .filter(|index| index.is_unique)
            .all(|index| {
                let values = self
                    .rows
                    .values()
                    .map(|row| self.picked(&index.columns, row));
                let mut values: Vec<Tuple> = values
                    .filter(|values| !values.0.contains(&Field::Null))
                    .collect();
                let all = values.len();
                values.sort();
                values.dedup();
                values.len() == all
            })
    }

    /// Puts a row, if no unique index is against it. Returns whether it did.
    pub fn put(&mut self, row: Row) -> bool {
        let key = self.key(&row);
        let before = self.rows.insert(key.clone(), settled(row));
        if self.is_unique() {
            return true;
        }
        match before {
            Some(row) => self.rows.insert(key, row),
            None => self.rows.remove(&key),
        };
        false
    }

    /// The rows in the order of some columns, and behind them of the key.
    fn by(&self, columns: &[String]) -> Vec<(Tuple, Row)> {
        let mut rows: Vec<(Tuple, Tuple, Row)> = self
            .rows
            .iter()
            .map(|(key, row)| (self.picked(columns, row), key.clone(), row.clone()))
            .collect();
        rows.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        rows.into_iter()
            .map(|(values, _, row)| (values, row))
            .collect()
    }

    /// Compares all of a table, in every way to read it.
    pub fn compare<R: Reader<Family = ColumnFamily>>(
        &self,
        table: &Table,
        reader: &R,
        rng: &mut Rng,
    ) {
        let key = self.schema.primary_key.clone();
        let expected = self.by(&key);
        let rows = table.range(reader, ..).unwrap().map(Result::unwrap);
        assert!(rows.eq(expected.iter().map(|(_, row)| row.clone())));
        for (key, row) in self.rows.iter().filter(|_| rng.one_in(3)) {
            assert_eq!(table.get(reader, &key.0).unwrap().as_ref(), Some(row));
        }
        let some = self.key(&row(rng, &self.schema));
        assert_eq!(
            table.get(reader, &some.0).unwrap(),
            self.rows.get(&some).cloned()
        );
        let range = bounds(rng, &expected);
        let within = within(&expected, &range);
        let rows = table.range(reader, range);
        same_rows(rng, rows.unwrap().map(Result::unwrap), &within);
        for index in &self.schema.indexes {
            let handle = table.index(&index.name).unwrap();
            let expected = self.by(&index.columns);
            let keys = handle
                .keys(reader, ..)
                .unwrap()
                .map(|key| Tuple(key.unwrap()));
            assert!(keys.eq(expected.iter().map(|(_, row)| self.key(row))));
            let range = bounds(rng, &expected);
            let within = self::within(&expected, &range);
            let rows = handle.range(reader, range).unwrap();
            same_rows(rng, rows.map(Result::unwrap), &within);
            for (values, row) in &expected {
                if !rng.one_in(4) {
                    continue;
                }
                let len = rng.below(values.0.len() + 1);
                let begin = &values.0[..len];
                let rows = handle.prefix(reader, begin).unwrap().map(Result::unwrap);
                let same = expected
                    .iter()
                    .filter(|(other, _)| other.0[..len] == *begin);
                assert!(rows.eq(same.map(|(_, row)| row.clone())));
                if index.is_unique && !values.0.contains(&Field::Null) {
                    assert_eq!(handle.get(reader, &values.0).unwrap().as_ref(), Some(row));
                }
            }
        }
        let report = table.verify(reader).unwrap();
        assert_eq!(report.faults, Vec::<String>::new());
        let rows = self.rows.len() as u64;
        assert_eq!(report.rows, rows);
        assert_eq!(report.entries, rows * self.schema.indexes.len() as u64);
    }
}

type Range = (Bound<Vec<Field>>, Bound<Vec<Field>>);

/// Bounds with any number of values, the first one not behind the other.
fn bounds(rng: &mut Rng, rows: &[(Tuple, Row)]) -> Range {
    let mut ends = [Tuple(fields![]), Tuple(fields![])];
    if !rows.is_empty() {
        ends = ends.map(|_| {
            let values = &rng.pick(rows).0.0;
            Tuple(values[..rng.below(values.len() + 1)].to_vec())
        });
    }
    ends.sort();
    ends.map(|end| match rng.below(3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(end.0),
        _ => Bound::Excluded(end.0),
    })
    .into()
}

/// The rows that a range has: a bound stands for all tuples that begin so.
fn within(rows: &[(Tuple, Row)], (first, last): &Range) -> Vec<Row> {
    let order = |values: &Tuple, bound: &Vec<Field>| {
        Tuple(values.0[..bound.len()].to_vec()).cmp(&Tuple(bound.clone()))
    };
    let is_within = |values: &Tuple| {
        let begun = match first {
            Bound::Unbounded => true,
            Bound::Included(bound) => order(values, bound).is_ge(),
            Bound::Excluded(bound) => order(values, bound).is_gt(),
        };
        let ended = match last {
            Bound::Unbounded => false,
            Bound::Included(bound) => order(values, bound).is_gt(),
            Bound::Excluded(bound) => order(values, bound).is_ge(),
        };
        begun && !ended
    };
    let rows = rows.iter().filter(|(values, _)| is_within(values));
    rows.map(|(_, row)| row.clone()).collect()
}

/// Takes rows from both ends, in any mixture.
fn same_rows(rng: &mut Rng, mut rows: impl DoubleEndedIterator<Item = Row>, expected: &[Row]) {
    let mut expected = expected.iter();
    loop {
        let (row, other) = match rng.below(3) {
            0 => (rows.next_back(), expected.next_back()),
            _ => (rows.next(), expected.next()),
        };
        assert_eq!(row.as_ref(), other);
        if row.is_none() {
            return;
        }
    }
}
