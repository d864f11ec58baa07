//! A store that is closed while a feed is inside a call.

use super::*;
use crate::sync::AtomicU64;

/// The chains of a store that somebody closes when a feed looks for a memtable.
#[derive(Debug)]
struct Closing {
    engine: Engine,
    asked: AtomicU64,
    /// Whoever holds the chains has this.
    held: Arc<()>,
}

impl Closing {
    fn of(&self) -> &dyn Chains {
        &*self.engine.inner.feeds
    }
}

impl Chains for Closing {
    fn check_open(&self) -> Result<()> {
        self.of().check_open()
    }

    fn hold(&self) -> Result<Box<dyn Debug + Send>> {
        Ok(Box::new((self.of().hold()?, self.held.clone())))
    }

    fn marks(&self) -> Marks {
        self.of().marks()
    }

    fn keep(&self, from: &mut dyn FnMut(&[&Trail]) -> Result<u64>) -> Result<u64> {
        self.of().keep(from)
    }

    fn move_on(&self, feed: u64, to: &mut dyn FnMut(&[&Trail], bool) -> Result<u64>) -> Result<()> {
        self.of().move_on(feed, to)
    }

    fn home(&self, feed: u64, memtable: u64) -> Option<Arc<Home>> {
        assert_eq!(Arc::strong_count(&self.held), 2, "the call holds nothing");
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        assert!(asked < 10, "it would ask for ever");
        self.engine.close().unwrap();
        self.of().home(feed, memtable)
    }

    fn has_read(&self, feed: u64, next: u64, ended: bool) {
        self.of().has_read(feed, next, ended);
    }

    fn forget(&self, feed: u64) {
        self.of().forget(feed);
    }

    fn names(&self) -> Arc<dyn FamilyNames> {
        self.of().names()
    }

    fn hold_long_values(&self, files: BTreeSet<FileId>) -> Box<dyn LongValues> {
        self.of().hold_long_values(files)
    }
}

/// A store that is closed shows no sealed memtable any more, and the feed's place stays where it was. If the feed did not
/// look whether the store is closed, it would look for its memtable for ever.
#[test]
fn a_feed_that_meets_a_close_ends() {
    let engine = open(&Machine::new(PM), &options());
    seal(&engine, 1);
    assert!(engine.inner.common.catalog.view().memtables.len() > 1);
    let chains = Closing {
        engine,
        asked: AtomicU64::new(0),
        held: Arc::new(()),
    };
    let mut feed = ChangeFeed::since(Arc::new(chains), 0).unwrap();
    let error = feed.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    assert!(feed.next().is_none());
}
