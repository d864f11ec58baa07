//! Some of the keys that are locked or waited for, behind one lock.
//!
//! Keys are found by their hashes. Their order is wanted by ranges only: it is made when a range is locked, kept from then
//! on as keys come and go, and forgotten when, since the last range, as many keys have come and gone as it has. So keys pay
//! nothing for it while there are no ranges, and a range pays for those keys at most that came since the one before.
//!
//! A map does not give memory back by itself. It is made smaller when it has less than half of what it had at most, so its
//! slots are at most five times as many as its keys, or for [`KEPT`] keys.

use std::collections::hash_map::Entry as Place;
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;

use crate::locks::entry::Entry;
use crate::locks::key::{InOrder, LockKey};
use crate::same::BySame;

/// For so many keys there is always memory.
const KEPT: usize = 32;

/// Keys, and who has and wants them.
#[derive(Debug, Default)]
pub(crate) struct Stripe {
    keys: HashMap<LockKey, Entry, BySame>,
    /// The most that there were since the map was made smaller.
    most: usize,
    order: Option<Order>,
}

/// The keys in order.
#[derive(Debug)]
struct Order {
    keys: BTreeSet<InOrder>,
    /// How many have come and gone since a range asked.
    unused: usize,
}

/// Of `len` keys one has come or gone. Has the order changed so, or forgets it.
fn reorder(order: &mut Option<Order>, len: usize, change: impl FnOnce(&mut BTreeSet<InOrder>)) {
    let Some(kept) = order else {
        return;
    };
    kept.unused += 1;
    if kept.unused > len + KEPT {
        *order = None;
    } else {
        change(&mut kept.keys);
    }
}

impl Stripe {
    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// All keys.
    pub fn iter(&self) -> impl Iterator<Item = (&LockKey, &Entry)> {
        self.keys.iter()
    }

    pub fn get_mut(&mut self, key: &LockKey) -> Option<&mut Entry> {
        self.keys.get_mut(key)
    }

    /// The entry of a key: an unused one where there was none.
    pub fn entry(&mut self, key: &LockKey) -> &mut Entry {
        let len = self.keys.len();
        match self.keys.entry(key.clone()) {
            Place::Occupied(there) => there.into_mut(),
            Place::Vacant(free) => {
                self.most = self.most.max(len + 1);
                reorder(&mut self.order, len, |keys| {
                    keys.insert(InOrder(key.clone()));
                });
                free.insert(Entry::default())
            }
        }
    }

    /// Calls `change` with the entry of a key, if there is one. A key that nobody has or wants then is forgotten.
    pub fn change(&mut self, key: &LockKey, change: impl FnOnce(&mut Entry)) {
        let Place::Occupied(mut there) = self.keys.entry(key.clone()) else {
            return;
        };
        change(there.get_mut());
        if !there.get().is_unused() {
            return;
        }
        there.remove();
        let len = self.keys.len();
        reorder(&mut self.order, len, |keys| {
            keys.remove(key.bytes());
        });
        if self.most > KEPT && len < self.most / 2 {
            self.most = len.max(KEPT);
            self.keys.shrink_to(self.most);
        }
    }

    /// The keys from `start` up to, and not with, `end`.
    pub fn within(
        &mut self,
        (start, end): (&[u8], &[u8]),
    ) -> impl Iterator<Item = (&LockKey, &Entry)> {
        let keys = &self.keys;
        let order = self.order.get_or_insert_with(|| Order {
            keys: keys.keys().cloned().map(InOrder).collect(),
            unused: 0,
        });
        order.unused = 0;
        let within = (Bound::Included(start), Bound::Excluded(end));
        let within = order.keys.range::<[u8], _>(within);
        within.filter_map(|key| keys.get_key_value(&key.0))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn key(n: u64) -> LockKey {
        // Long ones among them, and others with the same hash.
        let name = format!(
            "{n:0width$}",
            width = if n.is_multiple_of(3) { 40 } else { 5 }
        );
        LockKey::new([0, 1], name.as_bytes(), n % 101)
    }

    /// A stripe does as a sorted map does, whether or not it knows the order, and gives memory back.
    #[test]
    fn keys_come_and_go_and_are_found_in_order() {
        let (mut stripe, mut model) = (Stripe::default(), BTreeMap::new());
        let (mut ordered, mut unordered) = (0, 0);
        for round in 0..6000u64 {
            let n = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55;
            let wanted = key(n);
            if (round / 700) % 2 == 0 {
                assert!(stripe.entry(&wanted).is_unused());
                model.insert(wanted.bytes().to_vec(), wanted.clone());
            } else {
                stripe.change(&wanted, |_| {});
                model.remove(wanted.bytes());
            }
            assert_eq!(stripe.len(), model.len());
            assert_eq!(
                stripe.get_mut(&wanted).is_some(),
                model.contains_key(wanted.bytes())
            );
            match stripe.order {
                Some(_) => ordered += 1,
                None => unordered += 1,
            }
            if round % 1500 < 40 {
                let (start, end) = (key(n / 2), key(n));
                let ends = (
                    start.bytes().min(end.bytes()),
                    start.bytes().max(end.bytes()),
                );
                let found: Vec<_> = stripe.within(ends).map(|(key, _)| key.clone()).collect();
                let bounds = (Bound::Included(ends.0), Bound::Excluded(ends.1));
                let expected = model.range::<[u8], _>(bounds).map(|(_, key)| key);
                assert!(found.iter().eq(expected));
            }
            let most = 5 * stripe.len().max(KEPT);
            assert!(
                stripe.keys.capacity() <= most,
                "{} > {most}",
                stripe.keys.capacity()
            );
        }
        assert!(ordered > 500 && unordered > 500, "{ordered}, {unordered}");
    }
}
