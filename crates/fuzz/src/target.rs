//! What a target is, and what it makes of an input.

use std::collections::BTreeSet;

/// Of the first byte of an input: the checksums of the others are made right.
pub const SEAL: u8 = 1;

/// What a target made of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It was read; a hash of everything that was.
    Read(u64),
    /// It is an error.
    Refused,
}

/// Samples that are the beginning of this one, as a torn tail may leave it.
pub type Beginnings = fn(&[u8]) -> Vec<Vec<u8>>;

/// Something that reads bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Reads the input.
    ///
    /// # Panics
    /// If something that must hold does not.
    pub run: fn(&[u8]) -> Answer,
    /// Inputs that are as their writers made them: the goldens, and others. The first one is read.
    pub samples: fn() -> Vec<Vec<u8>>,
    /// Whether answers to inputs that are not sealed are those of samples, or of their beginnings as this
    /// function gives them: 3 in the crate's text. `None` for bytes without checksums.
    pub beginnings: Option<Beginnings>,
    /// How often `cargo test` runs it.
    pub runs: u64,
}

impl Target {
    /// All right answers to inputs that were made of the samples by damage.
    pub fn answers(&self) -> Option<BTreeSet<u64>> {
        let beginnings = self.beginnings?;
        let all = (self.samples)().into_iter().flat_map(|sample| {
            let cut = beginnings(&sample);
            cut.into_iter().chain([sample])
        });
        let read = all.filter_map(|input| match (self.run)(&input) {
            Answer::Read(digest) => Some(digest),
            Answer::Refused => None,
        });
        Some(read.collect())
    }
}
