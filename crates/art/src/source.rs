//! Where keys come from: the tree stores none.

use thermocline_base::{Error, Result};

use crate::leaf::{Leaf, fingerprint};

/// How many leaves ahead of its visitor a scan asks for records, at most.
pub(crate) const AHEAD: usize = 8;

/// Reads the keys of the records that leaves stand for.
///
/// The tree calls it under a [`crate::Guard`] but never under one of its own locks, and an error
/// of [`KeySource::key`] or [`KeySource::check`] leaves the tree as it was.
pub trait KeySource: Send + Sync {
    /// The key of the record that `leaf` stands for. It may be borrowed from where it lies
    /// (persistent memory).
    ///
    /// # Errors
    /// The source's own, when the record cannot be read.
    fn key(&self, leaf: Leaf) -> Result<&[u8]>;

    /// A hint that the record of `leaf` will be read soon.
    fn prefetch(&self, _leaf: Leaf) {}

    /// How many leaves ahead of its visitor a scan goes to ask for their records, from 1 up to 8: 1 where nobody reads them yet,
    /// so that no leaf is visited in vain.
    fn ahead(&self) -> usize {
        AHEAD
    }

    /// Called when the bytes that [`KeySource::key`] returned do not fit the leaf: verifies the
    /// record's checksum. `Ok` says that the record is sound.
    ///
    /// # Errors
    /// The corruption, if the record is damaged.
    fn check(&self, leaf: Leaf) -> Result<()>;
}

/// The key of `leaf`, verified by its fingerprint: what shapes the tree must not be rotten.
pub(crate) fn verified_key<K: KeySource + ?Sized>(keys: &K, leaf: Leaf) -> Result<&[u8]> {
    let key = keys.key(leaf)?;
    let got = fingerprint(key);
    if got == leaf.fingerprint() {
        return Ok(key);
    }
    keys.check(leaf)?;
    Err(disagreement(leaf, got))
}

/// A sound record under a leaf that was made for another key.
#[cold]
fn disagreement(leaf: Leaf, got: u16) -> Error {
    Error::corruption(
        "the index entry of this record was made for another key",
        "volatile index",
        leaf.offset(),
        format_args!("fingerprint {:#06x}", leaf.fingerprint()),
        format_args!("{got:#06x}"),
    )
}
