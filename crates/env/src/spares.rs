//! Open files that a process can do without.
//!
//! A process may have so many descriptors, whoever in it has them. So whoever keeps files open only because that is
//! quicker adds them here, and whoever finds no descriptor left has them closed: those of other stores, too, and of
//! readers that a closed store has left.

use std::fmt;
use std::sync::Weak;

use thermocline_base::sync::{Mutex, lock};

/// What keeps a file open, and will open it again when it is read.
pub trait Spare: Send + Sync + fmt::Debug {
    /// Closes the file, unless somebody is just reading it.
    fn close(&self);
}

/// All that use one [`Storage`](crate::Storage), or the operating system's.
#[derive(Debug, Default)]
pub struct Spares {
    /// Some may have gone.
    files: Mutex<Vec<Weak<dyn Spare>>>,
    /// How many others are kept open, though nobody may be reading them.
    kept: Mutex<u64>,
}

impl Spares {
    /// Takes note of a file, for as long as there is one.
    pub fn add(&self, file: Weak<dyn Spare>) {
        let mut files = lock(&self.files);
        // So each is looked at twice, about, however many come and go.
        if files.len() == files.capacity() {
            files.retain(|file| file.strong_count() > 0);
            let more = files.len().max(16);
            files.reserve_exact(more);
        }
        files.push(file);
    }

    /// Counts files that are to stay open: all that are `wanted`, or fewer, so that it is `most` with those that were counted
    /// before. Returns how many.
    pub fn keep(&self, wanted: u64, most: u64) -> u64 {
        let mut kept = lock(&self.kept);
        let more = wanted.min(most.saturating_sub(*kept));
        *kept += more;
        more
    }

    /// So many of them are closed.
    pub fn let_go(&self, count: u64) {
        let mut kept = lock(&self.kept);
        *kept = kept.saturating_sub(count);
    }

    /// Closes all that nobody reads at this moment.
    pub fn close(&self) {
        let files: Vec<_> = lock(&self.files).iter().filter_map(Weak::upgrade).collect();
        files.iter().for_each(|file| file.close());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[derive(Debug, Default)]
    struct Counts(AtomicU32);

    impl Spare for Counts {
        fn close(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn all_that_are_there_are_closed_and_the_others_forgotten() {
        let spares = Spares::default();
        let kept: Vec<Arc<Counts>> = (0..10).map(|_| Arc::default()).collect();
        for file in &kept {
            let one: Arc<dyn Spare> = file.clone();
            spares.add(Arc::downgrade(&one));
        }
        for _ in 0..10_000 {
            let gone: Arc<dyn Spare> = Arc::new(Counts::default());
            spares.add(Arc::downgrade(&gone));
        }
        assert!(lock(&spares.files).len() < 100);
        spares.close();
        assert!(kept.iter().all(|file| file.0.load(Ordering::Relaxed) == 1));
    }
}
