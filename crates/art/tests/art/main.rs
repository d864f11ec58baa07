//! The tree from outside: one binary, so that it links once.
#![expect(
    clippy::cast_possible_truncation,
    reason = "test data is cut out of random numbers"
)]

mod ahead;
mod faults;
mod memory;
mod model;
mod operands;
mod plain;
mod records;
mod threads;
mod versions;
