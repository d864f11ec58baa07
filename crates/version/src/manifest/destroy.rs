//! The end of a manifest: how it is known that a database is being destroyed, and how its last files go.
//!
//! # Vocabulary
//! A database is **doomed** once `CURRENT` is called [`DESTROYING`](format::DESTROYING): the *mark*. It has the same bytes, so
//! the manifest can still be read, and with it what there was and where. But there is no `CURRENT`, so there is no database,
//! whatever else is left.
//!
//! # The crash argument
//!
//! | step | durable after it |
//! |---|---|
//! | rename `CURRENT` to the mark, sync the folder | the mark, and all that it leads to: there is no database any more |
//! | the caller removes what the manifest names, and syncs that | that all of it is gone |
//! | remove the manifest that the mark names, sync the folder | the same, without the manifest |
//! | remove the other manifests and `CURRENT.tmp`, sync the folder | nothing is left but the mark |
//! | remove the mark, sync the folder | nothing is left |
//!
//! *A crash within the first step* leaves `CURRENT` or the mark: the database as it was, or a doomed one of which all is there.
//!
//! *A crash within the second* leaves the mark and the manifest. Whoever calls again reads the same state, so it looks for the
//! same files in the same places, and passes over those that are gone.
//!
//! *A crash behind the third* leaves a mark that names a manifest which is missing. That is made by this step alone, so it says
//! that what the manifest has named is gone. The manifest which the mark names goes first, because pointers may lead from it to
//! others: without one of those it could not be read, and would still be there.
//!
//! *A crash within the last* leaves the mark or nothing.
//!
//! *After a sync that failed* nobody knows what is durable (`env`, promise 4). If the mark is lost with the power, `CURRENT` is
//! back, and it names a manifest from which files are missing. An open refuses that; destroying it begins anew.
//!
//! # Whose a file is
//! A mark that does not read as a `CURRENT`, with its checksum, is a stranger's, and so is a manifest or `CURRENT.tmp` with the
//! id of another database. What cannot be read of those is ours only if a crash may have left it (as for every switch).

use std::io::ErrorKind::{InvalidInput, PermissionDenied};
use std::path::Path;
use std::sync::Arc;

use thermocline_base::{Error, Result};
use thermocline_env::{File, OpenMode, Storage};

use super::replay;
use crate::format::{self, Header, Unreadable};
use crate::sites;
use crate::state::State;

/// A database that is to be destroyed, or is being destroyed. Whoever has one holds the folder's lock.
#[derive(Debug)]
pub struct Doomed {
    /// The database.
    pub db_id: [u8; 16],
    /// What its manifest says; none where that has gone, and with it all that it named.
    pub state: Option<State>,
    /// Whether an earlier call has begun to destroy it.
    pub is_begun: bool,
}

impl Doomed {
    /// Whether there is a database in `dir` no more, because somebody has begun to destroy it.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn was_begun(storage: &dyn Storage, dir: &Path) -> Result<bool> {
        let is_database = storage.exists(&dir.join(format::CURRENT))?;
        Ok(!is_database && marked(storage, dir)?.is_some())
    }

    /// The database in `dir`, or what is left of it; `None` if there is neither. Writes nothing.
    ///
    /// # Errors
    /// [`Error::Corruption`] and [`Error::Unsupported`] of the manifest; those of the storage.
    pub fn find(storage: &dyn Storage, dir: &Path) -> Result<Option<Doomed>> {
        let is_begun = Doomed::was_begun(storage, dir)?;
        let current = match is_begun {
            true => format::DESTROYING,
            false => format::CURRENT,
        };
        let path = dir.join(current);
        if !storage.exists(&path)? {
            return Ok(None);
        }
        let (file_no, db_id) = replay::read_current(storage, &path)?;
        let named = dir.join(format::manifest_name(file_no));
        let state = match is_begun && !storage.exists(&named)? {
            true => None,
            false => {
                let found = replay::find_live(storage, (dir, current), OpenMode::Read)?;
                Some(found.1.state)
            }
        };
        Ok(Some(Doomed {
            db_id,
            state,
            is_begun,
        }))
    }

    /// The first step: from now on there is no database, durably.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if a stranger's file has the name of the mark; those of the storage. Whoever calls again
    /// finds what there is.
    pub fn begin(&self, storage: &dyn Storage, dir: &Path) -> Result<()> {
        let mark = dir.join(format::DESTROYING);
        if !self.is_begun {
            // A second name of `CURRENT`, where the file system has no rename that replaces nothing.
            if storage.exists(&mark)? {
                if marked(storage, dir)?.is_none_or(|(_, db_id)| db_id != self.db_id) {
                    return Err(Error::InvalidArgument(format!(
                        "{} is no file of the database's, and destroying the database needs the name; move it away",
                        mark.display()
                    )));
                }
                storage.remove(&mark)?;
            }
            storage.rename_new(&dir.join(format::CURRENT), &mark)?;
        }
        // By an earlier call it may have been renamed and not synced.
        storage.sync_dir(dir, sites::SWITCH_DURABLE)
    }

    /// The last steps: removes manifests and mark. It was begun, and what the manifest names is gone, durably.
    ///
    /// # Errors
    /// Those of the storage. Whoever calls again finds what there is.
    pub fn finish(&self, storage: &dyn Storage, dir: &Path) -> Result<()> {
        let mark = dir.join(format::DESTROYING);
        let (file_no, _) = replay::read_current(storage, &mark)?;
        let named = dir.join(format::manifest_name(file_no));
        // Where it is there, `find` has read it, so it is ours.
        if self.state.is_some() && storage.exists(&named)? {
            storage.remove(&named)?;
        }
        storage.sync_dir(dir, sites::SWITCH_DURABLE)?;
        for name in storage.list(dir)? {
            let path = dir.join(&name);
            let goes = match format::manifest_no(&name) {
                Some(_) => self.is_own_manifest(storage, &path)?,
                None => name == format::CURRENT_TEMP && self.is_own_temp(storage, &path)?,
            };
            if goes {
                storage.remove(&path)?;
            }
        }
        storage.sync_dir(dir, sites::SWITCH_DURABLE)?;
        storage.remove(&mark)?;
        storage.sync_dir(dir, sites::SWITCH_DURABLE)
    }

    fn is_own_manifest(&self, storage: &dyn Storage, path: &Path) -> Result<bool> {
        let Some(file) = opened(storage, path)? else {
            return Ok(false);
        };
        let len = file.len()?.min(format::HEADER_LEN as u64);
        let len = usize::try_from(len).unwrap_or(format::HEADER_LEN);
        let mut bytes = [0; format::HEADER_LEN];
        file.read_exact_at(&mut bytes[..len], 0)?;
        Ok(match Header::decode(&bytes) {
            Ok(header) => header.db_id == self.db_id,
            Err(Unreadable::Newer(_)) => false,
            // As every switch does with those that are not live.
            Err(Unreadable::Damaged { .. }) => {
                format::may_be_manifest(&bytes[..len.min(format::MAGIC_LEN)])
            }
        })
    }

    fn is_own_temp(&self, storage: &dyn Storage, path: &Path) -> Result<bool> {
        let Some(bytes) = short(storage, path)? else {
            return Ok(false);
        };
        Ok(match format::decode_current(&bytes) {
            Ok((_, db_id)) => db_id == self.db_id,
            Err(_) => format::may_be_torn_current(&bytes),
        })
    }
}

/// What the mark says, if there is one. A stranger's file of its name is none.
fn marked(storage: &dyn Storage, dir: &Path) -> Result<Option<(u64, [u8; 16])>> {
    let path = dir.join(format::DESTROYING);
    if !storage.exists(&path)? {
        return Ok(None);
    }
    let bytes = short(storage, &path)?;
    Ok(bytes.and_then(|bytes| format::decode_current(&bytes).ok()))
}

/// The bytes of a file that may be `CURRENT`, whatever it is called; none of one that is too long, or a stranger's.
fn short(storage: &dyn Storage, path: &Path) -> Result<Option<Vec<u8>>> {
    let Some(file) = opened(storage, path)? else {
        return Ok(None);
    };
    let len = file.len()?;
    if len > format::CURRENT_LEN_MAX as u64 {
        return Ok(None);
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(format::CURRENT_LEN_MAX)];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(Some(bytes))
}

/// Opens an ordinary file that is ours to read; `None` if it is a folder, a link, a device, or somebody else's.
fn opened(storage: &dyn Storage, path: &Path) -> Result<Option<Arc<dyn File>>> {
    match storage.open(path, OpenMode::Read) {
        Err(Error::Io { source, .. })
            if matches!(source.kind(), InvalidInput | PermissionDenied) =>
        {
            Ok(None)
        }
        opened => opened.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use thermocline_base::{ErrorKind, Steps};
    use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
    use thermocline_env::sim::SimFs;

    use super::*;
    use crate::edit::Change;
    use crate::manifest::Manifest;

    const DIR: &str = "/db";

    fn dir() -> &'static Path {
        Path::new(DIR)
    }

    /// A folder with a database that has switched its manifest, and nothing else.
    fn database() -> SimFs {
        let fs = SimFs::new(Steps::new());
        let storage: Arc<dyn Storage> = Arc::new(fs.clone());
        storage.create_dir_all(dir()).unwrap();
        let created = Change::Created {
            db_id: [1; 16],
            region_id: [2; 16],
        };
        let mut manifest = Manifest::create(storage, dir(), &created.into()).unwrap();
        manifest.set_bytes_max(0);
        for id in 1..40 {
            manifest
                .append(&Change::MemtableCreated { id }.into())
                .unwrap();
        }
        fs
    }

    fn destroy(fs: &SimFs) -> Result<()> {
        let doomed = Doomed::find(fs, dir())?.expect("there is one");
        doomed.begin(fs, dir())?;
        doomed.finish(fs, dir())
    }

    fn names(fs: &SimFs) -> Vec<String> {
        fs.list(dir()).unwrap()
    }

    /// Every moment at which the power may go leaves the database, or one that is doomed, or nothing; whoever calls again
    /// finishes it.
    #[test]
    fn a_crash_leaves_the_database_or_what_a_second_call_removes() {
        let mut found = BTreeSet::new();
        for step in 0..6 {
            let fs = database();
            let doomed = Doomed::find(&fs, dir()).unwrap().unwrap();
            assert!(!doomed.is_begun && doomed.state.is_some());
            let mark = dir().join(format::DESTROYING);
            let named = |fs: &SimFs| {
                let (file_no, _) = replay::read_current(fs, &mark).unwrap();
                dir().join(format::manifest_name(file_no))
            };
            let sync = || fs.sync_dir(dir(), sites::SWITCH_DURABLE).unwrap();
            if step > 0 {
                fs.rename_new(&dir().join(format::CURRENT), &mark).unwrap();
            }
            if step > 1 {
                sync();
            }
            if step > 2 {
                fs.remove(&named(&fs)).unwrap();
            }
            if step > 3 {
                sync();
            }
            if step > 4 {
                fs.remove(&mark).unwrap();
            }
            for image in [fs.image_none(Steps::new()), fs.image_all(Steps::new())] {
                let left = Doomed::find(&image, dir()).unwrap();
                found.insert(
                    left.as_ref()
                        .map(|left| (left.is_begun, left.state.is_some())),
                );
                if left.is_some() {
                    destroy(&image).unwrap();
                }
                assert_eq!(names(&image), Vec::<String>::new(), "{step}");
                assert!(Doomed::find(&image, dir()).unwrap().is_none());
            }
        }
        let all = [
            None,
            Some((false, true)),
            Some((true, true)),
            Some((true, false)),
        ];
        assert_eq!(found, BTreeSet::from(all));
    }

    /// What is not ours has our names, and stays.
    #[test]
    fn strangers_files_stay() {
        let fs = database();
        let theirs = Header {
            file_no: 77,
            db_id: [9; 16],
            durable_len: 64,
        };
        fs.install(&dir().join("MANIFEST-000077"), &theirs.encode());
        fs.install(&dir().join("MANIFEST-000078"), b"precious");
        let other = format::encode_current(77, &[9; 16]);
        fs.install(&dir().join("CURRENT.tmp"), &other);
        destroy(&fs).unwrap();
        let left = ["CURRENT.tmp", "MANIFEST-000077", "MANIFEST-000078"];
        assert_eq!(names(&fs), left);
    }

    /// Nor is its name taken for the mark, or replaced.
    #[test]
    fn a_strangers_file_in_the_place_of_the_mark_stays() {
        for precious in [b"precious".to_vec(), format::encode_current(1, &[9; 16])] {
            let fs = database();
            let before = names(&fs).len();
            fs.install(&dir().join(format::DESTROYING), &precious);
            assert!(!Doomed::was_begun(&fs, dir()).unwrap());
            let refused = destroy(&fs).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
            assert_eq!(names(&fs).len(), before + 1);
            let found = fs.contents(&dir().join(format::DESTROYING));
            assert_eq!(found, Some(precious));
        }
        // Alone it says nothing, unless it reads as a `CURRENT`.
        let fs = SimFs::new(Steps::new());
        fs.create_dir_all(dir()).unwrap();
        fs.install(&dir().join(format::DESTROYING), b"precious");
        assert!(Doomed::find(&fs, dir()).unwrap().is_none());
    }

    /// Of a rename by two steps: both are names of `CURRENT`.
    #[test]
    fn a_mark_that_was_half_made_is_made_anew() {
        let fs = database();
        let current = fs.contents(&dir().join(format::CURRENT)).unwrap();
        fs.install(&dir().join(format::DESTROYING), &current);
        let doomed = Doomed::find(&fs, dir()).unwrap().unwrap();
        assert!(!doomed.is_begun);
        destroy(&fs).unwrap();
        assert_eq!(names(&fs), Vec::<String>::new());
    }

    /// A folder in which `CURRENT` names a manifest that is live no more, and a pointer leads from it to the live one.
    fn pointed() -> SimFs {
        let fs = SimFs::new(Steps::new());
        let faulty = FaultStorage::over_sim(fs.clone());
        let storage: Arc<dyn Storage> = Arc::new(faulty.clone());
        storage.create_dir_all(dir()).unwrap();
        let created = Change::Created {
            db_id: [1; 16],
            region_id: [2; 16],
        };
        let mut manifest = Manifest::create(storage, dir(), &created.into()).unwrap();
        let (fault, op) = (Fault::NoSpace, Some(Op::Rename));
        faulty.arm(Plan {
            fault,
            op,
            at: faulty.calls_for(fault, op),
            repeat: Repeat::Forever,
        });
        manifest.set_bytes_max(0);
        for id in 1..40 {
            manifest
                .append(&Change::MemtableCreated { id }.into())
                .unwrap();
        }
        drop(manifest);
        fs
    }

    /// Each step is durable before the next one begins: whenever the power goes, what is left can be read, and goes.
    #[test]
    fn a_crash_between_two_calls_of_files_leaves_what_a_second_call_removes() {
        let count = names(&pointed()).len();
        assert!(count > 2, "{:?}", names(&pointed()));
        let mut ends = 0;
        for at in 0.. {
            let fs = pointed();
            let faulty = FaultStorage::over_sim(fs.clone());
            let doomed = Doomed::find(&fs, dir()).unwrap().unwrap();
            let fault = Fault::Eio;
            faulty.arm(Plan {
                fault,
                op: None,
                at: faulty.calls_for(fault, None) + at,
                repeat: Repeat::Forever,
            });
            let done = doomed
                .begin(&faulty, dir())
                .and_then(|()| doomed.finish(&faulty, dir()));
            let fired = faulty.fired();
            let random = (0..64).map(|seed| fs.image_random(seed, Steps::new()));
            let images = [fs.image_none(Steps::new()), fs.image_all(Steps::new())];
            for image in images.into_iter().chain(random) {
                let left =
                    Doomed::find(&image, dir()).unwrap_or_else(|error| panic!("{at}: {error}"));
                assert!(left.is_none() || done.is_err(), "{at}: it comes back");
                if left.is_some_and(|left| !left.is_begun) {
                    assert_eq!(names(&image).len(), count, "{at}");
                }
                if Doomed::find(&image, dir()).unwrap().is_some() {
                    destroy(&image).unwrap();
                }
                assert_eq!(names(&image), Vec::<String>::new(), "{at}");
            }
            if fired == 0 {
                done.unwrap();
                ends = at;
                break;
            }
        }
        assert!(ends > 8, "{ends}");
    }

    /// Whoever goes on with it does not know whether the mark is durable.
    #[test]
    fn who_goes_on_makes_the_mark_durable() {
        let fs = database();
        let mark = dir().join(format::DESTROYING);
        fs.rename_new(&dir().join(format::CURRENT), &mark).unwrap();
        let doomed = Doomed::find(&fs, dir()).unwrap().unwrap();
        doomed.begin(&fs, dir()).unwrap();
        let left = Doomed::find(&fs.image_none(Steps::new()), dir());
        assert!(left.unwrap().unwrap().is_begun);
    }
}
