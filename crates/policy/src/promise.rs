//! For how many writes DRAM is promised at a time.
//!
//! A bound for one write is small; one for many reckons with a new piece of memory for each kind of node, and asks for the families of
//! all of them. So it is for stores that write more than a little, into few families.

use crate::tuning::{CREDIT, CREDIT_AFTER, CREDIT_FAMILIES};

/// Whether families may have a promise in common, for so many writes into any of them.
pub fn are_few(families: usize) -> bool {
    families <= CREDIT_FAMILIES
}

/// The writes for which a store is promised DRAM at once, if there is as much, into so many families, where it has written so many records
/// `without` such a promise; `None` if each write reckons by itself.
///
/// ```
/// use thermocline_policy::promise::writes_ahead;
/// use thermocline_policy::tuning::{CREDIT, CREDIT_AFTER, CREDIT_FAMILIES};
/// assert_eq!(writes_ahead(CREDIT_FAMILIES, CREDIT_AFTER), Some(CREDIT));
/// assert_eq!(writes_ahead(CREDIT_FAMILIES + 1, CREDIT_AFTER), None);
/// assert_eq!(writes_ahead(1, CREDIT_AFTER - 1), None, "it writes but a little");
/// ```
pub fn writes_ahead(families: usize, without: u64) -> Option<u64> {
    (are_few(families) && without >= CREDIT_AFTER).then_some(CREDIT)
}
