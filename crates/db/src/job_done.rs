//! A flush or a compaction that has ended.

use std::time::{Duration, SystemTime};

use thermocline_engine::Stages;

/// A flush or a compaction that has ended: an entry of [`Db::jobs_done`](crate::Db::jobs_done).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobDone {
    /// What it was: `flush`, `compact`, `compact in persistent memory`, `move` (tables changed their level unread), or
    /// `drop` (tables went unread, since all that they had was deleted or had expired).
    pub work: String,
    /// Why it was done, with the numbers that decided: the words of `explain`.
    pub because: String,
    /// When it ended, by the clock of the machine, to the second.
    pub ended: SystemTime,
    /// The name of the column family of a compaction. `None` for a flush, which is of all of them; for a
    /// family that was dropped since; and for the hidden one, which has the metadata of batches.
    pub family: Option<String>,
    /// The level that tables left. `None` for a flush, which takes memtables.
    pub from: Option<usize>,
    /// The deepest level that tables went to.
    pub to: usize,
    /// Memtables that a flush took, or tables that a compaction took, of both levels.
    pub inputs: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Tables that it wrote.
    pub tables: u64,
    /// Of those, tables in persistent memory.
    pub tables_in_pm: u64,
    /// Bytes that it read of files.
    pub bytes_read: u64,
    /// Bytes of the tables, and of the blob files beside them.
    pub bytes_written: u64,
    /// Entries that it read.
    pub entries_read: u64,
    /// Of those, entries that nobody needed.
    pub entries_dropped: u64,
    /// From its beginning until the edit of the manifest that ended it.
    pub took: Duration,
    /// What of that it waited for files.
    pub stages: Stages,
}

impl JobDone {
    /// One of the engine's, and its family's name.
    pub(crate) fn of((job, family): (&thermocline_engine::JobDone, Option<String>)) -> JobDone {
        JobDone {
            work: job.work.clone(),
            because: job.because.clone(),
            ended: SystemTime::UNIX_EPOCH + Duration::from_secs(job.unix_s.min(SECONDS_MAX)),
            family,
            from: job.from.map(usize::from),
            to: usize::from(job.to),
            inputs: job.inputs,
            bytes_in: job.bytes_in,
            tables: job.tables,
            tables_in_pm: job.tables_in_pm,
            bytes_read: job.bytes_read,
            bytes_written: job.bytes_written,
            entries_read: job.entries_read,
            entries_dropped: job.entries_dropped,
            took: job.took,
            stages: job.stages,
        }
    }
}

/// A time that every system can add to 1970: about the year 10,000.
const SECONDS_MAX: u64 = 250_000_000_000;
