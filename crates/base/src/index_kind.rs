//! Which index tables have.

/// Which index a table is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum IndexKind {
    /// Keys between data blocks, which are bisected.
    #[default]
    Binary,
    /// Models that compute the data block of a key. A table that they do not fit gets a binary index all the same,
    /// and its properties say so.
    Learned,
}

impl IndexKind {
    /// All of them, by their places among [`INDEXES`](crate::options::INDEXES).
    pub const ALL: [IndexKind; 2] = [IndexKind::Binary, IndexKind::Learned];
}
