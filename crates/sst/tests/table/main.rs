//! Tables and blob files as a whole: against a model, damaged, misplaced, on failing files, and the
//! bytes themselves.

mod above;
mod blobs;
mod cache;
mod common;
mod crash;
mod damage;
mod edges;
mod faults;
mod fuzz;
mod golden;
mod keys;
mod learned;
mod learned_drawing;
mod model;
mod planted;
mod prefixes;
mod reads;
mod refusals;
mod verify;

/// The allocator of these tests, which make and drop a great deal (decision 179).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
