//! The tree itself: its root, looking keys up, its memory, its end.

use std::sync::Arc;

use thermocline_base::Result;

use crate::epoch::{Domain, Guard, RETIRED_BYTES};
use crate::leaf::fingerprint;
use crate::lock::VersionLock;
use crate::memory::NodeMemory;
use crate::node::{self, BYTES, CAPACITY, Link, Slot};
use crate::slab::Slab;
use crate::source::KeySource;
use crate::versions::{self, Entry, NewEntry, Version};
use crate::word::{KINDS, Word, symbol};

/// A volatile, ordered, concurrent index of byte keys. See the crate's text.
pub struct Tree {
    /// Stands for the root's parent: protects the one slot that has no node around it. Never
    /// obsolete.
    pub(crate) lock: VersionLock,
    pub(crate) slot: Slot,
    pub(crate) domain: Domain,
    pub(crate) memory: Arc<dyn NodeMemory>,
}

/// What a tree occupies. Exact while no thread changes the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryUse {
    /// Bytes of the nodes and version lists that are part of the tree.
    pub live_bytes: u64,
    /// Bytes held beside them: free blocks and overhead of the memory (of the whole memory, if
    /// several trees share it), blocks that wait for guards, the bookkeeping of the epochs.
    pub retained_bytes: u64,
    /// Nodes with room for 4, 16, 48, 128 and 256 children.
    pub nodes: [u64; KINDS],
    /// Version lists.
    pub lists: u64,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree::new()
    }
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree")
            .field("len", &self.len())
            .field("memory", &self.memory())
            .finish_non_exhaustive()
    }
}

impl Tree {
    /// An empty tree with a [`Slab`] of its own.
    pub fn new() -> Tree {
        Tree::with_memory(Arc::new(Slab::new()))
    }

    /// An empty tree whose nodes and lists come from `memory`, which other trees may share.
    pub fn with_memory(memory: Arc<dyn NodeMemory>) -> Tree {
        Tree {
            lock: VersionLock::new(),
            slot: Slot::new(Word::EMPTY),
            domain: Domain::new(),
            memory,
        }
    }

    /// A guard, needed by every operation; costs a few nanoseconds. Hold it for one engine call.
    #[inline]
    pub fn pin(&self) -> Guard<'_> {
        self.domain.pin()
    }

    /// The root's link. The assertion makes `Link::node` sound: the guard is one of this tree.
    #[inline]
    pub(crate) fn root<'g>(&'g self, guard: &'g Guard<'_>) -> Link<'g> {
        assert!(guard.is_of(&self.domain), "a guard of another tree");
        self.slot.load()
    }

    pub(crate) fn entry<'g>(&'g self, link: Link<'g>) -> Entry<'g> {
        Entry::new(link, &*self.memory)
    }

    /// An entry with these versions of one key, newest first, for [`Tree::update`] to store.
    ///
    /// # Errors
    /// [`thermocline_base::Error::OutOfSpace`] without memory for a list.
    ///
    /// # Panics
    /// If there is none, they are in another order, or of keys with different fingerprints.
    pub fn entry_with(&self, versions: &[Version]) -> Result<NewEntry<'_>> {
        NewEntry::of(versions, &*self.memory)
    }

    /// What the tree has for `key`.
    ///
    /// # Errors
    /// Those of `keys`: the record cannot be read, or it is damaged and might have been the key's.
    ///
    /// # Panics
    /// If `guard` is one of another tree.
    pub fn get<'g, K: KeySource + ?Sized>(
        &'g self,
        guard: &'g Guard<'_>,
        key: &[u8],
        keys: &K,
    ) -> Result<Option<Entry<'g>>> {
        let fingerprint = fingerprint(key);
        let link = loop {
            if let Some(link) = self.descend(guard, key) {
                break link;
            }
        };
        if link.is_empty() || link.word().fingerprint() != fingerprint {
            return Ok(None);
        }
        let entry = self.entry(link);
        let leaf = entry.leaf();
        if keys.key(leaf)? == key {
            return Ok(Some(entry));
        }
        // Another key with the same fingerprint, or this key and its record has rotted.
        keys.check(leaf)?;
        Ok(None)
    }

    /// The leaf or list that `key` has if the tree has it, by comparing only the bytes that the
    /// tree knows; empty if the tree cannot have it; `None` if a writer interfered.
    #[inline]
    fn descend<'g>(&'g self, guard: &'g Guard<'_>, key: &[u8]) -> Option<Link<'g>> {
        let mut lock = &self.lock;
        let mut version = lock.read()?;
        let mut link = self.root(guard);
        let mut base = 0;
        while link.is_node() {
            let (node, depth) = (link.node(), link.word().depth());
            let below = node.lock().read()?;
            // The parent did not change until the child's version was read, so the child was the
            // parent's at that moment, and what is compared next belongs to the key's path.
            if !lock.validate(version) {
                return None;
            }
            if key.len() < depth || !node.matches(key, base, depth) {
                return Some(Link::EMPTY); // inline bytes and depth never change
            }
            let found = node.find(symbol(key, depth));
            (lock, version) = (node.lock(), below);
            let Some((_, next)) = found else {
                link = Link::EMPTY;
                break;
            };
            (link, base) = (next, depth + 1);
            link.prefetch_slots();
        }
        lock.validate(version).then_some(link)
    }

    /// Number of keys. Exact while no thread inserts.
    pub fn len(&self) -> u64 {
        self.domain.sum(|c| &c.keys)
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the tree occupies.
    pub fn memory(&self) -> MemoryUse {
        let nodes: [u64; KINDS] = std::array::from_fn(|kind| self.domain.sum(|c| &c.nodes[kind]));
        let node_bytes = |kind: usize| self.memory.block_bytes(BYTES[kind]) as u64;
        let live: u64 = (0..KINDS).map(|kind| nodes[kind] * node_bytes(kind)).sum();
        let usage = self.memory.usage();
        let (retired, bookkeeping) = self.domain.retired_bytes();
        let free = usage.reserved_bytes.saturating_sub(usage.used_bytes);
        MemoryUse {
            live_bytes: live + self.domain.sum(|c| &c.list_bytes),
            retained_bytes: free + retired + bookkeeping,
            nodes,
            lists: self.domain.sum(|c| &c.lists),
        }
    }

    /// Gives back what waits for no guard any more, and returns the bytes that still wait. Happens by
    /// itself every few retirements; to be called where memory must be exact.
    pub fn collect(&self) -> u64 {
        self.domain.collect(&*self.memory);
        self.domain.retired_bytes().0
    }

    /// The most bytes that `updates` calls of [`Tree::update`] may take, of live and retained
    /// memory together, while no other thread changes the tree; `readers` is the largest number of
    /// readers given to [`Entry::with_version`] (`None`: no lists are made), with [`crate::OPERANDS_A_BLOCK`] more where keys
    /// have operands. For reserving budget
    /// before a write that may not fail. It does not depend on the length of the keys: an update
    /// makes at most one node, and blocks that it replaces are counted as if guards kept them.
    ///
    /// Each node there is may grow once at the price of the next kind. To grow again, and for new
    /// nodes to grow, inserts into that same node must have filled it, which makes 55 bytes an
    /// insert at most (656 bytes after 12 inserts); an insert that splits takes 48.
    pub fn reserve_bound(&self, updates: u64, readers: Option<usize>) -> u64 {
        let size = |bytes| self.memory.block_bytes(bytes) as u64;
        let mut bound = updates * (amortised() + QUEUED.div_ceil(3)); // no node grows more often
        let mut rest = updates;
        for kind in (0..KINDS - 1).rev() {
            let growing = rest.min(self.domain.sum(|c| &c.nodes[kind]));
            bound += growing * (size(BYTES[kind + 1]) + QUEUED);
            rest -= growing;
        }
        let mut sizes = KINDS;
        if let Some(readers) = readers {
            bound += updates * (size(versions::list_bytes(readers + 2)) + QUEUED);
            sizes += readers + 1; // lists have from 2 to readers + 2 versions
        }
        // An update takes one block: a node or a list.
        let sizes = sizes.min(usize::try_from(updates).unwrap_or(sizes));
        bound + bound / 7 + self.memory.slack_bytes(sizes)
    }
}

/// What a retired block takes in the queue, which doubles as it grows.
const QUEUED: u64 = 2 * RETIRED_BYTES as u64;

/// The most bytes per insert for nodes that are new or have grown since the bound was taken.
fn amortised() -> u64 {
    let mut most = BYTES[0] as u64;
    for kind in 1..KINDS {
        // A node of the kind below had two children at first, or one more than the kind before.
        let before = if kind == 1 { 2 } else { CAPACITY[kind - 2] + 1 };
        let inserts = CAPACITY[kind - 1] + 1 - before;
        most = most.max((BYTES[kind] as u64).div_ceil(inserts));
    }
    most
}

impl Drop for Tree {
    fn drop(&mut self) {
        // A memory that is this tree's alone goes as a whole, without a walk over all nodes.
        let goes_too = Arc::get_mut(&mut self.memory).is_some_and(|m| m.frees_all_on_drop());
        if goes_too {
            return;
        }
        let memory = &*self.memory;
        self.domain.collect(memory);
        let mut words = vec![self.slot.load()];
        while let Some(link) = words.pop() {
            let word = link.word();
            if word.is_node() {
                link.node().for_each(|_, child| words.push(child));
                // SAFETY: `&mut self`: no guard is left, and each node hangs on one slot.
                unsafe { node::release(word, memory) };
            } else if word.is_list() {
                // SAFETY: as above.
                unsafe { versions::release_all(word, memory) };
            }
        }
    }
}
