//! For tests only: seeds, small generators, names of cities and the check of histories that other crates' tests share.
#![forbid(unsafe_code)]

pub mod explore;
pub mod golden;
pub mod history;
#[cfg(feature = "loom")]
pub mod loom;

mod block_on;
mod cities;
mod replay;
mod rng;

pub use block_on::block_on;
pub use cities::cities;
pub use replay::Replay;
pub use rng::{Rng, seeds};
