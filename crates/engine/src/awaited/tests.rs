//! Futures beside what changes families.

use thermocline_base::ErrorKind;

use super::*;
use crate::tests::dropped_below_an_operand;

/// As for a get: between memory and the operands the family was dropped.
#[test]
fn what_operands_of_a_family_are_on_is_not_missed_beside_its_drop() {
    let (engine, cf, key) = dropped_below_an_operand();
    let store = engine.inner.clone();
    let pins = store.common.catalog.view_to_keep().pins().unwrap().clone();
    // As it was when the family was still there, and at a moment behind its drop.
    for moment in [None, Some(Entered::new(Moment::now(&store)))] {
        let place = Place {
            store: store.clone(),
            moment,
            pins: pins.clone(),
            cf,
        };
        let error = place.folded(key).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("dropped"), "{error}");
    }
}
