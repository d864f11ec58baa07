//! What the tree has for a key: one leaf, or a list of versions.
//!
//! A list is an immutable block from the tree's memory, newest version first:
//!
//! ```text
//! 0        8                      24
//! length   seqno, leaf (newest)   seqno, leaf …
//! ```
//!
//! Writing a version makes a new block and swaps the word in the slot; the old block is retired
//! through the epoch. Writing trims: it keeps the new version, the newest one, and for each reader
//! what that reader sees. A list is therefore never longer than the number of readers plus two,
//! and a key that nobody reads in the past is a plain leaf again, however hot it is.
//!
//! # Invariants
//! - **V1** A list word leads to a block of this layout with at least two versions, their seqnos
//!   strictly descending; it never changes.
//! - **V2** Each list belongs to one [`NewEntry`], then (published) to one slot; who takes it from
//!   the slot retires it, once.

use std::ptr::{NonNull, with_exposed_provenance, with_exposed_provenance_mut};

use thermocline_base::{Result, SeqNo};

use crate::epoch::Guard;
use crate::leaf::Leaf;
use crate::memory::NodeMemory;
use crate::node::Link;
use crate::word::Word;

/// One version of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Version {
    /// When it was written.
    pub seqno: SeqNo,
    /// Its record.
    pub leaf: Leaf,
}

const HEADER: usize = size_of::<u64>();

/// Bytes of a list of `len` versions.
pub(crate) fn list_bytes(len: usize) -> usize {
    HEADER + len * size_of::<Version>()
}

/// What the tree has for a key, readable while the guard lives under which it was found.
#[derive(Clone, Copy)]
pub struct Entry<'g> {
    /// A leaf or a list.
    link: Link<'g>,
    memory: &'g dyn NodeMemory,
}

impl<'g> Entry<'g> {
    /// The entry of a link that is neither empty nor a node.
    pub(crate) fn new(link: Link<'g>, memory: &'g dyn NodeMemory) -> Entry<'g> {
        debug_assert!(!link.is_empty() && !link.is_node());
        Entry { link, memory }
    }

    /// The newest version's leaf.
    #[inline]
    pub fn leaf(self) -> Leaf {
        newest(self.link)
    }

    /// All versions, newest first, if there are several; `None` if there is just the leaf.
    pub fn list(self) -> Option<&'g [Version]> {
        list(self.link)
    }

    /// The leaf of the newest version not after `seqno`. Where there is only one version its seqno
    /// is known to its record alone, so that leaf is returned for every `seqno`; the caller
    /// compares.
    pub fn at(self, seqno: SeqNo) -> Option<Leaf> {
        match self.list() {
            None => Some(self.leaf()),
            Some(list) => {
                let first = list.partition_point(|version| version.seqno > seqno);
                list.get(first).map(|version| version.leaf)
            }
        }
    }

    /// This entry with one more version, trimmed to what is needed: the new version, the newest
    /// one, and for each moment of `readers` the newest version not after it. A version with
    /// the same seqno is replaced. `present` tells the seqno of the leaf where there is just one.
    ///
    /// # Errors
    /// Those of `present`, or [`thermocline_base::Error::OutOfSpace`].
    ///
    /// # Panics
    /// If `leaf` has another fingerprint than this entry, that is, belongs to another key.
    pub fn with_version(
        self,
        seqno: SeqNo,
        leaf: Leaf,
        present: impl FnOnce() -> Result<SeqNo>,
        readers: &(impl Moments + ?Sized),
    ) -> Result<NewEntry<'g>> {
        assert_eq!(leaf.fingerprint(), self.link.word().fingerprint());
        let only;
        let old = match self.list() {
            Some(list) => list,
            None => {
                only = [Version {
                    seqno: present()?,
                    leaf: self.leaf(),
                }];
                &only[..]
            }
        };
        let newer = old.partition_point(|version| version.seqno > seqno);
        let rest = &old[newer..];
        let rest = match rest.first() {
            Some(same) if same.seqno == seqno => &rest[1..],
            _ => rest,
        };
        let new = Version { seqno, leaf };
        let all = || old[..newer].iter().chain([&new]).chain(rest).copied();
        let kept = || {
            let mut above = None;
            all().filter(move |version| {
                let next = above.replace(version.seqno);
                let needed = next.is_none_or(|next| readers.any_in(version.seqno, next));
                needed || version.seqno == seqno
            })
        };
        let len = kept().count();
        if len == 1 {
            return Ok(NewEntry::from(leaf));
        }
        NewEntry::list(len, kept(), self.memory)
    }
}

impl std::fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.list() {
            Some(list) => f.debug_list().entries(list).finish(),
            None => self.leaf().fmt(f),
        }
    }
}

/// The moments at which somebody may read.
pub trait Moments {
    /// Whether somebody may read at `from`, or later but before `to`: whoever does sees a version at
    /// `from` whose next newer version is at `to`.
    fn any_in(&self, from: SeqNo, to: SeqNo) -> bool;
}

impl<M: Moments + ?Sized> Moments for &M {
    fn any_in(&self, from: SeqNo, to: SeqNo) -> bool {
        (**self).any_in(from, to)
    }
}

/// Ascending.
impl Moments for [SeqNo] {
    fn any_in(&self, from: SeqNo, to: SeqNo) -> bool {
        let first = self.partition_point(|&reader| reader < from);
        self.get(first).is_some_and(|&reader| reader < to)
    }
}

/// The newest leaf of a leaf or list.
#[inline]
pub(crate) fn newest(link: Link<'_>) -> Leaf {
    match list(link) {
        None => link.word().leaf(),
        Some(list) => list[0].leaf,
    }
}

#[inline]
fn list<'g>(link: Link<'g>) -> Option<&'g [Version]> {
    if !link.word().is_list() {
        return None;
    }
    let block = with_exposed_provenance::<u8>(link.word().list_address());
    // SAFETY: V1, and by N3 and E4 the block lives during `'g`; lengths and versions are plain
    // integers, and blocks are aligned to 16 bytes.
    unsafe {
        let len = block.cast::<usize>().read();
        Some(std::slice::from_raw_parts(block.add(HEADER).cast(), len))
    }
}

/// What [`crate::Tree::update`] is to store: a leaf, or a list made by [`Entry::with_version`].
/// Dropped unused, it costs nothing.
pub struct NewEntry<'m> {
    word: Word,
    /// Of a list not published yet (V2).
    memory: Option<&'m dyn NodeMemory>,
}

impl From<Leaf> for NewEntry<'_> {
    fn from(leaf: Leaf) -> Self {
        NewEntry {
            word: Word::of_leaf(leaf),
            memory: None,
        }
    }
}

impl<'m> NewEntry<'m> {
    /// See [`crate::Tree::entry_with`].
    pub(crate) fn of(versions: &[Version], memory: &'m dyn NodeMemory) -> Result<NewEntry<'m>> {
        let descends = |pair: &[Version]| pair[0].seqno > pair[1].seqno;
        assert!(versions.windows(2).all(descends), "newest first");
        let newest = versions.first().expect("a key has a version").leaf;
        let same = |version: &Version| version.leaf.fingerprint() == newest.fingerprint();
        assert!(versions.iter().all(same), "versions of another key");
        match versions.len() {
            1 => Ok(NewEntry::from(newest)),
            len => NewEntry::list(len, versions.iter().copied(), memory),
        }
    }

    fn list(
        len: usize,
        versions: impl Iterator<Item = Version>,
        memory: &'m dyn NodeMemory,
    ) -> Result<NewEntry<'m>> {
        let block = memory.allocate(list_bytes(len))?;
        let mut fingerprint = 0;
        // SAFETY: the block is ours, aligned to 16 bytes, and has room for `len` versions; `zip`
        // ends after as many.
        unsafe {
            block.cast::<usize>().write(len);
            let first = block.add(HEADER).cast::<Version>();
            for (i, version) in (0..len).zip(versions) {
                fingerprint = version.leaf.fingerprint();
                first.add(i).write(version);
            }
        }
        let address = block.as_ptr().expose_provenance();
        Ok(NewEntry {
            word: Word::of_list(address, fingerprint),
            memory: Some(memory),
        })
    }

    pub(crate) fn fingerprint(&self) -> u16 {
        self.word.fingerprint()
    }

    /// Whether the entry can be published in a tree with this memory: a list must come from it.
    pub(crate) fn fits(&self, memory: &dyn NodeMemory) -> bool {
        self.memory.is_none_or(|own| std::ptr::addr_eq(own, memory))
    }

    /// The word to put into a slot; from then on a list is the tree's.
    pub(crate) fn publish(self, guard: &Guard<'_>) -> Word {
        if let Some(memory) = self.memory {
            let bytes = block_of(self.word).1;
            guard.count(|c| &c.lists, 1);
            guard.count(
                |c| &c.list_bytes,
                memory.block_bytes(bytes).cast_signed() as i64,
            );
        }
        let word = self.word;
        std::mem::forget(self);
        word
    }
}

impl Drop for NewEntry<'_> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory {
            // SAFETY: V2: the list was never published, so nobody else knows it.
            unsafe { release(self.word, memory) };
        }
    }
}

impl std::fmt::Debug for NewEntry<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewEntry").finish_non_exhaustive()
    }
}

/// A list's block and its size in bytes.
fn block_of(word: Word) -> (NonNull<u8>, usize) {
    let block = NonNull::new(with_exposed_provenance_mut(word.list_address()));
    let block: NonNull<u8> = block.expect("a list's address is not 0");
    // SAFETY: V1; the callers own the list or a guard protects it.
    let len = unsafe { block.cast::<usize>().read() };
    (block, list_bytes(len))
}

/// Gives a list's block back at once.
///
/// # Safety
/// The word is a list of this memory, and nobody uses it any more.
pub(crate) unsafe fn release(word: Word, memory: &dyn NodeMemory) {
    let (block, bytes) = block_of(word);
    // SAFETY: by contract, with the size it was allocated with.
    unsafe { memory.release(block, bytes) };
}

/// Gives a list's block back once no guard can see it.
///
/// # Safety
/// V2: the caller has just replaced the list in its slot; it came from `memory`, the memory of the
/// guard's tree.
pub(crate) unsafe fn retire(word: Word, guard: &Guard<'_>, memory: &dyn NodeMemory) {
    let (block, bytes) = block_of(word);
    let size = memory.block_bytes(bytes).cast_signed() as i64;
    guard.count(|c| &c.lists, -1);
    guard.count(|c| &c.list_bytes, -size);
    // SAFETY: by contract (E3).
    unsafe { guard.retire(block, bytes, memory) };
}
