//! For tests only: seeds and small generators that other crates' tests share.
#![forbid(unsafe_code)]

pub mod golden;

mod rng;

pub use rng::{Replay, Rng, seeds};
