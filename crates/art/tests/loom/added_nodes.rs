//! Nodes that are added: writers and readers at a place that gets a node it did not have.
//!
//! Seen to fail with a slot's store or load relaxed, with a new node that is filled after its
//! publication, and with faults of the version lock.

use thermocline_testkit::explore;

use crate::check;
use crate::keys::Indexed;
use crate::node::Direction;

#[test]
fn two_first_keys_of_an_empty_tree() {
    check("two writers begin a tree", 3, || {
        let indexed = Indexed::new(&[b"a", b"b"], 0);
        let writer = indexed.spawn(|indexed| indexed.insert(0));
        indexed.insert(1);
        assert!(indexed.has(1), "a writer misses its own key");
        writer.join().unwrap();
        indexed.end(2);
    });
}

#[test]
fn two_writers_split_one_path() {
    // Both leave the path of "lake-a" and "lake-b" above their node, at different bytes.
    check("two writers split a path", 3, || {
        let indexed = Indexed::new(&[b"lake-a", b"lake-b", b"lama", b"sea"], 2);
        let writer = indexed.spawn(|indexed| indexed.insert(2));
        indexed.insert(3);
        writer.join().unwrap();
        assert_eq!(indexed.scan(Direction::Forward), [0, 1, 2, 3]);
        indexed.end(4);
    });
}

#[test]
fn a_reader_beside_a_split() {
    check("a reader beside a split", 3, || {
        let indexed = Indexed::new(&[b"lake-a", b"lake-b", b"lama"], 2);
        let writer = indexed.spawn(|indexed| indexed.insert(2));
        let before = indexed.has(2);
        assert!(indexed.has(0), "a key went away");
        assert!(indexed.has(2) || !before, "a key went away");
        writer.join().unwrap();
        indexed.end(3);
    });
}

#[test]
fn a_scan_beside_a_split() {
    check("a scan beside a split", 3, || {
        let indexed = Indexed::new(&[b"lake-a", b"lake-b", b"lama"], 2);
        let writer = indexed.spawn(|indexed| indexed.insert(2));
        let seen = indexed.scan(Direction::Reverse);
        assert!(seen == [1, 0] || seen == [2, 1, 0], "{seen:?}");
        writer.join().unwrap();
        indexed.end(3);
    });
}

#[test]
fn a_reader_beside_two_splits() {
    // The longest of all models: a plain run has one preemption.
    let preemptions = explore::times().map_or(1, |_| 2);
    check(
        "a reader beside two writers that split a leaf",
        preemptions,
        || {
            let indexed = Indexed::new(&[b"a", b"b", b"c"], 1);
            let writers = [1, 2].map(|i| indexed.spawn(move |indexed| indexed.insert(i)));
            assert!(indexed.has(0));
            writers.into_iter().for_each(|w| w.join().unwrap());
            indexed.end(3);
        },
    );
}
