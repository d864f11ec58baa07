//! What a transaction sees, and what of that must not change: its moment, its writes, its footprint.

use std::cell::{Cell, Ref, RefCell};
use std::ops::{Bound, Deref};

use thermocline_base::{CfId, Result, merge};
use thermocline_engine::{Changed, Family, Footprint};

use crate::footprint::{OneKey, Touched};
use crate::lane::Lane;
use crate::life::Life;
use crate::lists::Lists;
use crate::memory::TOUCHED_BYTES;
use crate::shared::Shared;
use crate::store::{Moment, Store};
use crate::sync::{Arc, Ordering};
use crate::writes::{Own, Writes};

/// The values that a store gives.
pub type ValueOf<S> = <<S as Store>::Moment as Moment>::Value;

/// The footprint of a transaction.
pub(crate) struct Whole<'a> {
    touched: Ref<'a, Touched>,
    writes: &'a Writes,
}

impl Footprint for Whole<'_> {
    fn meets(&self, change: &Changed<'_>) -> bool {
        let Changed { cf, key, hash, .. } = *change;
        let writes = match change.range {
            None => self.writes.has(&OneKey { cf, key, hash }),
            Some(end) => {
                let to = end.map_or(Bound::Unbounded, Bound::Excluded);
                self.writes.has_within(cf, (Bound::Included(key), to))
            }
        };
        writes || self.writes.deleted().meet(change) || self.touched.meets(change)
    }

    fn holds_for_all(&self, holds: &mut dyn FnMut(u64) -> bool) -> bool {
        // Hashes say nothing of a range that it deleted.
        self.writes.deleted().is_empty()
            && self.touched.holds_for_all(holds)
            && self.writes.hashes().all(holds)
    }
}

/// Nobody has a transaction that has ended: it is taken by whatever ends it.
const GONE: &str = "a transaction that has ended is not used";

/// What a transaction sees.
#[derive(Debug)]
pub(crate) struct Reading<S: Store> {
    pub lane: Arc<Lane<S>>,
    pub life: Arc<Life>,
    /// What it reads at, once it has read.
    moment: RefCell<Option<S::Moment>>,
    /// What it has, until it has ended.
    lists: Option<Box<Lists>>,
    /// Whether it has read something that may change meanwhile: then its moment cannot move.
    is_fixed: Cell<bool>,
}

impl<S: Store> Reading<S> {
    pub fn new(lane: Arc<Lane<S>>, life: Arc<Life>, lists: Box<Lists>) -> Reading<S> {
        Reading {
            lane,
            life,
            moment: RefCell::default(),
            lists: Some(lists),
            is_fixed: Cell::new(false),
        }
    }

    pub fn shared(&self) -> &Shared<S> {
        &self.lane.shared
    }

    /// What it has.
    #[inline]
    pub fn lists(&self) -> &Lists {
        self.lists.as_deref().expect(GONE)
    }

    /// As [`Reading::lists`], to be changed.
    #[inline]
    pub fn lists_mut(&mut self) -> &mut Lists {
        self.lists.as_deref_mut().expect(GONE)
    }

    /// It has ended, and has nothing any more. `None` if that was so before.
    pub fn take_lists(&mut self) -> Option<Box<Lists>> {
        self.lists.take()
    }

    /// Its own writes.
    #[inline]
    pub fn writes(&self) -> &Writes {
        &self.lists().writes
    }

    /// Its moment: the present, if it has none yet.
    pub fn moment(&self) -> Result<Ref<'_, S::Moment>> {
        if self.moment.borrow().is_none() {
            self.set_moment(self.shared().store.moment()?);
        }
        let moment = Ref::map(self.moment.borrow(), |moment| {
            moment.as_ref().expect("it was set, and is never unset")
        });
        Ok(moment)
    }

    /// The moment that it has, if any.
    pub fn moment_if_any(&self) -> Ref<'_, Option<S::Moment>> {
        self.moment.borrow()
    }

    /// It reads at this moment from now on.
    pub fn set_moment(&self, moment: S::Moment) {
        let seqno = moment.seqno().0;
        self.life.snapshot.store(seqno + 1, Ordering::Relaxed);
        *self.moment.borrow_mut() = Some(moment);
    }

    /// Takes so many bytes of DRAM for what it has.
    ///
    /// # Errors
    /// Those of [`crate::memory::Memory::take`]: nothing is taken then.
    pub fn take_memory(&self, bytes: u64) -> Result<()> {
        let mut held = self.lists().held.borrow_mut();
        if held.spare < bytes {
            let taken = self.shared().memory.take_ahead(bytes - held.spare)?;
            held.bytes += taken;
            held.spare += taken;
        }
        held.spare -= bytes;
        Ok(())
    }

    /// As [`Reading::take_memory`], limit or not: what comes next is refused then.
    pub fn take_memory_anyway(&self, bytes: u64) {
        if self.take_memory(bytes).is_err() {
            self.shared().memory.take_anyway(bytes);
            self.lists().held.borrow_mut().bytes += bytes;
        }
    }

    /// These keys must not change until the commit.
    ///
    /// # Errors
    /// Those of [`Reading::take_memory`]: any of them may change then.
    pub fn touch_all<'a, 'k: 'a>(
        &self,
        keys: impl Iterator<Item = &'a OneKey<'k>> + Clone,
    ) -> Result<()> {
        let touched = &self.lists().touched;
        let cost = |key: &OneKey<'_>| match touched.borrow().has(key) {
            true => 0,
            false => TOUCHED_BYTES + key.key.len() as u64,
        };
        let most: u64 = keys.clone().map(cost).sum();
        self.take_memory(most)?;
        let mut spare = most;
        for key in keys {
            spare -= cost(key);
            touched.borrow_mut().add(key);
        }
        // One that was named twice costs once.
        self.lists().held.borrow_mut().spare += spare;
        Ok(())
    }

    /// Its moment must not move any more.
    pub fn fix(&self) {
        self.is_fixed.set(true);
    }

    pub fn is_fixed(&self) -> bool {
        self.is_fixed.get()
    }

    /// What must not change between its moment and its commit: what it has read so, and what it writes. Not what it has taken
    /// back: that was never written, and what was read for it is there.
    pub fn footprint(&self) -> Whole<'_> {
        Whole {
            touched: self.lists().touched.borrow(),
            writes: self.writes(),
        }
    }

    /// The value of a key: its own, or the one at its moment.
    pub fn look(&self, key: &OneKey<'_>) -> Result<Option<ValueOf<S>>> {
        let OneKey { cf, key: bytes, .. } = *key;
        match self.writes().get(key) {
            Some(own) => self.seen(cf, bytes, own, || self.moment()?.get(cf, bytes)),
            None => self.moment()?.get(cf, bytes),
        }
    }

    /// Whether what its moment has is asked for to know the value of a key: what it merges itself is merged into that.
    pub fn asks_moment(&self, key: &OneKey<'_>) -> bool {
        matches!(self.writes().get(key), None | Some(Own::Operand(_)))
    }

    /// The values of several keys, each as [`Reading::look`] finds it. What its moment has is read together.
    pub fn look_all(&self, keys: &[OneKey<'_>]) -> Result<Vec<Option<ValueOf<S>>>> {
        let asked = keys.iter().filter(|key| self.asks_moment(key));
        let asked: Vec<(CfId, &[u8])> = asked.map(|key| (key.cf, key.key)).collect();
        let stored = match asked.is_empty() {
            true => Vec::new(),
            false => self.moment()?.values(&asked),
        };
        let mut stored = stored.into_iter();
        let mut next = || stored.next().unwrap_or(Ok(None));
        let value = |key: &OneKey<'_>| match self.writes().get(key) {
            Some(own) => self.seen(key.cf, key.key, own, &mut next),
            None => next(),
        };
        keys.iter().map(value).collect()
    }

    /// What its own write makes of what its moment has.
    pub fn seen<V: Deref<Target = [u8]>>(
        &self,
        cf: CfId,
        key: &[u8],
        own: Own<'_>,
        stored: impl FnOnce() -> Result<Option<V>>,
    ) -> Result<Option<ValueOf<S>>> {
        let merged = |existing: Option<&[u8]>, operand: &[u8]| {
            let operator = self.shared().store.merge_operator(cf)?;
            merge::merge_one(&*operator, key, existing, operand)
        };
        let value = match own {
            Own::Value(value) => return Ok(value.map(S::Moment::value)),
            Own::Alone(operand) => merged(None, operand)?,
            Own::Operand(operand) => merged(stored()?.as_deref(), operand)?,
        };
        Ok(Some(S::Moment::value(&value)))
    }

    /// A place among what its moment has.
    pub fn place(&self, family: Family) -> Result<<S::Moment as Moment>::Place> {
        self.moment()?.place(family)
    }
}

#[cfg(test)]
mod tests {
    use thermocline_base::SeqNo;
    use thermocline_engine::key_hash;

    use super::*;
    use crate::footprint::Span;
    use crate::memory::{HIDDEN_BYTES, write_bytes};
    use crate::writes::Write;

    const CF: CfId = CfId(3);

    fn key(name: &str) -> OneKey<'_> {
        OneKey::new(CF, name.as_bytes())
    }

    fn put(lists: &mut Lists, name: &str) {
        let value = Write::Value(Some(name.as_bytes().into()));
        lists.writes.set(&key(name), &value).unwrap();
    }

    fn whole(lists: &Lists) -> Whole<'_> {
        Whole {
            touched: lists.touched.borrow(),
            writes: &lists.writes,
        }
    }

    /// Whether a change of a key meets the footprint, or that of a range, if it has an end.
    fn meets(lists: &Lists, name: &str, end: Option<&str>) -> bool {
        whole(lists).meets(&Changed {
            seqno: SeqNo(1),
            cf: CF,
            key: name.as_bytes(),
            hash: key_hash(CF, name.as_bytes()),
            range: end.map(|end| Some(end.as_bytes())),
        })
    }

    #[test]
    fn what_is_taken_back_is_in_no_footprint_and_what_was_read_is() {
        let mut lists = Lists::default();
        lists.touched.get_mut().add(&key("read"));
        put(&mut lists, "kept");
        let before = lists.writes.savepoint((0, 1));
        for _ in 0..2 {
            // One is written again, and one lies in a range that is deleted.
            for name in ["blind", "kept", "dead"] {
                put(&mut lists, name);
            }
            let span = Span {
                cf: CF,
                start: b"d".to_vec(),
                end: Some(b"f".to_vec()),
            };
            let range = lists.writes.deletion(span).unwrap();
            lists.writes.delete_range(range);
            lists.touched.get_mut().add(&key("read later"));
            for name in ["read", "read later", "kept", "blind", "dead", "e"] {
                assert!(meets(&lists, name, None), "{name}");
            }
            assert!(meets(&lists, "b", Some("c")) && meets(&lists, "ea", Some("eb")));
            assert!(!whole(&lists).holds_for_all(&mut |_| true));
            let freed = lists.writes.rollback_to((0, 1), before).unwrap();
            let taken = [10, 8, 8, 2].map(write_bytes);
            // The range has hidden one.
            assert_eq!(freed, taken.iter().sum::<u64>() + HIDDEN_BYTES);
            for name in ["read", "read later", "kept"] {
                assert!(meets(&lists, name, None), "{name}");
            }
            for name in ["blind", "dead", "e"] {
                assert!(!meets(&lists, name, None), "{name}");
            }
            assert!(!meets(&lists, "b", Some("c")) && !meets(&lists, "ea", Some("eb")));
            assert!(meets(&lists, "k", Some("l")));
        }
        let known = ["read", "read later", "kept"].map(|name| key(name).hash);
        assert!(whole(&lists).holds_for_all(&mut |hash| known.contains(&hash)));
    }
}
