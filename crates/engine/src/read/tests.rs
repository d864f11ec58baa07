//! Reads beside what changes families.

use thermocline_base::ErrorKind;

use crate::tests::dropped_below_an_operand;

/// A get that has met an operand looks for all of them anew. Where the family was dropped between, that finds them without
/// what they are on.
#[test]
fn what_operands_of_a_family_are_on_is_not_missed_beside_its_drop() {
    let (engine, cf, key) = dropped_below_an_operand();
    let error = engine.folded_now(cf, key).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("dropped"), "{error}");
}
