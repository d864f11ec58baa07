//! How a store makes room among its own blocks: the oldest goes first, those that were found since they were looked at have
//! a second chance, and data blocks go before index blocks. It takes as long as what goes.

use std::sync::Arc;

use thermocline_base::sync::Ordering;

use super::own::{Key, Order, Place};
use super::{Entry, StoreCache};

/// Places of entries that have gone, beside as many as there are entries, before they are looked for.
const GONE_MAX: u64 = 64;

/// How many places are looked at then, by each entry that comes.
const LOOKS: usize = 4;

impl StoreCache {
    /// Lets go of blocks of this store that take `bytes`: where it shares the cache with others, of no others.
    pub fn evict(&self, bytes: u64) {
        if self.cache.living.load(Ordering::Relaxed) <= 1 {
            return self.cache.shrink(bytes);
        }
        if self.own.bytes() == 0 {
            return;
        }
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
        let order = match &entry.index {
            Some(_) => &self.own.indexes,
            None => &self.own.data,
        };
        order.add(entry.own.place(key));
        // What the cache has let go by itself stands in the order, too. Not all places are looked at in one go: who makes
        // room meanwhile would not find them.
        if order.places() as u64 <= 2 * self.own.entries() + GONE_MAX {
            return;
        }
        for _ in 0..LOOKS {
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

    #[test]
    fn the_order_stays_short_whatever_the_cache_lets_go_by_itself() {
        let cache = BlockCache::new(100_000);
        let store = cache.store();
        let at = |n: u64| BlobRef {
            file: FileId(1),
            offset: 8 * n,
            len: 4,
        };
        for n in 0..20_000 {
            store.keep_value((CfId(0), b"key"), at(n), &[1; 500]);
            let places = store.own.data.places() as u64;
            assert!(places <= 3 * store.own.entries() + 2 * GONE_MAX);
        }
        assert!(cache.bytes() > 50_000);
        assert_eq!(store.own.bytes(), cache.bytes());
        store.forget();
        assert_eq!((store.own.bytes(), store.own.entries()), (0, 0));
    }
}
