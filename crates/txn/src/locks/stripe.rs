//! Some of the keys that are locked or waited for, behind one lock.
//!
//! Of most stripes one key at a time is locked: the first lies beside the lock of the stripe, on the same cache lines, and
//! needs no table. Keys beside it lie in a table, and are found by their hashes. Their order is wanted by ranges only: it is
//! made when a range is locked, kept from then on as keys come and go, and forgotten when, since the last range, as many keys
//! have come and gone as it has. So keys pay nothing for it while there are no ranges, and a range pays for those keys at
//! most that came since the one before.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::locks::entry::Entry;
use crate::locks::key::{InOrder, LockKey};
use crate::locks::slots::{Slot, Slots};

/// So many keys come and go before an order that has fewer is forgotten.
const KEPT: usize = 32;

/// Where a key lies.
#[derive(Debug, Clone, Copy)]
enum At {
    First,
    Place(usize),
}

/// Keys, and who has and wants them.
#[derive(Debug, Default)]
pub(crate) struct Stripe {
    /// A key that found nobody here.
    first: Option<Slot>,
    /// The other ones.
    rest: Slots,
    order: Option<Box<Order>>,
}

/// The keys in order.
#[derive(Debug)]
struct Order {
    keys: BTreeSet<InOrder>,
    /// How many have come and gone since a range asked.
    unused: usize,
}

impl Stripe {
    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.rest.len() + usize::from(self.first.is_some())
    }

    /// All keys.
    pub fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.first.iter().chain(self.rest.iter())
    }

    #[inline]
    fn find(&self, key: &LockKey) -> Option<At> {
        match &self.first {
            Some((own, _)) if own == key => Some(At::First),
            _ => self.rest.find(key).map(At::Place),
        }
    }

    fn at(&self, at: At) -> &Slot {
        match at {
            At::First => self.first.as_ref().expect("a key was found here"),
            At::Place(place) => self.rest.at(place),
        }
    }

    fn at_mut(&mut self, at: At) -> &mut Slot {
        match at {
            At::First => self.first.as_mut().expect("a key was found here"),
            At::Place(place) => self.rest.at_mut(place),
        }
    }

    /// Whether somebody has or wants a key.
    #[inline]
    pub fn has(&self, key: &LockKey) -> bool {
        self.find(key).is_some()
    }

    pub fn get_mut(&mut self, key: &LockKey) -> Option<&mut Entry> {
        let at = self.find(key)?;
        Some(&mut self.at_mut(at).1)
    }

    /// Adds a key that is not there.
    #[inline]
    pub fn add(&mut self, key: &LockKey, entry: Entry) -> &mut Entry {
        self.reorder(|keys| {
            keys.insert(InOrder(key.clone()));
        });
        let slot = (key.clone(), entry);
        if self.first.is_none() {
            return &mut self.first.insert(slot).1;
        }
        self.rest.add(slot)
    }

    /// The entry of a key: an unused one where there was none.
    pub fn entry(&mut self, key: &LockKey) -> &mut Entry {
        match self.find(key) {
            None => self.add(key, Entry::default()),
            Some(at) => &mut self.at_mut(at).1,
        }
    }

    /// Of the keys one is to come or has gone. Has the order changed so, or forgets it.
    #[inline]
    fn reorder(&mut self, change: impl FnOnce(&mut BTreeSet<InOrder>)) {
        let len = self.len();
        let Some(kept) = &mut self.order else {
            return;
        };
        kept.unused += 1;
        if kept.unused > len + KEPT {
            self.order = None;
        } else {
            change(&mut kept.keys);
        }
    }

    /// Calls `change` with the entry of a key, if there is one. A key that nobody has or wants then is forgotten.
    #[inline]
    pub fn change(&mut self, key: &LockKey, change: impl FnOnce(&mut Entry)) {
        let Some(at) = self.find(key) else {
            return;
        };
        let (_, entry) = self.at_mut(at);
        change(entry);
        if !entry.is_unused() {
            return;
        }
        match at {
            At::First => self.first = None,
            At::Place(place) => self.rest.remove(place),
        }
        self.reorder(|keys| {
            keys.remove(key.bytes());
        });
    }

    /// The keys from `start` up to, and not with, `end`.
    pub fn within(
        &mut self,
        (start, end): (&[u8], &[u8]),
    ) -> impl Iterator<Item = (&LockKey, &Entry)> {
        if self.order.is_none() {
            let keys = self.iter().map(|(key, _)| InOrder(key.clone())).collect();
            self.order = Some(Box::new(Order { keys, unused: 0 }));
        }
        if let Some(order) = &mut self.order {
            order.unused = 0;
        }
        let this = &*self;
        let within = (Bound::Included(start), Bound::Excluded(end));
        let order = this.order.iter();
        let within = order.flat_map(move |order| order.keys.range::<[u8], _>(within));
        within.filter_map(|InOrder(key)| {
            let (key, entry) = this.at(this.find(key)?);
            Some((key, entry))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::locks::slots::LEAST;

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
                if !stripe.has(&wanted) {
                    stripe.add(&wanted, Entry::default());
                }
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
            let (most, there) = (5 * stripe.len().max(LEAST), stripe.rest.capacity());
            assert!(there <= most, "{there} > {most}");
        }
        assert!(ordered > 500 && unordered > 500, "{ordered}, {unordered}");
    }
}
