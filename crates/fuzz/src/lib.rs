//! For tests only: what is done with damaged bytes, and how bytes are damaged.
//!
//! A [`Target`] takes bytes that could lie in a file, a region or a configuration, hands them to whoever
//! reads such bytes, and does with the answer everything that a database does with it. Two drivers call
//! it: `tests/seeded.rs`, with seeds, in `cargo test`; and the workspace `fuzz/` beside this one, in which
//! libFuzzer looks for inputs by coverage.
//!
//! # What must hold
//! 1. **An answer or an error.** A target panics if an error is neither
//!    [`Corruption`](thermocline_base::ErrorKind::Corruption) with a place within what was read, nor
//!    [`Unsupported`](thermocline_base::ErrorKind::Unsupported).
//! 2. **The answer is one.** What was read agrees with itself, however it is asked: forward and back, by
//!    key and by walking, before and after it is written again. This holds also for bytes whose checksums
//!    are right, whoever wrote them.
//! 3. **The answer is right.** Bytes whose checksums nobody made right again either are an error or give
//!    what the sample gives that they were made from, or what they give up to a torn tail
//!    ([`Target::answers`]).
//! 4. **It ends, and takes little memory**: less than [`MEMORY_MAX`], as [`memory`] counts it.
//!
//! # Input
//! The first byte of an input says how to take it. If it is odd ([`SEAL`]), the target makes the checksums
//! of the other bytes right ([`seal`]) before it uses them, so that what lies behind the checksums is
//! reached. The other bits are the target's own.
//!
//! The checksums are written anew in [`seal`], from the drawings in `FORMATS.md`: a mistake that reader
//! and writer of a format share is not repeated there.
#![deny(unsafe_code)]

pub mod file;
pub mod memory;
pub mod mutate;
pub mod seal;
mod target;
pub mod targets;

pub use target::{Answer, Beginnings, SEAL, Target};

/// Most bytes that a target may have allocated at any moment.
pub const MEMORY_MAX: usize = 64 << 20;

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    targets::ALL.iter().find(|target| target.name == name)
}
