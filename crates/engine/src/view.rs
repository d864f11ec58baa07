//! What readers look at.

use std::sync::Arc;

use thermocline_memtable::Memtable;

/// The memtable generations of a store at one moment, newest first.
#[derive(Debug, Clone)]
pub struct View {
    /// Never empty; the first takes the writes.
    pub memtables: Vec<Arc<Memtable>>,
}

impl View {
    /// This view with a new generation in front.
    pub(crate) fn with(&self, newest: Arc<Memtable>) -> View {
        let mut memtables = Vec::with_capacity(self.memtables.len() + 1);
        memtables.push(newest);
        memtables.extend(self.memtables.iter().cloned());
        View { memtables }
    }
}
