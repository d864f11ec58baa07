//! By what keys are divided.

use crate::options::row::DIVISIONS;
use crate::options::word::{Value, nth};

/// By what keys are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionBy {
    /// By nothing.
    None,
    /// By how much lies where.
    Size,
    /// By their first bytes.
    Prefix,
    /// At given keys.
    Keys,
}

impl PartitionBy {
    /// All of them, by their places among [`DIVISIONS`].
    pub const ALL: [PartitionBy; 4] = [
        PartitionBy::None,
        PartitionBy::Size,
        PartitionBy::Prefix,
        PartitionBy::Keys,
    ];

    /// Its word, as `partition.by` takes it.
    pub fn name(self) -> &'static str {
        DIVISIONS[self as usize]
    }

    /// That of this word.
    pub fn named(word: &str) -> Option<PartitionBy> {
        Self::ALL.into_iter().find(|by| by.name() == word)
    }
}

impl Value for PartitionBy {
    fn place(self) -> u64 {
        self as u64
    }

    fn at(place: u64) -> PartitionBy {
        nth(&PartitionBy::ALL, place)
    }
}
