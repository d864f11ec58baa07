//! Which entries survive a merge.
//!
//! # Vocabulary
//! - A **moment** is a seqno as of which somebody may read: each registered snapshot, and every
//!   seqno from the **horizon** on. `moment(x)` is the first moment at or after seqno `x`.
//! - A **write** to a key is an entry of it or a range tombstone over it. It is a **base** unless
//!   it is a [`Kind::Merge`]: a read looks at nothing below the newest base.
//! - A read of a key at moment `m` takes the writes at or below `m`, newest first: the merge
//!   operands up to the first base, and that base's value, if it is a put.
//! - **Below** are the older data of a key that are not among the inputs and will lie below the
//!   output. What is neither among the inputs nor below is newer than all inputs (law of age).
//!
//! # The argument
//! 1. **Hidden.** Write `y` is *hidden* if there is a base `u` of the same key with `y < u ≤
//!    moment(y)`. No read needs it: a moment at or after `y` is at or after `moment(y)`, so it sees
//!    `u`, and stops there or above. What is hidden is dropped.
//! 2. **Hiding does not need what is dropped.** If `u` hides `y` and `v` hides `u`, then `v` hides
//!    `y`: no moment lies in `[y, u)`, so `moment(y) = moment(u) ≥ v`. The newest base at or below
//!    a moment is hidden by nothing. So of what is hidden, everything may go at once.
//! 3. **Operands stay.** A merge operand hides nothing, so a stack of operands stays as it is down
//!    to its base; what lies under the base, at the same moments, goes.
//! 4. **Needless tombstones.** A delete that is not hidden answers "nothing". So does the absence
//!    of all writes below it. It is dropped if nothing below the output can have the key and the
//!    next older entry of the key that stays is a delete, or there is none. Until that is known it
//!    *waits*; memory for it is one seqno, since of two that wait the older says all that both
//!    said.
//! 5. **Needless range tombstones.** The same, told without waiting: a part of a range tombstone
//!    `t` is dropped where it is hidden by another one (1, key by key), and where nothing older
//!    lies below and `t` is at or below the first moment: all older entries under it are then
//!    hidden (1). What stays of it is one piece, from the first key to the last at which it is
//!    needed. A part too much is never wrong, since it says nothing that was not said before; and
//!    so range tombstones never multiply.
//! 6. **Facts of writing.** Who validates a transaction asks "has this key been written since
//!    `s`?". The newest write of a key is never hidden; 4 and 5 do not apply to writes above
//!    [`Moments::written_since`]. So the answer stays right for `s` at or above it, if it lies at
//!    or below all such `s`.
//! 7. **Removed.** Whoever knows that nobody may see an entry at its own seqno or behind (`jobs::filtering`) may put a delete of the
//!    same seqno in its place: it hides what the entry hid, so 1 to 3 stay true, and 4 to 6 apply to it.
//! 8. **Nothing grows.** Each entry stays or goes; memory is one key and the inputs' range
//!    tombstones.
//!
//! # Rejected
//! - *Dropping a delete only at or below the first moment* (as range tombstones are): one old
//!   snapshot would keep the tombstone of every key that a queue passes through after it.
//! - *Cutting range tombstones into disjoint fragments*: n nested ones make n² pieces.
//!
//! ```
//! use thermocline_base::{Kind, SeqNo};
//! use thermocline_compaction::Head;
//! use thermocline_compaction::retain::{Decision, Moments, NothingBelow, Retain};
//!
//! let moments = Moments::new(vec![SeqNo(3)], SeqNo(100));
//! let mut retain = Retain::new(moments, vec![], NothingBelow);
//! let mut decide = |user_key, seqno, kind| {
//!     let head = Head { user_key, seqno: SeqNo(seqno), kind };
//!     retain.decide(head).expect("they come in order")
//! };
//! assert_eq!(decide(b"k", 9, Kind::Put), Decision::Keep);
//! assert_eq!(decide(b"k", 8, Kind::Put), Decision::Drop);
//! assert_eq!(decide(b"k", 3, Kind::Put), Decision::Keep); // of the snapshot
//! assert_eq!(decide(b"l", 9, Kind::Delete), Decision::Drop); // nothing to delete so far
//! assert_eq!(decide(b"l", 2, Kind::Put), Decision::KeepAfterDelete(SeqNo(9)));
//! ```

mod below;
mod moments;
mod tombstones;

use std::cmp::Ordering;
use std::mem;

use thermocline_base::{Kind, RangeTombstone, SeqNo};

use crate::Head;
pub use below::{Below, NothingBelow, RangesBelow};
pub use moments::Moments;
pub use tombstones::joined;
use tombstones::{Sweep, surviving};

/// What becomes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It goes to the output.
    Keep,
    /// First a [`Kind::Delete`] of the same user key with this seqno goes to the output, then the
    /// entry: that delete was answered with `Drop`, and is needed after all.
    KeepAfterDelete(SeqNo),
    /// It does not go to the output.
    Drop,
}

/// Decides, entry by entry. See the [module](self).
#[derive(Debug)]
pub struct Retain<B> {
    moments: Moments,
    below: B,
    over: Sweep,
    tombstones: Vec<RangeTombstone>,
    /// The user key of the last entry; none before the first one.
    key: Option<Vec<u8>>,
    /// The seqno of the last entry.
    last: SeqNo,
    /// The oldest base of the key so far, range tombstones apart.
    base: Option<SeqNo>,
    /// The delete of the key that waits (4).
    waits: Option<SeqNo>,
    /// Whether the key may have older data below; unknown until somebody asks.
    older: Option<bool>,
}

impl<B: Below> Retain<B> {
    /// For a merge of which these are all range tombstones, in any order. What an output covers
    /// only in part is cut to it before.
    pub fn new(moments: Moments, tombstones: Vec<RangeTombstone>, mut below: B) -> Retain<B> {
        let tombstones = joined(tombstones);
        Retain {
            tombstones: surviving(&tombstones, &moments, &mut below),
            over: Sweep::new(tombstones),
            moments,
            below,
            key: None,
            last: SeqNo::MAX,
            base: None,
            waits: None,
            older: None,
        }
    }

    /// The range tombstones that go to the output: by start, then newest first.
    pub fn tombstones(&self) -> &[RangeTombstone] {
        &self.tombstones
    }

    /// What becomes of the next entry of the merge. Of a version that comes twice, the second goes. `None` if it cannot be the next
    /// one, and nothing has happened: it lies before the last one, or is a range tombstone, which are given to [`Retain::new`].
    /// Sources that say so are damaged, with checksums that are right.
    pub fn decide(&mut self, head: Head<'_>) -> Option<Decision> {
        if head.kind == Kind::RangeDelete {
            return None;
        }
        if !self.go_to(&head)? {
            return Some(Decision::Drop);
        }
        let Head { seqno, kind, .. } = head;
        let moment = self.moments.at_or_after(seqno);
        let base = self.base.replace(seqno);
        if kind == Kind::Merge {
            self.base = base;
        }
        let covers = [base, self.over.oldest_after(seqno)];
        if covers.into_iter().flatten().any(|u| u <= moment) {
            return Some(Decision::Drop);
        }
        if kind == Kind::Delete && seqno <= self.moments.written_since() && !self.is_older_below() {
            self.waits = Some(seqno);
            return Some(Decision::Drop);
        }
        Some(match self.waits.take() {
            Some(delete) => Decision::KeepAfterDelete(delete),
            None => Decision::Keep,
        })
    }

    /// The entry that [`Retain::decide`] has just answered with `decision`, which lets it stay, becomes a delete (7). What becomes of
    /// that.
    pub fn remove(&mut self, decision: Decision) -> Decision {
        let needless = self.last <= self.moments.written_since() && !self.is_older_below();
        if decision == Decision::Drop || !needless {
            return decision;
        }
        // One that waited above says nothing that this one does not say.
        self.waits = Some(self.last);
        Decision::Drop
    }

    /// Moves on to an entry; returns whether it is another one than the last. `None` if it lies before that.
    fn go_to(&mut self, head: &Head<'_>) -> Option<bool> {
        let Head {
            user_key, seqno, ..
        } = *head;
        let order = match self.key.as_deref() {
            Some(key) => key.cmp(user_key),
            None => Ordering::Less,
        };
        match order {
            Ordering::Greater => return None,
            Ordering::Equal if seqno > self.last => return None,
            Ordering::Equal => return Some(mem::replace(&mut self.last, seqno) > seqno),
            Ordering::Less => self.last = seqno,
        }
        let key = self.key.get_or_insert_default();
        key.clear();
        key.extend_from_slice(user_key);
        self.over.go_to(user_key);
        (self.base, self.waits, self.older) = (None, None, None);
        Some(true)
    }

    fn is_older_below(&mut self) -> bool {
        let key = self.key.as_deref().expect("there is an entry");
        *self.older.get_or_insert_with(|| self.below.may_have(key))
    }
}

#[cfg(test)]
mod tests;
