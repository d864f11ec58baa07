//! An open file of the simulated file system.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_base::sync::MutexGuard;
use thermocline_base::{Error, Result, Site, When};

use super::disk::Disk;
use super::names::FileNo;
use super::state::{State, no};
use crate::direct::Transfers;
use crate::file::File;

#[derive(Debug)]
pub(super) struct SimFile {
    pub(super) disk: Arc<Disk>,
    pub(super) path: PathBuf,
    pub(super) file: FileNo,
    pub(super) writes: bool,
    pub(super) transfers: Transfers,
}

impl SimFile {
    fn writable(&self, op: &'static str, end: Option<u64>) -> Result<MutexGuard<'_, State>> {
        if !self.writes {
            return Err(no(io::ErrorKind::PermissionDenied, op, &self.path));
        }
        // The limit of real files, which also keeps offsets far from overflow.
        if end.is_none_or(|end| end > i64::MAX as u64) {
            return Err(no(io::ErrorKind::FileTooLarge, op, &self.path));
        }
        let mut state = self.disk.state();
        if let (Some(capacity), Some(end)) = (state.capacity, end) {
            let has = state.reserved.get(&self.file).copied().unwrap_or(0);
            let more = end.saturating_sub(has.max(state.inodes[&self.file].live().len));
            if more > 0 && state.used() + more > capacity {
                state.refusals += 1;
                let enospc = io::Error::from_raw_os_error(libc::ENOSPC);
                return Err(Error::io(op, &self.path, enospc));
            }
        }
        Ok(state)
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let end = offset.checked_add(bytes.len() as u64);
        let mut state = self.writable("write", end)?;
        state.inode_mut(self.file).write(bytes, offset);
        self.transfers
            .has_written(self.transfers.is_direct(), bytes.len(), offset);
        Ok(())
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        let left = state.opens.get_mut(&self.file).map(|n| {
            *n -= 1;
            *n
        });
        if left == Some(0) {
            state.opens.remove(&self.file);
            state.forget_unnamed();
        }
    }
}

impl File for SimFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.transfers.check("read", &self.path, buf, offset)?;
        let n = self.disk.state().inodes[&self.file]
            .live()
            .read(buf, offset);
        self.transfers
            .has_read(self.transfers.is_direct(), n, offset);
        Ok(n)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.transfers.check("write", &self.path, bytes, offset)?;
        self.write(bytes, offset)
    }

    fn direct_unit(&self) -> Option<usize> {
        self.transfers.unit()
    }

    fn write_tail(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.transfers.check_tail(&self.path, bytes, offset)?;
        self.transfers.leave_direct();
        self.write(bytes, offset)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.disk.state().inodes[&self.file].live().len)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut state = self.writable("set the length of", Some(len))?;
        state.inode_mut(self.file).set_len(len);
        state.reserved.remove(&self.file);
        state.reserved_durable.remove(&self.file);
        Ok(())
    }

    /// The file is extended by zeros.
    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let end = offset.checked_add(len);
        let mut state = self.writable("reserve space for", end)?;
        let inode = state.inode_mut(self.file);
        let end = end.unwrap_or(0).max(inode.live().len);
        inode.set_len(end);
        Ok(())
    }

    /// A crash forgets what was reserved behind the last sync.
    fn reserve_behind(&self, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let end = offset.checked_add(len);
        let mut state = self.writable("reserve space for", end)?;
        let end = end.unwrap_or(0);
        let has = state.reserved.entry(self.file).or_default();
        *has = end.max(*has);
        Ok(())
    }

    fn sync(&self, site: Site) -> Result<()> {
        self.disk.steps.point(site, When::Before);
        let answer = {
            let mut state = self.disk.state();
            match state.fail_sync.take() {
                Some(how) => {
                    state.inode_mut(self.file).fail_sync(how);
                    let eio = io::Error::from_raw_os_error(libc::EIO);
                    Err(Error::io("sync", &self.path, eio))
                }
                None => {
                    state.inode_mut(self.file).sync();
                    if let Some(&end) = state.reserved.get(&self.file) {
                        state.reserved_durable.insert(self.file, end);
                    }
                    Ok(())
                }
            }
        };
        self.disk.steps.point(site, When::After);
        answer
    }

    fn raw_fd(&self) -> Option<i32> {
        None
    }
}
