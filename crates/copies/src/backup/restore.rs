//! Making a database of a backup.

use std::path::Path;

use thermocline_base::progress::{Course, Progress};
use thermocline_base::{Error, Result};
use thermocline_tables::file_name;
use thermocline_version::State;

use super::format::Listed;
use super::{BackupInfo, Backups, bytes_of, check_sum, check_there};
use crate::copy::{Target, behind, copy_file, draw_ids, lies_in};
use crate::paths;

impl Backups {
    /// Makes `dir` a database with the content of backup `id`, or of the newest one. Every byte is checked as it is
    /// copied, and durable on return.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no such backup, the folder has anything but backups, or `dir` is the empty path,
    /// or lies in that folder, or exists and is not empty; [`Error::Corruption`] naming a list or file that is not what was
    /// backed up; [`Error::Locked`], also where somebody reads on what lay in `dir` before; those of the file system. There is no
    /// database in `dir` then.
    pub fn restore(&self, id: Option<u64>, dir: &Path) -> Result<BackupInfo> {
        self.restore_observed(id, dir, &mut |_| {})
    }

    /// As [`Backups::restore`]. `observer` is told how many bytes are copied, of those that the files have by the list.
    ///
    /// # Errors
    /// As [`Backups::restore`].
    pub fn restore_observed(
        &self,
        id: Option<u64>,
        dir: &Path,
        observer: &mut dyn FnMut(Progress),
    ) -> Result<BackupInfo> {
        let dir = paths::absolute(dir, paths::DATABASE)?;
        let _lock = self.lock_shared()?;
        let id = match id.or(self.found()?.lists.last().copied()) {
            Some(id) => id,
            None => {
                let dir = self.given.display();
                let none = format!("there is no backup in {dir}");
                return Err(Error::InvalidArgument(none));
            }
        };
        self.must_have(id)?;
        if lies_in(self.storage(), &dir, &self.dir)? {
            return Err(Error::InvalidArgument(format!(
                "{} lies in the folder of backups {}, in which nothing but backups may lie; choose a folder outside",
                dir.display(),
                self.given.display()
            )));
        }
        let listed = self.read(id)?;
        let target = Target::begin(&self.env.storage, &dir)?;
        let mut course = Course::new(observer);
        match self.fill(&listed, &target, &mut course) {
            Ok(state) => target.complete(state)?,
            Err(error) => return Err(target.withdraw(error)),
        }
        course.finish();
        Ok(BackupInfo::of(&listed))
    }

    fn fill(&self, listed: &Listed, target: &Target, course: &mut Course<'_>) -> Result<State> {
        let names = listed.files.iter();
        let names = names.map(|file| file_name(file.file, file.kind).to_string());
        target.note().record(names)?;
        course.begin(bytes_of(&listed.files));
        for file in &listed.files {
            course.part(file.bytes);
            let from = self.dir.join(file.name());
            check_there(self.storage(), file, &from)?;
            let name = file_name(file.file, file.kind).to_string();
            let to = target.dir().join(name);
            let copied = copy_file(self.storage(), &from, &to, |bytes| {
                course.advance(bytes);
                Ok(())
            })?;
            check_sum(file, &from, copied.bytes, &copied.sums)?;
        }
        let of = &listed.state;
        let (db_id, region_id) = draw_ids(of, &*self.env.random)?;
        let (files, options) = (of.version().clone(), of.options().to_vec());
        behind(of.copied(files, options, db_id, region_id)?, listed.seqno)
    }
}
