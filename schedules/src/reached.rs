//! What executions have come to: a workload that never seals checks no seal.

use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_engine::{Event, FilterUse};

/// Counts over all executions of a run. They are the machine's own atomics: no step of an execution.
#[derive(Debug, Default)]
pub struct Reached {
    /// Executions that were begun.
    pub executions: AtomicU64,
    /// Memtables that were sealed.
    pub sealed: AtomicU64,
    /// Memtables that were dropped.
    pub dropped: AtomicU64,
    /// Flushes.
    pub flushed: AtomicU64,
    /// Merges of indexes.
    pub merged: AtomicU64,
    /// Compactions.
    pub compacted: AtomicU64,
    /// Batches that were staged.
    pub staged: AtomicU64,
    /// Batches whose values went into a blob file.
    pub separated: AtomicU64,
    /// Worlds that ended and were recovered from.
    pub crashes: AtomicU64,
    /// Recoveries that cut off an unfinished end, or found records to keep.
    pub kept_or_cut: AtomicU64,
    /// Snapshots that were looked at again later.
    pub looked_again: AtomicU64,
    /// Values that a compaction filter has changed.
    pub filtered: AtomicU64,
    /// Compactions that were done again without it, since somebody read.
    pub undone: AtomicU64,
}

impl Reached {
    /// Counts one more.
    pub fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes what the filters of a store have done.
    pub fn take_filters(&self, did: FilterUse) {
        self.filtered.fetch_add(did.changed, Ordering::Relaxed);
        self.undone.fetch_add(did.undone, Ordering::Relaxed);
    }

    /// Takes an event of a store.
    pub fn take(&self, event: &Event) {
        match event {
            Event::MemtableSealed { .. } => Reached::count(&self.sealed),
            Event::MemtableDropped { .. } => Reached::count(&self.dropped),
            Event::FlushFinished { error: None, .. } => Reached::count(&self.flushed),
            Event::IndexesMerged { .. } => Reached::count(&self.merged),
            Event::CompactionFinished { error: None, .. } => Reached::count(&self.compacted),
            Event::Opened {
                records,
                cut_records,
                after_crash: true,
                ..
            } if records + cut_records > 0 => Reached::count(&self.kept_or_cut),
            _ => {}
        }
    }

    /// All counts, with their names.
    pub fn all(&self) -> [(&'static str, u64); 13] {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("executions", get(&self.executions)),
            ("memtables sealed", get(&self.sealed)),
            ("memtables dropped", get(&self.dropped)),
            ("flushes", get(&self.flushed)),
            ("merges of indexes", get(&self.merged)),
            ("compactions", get(&self.compacted)),
            ("staged batches", get(&self.staged)),
            ("batches with blob files", get(&self.separated)),
            ("crashes", get(&self.crashes)),
            ("crashes that left records", get(&self.kept_or_cut)),
            ("snapshots looked at again", get(&self.looked_again)),
            ("values filtered", get(&self.filtered)),
            ("compactions without a filter", get(&self.undone)),
        ]
    }
}
