//! The kinds of division of keys.

use crate::options::row::DIVISIONS;
use crate::options::word::{Value, nth};

/// The kind of division of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionBy {
    /// Not at all.
    None,
    /// By the bytes of each range.
    Size,
    /// By the first bytes of keys.
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

    /// The kind with this word.
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
