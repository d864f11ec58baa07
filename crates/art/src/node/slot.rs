//! What every node begins with, a place for a child, and a way to follow it.

use std::marker::PhantomData;
use std::ptr::with_exposed_provenance;

use crate::lock::VersionLock;
use crate::sync::{AtomicU64, Ordering};
use crate::word::{Kind, Word};

/// Bytes of the smallest node.
pub(super) const N4_BYTES: usize = 48;

/// What every node begins with.
#[repr(C, align(16))]
pub(crate) struct Header {
    pub(super) lock: VersionLock,
    /// Child count, whether there is a child for "the key ends here", inline bytes, and in the
    /// smallest kind the key bytes.
    meta: AtomicU64,
}

impl Header {
    pub(super) fn new(meta: u64) -> Header {
        Header {
            lock: VersionLock::new(),
            meta: AtomicU64::new(meta),
        }
    }

    pub(super) fn meta(&self) -> u64 {
        self.meta.load(Ordering::Acquire) // pairs with `set_meta`: the slots it counts are filled
    }

    pub(super) fn set_meta(&self, meta: u64) {
        self.meta.store(meta, Ordering::Release); // pairs with `meta`
    }
}

/// A place for a child.
#[repr(transparent)]
pub(crate) struct Slot(AtomicU64);

impl Slot {
    pub(crate) fn new(word: Word) -> Slot {
        Slot(AtomicU64::new(word.0))
    }

    /// The child, if any.
    #[inline]
    pub(crate) fn load<'g>(&'g self) -> Link<'g> {
        Link {
            word: Word(self.0.load(Ordering::Acquire)), // pairs with `store`: the child is whole
            life: PhantomData,
        }
    }

    /// Puts a child in. The caller holds the lock of the node, or is the only one to know it.
    #[inline]
    pub(crate) fn store(&self, word: Word) {
        self.0.store(word.0, Ordering::Release); // pairs with `load`
    }
}

/// A word found in a slot during a guard's life `'g`: it may be followed (N3).
#[derive(Clone, Copy)]
pub(crate) struct Link<'g> {
    word: Word,
    life: PhantomData<&'g Slot>,
}

impl<'g> Link<'g> {
    pub(crate) const EMPTY: Link<'static> = Link {
        word: Word::EMPTY,
        life: PhantomData,
    };

    #[inline]
    pub(crate) fn word(self) -> Word {
        self.word
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.word.is_empty()
    }

    #[inline]
    pub(crate) fn is_node(self) -> bool {
        self.word.is_node()
    }

    /// Begins to load the lines behind the first of a node with 16 slots: its child cannot be
    /// addressed before its key bytes are there, so the two misses would come one after the other.
    /// (In large nodes the symbol addresses the slot or index, and the processor overlaps the
    /// misses by itself.)
    #[inline]
    pub(crate) fn prefetch_slots(self) {
        if self.word.is_node() && self.word.kind() == Kind::N16 {
            prefetch(self.word.node_address() + 64);
            prefetch(self.word.node_address() + 128);
        }
    }

    /// Begins to load a node or list that will be looked at soon.
    #[inline]
    pub(crate) fn prefetch(self) {
        if self.word.is_node() {
            let address = self.word.node_address();
            prefetch(address);
            prefetch(address + N4_BYTES - 1);
            self.prefetch_slots();
        } else if self.word.is_list() {
            prefetch(self.word.list_address());
        }
    }
}

/// Hints that the line at an address will be read soon.
#[inline]
fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect but on the cache, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(with_exposed_provenance(address)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address; // no stable intrinsic
}
