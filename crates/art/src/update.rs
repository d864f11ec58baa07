//! Writing: finding the place for a key, and the four things that can happen there.
//!
//! A writer descends like a reader, then upgrades the version of the one or two nodes it is going
//! to change; if that fails it begins again. Everything that can fail (reading keys, memory) comes
//! before the first change; the caller's function runs under the lock, right before the change.
//!
//! # Where a key leaves the tree
//! The descent compares only inline bytes, so it may follow a path that the key left long before.
//! Whenever it needs to be sure it reads one key below the node at hand: by N4 any of them tells
//! all the bytes of the path. If that key departs from ours *above* the node, at byte m, the next
//! attempt looks closely at the place that covers m.

use crate::sync::thread;
use thermocline_base::{Error, Result, batch};

use crate::epoch::Guard;
use crate::leaf::fingerprint;
use crate::lock::{Version, VersionLock};
use crate::node::{self, Fresh, Link, Node, Slot};
use crate::source::{KeySource, verified_key};
use crate::tree::Tree;
use crate::versions::{self, Entry, NewEntry, newest};
use crate::word::{END, Kind, Symbol, common, symbol};

/// How an attempt ended.
enum Outcome<'g> {
    /// Done; with what was replaced.
    Done(Option<Entry<'g>>),
    /// A writer interfered.
    Again,
    /// The key left the path at this byte, above the place that was reached.
    Departed(usize),
}

/// A slot, the lock that protects it, and what it held at that lock's version.
#[derive(Clone, Copy)]
struct Edge<'g> {
    lock: &'g VersionLock,
    version: Version,
    slot: &'g Slot,
    link: Link<'g>,
}

/// What the caller makes of the entry that is there. It is not a type parameter of [`Update`], which would then be made anew
/// for each caller.
type Decide<'a, 'g> = &'a mut dyn FnMut(Option<Entry<'g>>) -> Result<Option<NewEntry<'g>>>;

struct Update<'a, 'g, K: ?Sized> {
    tree: &'g Tree,
    guard: &'g Guard<'g>,
    key: &'a [u8],
    keys: &'a K,
    fingerprint: u16,
    /// Called at most once.
    f: Decide<'a, 'g>,
}

impl Tree {
    /// Calls `f` with what the tree has for `key`, under the lock of its place, and stores what `f`
    /// returns; with `None` everything stays as it is. Returns what was replaced.
    ///
    /// `f` is called at most once, and only when nothing else can fail any more. It must not use
    /// the tree, and should be quick: readers of the place wait for it.
    ///
    /// # Errors
    /// Those of `f` and of `keys`; [`thermocline_base::Error::OutOfSpace`] without memory for a
    /// node; [`thermocline_base::Error::InvalidArgument`] for a key longer than
    /// [`thermocline_base::limits::KEY_LEN_MAX`]. The tree is unchanged then.
    ///
    /// # Panics
    /// If `f` returns an entry for another key (by its fingerprint) or a list made for a tree with
    /// other memory, or `guard` is one of another tree.
    pub fn update<'g, K, F>(
        &'g self,
        guard: &'g Guard<'_>,
        key: &[u8],
        keys: &K,
        f: F,
    ) -> Result<Option<Entry<'g>>>
    where
        K: KeySource + ?Sized,
        F: FnOnce(Option<Entry<'g>>) -> Result<Option<NewEntry<'g>>>,
    {
        batch::check_key(key)?;
        let mut f = Some(f);
        let mut once = |present| {
            let f = f.take().expect("an attempt that calls it is the last");
            f(present)
        };
        let mut update = Update {
            tree: self,
            guard,
            key,
            keys,
            fingerprint: fingerprint(key),
            f: &mut once,
        };
        let mut suspect = None;
        loop {
            match update.attempt(suspect)? {
                Outcome::Done(replaced) => return Ok(replaced),
                Outcome::Again => thread::yield_now(),
                // The next attempt splits there, or another writer has and the path goes on
                // elsewhere: a true tree never sends anybody back again.
                Outcome::Departed(at) if suspect.is_some_and(|before| at <= before) => {
                    return Err(contradiction(at));
                }
                Outcome::Departed(at) => suspect = Some(at),
            }
        }
    }
}

/// Two keys on one path that differ before the node they share: one of them has rotted, and its
/// fingerprint happens to fit.
#[cold]
fn contradiction(at: usize) -> Error {
    Error::corruption(
        "two records in one subtree disagree about a key byte that they share",
        "volatile index",
        at as u64,
        "the same byte",
        "different bytes",
    )
}

impl<'g, K: KeySource + ?Sized> Update<'_, 'g, K> {
    /// One descent. `suspect` is a byte at which the key is believed to leave the path.
    fn attempt(&mut self, suspect: Option<usize>) -> Result<Outcome<'g>> {
        let tree = self.tree;
        let version = tree
            .lock
            .read()
            .expect("the root's place is never obsolete");
        let mut edge = Edge {
            lock: &tree.lock,
            version,
            slot: &tree.slot,
            link: tree.root(self.guard),
        };
        let mut base = 0;
        // Whether the path has bytes above `base` that nobody has compared.
        let mut unsure = false;
        while edge.link.is_node() {
            let (node, depth) = (edge.link.node(), edge.link.word().depth());
            let Some(below) = node.lock().read() else {
                return Ok(Outcome::Again);
            };
            if !edge.lock.validate(edge.version) {
                return Ok(Outcome::Again);
            }
            let suspicious = suspect.is_some_and(|at| (base..depth).contains(&at));
            if suspicious || self.key.len() < depth || !node.matches(self.key, base, depth) {
                let (at, theirs) = self.departure(edge.link, (!unsure).then_some(base))?;
                if at < base {
                    return Ok(Outcome::Departed(at));
                }
                if at < depth {
                    return self.split(edge, at, theirs);
                }
                unsure = false;
            } else {
                unsure |= depth - base > node.inline_len();
            }
            let symbol = symbol(self.key, depth);
            let Some((slot, link)) = node.find(symbol) else {
                if unsure {
                    let (at, _) = self.departure(edge.link, None)?;
                    if at < depth {
                        return Ok(Outcome::Departed(at));
                    }
                }
                return self.add(edge, node, below, symbol);
            };
            edge = Edge {
                lock: node.lock(),
                version: below,
                slot,
                link,
            };

            edge.link.prefetch_slots();
            base = depth + 1;
        }
        if !edge.lock.validate(edge.version) {
            return Ok(Outcome::Again);
        }
        self.at_end(edge, base)
    }

    /// Calls the caller's function. The place is locked, nothing else can fail.
    fn decide(&mut self, present: Option<Entry<'g>>) -> Result<Option<NewEntry<'g>>> {
        let new = (self.f)(present)?;
        if let Some(new) = &new {
            let fingerprint = new.fingerprint();
            assert_eq!(fingerprint, self.fingerprint, "an entry for another key");
            assert!(new.fits(&*self.tree.memory), "a list for another tree");
        }
        Ok(new)
    }

    /// Where the key departs from the path of the node at `link`: the first byte that differs, at
    /// most the node's depth, and the symbol that the path has there. All bytes before `sure` are
    /// known to agree; with `None` nothing is known.
    fn departure(&self, link: Link<'g>, sure: Option<usize>) -> Result<(usize, Symbol)> {
        let (node, depth) = (link.node(), link.word().depth());
        if let Some(base) = sure.filter(|base| depth - base <= node.inline_len()) {
            let theirs = |at| node.inline_byte(at, depth);
            let at = (base..depth).find(|&at| self.key.get(at) != Some(&theirs(at)));
            return Ok(at.map_or((depth, END), |at| (at, Symbol::from(theirs(at)) + 1)));
        }
        let other = verified_key(self.keys, newest(link.any_below()))?;
        let at = common(self.key, other).min(depth);
        Ok((at, symbol(other, at)))
    }

    /// The descent has ended at nothing (an empty tree) or at a leaf or list.
    fn at_end(&mut self, edge: Edge<'g>, base: usize) -> Result<Outcome<'g>> {
        if edge.link.is_empty() {
            let Some(_lock) = edge.lock.upgrade(edge.version) else {
                return Ok(Outcome::Again);
            };
            if let Some(new) = self.decide(None)? {
                edge.slot.store(new.publish(self.guard));
                self.guard.count(|c| &c.keys, 1);
            }
            return Ok(Outcome::Done(None));
        }
        let leaf = newest(edge.link);
        if leaf.fingerprint() == self.fingerprint {
            if self.keys.key(leaf)? == self.key {
                return self.replace(edge);
            }
            self.keys.check(leaf)?; // perhaps our own key, rotten into another one
        }
        let other = verified_key(self.keys, leaf)?;
        let at = common(self.key, other);
        if at < base {
            return Ok(Outcome::Departed(at));
        }
        self.split(edge, at, symbol(other, at))
    }

    /// The key is there: its entry may be replaced.
    fn replace(&mut self, edge: Edge<'g>) -> Result<Outcome<'g>> {
        let Some(lock) = edge.lock.upgrade(edge.version) else {
            return Ok(Outcome::Again);
        };
        let present = self.tree.entry(edge.link);
        let Some(new) = self.decide(Some(present))? else {
            return Ok(Outcome::Done(None));
        };
        let shared = new.shared();
        edge.slot.store(new.publish(self.guard));
        drop(lock);
        let word = edge.link.word();
        if word.is_list() {
            // SAFETY: V2: this thread has replaced the list, under the lock; a new one is never the
            // old one, and lists come from the tree's memory (`decide`).
            unsafe { versions::retire(word, shared, self.guard, &*self.tree.memory) };
        }
        Ok(Outcome::Done(Some(present)))
    }

    /// The key departs at byte `at` on the way along `edge`: a new node there gets what the edge
    /// had, which goes on at `theirs`, and the new leaf. What hangs below is not touched.
    fn split(&mut self, edge: Edge<'g>, at: usize, theirs: Symbol) -> Result<Outcome<'g>> {
        let fresh = Fresh::new(&*self.tree.memory, Kind::N4, at, self.key)?;
        let Some(_lock) = edge.lock.upgrade(edge.version) else {
            return Ok(Outcome::Again);
        };
        let Some(new) = self.decide(None)? else {
            return Ok(Outcome::Done(None));
        };
        fresh.node().insert(theirs, edge.link.word());
        let ours = symbol(self.key, at);
        fresh.node().insert(ours, new.publish(self.guard));
        edge.slot.store(fresh.publish(self.guard));
        self.guard.count(|c| &c.keys, 1);
        Ok(Outcome::Done(None))
    }

    /// The node at the end of `edge` has no child at `symbol`: adds one.
    fn add(
        &mut self,
        edge: Edge<'g>,
        node: Node<'g>,
        version: Version,
        symbol: Symbol,
    ) -> Result<Outcome<'g>> {
        if node.is_full() {
            return self.grow(edge, node, version, symbol);
        }
        let Some(_lock) = node.lock().upgrade(version) else {
            return Ok(Outcome::Again);
        };
        if let Some(new) = self.decide(None)? {
            node.insert(symbol, new.publish(self.guard));
            self.guard.count(|c| &c.keys, 1);
        }
        Ok(Outcome::Done(None))
    }

    /// As `add`, for a full node: a copy of the next larger kind takes its place.
    fn grow(
        &mut self,
        edge: Edge<'g>,
        node: Node<'g>,
        version: Version,
        symbol: Symbol,
    ) -> Result<Outcome<'g>> {
        let word = edge.link.word();
        let kind = match word.kind() {
            Kind::N4 => Kind::N16,
            Kind::N16 => Kind::N48,
            Kind::N48 => Kind::N128,
            Kind::N128 | Kind::N256 => Kind::N256,
        };
        // The descent has made sure of the path, so the key tells the node's inline bytes.
        let fresh = Fresh::new(&*self.tree.memory, kind, word.depth(), self.key)?;
        let Some(above) = edge.lock.upgrade(edge.version) else {
            return Ok(Outcome::Again);
        };
        let Some(lock) = node.lock().upgrade(version) else {
            return Ok(Outcome::Again);
        };
        let Some(new) = self.decide(None)? else {
            return Ok(Outcome::Done(None));
        };
        let larger = fresh.node();
        node.for_each(|symbol, link| larger.insert(symbol, link.word()));
        larger.insert(symbol, new.publish(self.guard));
        edge.slot.store(fresh.publish(self.guard));
        self.guard.count(|c| &c.keys, 1);
        lock.obsolete();
        drop(above);
        // SAFETY: the node was replaced by this thread, under its parent's lock and its own, and is now
        // obsolete, so no other writer can replace it again.
        unsafe { node::retire(word, self.guard, &*self.tree.memory) };
        Ok(Outcome::Done(None))
    }
}
