//! The suite, counted instead of timed: bytes, fences and syncs of an operation, the same in every run and on any machine.
//!
//! # Why the figures are always the same
//! Files, persistent memory, clock and randomness are simulated. The clock moves by a fixed time with each operation. There are no
//! threads: the runtime is [scripted](thermocline_engine::Runtime::scripted), and what is due in the background is done right behind the
//! operation that has made it due. So bytes tell what the store *decides*, at its best: background work is never behind. What is sampled
//! at random is drawn from a sequence of the thread, which begins anew with each script.
//!
//! # Instructions
//! The same operations come a second time, on the machine's own files and on a mapped region, and the processor counts what this
//! thread executes in user mode, background work included. Compilers and processors differ, so these figures are printed and compared with
//! nothing. Where the kernel or a virtual machine does not let them be counted, or the processor did not count all of the time, they are left
//! out, and [`Counts::uncounted`] says why.
//!
//! # What holds them
//! A test compares all but the instructions with `counts/kept.csv`. A change that is meant to alter them writes it anew:
//!
//! ```text
//! THERMOCLINE_REWRITE=1 cargo test -p thermocline-bench --lib counts
//! ```

mod count;
mod instructions;
mod script;
mod store;
mod table;
#[cfg(test)]
mod tests;

pub use count::{Counts, Figures, count};
pub use script::{Script, choose_scripts, scripts};
