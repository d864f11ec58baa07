//! The word in a child slot: nothing, a leaf, a version list, or a node. Plain integers; what they
//! point at is the business of [`crate::node`] and [`crate::versions`].
//!
//! ```text
//!            63           48 47                         4 3    1 0
//! empty      0
//! leaf       fingerprint     record (opaque)            3: 100       (bits 2..0)
//! list       fingerprint     address of a list block    3: 110
//! node       depth           address of a node            kind   1
//! ```
//!
//! A node word carries the node's kind and depth, so that a reader knows how to look at the node
//! before it touches it, and so that the node itself needs no room for either.

use crate::leaf::Leaf;

/// The five node kinds, from small to large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    N4,
    N16,
    N48,
    N128,
    N256,
}

/// Number of node kinds.
pub(crate) const KINDS: usize = 5;

const NODE: u64 = 0b001;
const LIST: u64 = 0b110;
const LEAF: u64 = 0b100;
const LOW: u64 = 0b111;
const KIND: u64 = 0b1110;
const ADDRESS: u64 = (1 << 48) - 1;

/// A slot's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) u64);

impl Word {
    pub(crate) const EMPTY: Word = Word(0);

    pub(crate) fn of_leaf(leaf: Leaf) -> Word {
        Word(leaf.word() | LEAF)
    }

    pub(crate) fn of_list(address: usize, fingerprint: u16) -> Word {
        let address = address as u64;
        assert!(address & LOW == 0 && address <= ADDRESS);
        Word(u64::from(fingerprint) << 48 | address | LIST)
    }

    pub(crate) fn of_node(kind: Kind, depth: u16, address: usize) -> Word {
        let address = address as u64;
        assert!(address & 0xf == 0 && address <= ADDRESS);
        Word(u64::from(depth) << 48 | address | (kind as u64) << 1 | NODE)
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub(crate) fn is_node(self) -> bool {
        self.0 & NODE != 0
    }

    #[inline]
    pub(crate) fn is_list(self) -> bool {
        self.0 & LOW == LIST
    }

    /// The leaf of a leaf word.
    #[inline]
    pub(crate) fn leaf(self) -> Leaf {
        debug_assert!(self.0 & LOW == LEAF);
        Leaf::new(self.0 & !LOW)
    }

    /// The fingerprint of a leaf or list.
    #[inline]
    pub(crate) fn fingerprint(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// The kind of a node.
    #[inline]
    pub(crate) fn kind(self) -> Kind {
        debug_assert!(self.is_node());
        match (self.0 & KIND) >> 1 {
            0 => Kind::N4,
            1 => Kind::N16,
            2 => Kind::N48,
            3 => Kind::N128,
            _ => Kind::N256,
        }
    }

    /// The depth of a node: the index of the key byte by which its children differ. All keys
    /// below share the bytes before it.
    #[inline]
    pub(crate) fn depth(self) -> usize {
        usize::from((self.0 >> 48) as u16)
    }

    /// The address of a node.
    #[inline]
    pub(crate) fn node_address(self) -> usize {
        index(self.0 & ADDRESS & !0xf)
    }

    /// The address of a list.
    #[inline]
    pub(crate) fn list_address(self) -> usize {
        index(self.0 & ADDRESS & !LOW)
    }
}

/// A 64-bit number as an index. The crate is for 64-bit targets (see `lib.rs`).
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "usize has 64 bits on every target that the crate builds for"
)]
pub(crate) fn index(n: u64) -> usize {
    n as usize
}

/// The branches of a node, in key order: 0 is "the key ends here", 1 + b is the byte b.
pub(crate) type Symbol = u16;

/// The symbol of "the key ends here".
pub(crate) const END: Symbol = 0;

/// Number of symbols.
pub(crate) const SYMBOLS: Symbol = 257;

/// The symbol of `key` at `depth`.
#[inline]
pub(crate) fn symbol(key: &[u8], depth: usize) -> Symbol {
    debug_assert!(depth <= key.len());
    key.get(depth).map_or(END, |&b| Symbol::from(b) + 1)
}

/// The byte of a symbol other than [`END`].
#[inline]
pub(crate) fn byte(symbol: Symbol) -> u8 {
    debug_assert!(symbol != END);
    ((symbol - 1) & 0xff) as u8
}

/// Number of leading bytes that two keys share.
pub(crate) fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}
