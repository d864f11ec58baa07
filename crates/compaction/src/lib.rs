//! One scheduler for all background work: cost models, pickers, merging, jobs, back-pressure
//! (design §9).
//!
//! This is its pure heart: no threads, no files, no clock. Each part is a function of what it is
//! given, so that each can be tried on every small case and on many large ones.
//!
//! | question | module |
//! |---|---|
//! | what comes next of several sorted sources? | [`merge`] |
//! | which of it must stay? | [`retain`] |
//! | where does one output table end and the next begin? | [`output`] |
//! | which tables are to be compacted next? | [`pick`] |
//! | how much are writers to be held back? | [`pressure`] |
//! | when is level 0 in persistent memory merged, and what of it stays? | [`cost`] |
//!
//! Tables, cursors and versions belong to others; what is needed of them is a trait
//! ([`merge::Source`], [`retain::Below`]) or a plain struct ([`pick::Table`]), which the engine
//! fills in.
#![forbid(unsafe_code)]

pub mod cost;
mod head;
pub mod merge;
pub mod output;
pub mod pick;
pub mod pressure;
mod range;
pub mod retain;

pub use head::Head;
pub use range::{KeyRange, RangeTombstone};
