//! What a flush says about itself.

use std::time::Duration;

use thermocline_base::Error;
use thermocline_base::stages::Stages;
use thermocline_jobs::Outputs;
use thermocline_memtable::Memtable;
use thermocline_observe::count::Count;
use thermocline_observe::event::Event;
use thermocline_version::JobDone;

use crate::flush::along::Along;
use crate::store::Flusher;
use crate::sync::Arc;

/// A flush that has begun, and what it has written.
#[derive(Debug, Clone, Default)]
pub(super) struct Made {
    memtables: usize,
    /// Of them.
    bytes_in: u64,
    because: String,
    /// When it began, in nanoseconds.
    at: u64,
    tables: usize,
    bytes: u64,
    /// Of the tables, those in persistent memory.
    in_pm: usize,
    /// The deepest level of them.
    to: u8,
    bytes_read: u64,
    entries_read: u64,
    entries_dropped: u64,
    stages: Stages,
}

impl Made {
    /// It has written these, too.
    pub fn add(&mut self, outputs: &Outputs, along: &[Along<'_>]) {
        self.tables += outputs.count();
        self.bytes += outputs.bytes;
        self.in_pm += outputs.pm.len();
        self.bytes_read += outputs.bytes_read;
        self.entries_read += outputs.entries_read;
        self.entries_dropped += outputs.dropped;
        self.stages.add(outputs.stages);
        let to = along.iter().map(|along| along.to.0);
        self.to = to.fold(self.to, u8::max);
    }

    /// What its last edit says of it, which comes at this moment.
    pub fn done(&self, (now, unix_s): (u64, u64)) -> JobDone {
        JobDone {
            work: "flush".into(),
            because: self.because.clone(),
            unix_s,
            family: None,
            from: None,
            to: self.to,
            inputs: self.memtables as u64,
            bytes_in: self.bytes_in,
            tables: self.tables as u64,
            tables_in_pm: self.in_pm as u64,
            bytes_read: self.bytes_read,
            bytes_written: self.bytes,
            entries_read: self.entries_read,
            entries_dropped: self.entries_dropped,
            took: Duration::from_nanos(now.saturating_sub(self.at)),
            stages: self.stages,
        }
    }
}

impl Flusher {
    pub(super) fn begin_flush(&self, memtables: &[Arc<Memtable>], because: String) -> Made {
        let homes = memtables.iter().map(|m| m.homes().len()).sum();
        let bytes = memtables.iter().map(|m| m.bytes()).sum();
        self.common.events.emit(Event::FlushBegun {
            memtables: homes,
            bytes,
        });
        self.common.written_since.flush_begins(&self.common.counted);
        Made {
            memtables: homes,
            bytes_in: bytes,
            because,
            at: self.common.now_ns(),
            ..Made::default()
        }
    }

    /// It has written these tables, or failed.
    pub(super) fn end_flush(&self, made: &Made, error: Option<&Error>) {
        // With such a shape every flush is at home there.
        let rewritten = made.in_pm > 0 && !self.common.options.level0.shape().keeps_tables_in_pm();
        if error.is_none() {
            self.common.counted.add(Count::Flushes, 1);
            self.common.counted.add(Count::FlushedBytes, made.bytes);
            if rewritten {
                self.common.counted.add(Count::Rewrites, 1);
                self.common
                    .counted
                    .add(Count::RewrittenBytes, made.bytes_in);
            }
        }
        self.common.events.emit(Event::FlushFinished {
            because: made.because.clone(),
            memtables: made.memtables,
            bytes_in: made.bytes_in,
            tables: made.tables,
            bytes_read: made.bytes_read,
            bytes: made.bytes,
            rewritten,
            took: self.common.since(made.at),
            stages: made.stages,
            error: error.map(ToString::to_string),
        });
    }
}
