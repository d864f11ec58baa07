//! How blocks of tables are compressed.

/// The kind of decompression, which is the same for all levels of a compressor. A table names only that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Codec {
    /// Nothing is compressed.
    None = 0,
    /// LZ4.
    Lz4 = 1,
    /// Zstandard.
    Zstd = 2,
}

impl Codec {
    /// All of them, by their tags.
    pub const ALL: [Codec; 3] = [Codec::None, Codec::Lz4, Codec::Zstd];

    /// The codec with this number in files; `None` if there is none.
    pub fn from_tag(tag: u8) -> Option<Codec> {
        Self::ALL.into_iter().find(|codec| codec.tag() == tag)
    }

    /// Its number in files.
    pub fn tag(self) -> u8 {
        self as u8
    }
}
