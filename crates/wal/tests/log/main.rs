//! Logs as a whole: what is appended is found, whatever happens to the file.

mod common;
mod crash;
mod damage;
mod faults;
mod planted;
mod roundtrip;
