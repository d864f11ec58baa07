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
//! # Operands
//! A version may be an *operand* ([`Leaf::is_operand`]): whoever reads it reads on below, up to the first version that is
//! none, a *base*. So an operand hides nothing. Version `y` may go if there is a base `u` of the key with `y < u` and
//! nobody reads at a moment in `[y, u)`: whoever reads before `y` does not see it, and whoever reads at `u` or later
//! stops at `u` or above. Without a base above it, it stays. Where there is no operand, the next newer version is a base,
//! and that is the rule from above.
//!
//! A key may have many operands. To copy all of them for each that is added would take time that grows with their
//! number, so a list is a chain of blocks. Where the newest block has [`OPERANDS_A_BLOCK`] versions or more, an
//! operand begins a new one, which leads to the *older* block:
//!
//! ```text
//! 0                      8                 8 + 16 n       16 + 16 n
//! length n + FOLLOWS     n versions        older block    seqno of the last version of the chain
//! ```
//!
//! Blocks behind the first are shared by one word after the other and never change. Writing trims what it copies; the
//! others go together, when nothing in them is needed: a version too much is never wrong. What is copied, and what a
//! version costs that comes late, says `splice.rs`.
//!
//! # Invariants
//! - **V1** A list word leads to a block of this layout with at least two versions, or one and an older block; the seqnos
//!   of a chain strictly descend; no block ever changes.
//! - **V2** Each block belongs to one [`NewEntry`], then (published) to one slot; who takes a block from
//!   the slot retires it, once. A new entry may share a tail of the chain that is in the slot, which it leaves there:
//!   its blocks are those before. So a reader that walks a chain finds all of it: what its successors share is in the
//!   tree, and what they have replaced was retired after the reader had pinned (E4).
//! - **V3** Of a chain with operands only the first block may have fewer than [`OPERANDS_A_BLOCK`] versions: what lies
//!   behind it is no more blocks than there must be.

use std::ptr::{NonNull, with_exposed_provenance, with_exposed_provenance_mut};

use thermocline_base::{Result, SeqNo};

use crate::epoch::Guard;
use crate::leaf::Leaf;
use crate::memory::NodeMemory;
use crate::node::Link;
use crate::word::{Word, index};

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

/// Versions of a block, at least, before an operand begins another one. With operands a block may have so many more than
/// one without. (Few where the tests of this crate see all that threads can do.)
pub const OPERANDS_A_BLOCK: usize = if cfg!(test) { 2 } else { 16 };

/// In the length of a block: an older one follows.
const FOLLOWS: u64 = 1 << 63;

/// Bytes of a list of `len` versions.
pub(crate) fn list_bytes(len: usize) -> usize {
    HEADER + len * size_of::<Version>()
}

/// What lies behind the versions of a block that is not the last: as long as a version.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Tail {
    /// The older block's word.
    pub(crate) older: Word,
    /// Of the last version of the chain.
    pub(crate) oldest: SeqNo,
}

const _: () = assert!(size_of::<Tail>() == size_of::<Version>());

/// What the tree has for a key, readable while the guard lives under which it was found.
#[derive(Clone, Copy)]
pub struct Entry<'g> {
    /// A leaf or a list.
    pub(crate) link: Link<'g>,
    pub(crate) memory: &'g dyn NodeMemory,
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

    /// All versions, newest first, if there are several; `None` if there is just the leaf. Of a key with many operands
    /// only the newest; [`Entry::versions`] has all.
    pub fn list(self) -> Option<&'g [Version]> {
        list(self.link.word()).map(|(versions, _)| versions)
    }

    /// All versions, newest first, if there are several; none if there is just the leaf.
    pub fn versions(self) -> impl Iterator<Item = &'g Version> {
        self.blocks().flatten()
    }

    /// As [`Entry::versions`], in the blocks in which they lie.
    pub fn blocks(self) -> impl Iterator<Item = &'g [Version]> {
        Blocks::of(self.link).map(|(versions, _)| versions)
    }

    /// The leaf of the newest version not after `seqno`. Where there is only one version its seqno
    /// is known to its record alone, so that leaf is returned for every `seqno`; the caller
    /// compares.
    pub fn at(self, seqno: SeqNo) -> Option<Leaf> {
        if self.list().is_none() {
            return Some(self.leaf());
        }
        Blocks::of(self.link).find_map(|(list, _)| {
            let first = list.partition_point(|version| version.seqno > seqno);
            list.get(first).map(|version| version.leaf)
        })
    }

    /// Those that a reader at `seqno` needs, newest first: the operands up to the first base, and that. Of a single
    /// version, as [`Entry::at`].
    pub fn stack(self, seqno: SeqNo) -> impl Iterator<Item = Leaf> {
        let only = self.list().is_none().then(|| self.leaf());
        let below = self.versions().skip_while(move |v| v.seqno > seqno);
        let mut open = true;
        let all = only.into_iter().chain(below.map(|version| version.leaf));
        all.take_while(move |leaf| std::mem::replace(&mut open, leaf.is_operand()))
    }
}

impl std::fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.list() {
            Some(_) => f.debug_list().entries(self.versions()).finish(),
            None => self.leaf().fmt(f),
        }
    }
}

/// The newest leaf of a leaf or list.
#[inline]
pub(crate) fn newest(link: Link<'_>) -> Leaf {
    match list(link.word()) {
        None => link.word().leaf(),
        Some((list, _)) => list[0].leaf,
    }
}

/// The versions of the block that a word leads to, and what follows. The word is of a link that lives during `'g`, or of
/// the chain of one.
#[inline]
pub(crate) fn list<'g>(word: Word) -> Option<(&'g [Version], Option<Tail>)> {
    if !word.is_list() {
        return None;
    }
    let block = with_exposed_provenance::<u8>(word.list_address());
    // SAFETY: V1, and by N3 and E4 the block lives during `'g`, as do those that it leads to (V2); lengths, versions and
    // tails are plain integers, and blocks are aligned to 16 bytes.
    unsafe {
        let header = block.cast::<u64>().read();
        let len = index(header & !FOLLOWS);
        let versions = block.add(HEADER).cast::<Version>();
        let follows = header & FOLLOWS != 0;
        let tail = follows.then(|| versions.add(len).cast::<Tail>().read());
        Some((std::slice::from_raw_parts(versions, len), tail))
    }
}

/// The blocks of a list, newest first, each with what follows.
pub(crate) struct Blocks<'g> {
    next: Option<Word>,
    link: std::marker::PhantomData<Link<'g>>,
}

impl<'g> Blocks<'g> {
    pub(crate) fn of(link: Link<'g>) -> Blocks<'g> {
        Blocks {
            next: Some(link.word()),
            link: std::marker::PhantomData,
        }
    }
}

impl<'g> Iterator for Blocks<'g> {
    type Item = (&'g [Version], Option<Tail>);

    fn next(&mut self) -> Option<Self::Item> {
        let (versions, tail) = list(self.next.take()?)?;
        self.next = tail.map(|tail| tail.older);
        Some((versions, tail))
    }
}

/// The words of a list from `first` on and before `end`, newest first. A block is read before its word is given out, and
/// not afterwards.
fn words(first: Word, end: Option<Word>) -> impl Iterator<Item = Word> {
    let mut next = Some(first).filter(|word| Some(*word) != end);
    std::iter::from_fn(move || {
        let word = next?;
        let older = list(word).and_then(|(_, tail)| Some(tail?.older));
        next = older.filter(|older| Some(*older) != end);
        Some(word)
    })
}

/// What [`crate::Tree::update`] is to store: a leaf, or a list made by [`Entry::with_version`].
/// Dropped unused, it costs nothing.
pub struct NewEntry<'m> {
    /// Of a list, its first block.
    word: Word,
    /// The first block that is not its own, but of the list that it is to replace (V2).
    shared: Option<Word>,
    /// Of a list not published yet (V2).
    memory: Option<&'m dyn NodeMemory>,
}

impl From<Leaf> for NewEntry<'_> {
    fn from(leaf: Leaf) -> Self {
        NewEntry {
            word: Word::of_leaf(leaf),
            shared: None,
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
            _ => NewEntry::laid_out(versions, None, memory),
        }
    }

    /// A list of these versions, newest first, before `tail`: in one block, or with operands among them in as many
    /// as keep V3.
    pub(crate) fn laid_out(
        versions: &[Version],
        tail: Option<Tail>,
        memory: &'m dyn NodeMemory,
    ) -> Result<NewEntry<'m>> {
        let most = match versions.iter().any(|version| version.leaf.is_operand()) {
            true => OPERANDS_A_BLOCK,
            false => versions.len(),
        };
        let last = versions[versions.len() - 1].seqno;
        let oldest = tail.map_or(last, |tail| tail.oldest);
        let shared = tail.map(|tail| tail.older);
        let (mut behind, mut list) = (tail, None);
        // From the end: so it is the first block that has fewer.
        for part in versions.rchunks(most) {
            let mut block = NewEntry::block(part.len(), part.iter().copied(), behind, memory)?;
            block.shared = shared;
            behind = Some(Tail {
                older: block.word,
                oldest,
            });
            if let Some(older) = list.replace(block) {
                // Its blocks are now those of the entry that leads to them.
                std::mem::forget(older);
            }
        }
        Ok(list.expect("the newest version always stays, so there was a part"))
    }

    /// A list whose first block has these `len` versions, and is the only one that is new.
    pub(crate) fn block(
        len: usize,
        versions: impl Iterator<Item = Version>,
        tail: Option<Tail>,
        memory: &'m dyn NodeMemory,
    ) -> Result<NewEntry<'m>> {
        let follows = tail.map_or(0, |_| FOLLOWS);
        let block = memory.allocate(list_bytes(len + usize::from(tail.is_some())))?;
        let mut fingerprint = 0;
        // SAFETY: the block is ours, aligned to 16 bytes, and has room for `len` versions and a tail; `zip`
        // ends after as many.
        unsafe {
            block.cast::<u64>().write(len as u64 | follows);
            let first = block.add(HEADER).cast::<Version>();
            for (i, version) in (0..len).zip(versions) {
                fingerprint = version.leaf.fingerprint();
                first.add(i).write(version);
            }
            if let Some(tail) = tail {
                first.add(len).cast::<Tail>().write(tail);
            }
        }
        let address = block.as_ptr().expose_provenance();
        Ok(NewEntry {
            word: Word::of_list(address, fingerprint),
            shared: tail.map(|tail| tail.older),
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

    /// The first block that it leaves where it is, in the list that it is to replace.
    pub(crate) fn shared(&self) -> Option<Word> {
        self.shared
    }

    /// The word to put into a slot; from then on a list is the tree's.
    pub(crate) fn publish(self, guard: &Guard<'_>) -> Word {
        if let Some(memory) = self.memory {
            for word in words(self.word, self.shared) {
                let bytes = block_of(word).1;
                let size = memory.block_bytes(bytes).cast_signed() as i64;
                guard.note_list(((bytes - HEADER) / size_of::<Version>()) as u64);
                guard.count(|c| &c.lists, 1);
                guard.count(|c| &c.list_bytes, size);
            }
        }
        let word = self.word;
        std::mem::forget(self);
        word
    }
}

impl Drop for NewEntry<'_> {
    fn drop(&mut self) {
        let Some(memory) = self.memory else {
            return;
        };
        for word in words(self.word, self.shared) {
            // SAFETY: V2: the list was never published, so nobody else knows these blocks.
            unsafe { release(word, memory) };
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
    let header = unsafe { block.cast::<u64>().read() };
    let entries = index(header & !FOLLOWS) + index(header >> 63);
    (block, list_bytes(entries))
}

/// Gives a list's first block back at once.
///
/// # Safety
/// The word is a list of this memory, and nobody uses that block any more.
pub(crate) unsafe fn release(word: Word, memory: &dyn NodeMemory) {
    let (block, bytes) = block_of(word);
    // SAFETY: by contract, with the size it was allocated with.
    unsafe { memory.release(block, bytes) };
}

/// Gives all blocks of a list back at once.
///
/// # Safety
/// The word is a list of this memory, and nobody uses it any more.
pub(crate) unsafe fn release_all(word: Word, memory: &dyn NodeMemory) {
    for word in words(word, None) {
        // SAFETY: by contract.
        unsafe { release(word, memory) };
    }
}

/// Gives the blocks of a list back that its successor does not share, those before `shared`, once no guard can see them.
///
/// # Safety
/// V2: the caller has just replaced the list in its slot by an entry that had this [`NewEntry::shared`]; it came from
/// `memory`, the memory of the guard's tree.
pub(crate) unsafe fn retire(
    word: Word,
    shared: Option<Word>,
    guard: &Guard<'_>,
    memory: &dyn NodeMemory,
) {
    for word in words(word, shared) {
        let (block, bytes) = block_of(word);
        let size = memory.block_bytes(bytes).cast_signed() as i64;
        guard.count(|c| &c.lists, -1);
        guard.count(|c| &c.list_bytes, -size);
        // SAFETY: by contract (E3).
        unsafe { guard.retire(block, bytes, memory) };
    }
}
