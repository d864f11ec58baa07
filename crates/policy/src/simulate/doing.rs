//! What goes on in the background.

use super::merge::Table;
use crate::pick::Held;

/// A flush or a job under way.
#[derive(Debug)]
pub(super) struct Doing {
    /// What it holds; `None` of a flush, which is not in the list of jobs.
    pub holds: Option<Held>,
    /// Bytes that the device has still to move for it, and processor time that it still takes.
    pub device_bytes: f64,
    pub processor_ns: f64,
    pub what: What,
}

impl Doing {
    /// Whether it is a job that keeps the device from others.
    pub fn is_on_device(&self) -> bool {
        self.holds.is_some() && self.device_bytes > 0.0
    }
}

#[derive(Debug)]
pub(super) enum What {
    /// Such memtables are flushed, and those tables take their place, in place of what was taken along.
    Flush {
        memtables: Flushed,
        edits: Vec<Edit>,
    },
    Job(Edit),
}

/// Memtables that are being flushed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flushed {
    /// Persistent memory that they own.
    pub zones: u64,
    /// Their records.
    pub records: u64,
}

/// Tables that go, by level and number, and tables that come.
#[derive(Debug, Default)]
pub(super) struct Edit {
    pub gone: Vec<(usize, u64)>,
    pub come: Vec<(usize, Table)>,
    /// So many of those that come, the first ones, are what stays of some that went.
    pub rests: usize,
    /// What a range takes along.
    pub read: Vec<Table>,
}

impl Edit {
    /// Tables that come to a level, and nothing goes.
    pub fn coming(level: usize, tables: Vec<Table>) -> Edit {
        Edit {
            come: tables.into_iter().map(|table| (level, table)).collect(),
            ..Edit::default()
        }
    }
}
