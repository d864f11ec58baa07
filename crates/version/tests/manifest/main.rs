//! The manifest as a whole: bytes, damage, faults, crashes, and a model.

mod common;
mod crash;
mod damage;
mod faults;
mod golden;
mod golden_pm_tables;
mod golden_tables;
mod large;
mod model;
mod model_steps;
mod no_room;
mod pm_tables;
mod pointer;
mod real;
mod switched;
mod tables;
mod versions;

/// The allocator of these tests, which make and drop a great deal (decision 179).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
