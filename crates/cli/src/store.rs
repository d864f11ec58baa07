//! Opening stores as the command line asks for it.

use std::path::Path;
use std::time::Duration;

use thermocline::{CfOptions, ColumnFamily, Db, Error, ErrorKind, Options, limits};

use crate::args::StoreArgs;
use crate::fail::{Failure, Outcome};
use crate::text::{bytes_of, escape, hex, name_shown, names_shown};

/// The family that every database has.
pub(crate) const DEFAULT_FAMILY: &str = "default";

/// What a command does to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reads; writes nothing at all.
    Read,
    /// As [`Access::Read`], again and again: it keeps no writer out meanwhile.
    Watch,
    /// As [`Access::Write`], for the sake of what it does with it. It does without beside somebody who has the store open, and where
    /// nothing can be written.
    Flush,
    /// Writes to a store that is there.
    Write,
    /// Writes, and makes the store if there is none.
    Create,
}

impl Access {
    /// Why it could not be had. Somebody may write so fast that a reader beside him does not keep up just then.
    pub fn failure(self, error: Error) -> Failure {
        let another_way = match (self, error.kind()) {
            (Access::Watch, ErrorKind::Busy)
            | (Access::Watch | Access::Flush, ErrorKind::Locked) => true,
            (Access::Flush, ErrorKind::Io) => may_not_write(&error),
            _ => false,
        };
        match another_way {
            true => Failure::NotNow(error.to_string()),
            false => Failure::from(error),
        }
    }
}

/// Whether the file system takes no writes, or none from this user. What lies there can be read all the same, perhaps.
fn may_not_write(error: &Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    let kinds = [PermissionDenied, ReadOnlyFilesystem];
    matches!(error, Error::Io { source, .. } if kinds.contains(&source.kind()))
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
        let stored = Db::stored_options(path).map_err(|error| access.failure(error));
        self.changed(stored?.unwrap_or_default(), access)
    }

    /// Refuses an option that was typed both with `--set` and by itself: one of the two would be passed over.
    fn refuse_twice(&self) -> Outcome {
        let flags = [
            ("preset", self.preset.is_some()),
            ("dram", self.dram.is_some()),
            ("pm", self.pm.is_some()),
            ("pm_path", self.pm_path.is_some()),
            ("wal_path", self.wal_path.is_some()),
        ];
        let is_set = |flag: &str| self.set.iter().any(|(name, _)| name == flag);
        match flags.iter().find(|(flag, given)| *given && is_set(flag)) {
            None => Ok(()),
            Some((name, _)) => Err(Failure::Usage(format!(
                "{name} is there twice, as --{} and as --set {name}=…; leave one out",
                name.replace('_', "-")
            ))),
        }
    }

    /// Options with what was typed.
    fn changed(&self, mut options: Options, access: Access) -> Outcome<Options> {
        self.refuse_twice()?;
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
        // A preset brings its options along, so it comes before those that are set one by one, wherever it was typed.
        let is_preset = |(name, _): &&(String, String)| name == "preset";
        let (presets, others): (Vec<_>, Vec<_>) = self.set.iter().partition(is_preset);
        for (name, value) in presets.into_iter().chain(others) {
            options.set(name, value).map_err(Failure::usage)?;
        }
        options.validate().map_err(Failure::usage)?;
        options.read_only = matches!(access, Access::Read | Access::Watch);
        options.create_if_missing = access == Access::Create;
        Ok(options)
    }

    /// Opens the database at `path`.
    pub fn open(&self, path: &Path, access: Access) -> Outcome<Db> {
        self.open_making(path, access, None)
    }

    /// Opens the database at `path` for writing, so that it can be flushed; beside somebody who has it open, and where nothing can be
    /// written, for reading.
    pub fn open_to_flush(&self, path: &Path) -> Outcome<Db> {
        match self.open(path, Access::Flush) {
            Err(Failure::NotNow(_)) => self.open(path, Access::Read),
            opened => opened,
        }
    }

    /// As [`StoreArgs::open`], for a command that makes the column family `makes` if there is none.
    pub fn open_making(&self, path: &Path, access: Access, makes: Option<&str>) -> Outcome<Db> {
        // Which families a new database will have is known, so none is made for a name that is wrong.
        let asks = access == Access::Create && !self.ttl.is_empty();
        if asks && Db::stored_options(path)?.is_none() {
            self.check_ttls(path, &[DEFAULT_FAMILY.to_string()], makes)?;
        }
        let db = self.open_unchecked(path, access)?;
        self.check_ttls(path, &db.column_families(), makes)?;
        Ok(db)
    }

    /// Refuses a TTL of a family that is not there: nothing would expire by it.
    fn check_ttls(&self, path: &Path, there: &[String], makes: Option<&str>) -> Outcome {
        let is_known = |name: &str| makes == Some(name) || there.iter().any(|one| one == name);
        match self.ttl.iter().find(|(family, _)| !is_known(family)) {
            None => Ok(()),
            Some((family, _)) => {
                let (family, there) = (name_shown(family), names_shown(there));
                Err(Failure::Failed(format!(
                    "there is no column family '{family}' in {}; it has {there}; mend or leave out --ttl {family}=…",
                    path.display()
                )))
            }
        }
    }

    fn open_unchecked(&self, path: &Path, access: Access) -> Outcome<Db> {
        let builder = Db::builder(path).options(self.typed_options(path, access)?);
        let builder = match access {
            Access::Watch => builder.beside_writers(),
            Access::Read | Access::Flush | Access::Write | Access::Create => builder,
        };
        let ttls = self.ttl.iter();
        let builder = ttls.fold(builder, |builder, (family, ttl)| builder.ttl(family, *ttl));
        // A TTL that none can be is refused before all else.
        let longest = Duration::from_secs(limits::TTL_SECONDS_MAX);
        let mut ttls = self.ttl.iter().map(|(_, ttl)| *ttl);
        let fit = ttls.all(|ttl| !ttl.is_zero() && ttl <= longest);
        builder.open().map_err(|error| match fit {
            true => access.failure(error),
            false => Failure::usage(error),
        })
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
            "there is no column family '{}' in {}; it has {} (put and load make new ones)",
            name_shown(name),
            path.display(),
            names_shown(&db.column_families())
        ))
    })
}

/// The key that an argument stands for; refused if no key is so long, before a database is made for it.
pub(crate) fn key_of(argument: &str, is_hex: bool) -> Outcome<Vec<u8>> {
    let key = bytes_of(argument, is_hex)?;
    limits::check_key(&key).map_err(Failure::usage)?;
    Ok(key)
}

/// The same, where there may be no argument.
pub(crate) fn bound_of(argument: &Option<String>, is_hex: bool) -> Outcome<Option<Vec<u8>>> {
    let key = argument.as_ref().map(|text| key_of(text, is_hex));
    key.transpose()
}

/// Refuses a name that no family can have, before a database is made for it.
pub(crate) fn check_name(name: &str) -> Outcome {
    limits::check_family_name(name).map_err(Failure::usage)
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

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::PathBuf;

    use super::*;

    /// Whoever runs this test may be root, who may write all. So only the decision is looked at.
    #[test]
    fn where_nothing_can_be_written_a_backup_does_without_a_flush() {
        let of = |kind: io::ErrorKind| Error::Io {
            op: "create",
            path: PathBuf::from("db/LOCK"),
            offset: None,
            source: kind.into(),
        };
        for kind in [
            io::ErrorKind::PermissionDenied,
            io::ErrorKind::ReadOnlyFilesystem,
        ] {
            let failure = Access::Flush.failure(of(kind));
            assert!(matches!(failure, Failure::NotNow(_)), "{failure:?}");
            for access in [Access::Read, Access::Watch, Access::Write, Access::Create] {
                let failure = access.failure(of(kind));
                assert!(matches!(failure, Failure::Failed(_)), "{failure:?}");
            }
        }
        let failure = Access::Flush.failure(of(io::ErrorKind::StorageFull));
        assert!(matches!(failure, Failure::Failed(_)), "{failure:?}");
    }
}
