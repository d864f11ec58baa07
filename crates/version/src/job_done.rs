//! What was done to tables, and what it took: one entry for each flush and each compaction, told by the edit that ended it.
//!
//! So it is durable with what it speaks of, and a store that was closed, or has crashed, still says what it did last. Nothing
//! is decided on it. What failed has no edit, and is only told to whoever listens to events.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use thermocline_base::CfId;
use thermocline_base::stages::Stages;

/// Jobs that are kept: about 20 KiB of a manifest that begins. *Chosen*: a few minutes of a busy store, and days of a quiet one.
pub const JOBS_KEPT: usize = 128;

/// Bytes of a text about a job; what goes beyond is cut.
pub const TEXT_LEN_MAX: usize = 255;

/// A flush or a compaction that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobDone {
    /// What it was, in a word or two: `flush`, `compact`, `compact in persistent memory`.
    pub work: String,
    /// Why it was done, with the numbers that decided.
    pub because: String,
    /// When it ended, in seconds since the beginning of 1970 (UTC).
    pub unix_s: u64,
    /// The column family of a compaction. `None` for a flush, which is of all of them.
    pub family: Option<CfId>,
    /// The level that tables left; `None` for memtables.
    pub from: Option<u8>,
    /// The deepest level that tables went to.
    pub to: u8,
    /// Memtables that it took, or tables of both levels.
    pub inputs: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Tables that it wrote. None if tables only changed their level, or went.
    pub tables: u64,
    /// Of those, tables in persistent memory.
    pub tables_in_pm: u64,
    /// Bytes that it read of files.
    pub bytes_read: u64,
    /// Bytes of the tables, and of blob files beside them.
    pub bytes_written: u64,
    /// Entries that it read.
    pub entries_read: u64,
    /// Of those, entries that nobody needed.
    pub entries_dropped: u64,
    /// From its beginning until its edit.
    pub took: Duration,
    /// What of that it waited for files.
    pub stages: Stages,
}

impl JobDone {
    /// With texts that are not too long.
    #[must_use]
    pub fn cut(self) -> JobDone {
        JobDone {
            work: cut(self.work),
            because: cut(self.because),
            ..self
        }
    }
}

fn cut(mut text: String) -> String {
    let mut len = text.len().min(TEXT_LEN_MAX);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    text.truncate(len);
    text
}

/// The last [`JOBS_KEPT`] jobs, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobsDone(VecDeque<Arc<JobDone>>);

impl JobsDone {
    /// They, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<JobDone>> {
        self.0.iter()
    }

    /// Adds one, and forgets the oldest if there are too many.
    pub(crate) fn add(&mut self, job: Arc<JobDone>) {
        if self.0.len() == JOBS_KEPT {
            self.0.pop_front();
        }
        self.0.push_back(job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept() {
        let mut jobs = JobsDone::default();
        for n in 0..JOBS_KEPT as u64 + 3 {
            jobs.add(Arc::new(JobDone {
                inputs: n,
                ..JobDone::default()
            }));
        }
        assert_eq!(jobs.iter().count(), JOBS_KEPT);
        assert_eq!(jobs.iter().next().map(|job| job.inputs), Some(3));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let job = JobDone {
            because: "ä".repeat(200),
            ..JobDone::default()
        };
        assert_eq!(job.cut().because, "ä".repeat(127));
    }
}
