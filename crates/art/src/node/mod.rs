//! Nodes: what they have in common, and the unsafe step from a word to a node.
//!
//! All kinds begin with a [`Header`](slot::Header). Children hang on *symbols* (`word.rs`). Kinds with few slots
//! only ever append: a child, once in a slot, stays there until a newer word of the same subtree
//! replaces it, so even an unvalidated read finds words that belong below the node.
//!
//! A node does not know its depth; the word that leads to it does. It keeps the few key bytes
//! before its depth ("inline bytes", nearest first). These never change: splitting a compressed
//! path puts a new node above and leaves this one alone, so a split locks the parent only.
//!
//! # Invariants
//! - **N1** A node word leads to an initialised node of its kind in a block of its size.
//! - **N2** After publication, the lock, meta word, key bytes and slots of a node change only by
//!   atomic stores under its lock; nobody ever holds `&mut` to it.
//! - **N3** A non-empty slot of a published node (or of the root) holds a word that was part of the
//!   tree at some moment since the pin of any guard under which the node was reached. (The node
//!   was in the tree at such a moment; what its slots held then, or were given later, was too.)
//!   With E4, what a [`Link`] leads to lives as long as the guard.
//! - **N4** All keys below a node of depth d share their first d bytes, for ever: children are
//!   added only under the same path, and no child is ever taken away.

mod body;
mod fresh;
mod indexed;
mod n16;
mod n256;
mod n4;
mod slot;
mod window;

pub(crate) use fresh::{Fresh, release, retire};
pub(crate) use slot::{Link, Slot};
pub use window::Direction;
pub(crate) use window::{Window, after, start};

use std::ptr::with_exposed_provenance;

use crate::lock::VersionLock;
use crate::sync::AtomicU64;
use crate::word::{KINDS, Kind, SYMBOLS, Symbol, Word};
use body::Body;
use n4::N4;
use n16::N16;
use n256::N256;
use slot::N4_BYTES;

type N48 = indexed::Indexed<48>;
type N128 = indexed::Indexed<128>;

/// Sizes of the kinds, smallest first.
pub(crate) const BYTES: [usize; KINDS] = [
    size_of::<N4>(),
    size_of::<N16>(),
    size_of::<N48>(),
    size_of::<N128>(),
    size_of::<N256>(),
];

/// Children that fit, the one of "the key ends here" included.
pub(crate) const CAPACITY: [u64; KINDS] = [4, 16, 48, 128, SYMBOLS as u64];

/// The memory bound of the index rests on these. (The atomics of a scheduler that takes over are
/// larger than the machine's, and so are its nodes.)
const _: () = assert!(
    size_of::<AtomicU64>() != 8
        || BYTES[0] == N4_BYTES
            && BYTES[1] == 160
            && BYTES[2] == 656
            && BYTES[3] == 1296
            && BYTES[4] == 2080
);

/// A reference to a node of any kind.
#[derive(Clone, Copy)]
pub(crate) enum Node<'g> {
    N4(&'g N4),
    N16(&'g N16),
    N48(&'g N48),
    N128(&'g N128),
    N256(&'g N256),
}

macro_rules! each {
    ($node:expr, $n:ident => $body:expr) => {
        match $node {
            Node::N4($n) => $body,
            Node::N16($n) => $body,
            Node::N48($n) => $body,
            Node::N128($n) => $body,
            Node::N256($n) => $body,
        }
    };
}

/// The inline bytes of a node at `depth` on the path of `key`.
#[inline]
fn inline_bytes(key: &[u8], depth: usize, count: usize) -> u64 {
    let before = &key[depth.saturating_sub(count)..depth];
    before
        .iter()
        .fold(0, |bytes, &byte| bytes << 8 | u64::from(byte))
}

impl<'g> Link<'g> {
    /// The node that this link leads to.
    #[inline]
    pub(crate) fn node(self) -> Node<'g> {
        // SAFETY: N3 and E4: slots are reached only through links and the root, the latter under
        // a guard of the tree, whose life is `'g` (`Tree::root`).
        unsafe { Node::of(self.word()) }
    }

    /// A leaf or list somewhere below (or the link itself). Since children are never taken away,
    /// every node has some, and since they stay below (N4), no validation is needed.
    pub(crate) fn any_below(self) -> Link<'g> {
        let mut link = self;
        while link.is_node() {
            link = link.node().any();
        }
        link
    }
}

impl<'g> Node<'g> {
    /// The node of a word.
    ///
    /// # Safety
    /// N1, and the node lives during `'g`.
    #[inline]
    unsafe fn of(word: Word) -> Node<'g> {
        let at = word.node_address();
        // SAFETY: by contract; N2 makes shared references sound.
        unsafe {
            match word.kind() {
                Kind::N4 => Node::N4(&*with_exposed_provenance(at)),
                Kind::N16 => Node::N16(&*with_exposed_provenance(at)),
                Kind::N48 => Node::N48(&*with_exposed_provenance(at)),
                Kind::N128 => Node::N128(&*with_exposed_provenance(at)),
                Kind::N256 => Node::N256(&*with_exposed_provenance(at)),
            }
        }
    }

    #[inline]
    pub(crate) fn lock(self) -> &'g VersionLock {
        each!(self, n => &n.head().lock)
    }

    /// Number of inline bytes that this kind has.
    #[inline]
    pub(crate) fn inline_len(self) -> usize {
        fn of<B: Body>(_: &B) -> usize {
            B::INLINE
        }
        each!(self, n => of(n))
    }

    /// Whether the inline bytes agree with `key` between `base` and the node's `depth`, which is
    /// at most the key's length. Bytes beyond the inline ones are not compared.
    #[inline]
    pub(crate) fn matches(self, key: &[u8], base: usize, depth: usize) -> bool {
        let count = self.inline_len().min(depth - base);
        if count == 0 {
            return true;
        }
        let inline = each!(self, n => n.inline());
        let mask = (1u64 << (8 * count)) - 1;
        (inline ^ inline_bytes(key, depth, count)) & mask == 0
    }

    /// The key byte at `at`, which is one of the inline bytes of this node at `depth`.
    pub(crate) fn inline_byte(self, at: usize, depth: usize) -> u8 {
        debug_assert!(at < depth && depth - at <= self.inline_len());
        let inline = each!(self, n => n.inline());
        (inline >> (8 * (depth - 1 - at)) & 0xff) as u8
    }

    #[inline]
    pub(crate) fn find(self, symbol: Symbol) -> Option<(&'g Slot, Link<'g>)> {
        each!(self, n => n.find(symbol))
    }

    pub(crate) fn is_full(self) -> bool {
        each!(self, n => n.is_full())
    }

    pub(crate) fn insert(self, symbol: Symbol, word: Word) {
        each!(self, n => n.insert(symbol, word));
    }

    fn any(self) -> Link<'g> {
        each!(self, n => n.any())
    }

    /// Replaces the window's contents by the next children in its direction. Not validated.
    pub(crate) fn fill(self, window: &mut Window<'g>) {
        window.clear();
        each!(self, n => n.fill(window));
    }

    /// Calls `visit` with every child, in order. The caller holds the lock, or is alone.
    pub(crate) fn for_each(self, mut visit: impl FnMut(Symbol, Link<'g>)) {
        let mut window = Window::all();
        loop {
            self.fill(&mut window);
            if window.is_empty() {
                return;
            }
            for &(symbol, link) in window.items() {
                visit(symbol, link);
            }
            window.advance();
        }
    }
}
