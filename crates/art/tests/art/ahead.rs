//! Records that a scan asks for before they are visited.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicUsize, Ordering};

use thermocline_art::{Direction, KeySource, Leaf, Tree};
use thermocline_base::Result;

use crate::records::Records;

/// Counts what is asked for.
struct Asked {
    records: Records,
    ahead: Option<usize>,
    asked: AtomicUsize,
}

impl KeySource for Asked {
    fn key(&self, leaf: Leaf) -> Result<&[u8]> {
        self.records.key(leaf)
    }

    fn prefetch(&self, _leaf: Leaf) {
        self.asked.fetch_add(1, Ordering::Relaxed);
    }

    fn ahead(&self) -> usize {
        // As a source has it that says nothing of it.
        self.ahead.unwrap_or_else(|| self.records.ahead())
    }

    fn check(&self, leaf: Leaf) -> Result<()> {
        self.records.check(leaf)
    }
}

#[test]
fn a_scan_goes_as_far_ahead_as_its_source_wants() {
    let keys = (0..200u8).map(|n| vec![n]).collect();
    let mut source = Asked {
        records: Records::new(keys),
        ahead: None,
        asked: AtomicUsize::new(0),
    };
    let tree = Tree::new();
    let guard = tree.pin();
    for key in 0..200 {
        let leaf = source.records.leaf(key, 0);
        let inserted = tree.update(&guard, &source.records.keys[key], &source, |_| {
            Ok(Some(leaf.into()))
        });
        inserted.unwrap();
    }
    for (ahead, beyond) in [(None, 7), (Some(1), 0), (Some(3), 2), (Some(0), 0)] {
        source.ahead = ahead;
        for direction in [Direction::Forward, Direction::Reverse] {
            source.asked = AtomicUsize::new(0);
            let mut visited = 0;
            let scanned = tree.scan(&guard, Bound::Unbounded, direction, &source, |_| {
                visited += 1;
                Ok(match visited {
                    50 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                })
            });
            scanned.unwrap();
            let asked = source.asked.load(Ordering::Relaxed);
            assert_eq!((visited, asked), (50, 50 + beyond), "{ahead:?}");
        }
    }
}
