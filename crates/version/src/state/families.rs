//! The column families that exist.

use std::collections::BTreeMap;

use thermocline_base::limits;

use crate::edit::NextIds;
use crate::impossible::{Impossible, at_least, must};

/// Families, by id and by name, and their options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Families {
    names: BTreeMap<u16, String>,
    ids: BTreeMap<String, u16>,
    /// Of the families that have other options than by default.
    options: BTreeMap<u16, Vec<(String, String)>>,
}

impl Families {
    /// Their names, by id.
    pub fn names(&self) -> &BTreeMap<u16, String> {
        &self.names
    }

    pub fn has(&self, id: u16) -> bool {
        self.names.contains_key(&id)
    }

    pub fn id(&self, name: &str) -> Option<u16> {
        self.ids.get(name).copied()
    }

    /// The options of family `id` that are not as by default, if there are some.
    pub fn options(&self, id: u16) -> Option<&Vec<(String, String)>> {
        self.options.get(&id)
    }

    pub fn create(&mut self, id: u16, name: &str, next: &mut NextIds) -> Result<(), Impossible> {
        let least = next.cf;
        must(
            u32::from(id) >= least,
            "column family id",
            at_least(least),
            id,
        )?;
        // The ids behind are the engine's own.
        let most = limits::COLUMN_FAMILIES_MAX - 1;
        let within = usize::from(id) <= most;
        must(within, "column family id", format!("at most {most}"), id)?;
        let len = name.len();
        let most = limits::CF_NAME_LEN_MAX;
        must(len <= most, "length of a column family's name", most, len)?;
        let twice = self.ids.contains_key(name);
        must(!twice, "column family's name", "one that is free", name)?;
        next.cf = u32::from(id) + 1;
        self.names.insert(id, name.to_string());
        self.ids.insert(name.to_string(), id);
        Ok(())
    }

    pub fn drop(&mut self, id: u16) -> Result<(), Impossible> {
        must(id != 0, "dropped column family", "not the default one", id)?;
        let name = self.names.remove(&id);
        let what = "dropped column family";
        let Some(name) = name else {
            return must(false, what, "one that exists", id);
        };
        self.ids.remove(&name);
        self.options.remove(&id);
        Ok(())
    }

    pub fn set_options(&mut self, id: u16, options: &[(String, String)]) -> Result<(), Impossible> {
        let what = "column family with options";
        must(self.has(id), what, "one that exists", id)?;
        if options.is_empty() {
            self.options.remove(&id);
        } else {
            self.options.insert(id, options.to_vec());
        }
        Ok(())
    }
}
