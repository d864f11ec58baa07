use std::cmp::Ordering;

use proptest::prelude::*;
use thermocline_testkit::golden;

use super::key::{self, Cursor};
use super::row;
use super::stored::{State, Stored, StoredIndex};
use crate::field::{Decimal, Field, Type};
use crate::fields;
use crate::schema::Column;

/// The order that values have, apart from any bytes.
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
        _ => panic!("of different types"),
    }
}

fn tuple_order(a: &[Field], b: &[Field]) -> Ordering {
    let pairs = a.iter().zip(b).map(|(a, b)| order(a, b));
    let first = pairs.into_iter().find(|order| order.is_ne());
    first.unwrap_or(a.len().cmp(&b.len()))
}

/// Bytes of few kinds, so that one value often begins another.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        Just(0u8),
        Just(1),
        Just(0x7f),
        Just(0xfe),
        Just(0xff),
        any::<u8>()
    ];
    prop::collection::vec(byte, 0..5)
}

/// Numbers around the powers of two, and any.
fn number() -> impl Strategy<Value = u64> {
    let around = (0..64u32, 0..3u64).prop_map(|(s, d)| (1u64 << s).wrapping_add(d).wrapping_sub(1));
    prop_oneof![around, any::<u64>(), Just(u64::MAX), Just(0)]
}

fn float() -> impl Strategy<Value = f64> {
    let some = [
        0.0,
        1.0,
        -1.0,
        f64::MIN,
        f64::MAX,
        f64::INFINITY,
        f64::NEG_INFINITY,
        5e-324,
        -5e-324,
    ];
    let any = any::<f64>().prop_filter("a number, and no -0", |n| {
        !(n.is_nan() || *n == 0.0 && n.is_sign_negative())
    });
    prop_oneof![prop::sample::select(some.to_vec()), any]
}

fn value(kind: Type) -> BoxedStrategy<Field> {
    match kind {
        Type::I64 => number().prop_map(|n| Field::I64(n.cast_signed())).boxed(),
        Type::U64 => number().prop_map(Field::U64).boxed(),
        Type::F64 => float().prop_map(Field::F64).boxed(),
        Type::Decimal(scale) => number()
            .prop_map(move |n| Field::Decimal(Decimal::new(n.cast_signed(), scale)))
            .boxed(),
        Type::Bool => any::<bool>().prop_map(Field::Bool).boxed(),
        Type::Text => bytes()
            .prop_map(|bytes| {
                Field::Text(bytes.iter().map(|byte| char::from(byte & 0x7f)).collect())
            })
            .boxed(),
        Type::Bytes => bytes().prop_map(Field::Bytes).boxed(),
    }
}

fn column() -> impl Strategy<Value = Column> {
    let kinds = vec![
        Type::I64,
        Type::U64,
        Type::F64,
        Type::Decimal(0),
        Type::Decimal(3),
        Type::Bool,
        Type::Text,
        Type::Bytes,
    ];
    (prop::sample::select(kinds), any::<bool>()).prop_map(|(kind, is_nullable)| Column {
        name: "c".into(),
        kind,
        is_nullable,
    })
}

fn field(column: &Column) -> BoxedStrategy<Field> {
    match column.is_nullable {
        true => prop_oneof![1 => Just(Field::Null), 4 => value(column.kind)].boxed(),
        false => value(column.kind),
    }
}

fn tuple(columns: &[Column]) -> impl Strategy<Value = Vec<Field>> + use<> {
    columns.iter().map(field).collect::<Vec<_>>()
}

/// Columns, and tuples of them.
fn tuples(count: usize) -> impl Strategy<Value = (Vec<Column>, Vec<Vec<Field>>)> {
    prop::collection::vec(column(), 1..4).prop_flat_map(move |columns| {
        let tuples = prop::collection::vec(tuple(&columns), count);
        (Just(columns), tuples)
    })
}

fn encoded(columns: &[Column], tuple: &[Field]) -> Vec<u8> {
    let mut out = Vec::new();
    for (column, field) in columns.iter().zip(tuple) {
        key::put(&mut out, column, field);
    }
    out
}

fn decoded(columns: &[Column], bytes: &[u8]) -> Option<Vec<Field>> {
    let mut cursor = Cursor::new(bytes, 0);
    let fields: Option<_> = columns.iter().map(|c| cursor.field(c).ok()).collect();
    cursor.end().ok().and(fields)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn keys_order_as_their_tuples_and_read_as_they_were_written((columns, tuples) in tuples(2)) {
        let (a, b) = (encoded(&columns, &tuples[0]), encoded(&columns, &tuples[1]));
        prop_assert_eq!(a.cmp(&b), tuple_order(&tuples[0], &tuples[1]));
        prop_assert_eq!(decoded(&columns, &a), Some(tuples[0].clone()));
        // The first columns alone: what begins with them, and nothing else, begins with their bytes.
        for len in 0..columns.len() {
            let begin = encoded(&columns, &tuples[0][..len]);
            let begins = tuple_order(&tuples[0][..len], &tuples[1][..len]).is_eq();
            prop_assert_eq!(b.starts_with(&begin), begins);
        }
    }

    #[test]
    fn a_key_has_one_form((columns, tuples) in tuples(1), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = encoded(&columns, &tuples[0]);
        let at = at.index(bytes.len());
        for cut in [&bytes[..at], &[&bytes[..], &[byte]].concat()] {
            prop_assert_eq!(decoded(&columns, cut), None);
        }
        bytes[at] = byte;
        if let Some(read) = decoded(&columns, &bytes) {
            prop_assert_eq!(encoded(&columns, &read), bytes);
        }
    }

    #[test]
    fn rows_read_as_they_were_written(
        (columns, tuples) in tuples(1),
        keys in prop::collection::vec(any::<bool>(), 3),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let is_key = &keys[..columns.len()];
        let row = &tuples[0];
        let blank = || -> Vec<Field> {
            let kept = row.iter().zip(is_key);
            kept.map(|(field, is_key)| if *is_key { field.clone() } else { Field::Null }).collect()
        };
        let mut bytes = row::encode(row, is_key);
        let mut read = blank();
        row::decode(&bytes, (&columns, is_key), &mut read).unwrap();
        prop_assert_eq!(&read, row);
        // A column that came later is NULL.
        let later = Column { name: "later".into(), kind: Type::Text, is_nullable: true };
        let more = [&columns[..], &[later]].concat();
        let mut read = [blank(), fields!["x"]].concat();
        read[columns.len()] = Field::Null;
        row::decode(&bytes, (&more, &[is_key, &[false]].concat()), &mut read).unwrap();
        prop_assert_eq!(&read[..columns.len()], &row[..]);
        // One that is not known any more is not passed over.
        let fewer = columns.len() - 1;
        prop_assert!(row::decode(&bytes, (&columns[..fewer], &is_key[..fewer]), &mut blank()[..fewer]).is_err());
        let cut = at.index(bytes.len());
        prop_assert!(row::decode(&bytes[..cut], (&columns, is_key), &mut blank()).is_err());
        let long = [&bytes[..], &[byte]].concat();
        prop_assert!(row::decode(&long, (&columns, is_key), &mut blank()).is_err());
        // Whatever the bytes are, they are read or refused.
        bytes[cut] = byte;
        drop(row::decode(&bytes, (&columns, is_key), &mut blank()));
    }
}

fn schema() -> Stored {
    let column = |name: &str, kind, is_nullable| Column {
        name: name.into(),
        kind,
        is_nullable,
    };
    let index = |name: &str, space, is_unique, state, columns: &[usize]| StoredIndex {
        name: name.into(),
        space,
        is_unique,
        state,
        columns: columns.to_vec(),
    };
    Stored {
        generation: 300,
        columns: vec![
            column("id", Type::U64, false),
            column("price", Type::Decimal(2), true),
            column("name", Type::Text, false),
        ],
        key: vec![2, 0],
        indexes: vec![
            index("a", 2, true, State::Ready, &[1]),
            index("b", 254, false, State::Building, &[2, 1]),
            index("c", 7, false, State::Dropping, &[0]),
        ],
    }
}

#[test]
fn every_damage_of_a_stored_schema_is_found() {
    let bytes = schema().encode();
    assert_eq!(Stored::decode(&bytes), Ok(schema()));
    for at in 0..bytes.len() {
        assert!(Stored::decode(&bytes[..at]).is_err());
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            assert!(Stored::decode(&flipped).is_err(), "byte {at}, bit {bit}");
        }
    }
}

/// With sound checksums, too, nothing but a schema reads as one.
#[test]
fn nonsense_with_a_sound_checksum_is_no_schema() {
    let bytes = schema().encode();
    let content = &bytes[..bytes.len() - 4];
    for at in 0..content.len() {
        for byte in 0..=255 {
            let mut other = content.to_vec();
            other[at] = byte;
            let sum = thermocline_base::checksum::crc32c(0, &other);
            other.extend_from_slice(&sum.to_le_bytes());
            if let Ok(read) = Stored::decode(&other) {
                assert_eq!(Stored::decode(&read.encode()), Ok(read));
            }
        }
    }
}

#[test]
fn the_bytes_are_those_of_version_1() {
    let bytes = schema().encode();
    let mut names = vec![(1, "version"), (2, "generation"), (1, "columns")];
    for (len, name) in [(3, "'id'"), (6, "'price'"), (5, "'name'")] {
        names.extend([(len, name), (2, "type, digits"), (1, "nullable")]);
    }
    names.extend([
        (1, "columns of the key"),
        (2, "their numbers"),
        (1, "indexes"),
    ]);
    for columns in [1, 2, 1] {
        names.extend([(2, "name"), (3, "space, unique, state")]);
        names.extend([(1, "columns"), (columns, "their numbers")]);
    }
    names.push((4, "CRC-32C"));
    let mut text = golden::annotate(&bytes, &names);
    let columns = [
        (Type::U64, fields![0u64, 1u64, 256u64, u64::MAX]),
        (
            Type::I64,
            fields![0i64, -1i64, -257i64, 255i64, i64::MIN, i64::MAX],
        ),
        (Type::F64, fields![0.0, 1.5, -1.5]),
        (
            Type::Decimal(2),
            vec![Field::Decimal(Decimal::new(-1999, 2))],
        ),
        (Type::Bool, fields![false, true]),
        (Type::Text, fields!["", "a\0b", "é"]),
        (Type::Bytes, fields![&[0u8, 0xff, 1]]),
    ];
    for (kind, values) in columns {
        for field in values {
            for is_nullable in [false, true] {
                let column = Column {
                    name: String::new(),
                    kind,
                    is_nullable,
                };
                let bytes = encoded(std::slice::from_ref(&column), std::slice::from_ref(&field));
                let name = format!(
                    "{kind} {field}{}",
                    if is_nullable { ", nullable" } else { "" }
                );
                text += &golden::annotate(&bytes, &[(bytes.len(), &name)]);
            }
        }
    }
    let row = fields![
        7u64,
        None::<u64>,
        "key",
        -3i64,
        "é",
        0.5,
        true,
        Decimal::new(-64, 1),
        &[9u8]
    ];
    let is_key = [false, false, true, false, false, false, false, false, false];
    let bytes = row::encode(&row, &is_key);
    let names = [
        (1, "version"),
        (1, "columns"),
        (1, "which are NULL"),
        (1, "u64 7"),
        (1, "i64 -3"),
        (3, "text é"),
        (8, "f64 0.5"),
        (1, "bool true"),
        (1, "decimal -6.4"),
        (2, "bytes"),
    ];
    text += &golden::annotate(&bytes, &names);
    golden::check("format/golden/v1.txt", include_str!("golden/v1.txt"), &text);
}

/// Forms that the writer does not make, one by one.
#[test]
fn what_has_another_form_is_refused() {
    let column = |kind, is_nullable| Column {
        name: "c".into(),
        kind,
        is_nullable,
    };
    let keys: [(Type, &[u8]); 12] = [
        // A leading zero, of each sign; too long; no number of 63 bits.
        (Type::U64, &[2, 0, 1]),
        (Type::U64, &[1, 0]),
        (Type::U64, &[9, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
        (Type::I64, &[0x11, 0]),
        (Type::I64, &[0x0e, 0xff]),
        (Type::I64, &[0x18, 0x80, 0, 0, 0, 0, 0, 0, 0]),
        (Type::I64, &[0x06, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        (Type::Bool, &[1, 2]),
        // NaN, and -0.
        (Type::F64, &[0xff; 8]),
        (Type::F64, &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        (Type::Bytes, &[0, 1, 0, 0]),
        (Type::Text, &[0xc3, 0, 0]),
    ];
    for (kind, bytes) in keys {
        assert_eq!(
            decoded(&[column(kind, false)], bytes),
            None,
            "{kind} {bytes:?}"
        );
    }
    assert_eq!(decoded(&[column(Type::U64, true)], &[2, 0]), None);
    let rows: [(Type, &[u8]); 10] = [
        (Type::U64, &[2, 1, 0, 7]),
        // Without a column that is never NULL.
        (Type::U64, &[1, 0]),
        (Type::U64, &[1, 1, 1]),
        // Bits of columns that there are not.
        (Type::U64, &[1, 1, 2, 7]),
        (Type::U64, &[1, 1, 0x80, 7]),
        (Type::Bool, &[1, 1, 0, 2]),
        (Type::F64, &[1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0x80]),
        (Type::F64, &[1, 1, 0, 1, 0, 0, 0, 0, 0, 0xf0, 0x7f]),
        (Type::Text, &[1, 1, 0, 1, 0xc3]),
        (Type::Text, &[1, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]),
    ];
    for (kind, bytes) in rows {
        let columns = [column(kind, false)];
        let read = row::decode(bytes, (&columns, &[false]), &mut [Field::Null]);
        assert!(read.is_err(), "{kind} {bytes:?}");
    }
}
