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
    /// Where a change of the file ends, if it may be changed and can be so long.
    fn check_end(&self, op: &'static str, end: Option<u64>) -> Result<u64> {
        if !self.writes {
            return Err(no(io::ErrorKind::PermissionDenied, op, &self.path));
        }
        // The limit of real files, which also keeps offsets far from overflow.
        end.filter(|end| *end <= i64::MAX as u64)
            .ok_or_else(|| no(io::ErrorKind::FileTooLarge, op, &self.path))
    }

    /// For a change that needs room up to `end`, or is none.
    fn with_room(
        &self,
        op: &'static str,
        end: Option<u64>,
    ) -> Result<(MutexGuard<'_, State>, u64)> {
        let end = self.check_end(op, end)?;
        let mut state = self.disk.state();
        match state.reach(self.file, end) < end {
            true => Err(self.refuse(op, &mut state)),
            false => Ok((state, end)),
        }
    }

    fn refuse(&self, op: &'static str, state: &mut State) -> Error {
        state.refusals += 1;
        let enospc = io::Error::from_raw_os_error(libc::ENOSPC);
        Error::io(op, &self.path, enospc)
    }

    /// Where the disk ends a kernel writes what fits: of a direct transfer whole units.
    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let end = self.check_end("write", offset.checked_add(bytes.len() as u64))?;
        let mut state = self.disk.state();
        let reach = state.reach(self.file, end);
        let fits = match usize::try_from(reach.saturating_sub(offset)) {
            _ if reach == end => bytes.len(),
            Ok(n) => n - n % self.transfers.unit().unwrap_or(1),
            Err(_) => 0,
        };
        state.inode_mut(self.file).write(&bytes[..fits], offset);
        self.transfers
            .has_written(self.transfers.is_direct(), fits, offset);
        match reach < end {
            true => Err(self.refuse("write", &mut state)),
            false => Ok(()),
        }
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
        let (mut state, _) = self.with_room("set the length of", Some(len))?;
        state.inode_mut(self.file).set_len(len);
        state.reserved.remove(&self.file);
        Ok(())
    }

    /// The file is extended by zeros.
    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let (mut state, end) = self.with_room("reserve space for", offset.checked_add(len))?;
        let inode = state.inode_mut(self.file);
        let end = end.max(inode.live().len);
        inode.set_len(end);
        Ok(())
    }

    /// A crash forgets what was reserved behind the last sync, and brings back what was given back since then.
    fn reserve_behind(&self, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let (mut state, end) = self.with_room("reserve space for", offset.checked_add(len))?;
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
                    state.sync_reserved(self.file);
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
