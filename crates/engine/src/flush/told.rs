//! What a flush says about itself.

use std::time::Duration;

use thermocline_base::Error;
use thermocline_memtable::Memtable;

use crate::compact::outputs::Outputs;
use crate::events::Event;
use crate::metrics::Count;
use crate::store::Inner;
use crate::sync::Arc;

/// A flush that has begun.
pub(super) struct Begun {
    generations: usize,
    at: u64,
}

/// What a flush has written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Made {
    pub tables: usize,
    pub bytes: u64,
}

impl Made {
    pub fn add(&mut self, outputs: &Outputs) {
        self.tables += outputs.count();
        self.bytes += outputs.bytes;
    }
}

impl Inner {
    pub(super) fn begin_flush(&self, generations: &[Arc<Memtable>]) -> Begun {
        let homes = generations.iter().map(|m| m.homes().len()).sum();
        self.events.emit(Event::FlushBegun {
            generations: homes,
            bytes: generations.iter().map(|m| m.bytes()).sum(),
        });
        Begun {
            generations: homes,
            at: self.now_ns(),
        }
    }

    /// It has written these tables, or failed.
    pub(super) fn end_flush(&self, begun: Begun, made: Made, error: Option<&Error>) {
        let Made { tables, bytes } = made;
        if error.is_none() {
            self.counted.add(Count::Flushes, 1);
            self.counted.add(Count::FlushedBytes, bytes);
        }
        self.events.emit(Event::FlushFinished {
            generations: begun.generations,
            tables,
            bytes,
            took: Duration::from_nanos(self.now_ns().saturating_sub(begun.at)),
            error: error.map(ToString::to_string),
        });
    }
}
