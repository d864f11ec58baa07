//! Opening stores as the command line asks for it.

use std::path::Path;

use thermocline::{CfOptions, ColumnFamily, Db, Error, ErrorKind, Options, limits};

use crate::args::StoreArgs;
use crate::fail::{Failure, Outcome};
use crate::text::{escape, hex};

/// The family that every database has.
pub(crate) const DEFAULT_FAMILY: &str = "default";

/// What a command does to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reads; writes nothing at all.
    Read,
    /// Writes to a store that is there.
    Write,
    /// Writes, and makes the store if there is none.
    Create,
}

impl StoreArgs {
    /// What the database at `path` was last opened with, changed by what was typed, for a command in which nothing expires.
    pub fn options(&self, path: &Path, access: Access) -> Outcome<Options> {
        self.refuse_ttl()?;
        self.typed_options(path, access)
    }

    /// As [`StoreArgs::options`], for the command that tells what is damaged: if nobody can tell what the database was
    /// opened with, only what was typed counts.
    pub fn options_to_verify(&self, path: &Path) -> Outcome<Options> {
        self.refuse_ttl()?;
        let stored = match Db::stored_options(path) {
            Err(error) if error.kind() == ErrorKind::Corruption => None,
            stored => stored?,
        };
        self.changed(stored.unwrap_or_default(), Access::Read)
    }

    fn refuse_ttl(&self) -> Outcome {
        match self.ttl.first() {
            None => Ok(()),
            Some((family, _)) => Err(Failure::Usage(format!(
                "in this command nothing expires; leave out --ttl {family}=…"
            ))),
        }
    }

    fn typed_options(&self, path: &Path, access: Access) -> Outcome<Options> {
        self.changed(Db::stored_options(path)?.unwrap_or_default(), access)
    }

    /// Options with what was typed.
    fn changed(&self, mut options: Options, access: Access) -> Outcome<Options> {
        if let Some(preset) = &self.preset {
            options.set("preset", preset).map_err(Failure::usage)?;
        }
        if let Some(dram) = self.dram {
            options.dram = dram;
        }
        if let Some(pm) = self.pm {
            options.pm = pm;
        }
        if let Some(path) = &self.pm_path {
            options.pm_path = Some(path.clone());
        }
        if let Some(path) = &self.wal_path {
            options.wal_path = Some(path.clone());
        }
        for (name, value) in &self.set {
            options.set(name, value).map_err(Failure::usage)?;
        }
        options.validate().map_err(Failure::usage)?;
        options.read_only = access == Access::Read;
        options.create_if_missing = access == Access::Create;
        Ok(options)
    }

    /// Opens the database at `path`.
    pub fn open(&self, path: &Path, access: Access) -> Outcome<Db> {
        let builder = Db::builder(path).options(self.typed_options(path, access)?);
        let ttls = self.ttl.iter();
        let builder = ttls.fold(builder, |builder, (family, ttl)| builder.ttl(family, *ttl));
        Ok(builder.open()?)
    }
}

/// The column family that `--cf` names; made where the command may do so.
pub(crate) fn family(
    db: &Db,
    path: &Path,
    name: Option<&str>,
    access: Access,
) -> Outcome<ColumnFamily> {
    let name = name.unwrap_or(DEFAULT_FAMILY);
    if access == Access::Create {
        return Ok(db.column_family(name, CfOptions::default())?);
    }
    db.find_column_family(name).ok_or_else(|| {
        Failure::Failed(format!(
            "there is no column family '{name}' in {}; it has {} (put and load make new ones)",
            path.display(),
            db.column_families().join(", ")
        ))
    })
}

/// Refuses a key that is too long, in the library's words: before a database is made for it.
pub(crate) fn check_key(key: &[u8]) -> Outcome {
    let (most, len) = (limits::KEY_LEN_MAX, key.len());
    match len > most {
        true => Err(invalid(format!(
            "a key has at most {most} bytes; this one has {len}"
        ))),
        false => Ok(()),
    }
}

/// Refuses a name that no family can have, in the library's words: before a database is made for it.
pub(crate) fn check_name(name: &str) -> Outcome {
    let (most, len) = (limits::CF_NAME_LEN_MAX, name.len());
    match (1..=most).contains(&len) {
        true => Ok(()),
        false => Err(invalid(format!(
            "the name of a column family has 1 to {most} bytes; this one has {len}"
        ))),
    }
}

fn invalid(what: String) -> Failure {
    Failure::from(Error::InvalidArgument(what))
}

/// Refuses bounds of which the second one comes before the first one in the family's order.
pub(crate) fn check_order(
    family: &ColumnFamily,
    (from, to): (Option<&[u8]>, Option<&[u8]>),
    as_hex: bool,
) -> Outcome {
    let reverse = family.options().reverse == Some(true);
    let (Some(from), Some(to)) = (from, to) else {
        return Ok(());
    };
    if (!reverse && from <= to) || (reverse && from >= to) {
        return Ok(());
    }
    let shown = |key: &[u8]| {
        let mut text = String::new();
        match as_hex {
            true => text = hex(key),
            false => escape(key, &mut text),
        }
        text
    };
    Err(Failure::Usage(format!(
        "the range from '{}' to '{}' ends before it begins: the keys of column family '{}' {}; swap the two",
        shown(from),
        shown(to),
        family.name(),
        if reverse { "descend" } else { "ascend" }
    )))
}
