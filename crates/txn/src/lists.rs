//! What a transaction has: its writes, its footprint, its locks. In one piece, so that the memory of one that has ended serves
//! the next ([`crate::lane`]).

use std::cell::RefCell;

use crate::footprint::Touched;
use crate::held::Held;
use crate::writes::Writes;

/// The lists of a transaction.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    pub writes: Writes,
    /// What must not change between its moment and its commit, beside what it writes.
    pub touched: RefCell<Touched>,
    pub held: RefCell<Held>,
}

impl Lists {
    /// Has nothing any more; keeps the memory for short lists. All locks were released.
    pub fn clear(&mut self) {
        self.writes.clear();
        self.touched.get_mut().clear();
    }

    /// Bytes of memory that it has while it has nothing.
    pub fn capacity(&self) -> usize {
        self.writes.capacity() + self.touched.borrow().capacity() + self.held.borrow().capacity()
    }
}

#[cfg(test)]
mod tests {
    use thermocline_base::CfId;
    use thermocline_engine::Footprint;

    use super::*;
    use crate::footprint::{OneKey, Span};
    use crate::memory::Memory;
    use crate::writes::Write;

    /// Lists with so many writes and as many keys in the footprint, and a little of all else.
    fn filled(count: u32) -> Lists {
        let mut lists = Lists::default();
        for n in 0..count {
            let name = n.to_be_bytes();
            let key = OneKey::new(CfId(3), &name);
            let value = Write::Value(Some((&[7; 100][..]).into()));
            lists.writes.set(&key, &value).unwrap();
            lists.touched.get_mut().add(&key);
        }
        let span = || Span {
            cf: CfId(3),
            start: vec![0],
            end: None,
        };
        let range = lists.writes.deletion(span()).unwrap();
        lists.writes.delete_range(range);
        lists.touched.get_mut().add_span(span());
        lists
    }

    #[test]
    fn nothing_is_left_but_memory_and_that_is_told() {
        let kept = Memory::new(256 << 20).lists_max();
        for (count, is_kept) in [(1, true), (16, true), (300, false)] {
            let mut lists = filled(count);
            lists.clear();
            let capacity = lists.capacity();
            let bytes = usize::try_from(count).unwrap() * 104;
            assert!(capacity >= bytes, "{capacity} < {bytes}");
            assert_eq!(capacity <= kept, is_kept, "{capacity}");
            let touched = lists.touched.get_mut();
            let key = OneKey::new(CfId(3), &[0; 4]);
            assert!(lists.writes.is_empty() && !lists.writes.has(&key));
            assert!(!lists.writes.covers(CfId(3), b"k") && !touched.has(&key));
            let first = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
            assert_eq!(lists.writes.next(CfId(3), first, true), None);
            assert_eq!(lists.writes.batch().unwrap().len(), 0);
            // No hash, and no range.
            assert!(touched.holds_for_all(&mut |_| false));
        }
    }
}
