//! Which records an open puts into indexes: those of families that exist.
//!
//! The chains also hold records of families that were dropped; they take room until their zones are
//! released, but no index memory. A record of a family that was never made is corruption: the
//! manifest has lost the edit that made it.

use thermocline_base::planted::{Bug, active};
use thermocline_base::{CfId, Error, Result};
use thermocline_halloc::Space;
use thermocline_pm::PmOff;
use thermocline_version::State;

use crate::prepared::format::is_key;

/// The families by their ids.
#[derive(Debug)]
pub(crate) struct Known {
    /// Whether each id below the next one is that of a family that exists.
    exists: Vec<bool>,
    forgets_drops: bool,
    forgets_metadata: bool,
}

impl Known {
    pub fn of(state: &State) -> Known {
        let exists = |id| u16::try_from(id).is_ok_and(|id| state.families().contains_key(&id));
        Known {
            exists: (0..state.next_ids().cf).map(exists).collect(),
            // Asked here: the threads of a replay are other threads.
            forgets_drops: active(Bug::ReplayForgetsDrops),
            forgets_metadata: active(Bug::ReplayForgetsMetadata),
        }
    }

    /// Whether the record of `key` in family `cf`, which lies at `at`, is to be indexed.
    pub fn admits(&self, space: &Space, at: PmOff, cf: CfId, key: &[u8]) -> Result<bool> {
        let mut owner = Some(cf);
        if cf == CfId::METADATA {
            if is_key(key) {
                return Ok(true);
            }
            owner = CfId::of_metadata_key(key);
        }
        let exists = owner.and_then(|cf| self.exists.get(usize::from(cf.0)));
        let Some(&exists) = exists else {
            return Err(Error::corruption(
                "a record belongs to a column family that the manifest does not know",
                space.region().path().display().to_string(),
                at.0,
                format!("a family below {}", self.exists.len()),
                match owner {
                    Some(cf) => format!("family {}", cf.0),
                    None => "metadata of no family".into(),
                },
            ));
        };
        Ok((exists || self.forgets_drops) && !(self.forgets_metadata && cf == CfId::METADATA))
    }
}

#[cfg(test)]
mod tests;
