//! How a store makes room among its own blocks: the oldest goes first, those that were found since they were looked at have
//! a second chance, and data blocks go before index blocks. It takes as long as what goes, but for the first time, which
//! puts what there is in order ([`super::own`]).

use std::cell::RefCell;
use std::sync::Arc;

use thermocline_base::sync::Ordering;

use super::own::{Key, Order, Place};
use super::{Entry, StoreCache};

/// Places of entries that have gone, beside as many as there are entries, before they are looked for.
const GONE_MAX: u64 = 64;

/// How many places are looked at then, by each entry that comes: more if there are far too many, as when the cache has
/// shrunk, but never so many that one who reads waits for it.
const LOOKS: u64 = 4;
const LOOKS_MAX: u64 = 256;

impl StoreCache {
    /// Lets go of blocks of this store that take `bytes`: where it shares the cache with others, of no others.
    pub fn evict(&self, bytes: u64) {
        if self.is_alone() {
            return self.cache.shrink(bytes);
        }
        if self.own.bytes() == 0 {
            return self.own.clear_if_gone(0);
        }
        self.own.begin_order(|| self.places_of_all());
        let (data, indexes) = (&self.own.data, &self.own.indexes);
        let mut gone = 0;
        // Who has had his second chance goes, though he be found again meanwhile: the room is needed.
        for (order, spares) in [
            (data, true),
            (data, false),
            (indexes, true),
            (indexes, false),
        ] {
            for _ in 0..order.places() {
                if gone >= bytes {
                    return;
                }
                let Some(place) = order.take_first() else {
                    break;
                };
                gone += self.evict_at(order, place, spares);
            }
        }
    }

    /// Whether no other store has a way to the cache.
    fn is_alone(&self) -> bool {
        self.cache.living.load(Ordering::Relaxed) <= 1
    }

    /// The places of all that this store has: data blocks and values, and index blocks. It goes over all of the cache once.
    fn places_of_all(&self) -> [Vec<Place>; 2] {
        let (data, indexes) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        // Nothing goes: no other way over the cache takes each of its locks only once.
        self.cache.blocks.retain(|key, entry| {
            if key.store == self.store {
                let of = match &entry.index {
                    Some(_) => &indexes,
                    None => &data,
                };
                of.borrow_mut().push(entry.own.place(*key));
            }
            true
        });
        [data.into_inner(), indexes.into_inner()]
    }

    /// Has the entry go that stood at this place, unless it is one that was found and this round `spares` those. Bytes that
    /// have gone.
    fn evict_at(&self, order: &Order, place: Place, spares: bool) -> u64 {
        let Some(entry) = self.entry_at(place) else {
            return 0;
        };
        if spares && entry.own.take_used() {
            order.add(place);
            return 0;
        }
        let blocks = &self.cache.blocks;
        let gone = blocks.remove_if(&place.key, |now| Arc::ptr_eq(now, &entry));
        gone.map_or(0, |_| entry.own.bytes())
    }

    /// The entry that stood at this place, if it is in. To ask is not to use it.
    fn entry_at(&self, place: Place) -> Option<Arc<Entry>> {
        let entry = self.cache.blocks.peek(&place.key);
        entry.filter(|entry| entry.own.stood_at(place))
    }

    /// `entry` has come, and is found by `key`. To be said once it is: an order that had it before would be rid of it.
    pub(super) fn has_come(&self, key: Key, entry: &Entry) {
        if !self.own.is_ordered() {
            return;
        }
        if self.is_alone() {
            return self.own.end_order();
        }
        // This one is there, and has no place yet.
        self.own.clear_if_gone(1);
        let order = match &entry.index {
            Some(_) => &self.own.indexes,
            None => &self.own.data,
        };
        let places = order.add(entry.own.place(key)) as u64;
        let too_many = places.saturating_sub(2 * self.own.entries() + GONE_MAX);
        if too_many > 0 {
            self.look_for_gone(order, (LOOKS + too_many).min(LOOKS_MAX));
        }
    }

    /// Looks at so many places, and has those go whose entries the cache has let go by itself. The others come last, found
    /// or not. So they have a chance more than is theirs, which costs less than to take places out of the middle.
    fn look_for_gone(&self, order: &Order, looks: u64) {
        // Not all are taken out in one go: who makes room meanwhile would not find them.
        for _ in 0..looks {
            let Some(place) = order.take_first() else {
                return;
            };
            if self.entry_at(place).is_some() {
                order.add(place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use thermocline_base::{BlobRef, CfId, FileId};

    use super::*;
    use crate::cache::BlockCache;

    /// Keeps value `n` of `store`.
    fn keep(store: &StoreCache, n: u64) {
        let at = BlobRef {
            file: FileId(1),
            offset: 8 * n,
            len: 4,
        };
        store.keep_value((CfId(0), b"key"), at, &[1; 500]);
    }

    /// Has `store`, which is not alone, keep an order.
    fn begin_order(store: &StoreCache) {
        keep(store, 0);
        store.evict(1);
        assert!(store.own.is_ordered());
        assert_eq!((store.own.entries(), store.own.data.places()), (0, 0));
    }

    /// The order is not much longer than what it orders.
    fn assert_is_short(store: &StoreCache) {
        let (places, entries) = (store.own.data.places() as u64, store.own.entries());
        assert!(places >= entries, "{places} {entries}");
        let most = 3 * entries + 2 * GONE_MAX;
        assert!(places <= most, "{places} {entries}");
    }

    #[test]
    fn the_order_stays_short_whatever_the_cache_lets_go_by_itself() {
        let cache = BlockCache::new(100_000);
        let (store, _other) = (cache.store(), cache.store());
        begin_order(&store);
        for n in 0..20_000 {
            keep(&store, n);
            assert_is_short(&store);
        }
        assert!(cache.bytes() > 50_000);
        assert_eq!(store.own.bytes(), cache.bytes());
        store.forget();
        assert_eq!((store.own.bytes(), store.own.entries()), (0, 0));
        assert_eq!(store.own.data.places(), 0);
    }

    #[test]
    fn a_store_that_is_alone_keeps_no_order() {
        let cache = BlockCache::new(100_000);
        let store = cache.store();
        for n in 0..20_000 {
            keep(&store, n);
            assert_eq!(store.own.data.places(), 0);
        }
        // As long as there is another one, it does.
        let other = cache.store();
        store.evict(1);
        keep(&store, 20_000);
        assert_is_short(&store);
        assert!(store.own.data.places() > 0);
        drop(other);
        keep(&store, 20_001);
        assert_eq!(store.own.data.places(), 0);
        assert!(store.own.bytes() > 50_000);
    }

    #[test]
    fn what_came_while_a_store_was_alone_goes_with_the_rest() {
        let cache = BlockCache::in_parts(8, 10 << 20);
        let first = cache.store();
        (0..1000).for_each(|n| keep(&first, n));
        let second = cache.store();
        (0..1000).for_each(|n| keep(&second, n));
        (1000..1100).for_each(|n| keep(&first, n));
        let (all, others) = (first.own.bytes(), second.own.bytes());
        // The oldest go first, those from before the order was kept included.
        first.evict(all / 2);
        assert!(first.own.bytes() > all / 3 && first.own.bytes() <= all - all / 2);
        let has = |n: u64| {
            first.has_value(BlobRef {
                file: FileId(1),
                offset: 8 * n,
                len: 4,
            })
        };
        assert!((0..500).all(|n| !has(n)) && (1000..1100).all(has));
        first.evict(u64::MAX);
        assert_eq!((first.own.bytes(), first.own.entries()), (0, 0));
        assert_eq!(second.own.bytes(), others);
    }

    /// A block that has gone and is read again stays though others are read once after it: of the cache's own choice, and so also after
    /// it was made to let all go, with blocks in it and without.
    #[test]
    fn what_comes_back_is_known_again_after_all_have_gone() {
        for before in [None, Some(0), Some(50)] {
            // So few blocks that they lie in one part, whatever the machine.
            let cache = BlockCache::new(100_000);
            let store = cache.store();
            if let Some(before) = before {
                (0..before).for_each(|n| keep(&store, n));
                store.evict(u64::MAX);
                assert_eq!((cache.bytes(), store.own.entries()), (0, 0));
            }
            let has = |n: u64| {
                store.has_value(BlobRef {
                    file: FileId(1),
                    offset: 8 * n,
                    len: 4,
                })
            };
            // One more than there is room for.
            let mut full = 0;
            let gone = loop {
                keep(&store, full);
                full += 1;
                if let Some(gone) = (0..full).find(|n| !has(*n)) {
                    break gone;
                }
            };
            assert!(full > 100, "{full}");
            keep(&store, gone);
            (1000..1020).for_each(|n| keep(&store, n));
            assert!(has(gone) && !has(1000), "{gone} of {full}, {before:?}");
        }
    }

    /// Fills a store, has `let_go` let most of it go, and fills it a little.
    fn places_after(let_go: impl Fn(&BlockCache, &StoreCache)) -> usize {
        let cache = BlockCache::in_parts(8, 10 << 20);
        let (store, _other) = (cache.store(), cache.store());
        begin_order(&store);
        (0..5000).for_each(|n| keep(&store, n));
        assert!(store.own.data.places() >= 5000);
        let_go(&cache, &store);
        assert!(store.own.entries() < 1000);
        (5000..5100).for_each(|n| keep(&store, n));
        assert_is_short(&store);
        store.own.data.places()
    }

    #[test]
    fn the_order_is_short_again_soon_after_most_entries_have_gone() {
        assert!(places_after(|_, store| store.evict(u64::MAX)) <= 400);
        assert!(places_after(|cache, _| cache.shrink(u64::MAX)) <= 400);
        assert!(places_after(|cache, _| cache.shrink(cache.bytes() / 10 * 9)) < 2500);
    }
}
