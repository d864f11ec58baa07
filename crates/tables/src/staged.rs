//! What jobs read and write while they work.

use std::sync::Arc;

use thermocline_base::AsyncIo;
use thermocline_env::File;
use thermocline_exec::{Behind, Coming, JobIo};

use crate::file::TableFile;

/// The runtime's reads and writes of jobs, and how many this store lets be under way.
#[derive(Debug)]
pub struct Staged {
    io: Arc<JobIo>,
    /// How reads reach the device.
    way: AsyncIo,
    depth: usize,
}

impl Staged {
    /// With these, in this way, and so many under way.
    pub fn new(io: Arc<JobIo>, way: AsyncIo, depth: usize) -> Staged {
        Staged { io, way, depth }
    }

    /// Sends for bytes of a file, if there is room for that now. The file stays open until they are read.
    pub fn read(&self, file: &TableFile, offset: u64, len: usize) -> Option<Coming> {
        let how = (self.way, self.depth);
        self.io.read(how, file.now().ok()?, offset, len)
    }

    /// A file that was just made, to be written behind whoever writes it.
    pub fn behind(&self, file: Arc<dyn File>) -> Arc<Behind> {
        self.io.behind(file, self.depth)
    }
}
