//! Who still reads the past: the seqnos of snapshots, those of open iterators included.
//!
//! Many readers at one moment are one entry, so a writer pays for moments, not for readers.
//!
//! # Why a reader never misses a version
//! A reader takes `visible` and registers it in one step under the lock. Whoever puts a record into
//! the index first asks which groups are in flight, then loads `visible`, then asks for the registered
//! seqnos, and keeps what is seen at any of them. A reader that registered before the last step is
//! among them: its entry is made under the lock, and the count is raised before `visible` is loaded,
//! both sequentially consistent like the store that moves `visible`. One that registers later gets
//! the `visible` that was loaded, or the end of a group that was in flight, which are both among
//! them, or the end of a group granted later, which is newer than every version there is, so that
//! it sees the newest, and that always stays.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use thermocline_base::SeqNo;
use thermocline_base::sync::{Mutex, lock};

#[derive(Debug, Default)]
pub(crate) struct Readers {
    /// How many are registered: lets a writer skip the lock when there are none.
    count: AtomicUsize,
    /// At how many different seqnos. Changed under the lock.
    moments: AtomicUsize,
    seqnos: Mutex<BTreeMap<u64, usize>>,
}

impl Readers {
    /// Registers a reader at what is visible now.
    pub fn register(&self, visible: &AtomicU64) -> SeqNo {
        let mut seqnos = lock(&self.seqnos);
        self.count.fetch_add(1, Ordering::SeqCst);
        let seqno = visible.load(Ordering::SeqCst);
        *seqnos.entry(seqno).or_default() += 1;
        self.moments.store(seqnos.len(), Ordering::Relaxed);
        SeqNo(seqno)
    }

    /// Registers one more reader at a seqno that a reader holds.
    pub fn join(&self, seqno: SeqNo) {
        let mut seqnos = lock(&self.seqnos);
        self.count.fetch_add(1, Ordering::SeqCst);
        *seqnos.entry(seqno.0).or_default() += 1;
    }

    /// Forgets a reader.
    pub fn leave(&self, seqno: SeqNo) {
        let mut seqnos = lock(&self.seqnos);
        if let Some(count) = seqnos.get_mut(&seqno.0) {
            *count -= 1;
            if *count == 0 {
                seqnos.remove(&seqno.0);
                self.moments.store(seqnos.len(), Ordering::Relaxed);
            }
        }
        self.count.fetch_sub(1, Ordering::SeqCst);
    }

    /// Puts the seqnos that somebody may read at into `out`, ascending, `visible` last.
    pub fn collect(&self, visible: SeqNo, out: &mut Vec<SeqNo>) {
        out.clear();
        if self.count.load(Ordering::SeqCst) > 0 {
            let seqnos = lock(&self.seqnos);
            out.extend(seqnos.keys().map(|&s| SeqNo(s)).filter(|&s| s < visible));
        }
        out.push(visible);
    }

    /// At how many different seqnos readers are registered: what bounds a list of versions.
    pub fn len(&self) -> usize {
        self.moments.load(Ordering::Relaxed)
    }

    /// How many readers are registered.
    pub fn open(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}
