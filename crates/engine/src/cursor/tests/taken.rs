//! Values that are taken from a cursor.

use super::*;
use crate::Value;

/// Who keeps a value copies it no second time.
#[test]
fn a_value_that_is_taken_is_the_memory_to_which_the_cursor_copied_it() {
    let machine = Machine::new(PM);
    let engine = open_with(&machine, &options());
    let value = |n: u8| vec![n; 1000];
    for n in 0..3 {
        put(&engine, &[n], &value(n));
    }
    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
    assert!(cursor.take_value().is_empty(), "it is at no key");
    let mut found = cursor.seek_to_first().unwrap();
    for n in 0..3 {
        assert!(found);
        let at = cursor.value().as_ptr();
        let taken = Value::owned(cursor.take_value());
        assert_eq!((taken.as_ptr(), &*taken), (at, &*value(n)));
        assert!(cursor.valid() && cursor.key() == [n] && cursor.value().is_empty());
        found = cursor.next().unwrap();
    }
    assert!(!found && cursor.take_value().is_empty());
}
