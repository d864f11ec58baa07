//! What was set aside of families that were dropped.

use thermocline_base::CfId;
use thermocline_catalog::View;

use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock};

/// What is left of a family.
#[derive(Debug)]
pub(crate) struct Relic {
    pub cf: CfId,
    /// The number of its drop.
    pub number: u64,
    pub view: Arc<View>,
}

/// What was set aside, by whoever may hold it beyond the store's end.
#[derive(Debug, Default)]
pub(crate) struct Relics {
    relics: Mutex<Vec<Relic>>,
    /// The number of the last drop for which something is set aside; 0 where there is none. Changed under the lock.
    last: AtomicU64,
}

impl Relics {
    /// Whether nothing is set aside.
    pub fn is_empty(&self) -> bool {
        lock(&self.relics).is_empty()
    }

    /// What is left of one more family.
    pub fn add(&self, relic: Relic) {
        let mut relics = lock(&self.relics);
        relics.push(relic);
        self.note(&relics);
    }

    fn note(&self, relics: &[Relic]) {
        let numbers = relics.iter().map(|relic| relic.number);
        let last = numbers.max().unwrap_or_default();
        self.last.store(last, Ordering::Relaxed);
    }

    /// Whether something may be set aside for a reader who has begun when so many families had been dropped. It costs a load.
    ///
    /// Relaxed. Who leaves asks this behind the lock of his hold. Who drops a family asks for a look at holds behind what he has set
    /// aside. If that look comes first, who leaves finds what is set aside; else it finds that the hold has gone.
    #[inline]
    pub fn may_be_for(&self, drops: u64) -> bool {
        drops < self.last.load(Ordering::Relaxed)
    }

    /// Nothing of this family is set aside any more.
    pub fn forget(&self, cf: CfId) {
        let mut relics = lock(&self.relics);
        relics.retain(|relic| relic.cf != cf);
        self.note(&relics);
    }

    /// The view in which a family is read.
    pub fn view_of(&self, cf: CfId) -> Option<Arc<View>> {
        let relics = lock(&self.relics);
        let own = relics.iter().find(|relic| relic.cf == cf);
        own.map(|relic| Arc::clone(&relic.view))
    }

    /// Looks at each view.
    pub fn for_each_view(&self, mut look: impl FnMut(&View)) {
        let relics = lock(&self.relics);
        relics.iter().for_each(|relic| look(&relic.view));
    }

    /// Takes all of it out.
    pub fn take_all(&self) -> Vec<Relic> {
        let mut relics = lock(&self.relics);
        let all = std::mem::take(&mut *relics);
        self.note(&relics);
        all
    }

    /// Takes out what is set aside for nobody any more. `first_drops` says how many families had been dropped when the first of
    /// those began who are there. It is asked under the lock: whoever comes behind that look, and sees a family dropped, finds
    /// what is set aside for him only behind this.
    pub fn take_unneeded(&self, first_drops: impl FnOnce() -> u64) -> Vec<Relic> {
        let mut relics = lock(&self.relics);
        if relics.is_empty() {
            return Vec::new();
        }
        let first = first_drops();
        let is_over = |relic: &mut Relic| relic.number <= first;
        let gone = relics.extract_if(.., is_over).collect();
        self.note(&relics);
        gone
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use thermocline_base::CfOptions;
    use thermocline_env::LockGuard;

    use super::*;
    use crate::Engine;
    use crate::sync::{AtomicBool, try_lock};
    use crate::tests::{options, world};

    /// Who came behind the look at readers was missed by it. A family that is dropped then is set aside for him, by another
    /// thread than the one that has looked; with the older ones it must not go.
    #[test]
    fn nothing_is_set_aside_between_the_look_at_readers_and_what_goes() {
        let engine = Engine::open(world(), Path::new("/db"), options()).unwrap();
        let relic = |number| Relic {
            cf: CfId(1),
            number,
            view: engine.inner.common.catalog.view_to_keep(),
        };
        let relics = Relics::default();
        let gone = relics.take_unneeded(|| unreachable!("there are none"));
        assert!(gone.is_empty());
        relics.add(relic(1));
        let gone = relics.take_unneeded(|| {
            // Nobody is there.
            let mut later = try_lock(&relics.relics);
            if let Some(relics) = &mut later {
                relics.push(relic(2));
            }
            u64::MAX
        });
        assert!(gone.iter().map(|relic| relic.number).eq([1u64]));
        // Who began when three families had been dropped needs what was set aside of the fourth.
        [relic(3), relic(4)]
            .into_iter()
            .for_each(|relic| relics.add(relic));
        let gone = relics.take_unneeded(|| 3);
        assert!(gone.iter().map(|relic| relic.number).eq([3u64]));
        assert!(relics.may_be_for(3) && !relics.may_be_for(4));
        assert_eq!(relics.take_all().len(), 1);
        assert!(!relics.may_be_for(0));
    }

    /// A folder's lock that sees, when it goes, whether what is set aside can be looked at.
    #[derive(Debug)]
    struct Looks {
        relics: Arc<Relics>,
        is_free: Arc<AtomicBool>,
    }

    impl LockGuard for Looks {}

    impl Drop for Looks {
        fn drop(&mut self) {
            let is_free = try_lock(&self.relics.relics).is_some();
            self.is_free.store(is_free, Ordering::SeqCst);
        }
    }

    /// What goes may be the indexes of memtables, which takes long; and whoever opens the store next looks at what is set aside under
    /// its writer's lock.
    #[test]
    fn what_the_last_reader_of_a_closed_store_leaves_goes_without_the_lock() {
        let engine = Engine::open(world(), Path::new("/db"), options()).unwrap();
        engine.family("one", &CfOptions::default()).unwrap();
        let reader = engine.snapshot();
        engine.drop_family("one").unwrap();
        engine.close().unwrap();
        let reads = &engine.inner.reads;
        assert!(!reads.relics.is_empty());
        let is_free = Arc::new(AtomicBool::new(false));
        let looks = Looks {
            relics: reads.relics.clone(),
            is_free: is_free.clone(),
        };
        let pinned = reads.pins.upgrade().unwrap();
        pinned.hold(Some(Box::new(looks)));
        drop(pinned);
        drop(reader);
        assert!(reads.relics.is_empty());
        assert!(is_free.load(Ordering::SeqCst));
    }
}
