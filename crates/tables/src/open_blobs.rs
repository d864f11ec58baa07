//! Blob files that are open: of thousands not all at a time.
//!
//! Where another one is needed, that goes which was used the longest ago, whether it is old or new. Tables have a second chance instead
//! ([`super::open`]): whoever finds one open takes no lock there, so he can leave no more than a mark, and where all are marked the
//! oldest goes. Here he holds the lock in any case.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thermocline_base::FileId;
use thermocline_base::sync::{Mutex, lock};
use thermocline_policy::tuning::OPEN_BLOB_FILES;
use thermocline_sst::BlobFile;

use super::file::TableFile;

/// A blob file that was read from: its first bytes say that it is this one, so that a value takes one read.
#[derive(Debug)]
pub(crate) struct OpenBlobs {
    pub opened: BlobFile,
    pub file: Arc<TableFile>,
    /// How long it was when it was opened. It does not change unless it is damaged: who reads a value alone asks anew.
    pub len: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct BlobFiles {
    /// As many as that stay open.
    most: usize,
    kept: Mutex<ByUse<Arc<OpenBlobs>>>,
}

impl BlobFiles {
    /// With room for so many; 0 has a default.
    pub fn new(most: usize) -> BlobFiles {
        BlobFiles {
            most: match most {
                0 => OPEN_BLOB_FILES,
                most => most,
            },
            kept: Mutex::default(),
        }
    }

    /// One that is open, for whoever reads it.
    pub fn find(&self, id: FileId) -> Option<Arc<OpenBlobs>> {
        lock(&self.kept).find(id)
    }

    /// One that was opened, or that which somebody else has opened meanwhile.
    pub fn keep(&self, id: FileId, open: OpenBlobs) -> Arc<OpenBlobs> {
        let open = Arc::new(open);
        // What goes is closed without the lock: that takes long where a file goes with it.
        let (kept, _gone) = lock(&self.kept).keep(id, &open, self.most);
        kept
    }

    /// These files are not there any more.
    pub fn forget(&self, files: &BTreeSet<FileId>) {
        let mut gone = Vec::new();
        {
            let mut kept = lock(&self.kept);
            gone.extend(files.iter().filter_map(|file| kept.remove(*file)));
        }
        // As above.
        drop(gone);
    }
}

/// Things by the numbers of their files, and in the order in which they were used.
#[derive(Debug)]
struct ByUse<T> {
    /// Each with its last use.
    all: BTreeMap<FileId, (u64, T)>,
    /// By their last uses, which are numbered.
    order: BTreeMap<u64, FileId>,
    /// The number of the last use of all.
    last: u64,
}

impl<T> Default for ByUse<T> {
    fn default() -> ByUse<T> {
        ByUse {
            all: BTreeMap::new(),
            order: BTreeMap::new(),
            last: 0,
        }
    }
}

impl<T: Clone> ByUse<T> {
    /// One that is there. This is a use of it.
    fn find(&mut self, id: FileId) -> Option<T> {
        let (at, found) = self.all.get_mut(&id)?;
        // Mostly it is the one that was used last.
        if *at != self.last {
            self.order.remove(at);
            self.last += 1;
            *at = self.last;
            self.order.insert(*at, id);
        }
        Some(found.clone())
    }

    /// Has `new` in, unless there is one of that number. Returns which one is there, and which one goes for it, so that there are at most
    /// `most`, which is one or more.
    fn keep(&mut self, id: FileId, new: &T, most: usize) -> (T, Option<T>) {
        if let Some(found) = self.find(id) {
            return (found, None);
        }
        let full = self.all.len() >= most;
        let oldest = full.then(|| self.order.pop_first()).flatten();
        let gone = oldest.and_then(|(_, id)| self.all.remove(&id));
        self.last += 1;
        self.order.insert(self.last, id);
        self.all.insert(id, (self.last, new.clone()));
        (new.clone(), gone.map(|(_, gone)| gone))
    }

    fn remove(&mut self, id: FileId) -> Option<T> {
        let (at, gone) = self.all.remove(&id)?;
        self.order.remove(&at);
        Some(gone)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use thermocline_testkit::Rng;

    use super::*;

    /// Reads a file, and opens it if it is not open. Returns whether it was.
    fn read(files: &mut ByUse<u64>, file: u64, most: usize) -> bool {
        let found = files.find(FileId(file));
        if found.is_none() {
            files.keep(FileId(file), &file, most);
        }
        found.is_some()
    }

    #[test]
    fn a_file_that_is_read_all_the_time_is_opened_once_though_it_is_the_oldest() {
        let mut files = ByUse::<u64>::default();
        let mut opened = 0;
        for other in 1..1000 {
            for file in [0, other] {
                opened += u64::from(!read(&mut files, file, 3));
            }
        }
        assert_eq!(opened, 1 + 999);
    }

    #[test]
    fn the_one_that_goes_was_used_the_longest_ago() {
        let most = 7;
        let mut rng = Rng::new(1);
        let mut files = ByUse::<u64>::default();
        // In the order of their uses.
        let mut model: VecDeque<u64> = VecDeque::new();
        for _ in 0..20_000 {
            let file = rng.below(12) as u64;
            let place = model.iter().position(|other| *other == file);
            if rng.one_in(10) {
                let gone = place.and_then(|place| model.remove(place));
                assert_eq!(files.remove(FileId(file)), gone);
                continue;
            }
            if let Some(place) = place {
                model.remove(place);
                assert!(read(&mut files, file, most));
            } else {
                assert_eq!(files.find(FileId(file)), None);
                let full = model.len() == most;
                let gone = full.then(|| model.pop_front()).flatten();
                let kept = files.keep(FileId(file), &file, most);
                assert_eq!(kept, (file, gone));
            }
            model.push_back(file);
            let order: Vec<u64> = files.order.values().map(|file| file.0).collect();
            assert_eq!(model, order);
            assert_eq!(files.all.len(), model.len());
        }
        // Of two that open the same one the second takes that of the first.
        let mut two = ByUse::<u64>::default();
        assert_eq!(two.keep(FileId(1), &10, most), (10, None));
        assert_eq!(two.keep(FileId(1), &11, most), (10, None));
    }
}
