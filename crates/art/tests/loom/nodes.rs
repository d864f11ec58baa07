//! Publication: who finds a child in a node sees the whole child, and under no other key.
//!
//! The reader takes no version and validates nothing: in the tree it would, but invariant N3 is
//! stronger, and `any_below` and the seeks of scans lean on it.
//!
//! Seen to fail with the meta word's load or store relaxed, and with key bytes written after the meta
//! word. (A slot that is filled after it was counted does no harm here, since an empty slot is taken
//! for an absent child; models of the tree notice.)

use std::sync::Arc;

use crate::check;
use crate::epoch::Domain;
use crate::leaf::Leaf;
use crate::node::{Fresh, Slot, Window};
use crate::slab::Slab;
use crate::sync::thread;
use crate::word::{Kind, Symbol, Word, symbol};

/// A node in the root's place.
struct Rooted {
    domain: Domain,
    memory: Slab,
    root: Slot,
}

fn leaf(key: u8) -> Leaf {
    Leaf::new(u64::from(key) << 3)
}

/// The child for a key byte: a node with one leaf, which is that byte's again.
fn child(rooted: &Rooted, key: u8) -> Word {
    let fresh = Fresh::new(&rooted.memory, Kind::N4, 1, &[key]).unwrap();
    fresh
        .node()
        .insert(symbol(&[key, key], 1), Word::of_leaf(leaf(key)));
    fresh.publish(&rooted.domain.pin())
}

impl Rooted {
    fn new(kind: Kind) -> Rooted {
        let (domain, memory) = (Domain::new(), Slab::new());
        let fresh = Fresh::new(&memory, kind, 0, b"").unwrap();
        let root = Slot::new(fresh.publish(&domain.pin()));
        let rooted = Rooted {
            domain,
            memory,
            root,
        };
        rooted.insert(b'm'); // a node has children
        rooted
    }

    fn insert(&self, key: u8) {
        let node = self.root.load().node();
        let version = node.lock().read().unwrap();
        let _lock = node.lock().upgrade(version).unwrap();
        node.insert(symbol(&[key], 0), child(self, key));
    }

    /// Whether a reader finds the child of a key byte; it must be whole then.
    fn has(&self, key: u8) -> bool {
        let found = self.root.load().node().find(symbol(&[key], 0));
        found.is_some_and(|(_, link)| {
            let (_, below) = link.node().find(symbol(&[key, key], 1)).expect("its leaf");
            assert_eq!(below.word().leaf(), leaf(key));
            true
        })
    }

    /// The symbols that a scan sees, each with its own child.
    fn all(&self) -> Vec<Symbol> {
        let mut window = Window::all();
        self.root.load().node().fill(&mut window);
        let see = |&(symbol, link): &(Symbol, _)| {
            let link: crate::node::Link<'_> = link;
            let below = link.any_below().word().leaf().offset() / 8;
            assert_eq!(u64::from(symbol), below + 1);
            symbol
        };
        window.items().iter().map(see).collect()
    }
}

fn insert_beside_readers(name: &str, kind: Kind) {
    check(name, 3, move || {
        let rooted = Arc::new(Rooted::new(kind));
        let writer = {
            let rooted = Arc::clone(&rooted);
            thread::spawn(move || {
                rooted.insert(b'z');
                rooted.insert(b'a');
            })
        };
        assert!(!rooted.has(0), "key bytes that are still to come are zeros");
        let later = rooted.has(b'a');
        assert!(rooted.has(b'z') || !later, "the second without the first");
        let seen = rooted.all();
        assert!(seen.is_sorted() && seen.contains(&symbol(b"m", 0)));
        writer.join().unwrap();
        assert_eq!(rooted.all(), [b"a", b"m", b"z"].map(|key| symbol(key, 0)));
    });
}

#[test]
fn a_child_of_the_smallest_node_is_seen_whole_or_not_at_all() {
    insert_beside_readers("publication in a node of 4", Kind::N4);
}

#[test]
fn a_child_of_a_node_with_16_slots_is_seen_whole_or_not_at_all() {
    insert_beside_readers("publication in a node of 16", Kind::N16);
}

#[test]
fn a_child_of_an_indexed_node_is_seen_whole_or_not_at_all() {
    insert_beside_readers("publication in a node of 48", Kind::N48);
}
