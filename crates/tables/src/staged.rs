//! What jobs read and write while they work.

use std::sync::Arc;

use thermocline_base::{AsyncIo, Result, Scheduler};
use thermocline_env::File;
use thermocline_exec::{Behind, Closing, Coming, JobIo, RangeBuf, Turn};

use crate::file::TableFile;

/// The runtime's reads and writes of jobs, and how many this store lets be under way.
#[derive(Debug)]
pub struct Staged {
    io: Arc<JobIo>,
    /// How reads reach the device.
    way: AsyncIo,
    depth: usize,
    /// Whether a job sends for what it will read before it needs that, and goes on while it is written.
    ahead: bool,
    /// Coroutines of a job, at most.
    pub coroutines: usize,
}

impl Staged {
    /// Of a store with this scheduler, whose reads reach the device in this way; so many may be under way, and a job has so many coroutines.
    /// `None` if a job waits for each of its reads and writes.
    pub fn new(
        io: Arc<JobIo>,
        scheduler: Scheduler,
        way: AsyncIo,
        (depth, coroutines): (usize, usize),
    ) -> Option<Staged> {
        let ahead = match scheduler {
            Scheduler::Threads => return None,
            Scheduler::Coroutines => false,
            Scheduler::Stages => true,
        };
        Some(Staged {
            io,
            way,
            // Only stages have a budget.
            depth: if ahead { depth } else { usize::MAX },
            ahead,
            coroutines,
        })
    }

    /// Whether a job sends for what it will read before it needs that, and goes on while it is written. Else its coroutines wait, if
    /// it has more than one.
    pub fn is_ahead(&self) -> bool {
        self.ahead
    }

    /// Decides now in which way reads ahead are made, as the first one would.
    pub fn decide_io(&self) {
        if self.ahead {
            self.io.decide(self.way);
        }
    }

    /// Sends for bytes of a file, if there is room for that now. The file stays open until they are read.
    pub fn read(&self, file: &TableFile, offset: u64, len: usize) -> Option<Coming> {
        let how = (self.way, self.depth);
        self.io.read(how, file.now().ok()?, offset, len)
    }

    /// Makes a read that a job waits for; there are fewer bytes only where the file ends.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read_now(&self, file: &TableFile, offset: u64, len: usize) -> Result<RangeBuf> {
        self.io.read_now(file, offset, len)
    }

    /// A file that was just made, to be written behind whoever writes it: before others if somebody waits for it, else when there is room.
    /// `None` if that waits for each write by itself: with coroutines, unless a job is `divided`.
    pub fn behind(&self, file: &Arc<dyn File>, how: Writes) -> Option<Arc<Behind>> {
        let turn = match (self.ahead, how) {
            (true, Writes::Urgent) => Turn::First,
            (true, _) => Turn::Within(self.depth),
            (false, Writes::Divided) => Turn::Now,
            (false, _) => return None,
        };
        Some(self.io.behind(file.clone(), turn))
    }
}

/// How files of the store are written that no edit names yet. Once the store is being closed, nobody waits for them.
#[derive(Debug)]
pub struct NewFiles {
    io: Arc<JobIo>,
    closing: Arc<Closing>,
    /// `None` where a job waits for each of its reads and writes.
    staged: Option<Staged>,
}

impl NewFiles {
    /// Those of a store. The arguments are those of [`Staged::new`].
    pub fn new(
        io: Arc<JobIo>,
        scheduler: Scheduler,
        way: AsyncIo,
        most: (usize, usize),
    ) -> NewFiles {
        NewFiles {
            staged: Staged::new(io.clone(), scheduler, way, most),
            closing: Arc::default(),
            io,
        }
    }

    /// What jobs read and write with, while they work.
    pub fn staged(&self) -> Option<&Staged> {
        self.staged.as_ref()
    }

    /// A file that was just made. Who writes or syncs it finds the store closed from [`NewFiles::close`] on, even if a sync is
    /// under way then.
    pub fn begin(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        self.io.until_closed(file, &self.closing)
    }

    /// The same, of a job whose writes are these; and what is behind it, if it is written behind the job.
    pub fn begin_of_job(
        &self,
        file: Arc<dyn File>,
        writes: Writes,
    ) -> (Arc<dyn File>, Option<Arc<Behind>>) {
        let file = self.begin(file);
        let staged = self.staged.as_ref();
        let behind = staged.and_then(|staged| staged.behind(&file, writes));
        let file: Arc<dyn File> = match &behind {
            Some(behind) => behind.clone(),
            None => file,
        };
        (file, behind)
    }

    /// The store is being closed.
    pub fn close(&self) {
        self.closing.begin();
    }
}

/// Whose writes they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Writes {
    /// Those of a job for which nobody waits.
    #[default]
    Whole,
    /// Those of a part of such a job.
    Divided,
    /// Those of a job for which writers wait.
    Urgent,
}
