//! Huge pages: how much of a region has them.
//!
//! A region is aligned as they must be, so it has them wherever its file has: on devices that give them (DAX), and in memory on
//! a `tmpfs` that is mounted with `huge=always`. It does not ask for more than that; decision 147 says what that gains and costs.

use std::path::Path;

use thermocline_base::size::index;
use thermocline_env::OpenMode;

use super::{Backend, Region};

impl Region {
    /// Bytes of it that this process reaches through huge pages; touches every page of a file to find out. `None` where the
    /// system does not say, and of a copy, whose memory is not the region's.
    pub fn huge_bytes(&self) -> Option<u64> {
        if matches!(self.inner.backend, Backend::Copied(_)) {
            return None;
        }
        let map = self.inner.map.as_ref()?;
        if self.inner.file.is_some() {
            map.populate(0, index(self.len()), false);
        }
        let storage = &self.inner.env.storage;
        let file = storage
            .open(Path::new("/proc/self/smaps"), OpenMode::Read)
            .ok()?;
        let mut mappings = Vec::new();
        let mut some = vec![0; 64 << 10];
        loop {
            match file.read_at(&mut some, mappings.len() as u64).ok()? {
                0 => break,
                n => mappings.extend_from_slice(&some[..n]),
            }
        }
        Some(map.huge_bytes(&String::from_utf8_lossy(&mappings)))
    }
}
