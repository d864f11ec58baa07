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
//! Blocks behind the first are shared by one word after the other and never change. Writing trims the first block; the
//! others go together, when nothing in them is needed: a version too much is never wrong. A version that is older than
//! the first block (groups apply their records in any order) copies the blocks down to its place into one.
//!
//! # Invariants
//! - **V1** A list word leads to a block of this layout with at least two versions, or one and an older block; the seqnos
//!   of a chain strictly descend; no block ever changes.
//! - **V2** Each block belongs to one [`NewEntry`], then (published) to one slot; who takes a block from
//!   the slot retires it, once. A new entry may share a tail of the chain that is in the slot, which it leaves there:
//!   its blocks are those before.

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
struct Tail {
    /// The older block's word.
    older: Word,
    /// Of the last version of the chain.
    oldest: SeqNo,
}

const _: () = assert!(size_of::<Tail>() == size_of::<Version>());

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

    /// All versions, newest first, if there are several; `None` if there is just the leaf. Of a key with many operands
    /// only the newest; [`Entry::versions`] has all.
    pub fn list(self) -> Option<&'g [Version]> {
        list(self.link.word()).map(|(versions, _)| versions)
    }

    /// All versions, newest first, if there are several; none if there is just the leaf.
    pub fn versions(self) -> impl Iterator<Item = &'g Version> {
        Blocks::of(self.link).flat_map(|(versions, _)| versions)
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

    /// This entry with one more version, trimmed to what is needed: the new version, the newest
    /// one, and for each moment of `readers` the newest version not after it, with what that is an operand on. A version
    /// with the same seqno is replaced. `present` tells the seqno of the leaf where there is just one.
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
        let (new, word) = (Version { seqno, leaf }, self.link.word());
        let Some((first, tail)) = list(word) else {
            let only = Version {
                seqno: present()?,
                leaf: self.leaf(),
            };
            return spliced((&[only], None), new, readers, self.memory);
        };
        let last = first[first.len() - 1].seqno;
        if leaf.is_operand() && first.len() >= OPERANDS_A_BLOCK && first[0].seqno < seqno {
            // It hides nothing: all stays, and nothing is copied.
            let oldest = tail.map_or(last, |tail| tail.oldest);
            let tail = Tail {
                older: word,
                oldest,
            };
            return NewEntry::block(1, std::iter::once(new), Some(tail), self.memory);
        }
        if tail.is_none() || last <= seqno {
            return spliced((first, tail), new, readers, self.memory);
        }
        let (mut all, mut rest) = (Vec::new(), None);
        for (list, tail) in Blocks::of(self.link) {
            all.extend_from_slice(list);
            rest = tail;
            if list.last().is_some_and(|last| last.seqno <= seqno) {
                break;
            }
        }
        spliced((&all, rest), new, readers, self.memory)
    }
}

/// `old` with a version more, trimmed, before `tail`, which stays as it is or goes.
fn spliced<'m>(
    (old, tail): (&[Version], Option<Tail>),
    new: Version,
    readers: &(impl Moments + ?Sized),
    memory: &'m dyn NodeMemory,
) -> Result<NewEntry<'m>> {
    let seqno = new.seqno;
    let newer = old.partition_point(|version| version.seqno > seqno);
    let rest = &old[newer..];
    let rest = match rest.first() {
        Some(same) if same.seqno == seqno => &rest[1..],
        _ => rest,
    };
    let all = || old[..newer].iter().chain([&new]).chain(rest).copied();
    let kept = || {
        let mut above = None;
        all().filter(move |version| {
            let needed = is_needed(version.seqno, above, readers);
            if !version.leaf.is_operand() {
                above = Some(version.seqno);
            }
            needed || version.seqno == seqno
        })
    };
    let tail = tail.filter(|tail| {
        let oldest_base = all().rfind(|version| !version.leaf.is_operand());
        is_needed(tail.oldest, oldest_base.map(|base| base.seqno), readers)
    });
    let len = kept().count();
    if len == 1 && tail.is_none() {
        return Ok(NewEntry::from(new.leaf));
    }
    NewEntry::block(len, kept(), tail, memory)
}

/// Whether somebody may be answered with a version at `seqno`, or with one behind it, if the next base above is at `above`.
fn is_needed(seqno: SeqNo, above: Option<SeqNo>, readers: &(impl Moments + ?Sized)) -> bool {
    above.is_none_or(|above| readers.any_in(seqno, above))
}

impl std::fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.list() {
            Some(_) => f.debug_list().entries(self.versions()).finish(),
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
    match list(link.word()) {
        None => link.word().leaf(),
        Some((list, _)) => list[0].leaf,
    }
}

/// The versions of the block that a word leads to, and what follows. The word is of a link that lives during `'g`, or of
/// the chain of one.
#[inline]
fn list<'g>(word: Word) -> Option<(&'g [Version], Option<Tail>)> {
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
struct Blocks<'g> {
    next: Option<Word>,
    link: std::marker::PhantomData<Link<'g>>,
}

impl<'g> Blocks<'g> {
    fn of(link: Link<'g>) -> Blocks<'g> {
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

/// What [`crate::Tree::update`] is to store: a leaf, or a list made by [`Entry::with_version`].
/// Dropped unused, it costs nothing.
pub struct NewEntry<'m> {
    /// Of a list, its first block, the only one that is new (V2).
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
            len => NewEntry::block(len, versions.iter().copied(), None, memory),
        }
    }

    fn block(
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
            guard.note_list(((bytes - HEADER) / size_of::<Version>()) as u64);
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
    let mut next = Some(word);
    while let Some(word) = next {
        next = list(word).and_then(|(_, tail)| Some(tail?.older));
        // SAFETY: by contract; the tail was read before.
        unsafe { release(word, memory) };
    }
}

/// Gives the blocks of a list back that its successor does not share, once no guard can see them.
///
/// # Safety
/// V2: the caller has just replaced the list in its slot by `by`; it came from `memory`, the memory of the
/// guard's tree.
pub(crate) unsafe fn retire(word: Word, by: Word, guard: &Guard<'_>, memory: &dyn NodeMemory) {
    let shared = list(by).and_then(|(_, tail)| Some(tail?.older));
    let mut next = Some(word);
    while let Some(word) = next.filter(|word| Some(*word) != shared) {
        next = list(word).and_then(|(_, tail)| Some(tail?.older));
        let (block, bytes) = block_of(word);
        let size = memory.block_bytes(bytes).cast_signed() as i64;
        guard.count(|c| &c.lists, -1);
        guard.count(|c| &c.list_bytes, -size);
        // SAFETY: by contract (E3).
        unsafe { guard.retire(block, bytes, memory) };
    }
}
