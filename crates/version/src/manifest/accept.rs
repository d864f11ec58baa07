//! What an open for writing accepts becomes durable: edits, pointers, and the name of the live file. Who only reads may learn of
//! what somebody else writes.

use thermocline_base::planted::{Bug, active};
use thermocline_base::{Error, Result};

use super::disk_full::{is_full, out_of_space};
use super::replay::{self, Passed, Replayed};
use super::{Manifest, switch};
use crate::edit::VersionEdit;
use crate::sites;

impl Manifest {
    /// Of one that is only read: what somebody else has said since, as far as it matters to who reads. Nothing is written.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it was opened for writing; [`Error::Corruption`] for what cannot be.
    pub fn learn(&mut self, edit: &VersionEdit) -> Result<()> {
        if !self.read_only {
            return Err(Error::InvalidArgument(
                "a manifest that is written to learns nothing from others".into(),
            ));
        }
        self.state.apply(edit)
    }

    /// Makes everything durable that the open has found (see the crash argument of [`super`]).
    pub(super) fn accept(&mut self, found: &Replayed, passed: &[Passed]) -> Result<()> {
        if found.torn {
            let path = self.file.path();
            let again = replay::replay(&*self.file, self.header.file_no, self.header.db_id)?;
            if (again.len, &again.state) != (self.len, &self.state) {
                return Err(Error::corruption(
                    "two reads of the last record disagree",
                    path.display().to_string(),
                    self.len,
                    self.len,
                    again.len,
                ));
            }
            self.file.set_len(self.len)?;
        }
        for file in passed {
            file.pointer.write_again(&*file.file)?;
            file.file.sync(sites::ACCEPTED_DURABLE)?;
        }
        // The bytes that were checked, not a second reading of them, which could differ.
        if !active(Bug::TrustCacheAfterFailedSync) {
            found.last.write_again(&*self.file)?;
        }
        self.file.sync(sites::ACCEPTED_DURABLE)?;
        self.accept_name()
    }

    /// Makes the name of the live file durable and removes the others, as far as there is room.
    fn accept_name(&mut self) -> Result<()> {
        let others = switch::others(&*self.storage, &self.dir, &self.header)?;
        let has_edits = self.len > self.header.durable_len;
        if has_edits && others.is_empty() {
            return switch::keep_name(&*self.storage, &self.dir);
        }
        match switch::name_live(&*self.storage, &self.dir, &self.header) {
            // Nobody appends to a file that is not reached.
            Err(error) if !error.is_failed_sync() && (has_edits || self.is_reached(&others)) => {
                return Ok(());
            }
            Err(error) if is_full(&error) => self.name_with_reserve()?,
            named => named?,
        }
        if others.is_empty() {
            // Of a database that is new: the first edit says that it has a name.
            return Ok(());
        }
        let state = self.state.clone();
        self.finish_switch(&state)
    }

    /// Whether a pointer of another file names the live one: that switch was made, whatever `CURRENT` says.
    fn is_reached(&self, others: &[u64]) -> bool {
        others.iter().any(|file_no| {
            let next = replay::pointer_of(&*self.storage, &self.dir, *file_no, self.header.db_id);
            next.is_ok_and(|next| next == Some(self.header.file_no))
        })
    }

    /// Writes `CURRENT` once more with the room that is kept for edits: there will be some again.
    fn name_with_reserve(&self) -> Result<()> {
        self.file.set_len(self.len)?;
        let named = switch::name_live(&*self.storage, &self.dir, &self.header);
        named.map_err(|error| match is_full(&error) {
            true => out_of_space(&self.dir, &error),
            false => error,
        })
    }
}
