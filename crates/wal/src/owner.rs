//! Whose logs in a folder that databases share are: the file that says so.
//!
//! A log has its database's id, and so has the log of a copy of the database's folder. So beside logs outside
//! of a database's folder a file names that folder, and the newest chain that its manifest knows (for the
//! region of a database without logs a word in it does). Who opens the logs compares both, and writes
//! nothing before.
//!
//! # Crash argument
//! The file has two copies, written in turns, each synced before the other is written again: one is
//! whole at any time. What an open finds may have been stored by a process that was killed before its sync:
//! then only the other copy is durable. So it is written again as it reads, and synced, before that one is
//! touched. When the file is made both are written, one after the other, so a file of which one
//! copy is not whole and the other was never written is one whose making was interrupted; nobody has
//! relied on it.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::{Error, Result};
use thermocline_env::{File, OpenMode, Storage};

use crate::SITE_OWNER;
use crate::format::{OWNER_COPY, Owner};

/// The file that says whose logs are.
#[derive(Debug)]
pub struct OwnerFile {
    file: Arc<dyn File>,
    /// The number of the last writing.
    number: u64,
}

/// The copy of this writing lies here.
fn copy_at(number: u64) -> u64 {
    number % 2 * OWNER_COPY as u64
}

impl OwnerFile {
    /// What the file `path` says, and the number of that writing; `None` if there is none, or one whose
    /// making was interrupted.
    ///
    /// # Errors
    /// [`Error::Corruption`] if neither copy is whole; [`Error::Unsupported`] if a newer version wrote it;
    /// those of the storage.
    pub fn read(storage: &dyn Storage, path: &Path) -> Result<Option<(Owner, u64)>> {
        if !storage.exists(path)? {
            return Ok(None);
        }
        let file = storage.open(path, OpenMode::Read)?;
        let mut bytes = vec![0; 2 * OWNER_COPY];
        let read = file.read_at(&mut bytes, 0)?;
        bytes[read..].fill(0);
        let (one, two) = bytes.split_at(OWNER_COPY);
        let (a, b) = (Owner::decode(one, path)?, Owner::decode(two, path)?);
        let newest = a.into_iter().chain(b).max_by_key(|(_, number)| *number);
        // The first writing goes to the second copy.
        let interrupted = one.iter().all(|&b| b == 0);
        if newest.is_none() && !interrupted {
            return Err(Error::corruption(
                "the file that says whose logs are",
                path.display().to_string(),
                0,
                "a copy that is whole",
                "none",
            ));
        }
        Ok(newest)
    }

    /// Opens the file `path`, of which [`OwnerFile::read`] has just given `owner` and the number `last`, and makes
    /// that durable.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn open(
        storage: &dyn Storage,
        path: &Path,
        (owner, last): (&Owner, u64),
    ) -> Result<OwnerFile> {
        let file = storage.open(path, OpenMode::ReadWrite)?;
        let mut file = OwnerFile { file, number: last };
        file.store(owner, last)?;
        Ok(file)
    }

    /// Makes the file `path`, which says `owner`, durably but for its name. There may be one of which
    /// [`OwnerFile::read`] has said that there is none.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn make(storage: &dyn Storage, path: &Path, owner: &Owner) -> Result<OwnerFile> {
        let mode = match storage.exists(path)? {
            true => OpenMode::ReadWrite,
            false => OpenMode::CreateNew,
        };
        let file = storage.open(path, mode)?;
        let mut file = OwnerFile { file, number: 0 };
        file.write(owner)?;
        file.write(owner)?;
        Ok(file)
    }

    /// Says `owner` from now on. Durable on return.
    ///
    /// # Errors
    /// Those of the storage: which of both it says is unknown then.
    pub fn write(&mut self, owner: &Owner) -> Result<()> {
        self.store(owner, self.number + 1)
    }

    fn store(&mut self, owner: &Owner, number: u64) -> Result<()> {
        self.file.write_at(&owner.encode(number), copy_at(number))?;
        self.file.sync(SITE_OWNER)?;
        self.number = number;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use thermocline_base::Steps;
    use thermocline_env::sim::SimFs;

    use super::*;
    use crate::format::OWNER_NUMBER_END;

    fn owner(chain: u64) -> Owner {
        Owner {
            db_id: [3; 16],
            chain,
            nonce: 7,
            folder: b"/db".to_vec(),
        }
    }

    /// Every crash leaves what was said last, or the one before that was being replaced.
    #[test]
    fn a_crash_leaves_what_was_said_before_or_after() {
        let fs = SimFs::new(Steps::new());
        let path = Path::new("/owner");
        let say = |fs: &SimFs| OwnerFile::read(fs, path).unwrap().map(|(o, _)| o.chain);
        assert_eq!(say(&fs), None);
        let mut file = OwnerFile::make(&fs, path, &owner(1)).unwrap();
        fs.sync_dir(Path::new("/"), SITE_OWNER).unwrap();
        for n in 2..10 {
            file.write(&owner(n)).unwrap();
            assert_eq!(say(&fs), Some(n));
            // A writing that was torn anywhere.
            let whole = fs.contents(path).unwrap();
            let next = owner(n + 1).encode(file.number + 1);
            let at = usize::try_from(copy_at(file.number + 1)).unwrap();
            for torn in 0..next.len() {
                let image = SimFs::new(Steps::new());
                let mut bytes = whole.clone();
                bytes[at..at + torn].copy_from_slice(&next[..torn]);
                image.install(path, &bytes);
                let said = say(&image);
                assert!(said == Some(n) || said == Some(n + 1), "{torn}");
            }
        }
        let (said, last) = OwnerFile::read(&fs, path).unwrap().unwrap();
        let mut file = OwnerFile::open(&fs, path, (&said, last)).unwrap();
        file.write(&owner(20)).unwrap();
        assert_eq!(say(&fs), Some(20));
    }

    /// A process was killed when it had stored a copy, before the sync. The next one finds that, and has the power fail
    /// while it replaces the other copy. Paths differ, and are longer than what the device writes at once.
    #[test]
    fn what_a_killed_process_had_not_synced_is_durable_before_the_other_copy_is_replaced() {
        let path = Path::new("/owner");
        let moved = |chain: u64, letter: u8| Owner {
            folder: vec![letter; 1500],
            ..owner(chain)
        };
        let fs = SimFs::new(Steps::new());
        OwnerFile::make(&fs, path, &moved(1, b'a')).unwrap();
        fs.sync_dir(Path::new("/"), SITE_OWNER).unwrap();
        let file = fs.open(path, OpenMode::ReadWrite).unwrap();
        file.write_at(&moved(1, b'b').encode(3), copy_at(3))
            .unwrap();
        let killed = fs.image_killed(Steps::new());
        let (said, last) = OwnerFile::read(&killed, path).unwrap().unwrap();
        assert_eq!((&said, last), (&moved(1, b'b'), 3));
        let file = OwnerFile::open(&killed, path, (&said, last)).unwrap();
        // As a writing that is not synced yet.
        let next = moved(2, b'b').encode(file.number + 1);
        file.file.write_at(&next, copy_at(file.number + 1)).unwrap();
        let pending = killed.pending();
        let (mut before, mut after) = (0, 0);
        for choices in pending.explore(4096, 1000, 1) {
            let image = killed.image(&choices, Steps::new());
            let found = OwnerFile::read(&image, path).unwrap();
            match found.unwrap().0.chain {
                1 => before += 1,
                _ => after += 1,
            }
        }
        assert!(before > 0 && after > 0, "{before}, {after}");
    }

    /// Its checksum holds, and the writing behind it would have no number.
    #[test]
    fn a_copy_with_a_number_that_no_writing_has_is_not_whole() {
        let fs = SimFs::new(Steps::new());
        let path = Path::new("/owner");
        for number in [0, OWNER_NUMBER_END, u64::MAX] {
            let other = owner(2).encode(number);
            fs.install(path, &[other, owner(1).encode(3)].concat());
            let (said, last) = OwnerFile::read(&fs, path).unwrap().unwrap();
            assert_eq!((&said, last), (&owner(1), 3), "{number}");
            let mut file = OwnerFile::open(&fs, path, (&said, last)).unwrap();
            file.write(&owner(4)).unwrap();
            let said = OwnerFile::read(&fs, path).unwrap();
            assert_eq!(said, Some((owner(4), 4)), "{number}");
            fs.install(path, &[other, other].concat());
            let error = OwnerFile::read(&fs, path).unwrap_err();
            assert_eq!(error.kind(), thermocline_base::ErrorKind::Corruption);
        }
    }

    #[test]
    fn a_file_whose_making_was_interrupted_is_none_and_a_damaged_one_an_error() {
        let fs = SimFs::new(Steps::new());
        let path = Path::new("/owner");
        for torn in [0, 1, 30, 66] {
            let mut bytes = vec![0; OWNER_COPY];
            bytes.extend(&owner(1).encode(1)[..torn]);
            fs.install(path, &bytes);
            assert_eq!(OwnerFile::read(&fs, path).unwrap(), None, "{torn}");
        }
        fs.remove(path).unwrap();
        OwnerFile::make(&fs, path, &owner(1)).unwrap();
        let whole = fs.contents(path).unwrap();
        for byte in 0..67 {
            // One of both copies is enough.
            for at in [byte, byte + OWNER_COPY] {
                let mut bytes = whole.clone();
                bytes[at] ^= 4;
                fs.install(path, &bytes);
                let read = OwnerFile::read(&fs, path).unwrap();
                assert_eq!(read.unwrap().0, owner(1), "{at}");
            }
            let mut bytes = whole.clone();
            bytes[byte] ^= 4;
            bytes[byte + OWNER_COPY] ^= 4;
            fs.install(path, &bytes);
            assert!(OwnerFile::read(&fs, path).is_err(), "{byte}");
        }
    }
}
