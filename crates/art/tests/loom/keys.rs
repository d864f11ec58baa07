//! Trees for the models: keys of one table, and the calls that models make.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use thermocline_base::Result;

use crate::leaf::Leaf;
use crate::node::Direction;
use crate::slab::Slab;
use crate::source::KeySource;
use crate::sync::thread;
use crate::tree::Tree;

/// Keys; the record of each is its place in the table.
pub(crate) struct Keys(pub(crate) &'static [&'static [u8]]);

impl KeySource for Keys {
    fn key(&self, leaf: Leaf) -> Result<&[u8]> {
        Ok(self.0[number(leaf)])
    }

    fn check(&self, _: Leaf) -> Result<()> {
        panic!("a word of another key, or nonsense");
    }
}

pub(crate) fn number(leaf: Leaf) -> usize {
    usize::try_from(leaf.offset() / 8).unwrap()
}

/// A tree, its memory, and the keys that it may have.
#[derive(Clone)]
pub(crate) struct Indexed {
    pub(crate) tree: Arc<Tree>,
    memory: Arc<Slab>,
    keys: &'static [&'static [u8]],
}

impl Indexed {
    /// A tree with the first `present` of `keys`.
    pub(crate) fn new(keys: &'static [&'static [u8]], present: usize) -> Indexed {
        let memory = Arc::new(Slab::new());
        let tree = Arc::new(Tree::with_memory(Arc::clone(&memory) as _));
        let indexed = Indexed { tree, memory, keys };
        (0..present).for_each(|i| indexed.insert(i));
        indexed
    }

    /// Runs a thread beside this one.
    pub(crate) fn spawn(&self, f: impl FnOnce(&Indexed) + 'static) -> thread::JoinHandle<()> {
        let indexed = self.clone();
        thread::spawn(move || f(&indexed))
    }

    pub(crate) fn insert(&self, i: usize) {
        let key = self.keys[i];
        let leaf = Leaf::of(key, 8 * i as u64);
        let guard = self.tree.pin();
        let replaced = self.tree.update(&guard, key, &Keys(self.keys), |present| {
            assert!(present.is_none());
            Ok(Some(leaf.into()))
        });
        assert!(replaced.unwrap().is_none());
    }

    pub(crate) fn has(&self, i: usize) -> bool {
        let guard = self.tree.pin();
        let found = self.tree.get(&guard, self.keys[i], &Keys(self.keys));
        let found = found.unwrap().map(|entry| number(entry.leaf()));
        assert!(found.is_none_or(|number| number == i));
        found.is_some()
    }

    /// All keys, by number, in the order of a scan.
    pub(crate) fn scan(&self, direction: Direction) -> Vec<usize> {
        let mut seen = Vec::new();
        let guard = self.tree.pin();
        let keys = Keys(self.keys);
        let all = self
            .tree
            .scan(&guard, Bound::Unbounded, direction, &keys, |entry| {
                seen.push(number(entry.leaf()));
                Ok(ControlFlow::Continue(()))
            });
        all.unwrap();
        seen
    }

    /// What must hold when all threads have ended: exactly the first `present` keys are there, and
    /// every block is either part of the tree or back.
    pub(crate) fn end(self, present: usize) {
        for i in 0..self.keys.len() {
            assert_eq!(self.has(i), i < present, "key {i}");
        }
        assert_eq!(self.tree.len(), present as u64);
        self.tree.collect();
        let memory = self.tree.memory();
        let blocks = memory.nodes.iter().sum::<u64>() + memory.lists;
        assert_eq!(self.memory.given_out() as u64, blocks);
        drop(self.tree);
        assert_eq!(self.memory.given_out(), 0);
    }
}
