//! The manifest as a whole: bytes, damage, faults, crashes, and a model.

mod common;
mod crash;
mod damage;
mod faults;
mod golden;
mod model;
mod real;
