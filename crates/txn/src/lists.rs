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
    /// What must not change between its moment and its commit, beside the keys that it writes.
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
