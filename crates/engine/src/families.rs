//! Column families: names for separate key spaces that share generations, batches and seqnos.

use thermocline_base::{CfId, Error, Result, limits};
use thermocline_version::Change;

use crate::store::Engine;
use crate::sync::{lock, read, write};

impl Engine {
    /// The family of this name, if there is one.
    pub fn find_family(&self, name: &str) -> Option<CfId> {
        let families = read(&self.inner.families);
        families.iter().find(|(n, _)| n == name).map(|(_, id)| *id)
    }

    /// The names of all families, in the order in which they were made.
    pub fn families(&self) -> Vec<String> {
        let families = read(&self.inner.families);
        families.iter().map(|(name, _)| name.clone()).collect()
    }

    /// The family of this name, made durably if there is none.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an empty or too long name or too many families; those of a
    /// write.
    pub fn family(&self, name: &str) -> Result<CfId> {
        if let Some(id) = self.find_family(name) {
            return Ok(id);
        }
        let inner = &*self.inner;
        inner.check_writable()?;
        if name.is_empty() || name.len() > limits::CF_NAME_LEN_MAX {
            return Err(Error::InvalidArgument(format!(
                "the name of a column family has 1 to {} bytes; this one has {}",
                limits::CF_NAME_LEN_MAX,
                name.len()
            )));
        }
        // Under the writer's lock, so that two callers do not make it twice.
        let _writer = lock(&inner.writer);
        // Again, since the store may have been closed meanwhile.
        inner.check_writable()?;
        if let Some(id) = self.find_family(name) {
            return Ok(id);
        }
        // What the manifest knows is never newer than what is durable.
        inner.drain()?;
        let next = lock(&inner.manifest).state().next_ids().cf;
        let id = u16::try_from(next)
            .ok()
            .filter(|&id| usize::from(id) < limits::COLUMN_FAMILIES_MAX)
            .ok_or_else(|| {
                Error::InvalidArgument(format!(
                    "a database has at most {} column families in its life",
                    limits::COLUMN_FAMILIES_MAX
                ))
            })?;
        inner.edit(
            Change::ColumnFamilyCreated {
                id,
                name: name.to_string(),
            }
            .into(),
        )?;
        let mut families = write(&inner.families);
        families.push((name.to_string(), CfId(id)));
        Ok(CfId(id))
    }
}
