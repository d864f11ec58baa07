//! Whether level 0 is merged inside persistent memory.

use crate::options::word::{Value, nth};

/// When the store itself merges level 0 inside persistent memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Costs {
    /// Never.
    Off,
    /// When it pays.
    Corrected,
    /// By the equations as PM-Blade prints them.
    Printed,
}

impl Costs {
    /// All of them, by their places among [`COSTS`](crate::options::COSTS).
    pub const ALL: [Costs; 3] = [Costs::Off, Costs::Corrected, Costs::Printed];
}

impl Value for Costs {
    fn place(self) -> u64 {
        self as u64
    }

    fn at(place: u64) -> Costs {
        nth(&Costs::ALL, place)
    }
}
