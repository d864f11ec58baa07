//! Growth: a full node is replaced by a larger copy while others read it and add to it.
//!
//! Seen to fail when a node grows without its parent's lock, when it is copied before it is locked,
//! and when the old one is released at once. That the old node becomes obsolete and that the descent
//! validates the parent stand in for each other: the models fail only without both.

use crate::check;
use crate::keys::Indexed;
use crate::node::Direction;

/// Four keys fill the smallest node.
const KEYS: &[&[u8]] = &[b"a", b"b", b"c", b"d", b"e", b"f"];

#[test]
fn a_node_grows_under_a_reader() {
    check("a node grows under a reader", 2, || {
        let indexed = Indexed::new(&KEYS[..5], 4);
        let writer = indexed.spawn(|indexed| {
            indexed.insert(4);
            indexed.tree.collect();
        });
        let before = indexed.has(4);
        assert!(indexed.has(0), "a key went away");
        assert!(indexed.has(4) || !before, "a key went away");
        writer.join().unwrap();
        indexed.end(5);
    });
}

#[test]
fn a_node_grows_under_a_scan() {
    check("a node grows under a scan", 3, || {
        let indexed = Indexed::new(&KEYS[..5], 4);
        let writer = indexed.spawn(|indexed| {
            indexed.insert(4);
            indexed.tree.collect();
        });
        let seen = indexed.scan(Direction::Forward);
        assert!(seen == [0, 1, 2, 3] || seen == [0, 1, 2, 3, 4], "{seen:?}");
        writer.join().unwrap();
        indexed.end(5);
    });
}

#[test]
fn a_node_grows_under_another_insert() {
    check("a node grows under another insert", 3, || {
        let indexed = Indexed::new(KEYS, 4);
        let writer = indexed.spawn(|indexed| indexed.insert(4));
        indexed.insert(5);
        writer.join().unwrap();
        indexed.end(6);
    });
}

#[test]
fn a_node_grows_while_a_child_of_it_splits() {
    check("a node grows while a child of it splits", 3, || {
        let indexed = Indexed::new(&[b"a", b"b", b"c", b"d", b"e", b"bb"], 4);
        let writer = indexed.spawn(|indexed| indexed.insert(4));
        indexed.insert(5);
        writer.join().unwrap();
        indexed.end(6);
    });
}

#[test]
fn a_node_grows_while_the_path_to_it_splits() {
    check("a node grows while the path to it splits", 3, || {
        let indexed = Indexed::new(&[b"ka", b"kb", b"kc", b"kd", b"ke", b"x"], 4);
        let writer = indexed.spawn(|indexed| indexed.insert(4));
        indexed.insert(5);
        writer.join().unwrap();
        indexed.end(6);
    });
}

#[test]
fn a_node_grows_under_an_insert_and_a_reader() {
    check("a node grows under an insert and a reader", 1, || {
        let indexed = Indexed::new(KEYS, 4);
        let writers = [4, 5].map(|i| indexed.spawn(move |indexed| indexed.insert(i)));
        assert!(indexed.has(3), "a key went away");
        writers.into_iter().for_each(|w| w.join().unwrap());
        indexed.end(6);
    });
}
