//! Merging: several sorted sources become tables.
//!
//! This is its pure heart: no threads, no files. Each part is a function of what it is given, so that each can be tried
//! on every small case and on many large ones. When and what is merged is decided by `thermocline-policy`.
//!
//! | question | module |
//! |---|---|
//! | what comes next of several sorted sources? | [`merge`] |
//! | which of it must stay? | [`retain`] |
//! | where does one output table end and the next begin? | [`output`] |
//! | how fast does this machine merge? | [`calibrate`] |
//!
//! Tables, cursors and versions belong to others; what is needed of them is a trait
//! ([`merge::Source`], [`retain::Below`]), which the engine fills in.
#![forbid(unsafe_code)]

pub mod calibrate;
mod head;
pub mod merge;
pub mod output;
pub mod retain;

pub use head::Head;
