//! What readers look at.

use std::sync::Arc;

use thermocline_memtable::Memtable;

use crate::tables::Tables;

/// The memtable generations of a store and the tables below them, at one moment.
#[derive(Debug, Clone)]
pub struct View {
    /// Newest first. Never empty; the first takes the writes.
    pub memtables: Vec<Arc<Memtable>>,
    /// Older than all memtables, but for what a table and a generation that is on its way out both
    /// have (see `flush`).
    pub(crate) tables: Arc<Tables>,
}

impl View {
    /// This view with a new generation in front.
    pub(crate) fn with(&self, newest: Arc<Memtable>) -> View {
        let mut memtables = Vec::with_capacity(self.memtables.len() + 1);
        memtables.push(newest);
        memtables.extend(self.memtables.iter().cloned());
        self.with_memtables(memtables)
    }

    /// These generations over the same tables.
    pub(crate) fn with_memtables(&self, memtables: Vec<Arc<Memtable>>) -> View {
        View {
            memtables,
            tables: self.tables.clone(),
        }
    }

    /// The same generations over these tables.
    pub(crate) fn over(&self, tables: Arc<Tables>) -> View {
        View {
            memtables: self.memtables.clone(),
            tables,
        }
    }
}
