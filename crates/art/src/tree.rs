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

    /// An entry with these versions of one key, newest first, for [`Tree::update`] to store. It looks at the tree's memory
    /// alone, so the function that is given to that may call it.
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
    /// makes at most one node, and blocks that it replaces are counted as if guards kept them. Only what an operand
    /// copies that comes later than newer ones (`splice.rs`) is not: for so long both are there.
    ///
    /// Each node there is may grow once at the price of the next kind. To grow again, and for new
    /// nodes to grow, inserts into that same node must have filled it, which makes 55 bytes an
    /// insert at most (656 bytes after 12 inserts); an insert that splits takes 48.
    pub fn reserve_bound(&self, updates: u64, readers: Option<usize>) -> u64 {
        let mut reckoning = Reckoning::new(0, readers);
        reckoning.add(self, updates);
        reckoning.bytes(&*self.memory)
    }

    /// The most bytes for nodes there are that so many updates may make grow. With each further
    /// update the bound rises by no more than with the one before.
    fn growth(&self, nodes: &[u64; KINDS], updates: u64) -> u64 {
        let (mut bound, mut rest) = (0, updates);
        for kind in (0..KINDS - 1).rev() {
            let growing = rest.min(nodes[kind]);
            bound += growing * grown(&*self.memory, kind + 1);
            rest -= growing;
        }
        bound
    }
}

/// What updates of several trees of one memory may take together: [`Tree::reserve_bound`] is that
/// of one tree, and has the argument for what a tree takes. While they are made only they change
/// the trees.
///
/// # Updates that may be anywhere
/// Of some updates it is known how many there are, and of which trees, but not how many of which.
/// What new nodes and lists take depends on the number of updates alone. Of nodes that grow each tree
/// may have as many as if all of those updates were its own; and each of them makes one node grow at
/// most, to the largest kind: the smaller of both is enough.
///
/// # Memory in pieces
/// Blocks of one size are of one class, whatever tree they are of. So a new chunk per class, and an
/// extent, are enough for all trees together.
///
/// # How long lists are
/// Never longer than readers plus two. And where whoever updates *in groups* makes one version of a
/// key at most in each group that stays, because nobody reads at a moment within a group, a list is
/// longer than the longest that there was by one for each group at most.
#[derive(Debug, Clone, Copy)]
pub struct Reckoning {
    /// Updates that may be of any of the trees, and those of known ones.
    anywhere: u64,
    updates: u64,
    readers: Option<usize>,
    /// Groups, if they bound lists.
    groups: Option<usize>,
    /// Versions of the longest list.
    longest: usize,
    /// For nodes that grow: if what may be anywhere is in every tree, and without that.
    everywhere: u64,
    own: u64,
}

impl Reckoning {
    /// Of `anywhere` updates that may be of any of the trees that are added; `readers` as for
    /// [`Tree::reserve_bound`].
    pub fn new(anywhere: u64, readers: Option<usize>) -> Reckoning {
        Reckoning {
            anywhere,
            updates: 0,
            readers,
            groups: None,
            longest: 1,
            everywhere: 0,
            own: 0,
        }
    }

    /// The updates are of `groups` groups at most, and none has an operand (see above).
    #[must_use]
    pub fn in_groups(mut self, groups: usize) -> Reckoning {
        self.groups = Some(groups.max(1));
        self
    }

    /// So many updates of this tree more.
    pub fn add(&mut self, tree: &Tree, updates: u64) {
        let nodes: [u64; KINDS] = std::array::from_fn(|kind| tree.domain.sum(|c| &c.nodes[kind]));
        let longest = usize::try_from(tree.domain.longest_list()).unwrap_or(usize::MAX);
        self.longest = self.longest.max(longest);
        self.updates += updates;
        self.everywhere += tree.growth(&nodes, updates + self.anywhere);
        self.own += tree.growth(&nodes, updates);
    }

    /// The most bytes, of live and retained memory together, that all of it takes of the `memory` that
    /// the trees have.
    pub fn bytes(&self, memory: &dyn NodeMemory) -> u64 {
        let updates = self.updates + self.anywhere;
        if updates == 0 {
            return 0;
        }
        let growing = self.own + self.anywhere * grown(memory, KINDS - 1);
        let mut bound = updates * (amortised() + QUEUED.div_ceil(3)); // no node grows more often
        bound += growing.min(self.everywhere);
        let mut sizes = KINDS;
        if let Some(readers) = self.readers {
            let by_groups = self.groups.map(|n| self.longest.saturating_add(n));
            let most = by_groups.unwrap_or(usize::MAX).min(readers + 2);
            let list = memory.block_bytes(versions::list_bytes(most)) as u64;
            bound += updates * (list + QUEUED);
            sizes += most - 1; // lists have from 2 versions to so many
        }
        // An update takes one block: a node or a list.
        let sizes = sizes.min(usize::try_from(updates).unwrap_or(sizes));
        bound + bound / 7 + memory.slack_bytes(sizes, bound)
    }
}

/// What a node takes that grows to this kind, while the one before waits for guards.
fn grown(memory: &dyn NodeMemory, kind: usize) -> u64 {
    memory.block_bytes(BYTES[kind]) as u64 + QUEUED
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
