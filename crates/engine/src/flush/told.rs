//! What a flush says about itself.

use std::time::Duration;

use thermocline_base::Error;
use thermocline_jobs::Outputs;
use thermocline_memtable::Memtable;
use thermocline_observe::count::Count;
use thermocline_observe::event::Event;

use crate::store::Flusher;
use crate::sync::Arc;

/// A flush that has begun.
pub(super) struct Begun {
    memtables: usize,
    bytes: u64,
    at: u64,
}

/// What a flush has written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Made {
    pub tables: usize,
    pub bytes: u64,
    /// Of the tables, those in persistent memory.
    pub in_pm: usize,
}

impl Made {
    pub fn add(&mut self, outputs: &Outputs) {
        self.tables += outputs.count();
        self.bytes += outputs.bytes;
        self.in_pm += outputs.pm.len();
    }
}

impl Flusher {
    pub(super) fn begin_flush(&self, memtables: &[Arc<Memtable>]) -> Begun {
        let homes = memtables.iter().map(|m| m.homes().len()).sum();
        let bytes = memtables.iter().map(|m| m.bytes()).sum();
        self.common.events.emit(Event::FlushBegun {
            memtables: homes,
            bytes,
        });
        Begun {
            memtables: homes,
            bytes,
            at: self.common.now_ns(),
        }
    }

    /// It has written these tables, or failed.
    pub(super) fn end_flush(&self, begun: Begun, made: Made, error: Option<&Error>) {
        let Made {
            tables,
            bytes,
            in_pm,
        } = made;
        // With such a shape every flush is at home there.
        let rewritten = in_pm > 0 && !self.common.options.level0.shape().keeps_tables_in_pm();
        if error.is_none() {
            self.common.counted.add(Count::Flushes, 1);
            self.common.counted.add(Count::FlushedBytes, bytes);
            if rewritten {
                self.common.counted.add(Count::Rewrites, 1);
                self.common.counted.add(Count::RewrittenBytes, begun.bytes);
            }
        }
        self.common.events.emit(Event::FlushFinished {
            memtables: begun.memtables,
            tables,
            bytes,
            rewritten,
            took: Duration::from_nanos(self.common.now_ns().saturating_sub(begun.at)),
            error: error.map(ToString::to_string),
        });
    }
}
