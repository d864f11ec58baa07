//! What the operands of a key come to in a job.
//!
//! `compaction::retain` says which entries of a key stay. Of those, the ones from the first operand on come here, newest
//! first, until the next key comes.
//!
//! # The argument
//! Let `u > y` be two entries of a key that stay, one right behind the other. They are *together* if nobody reads at a moment
//! in `[y, u)`: `moment(y) ≥ u` in the words of `retain`. Every reader sees both then, or neither.
//!
//! 1. *Two operands* that are together become one, at the seqno of the newer. A reader that saw both sees what they
//!    come to, and by the law of merge operators (`base::merge`) that is the same on whatever lies below.
//! 2. *An operand and the base below it*, together, become a put at the seqno of the operand. It hides what the base hid
//!    from each moment, since those at `u` or above are those at `y` or above.
//! 3. *An operand with nothing below*, neither here nor in the tables below the output, becomes a put of what it is on
//!    nothing. A delete that waits (`retain`, 4) says no more than nothing does.
//! 4. *A range tombstone* between `y` and `u` hides `y`, unless somebody reads between `y` and the tombstone; then the
//!    two are not together. So entries that are together have none between them.
//! 5. *Each operand counts once.* It is in one entry of the output, or stays as it is; the inputs go with the edit that
//!    brings the output, or neither happens. Seqnos of what was folded are gone; the newest stays, which is the one that
//!    tells whether a key was written (`retain`, 6).
//!
//! A result that is too long for a table, or on which the operator fails, is not used: the operands stay as they were.
//! A read then says what is wrong, and no job fails. What is in a blob file, a base or an operand, stays there, and operands above it
//! are not folded with it.

use std::sync::Arc;

use thermocline_base::limits::VALUE_INLINE_MAX;
use thermocline_base::merge::{self, MergeOperator};
use thermocline_base::planted::{Bug, active};
use thermocline_base::{BlobRef, Kind, SeqNo};
use thermocline_compaction::Head;
use thermocline_compaction::retain::{Below, Moments, RangesBelow};
use thermocline_policy::steps;
use thermocline_policy::tuning::FOLD_BYTES;
use thermocline_sst::Value;

/// Folds the operands of one key after the other.
#[derive(Debug)]
pub(crate) struct Folding {
    operator: Arc<dyn MergeOperator>,
    moments: Moments,
    below: RangesBelow,
    key: Vec<u8>,
    /// Newest first; none while no operands are collected.
    entries: Vec<Entry>,
    /// So many entries are folded before the key has ended.
    due: usize,
    /// Entries of the key that were folded into others by now.
    gone: u64,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub seqno: SeqNo,
    pub kind: Kind,
    pub value: Kept,
}

#[derive(Debug)]
pub(crate) enum Kept {
    Inline(Vec<u8>),
    Blob(BlobRef),
}

impl Kept {
    pub fn as_value(&self) -> Value<'_> {
        match self {
            Kept::Inline(bytes) => Value::Inline(bytes),
            Kept::Blob(blob) => Value::Blob(*blob),
        }
    }

    fn len(&self) -> usize {
        match self {
            Kept::Inline(bytes) => bytes.len(),
            Kept::Blob(_) => 0,
        }
    }
}

impl Entry {
    /// Whether it is an operand that is at hand. What lies in a blob file is not.
    fn is_operand(&self) -> bool {
        self.kind == Kind::Merge && self.is_inline()
    }

    fn is_inline(&self) -> bool {
        matches!(self.value, Kept::Inline(_))
    }
}

impl AsRef<[u8]> for Entry {
    fn as_ref(&self) -> &[u8] {
        match &self.value {
            Kept::Inline(bytes) => bytes,
            Kept::Blob(_) => &[],
        }
    }
}

/// What is left of a key.
pub(crate) struct Folded {
    pub key: Vec<u8>,
    pub entries: Vec<Entry>,
    /// How many entries were folded into others.
    pub gone: u64,
}

impl Folding {
    /// For a job that retains by these.
    pub fn new(operator: Arc<dyn MergeOperator>, moments: Moments, below: RangesBelow) -> Folding {
        Folding {
            operator,
            moments,
            below,
            key: Vec::new(),
            entries: Vec::new(),
            due: steps::folds_at(0),
            gone: 0,
        }
    }

    /// Bytes of DRAM that it takes.
    pub fn memory(&self) -> u64 {
        let entries = self.entries.iter();
        entries.map(|entry| 64 + entry.value.len() as u64).sum()
    }

    /// Whether the key that is collected has ended, since this one comes.
    pub fn is_behind(&self, key: &[u8]) -> bool {
        !self.entries.is_empty() && self.key != key
    }

    /// Whether the next entry that stays is to be given to it.
    pub fn takes(&self, key: &[u8], kind: Kind) -> bool {
        match self.entries.is_empty() {
            true => kind == Kind::Merge,
            false => self.key == key,
        }
    }

    /// The next entry that stays.
    pub fn take(&mut self, head: Head<'_>, value: Value<'_>) {
        if self.entries.is_empty() {
            self.key.clear();
            self.key.extend_from_slice(head.user_key);
        }
        self.entries.push(Entry {
            seqno: head.seqno,
            kind: head.kind,
            value: match value {
                Value::Inline(bytes) => Kept::Inline(bytes.to_vec()),
                Value::Blob(blob) => Kept::Blob(blob),
            },
        });
        if self.entries.len() >= self.due {
            self.shorten(false);
            self.due = steps::folds_at(self.entries.len());
        }
    }

    /// The key has ended: what is left of it. Nothing if nothing was collected.
    pub fn fold(&mut self) -> Folded {
        if !self.entries.is_empty() {
            self.shorten(true);
        }
        self.due = steps::folds_at(0);
        Folded {
            key: self.key.clone(),
            entries: std::mem::take(&mut self.entries),
            gone: std::mem::take(&mut self.gone),
        }
    }

    /// Whether what is left of a key, a delete, says nothing (`retain`, 4).
    pub fn is_needless(&mut self, left: &Folded) -> bool {
        let since = self.moments.written_since();
        let known = left.entries.iter().all(|entry| entry.seqno <= since);
        known && !self.below.may_have(&left.key)
    }

    /// Whether nobody reads behind `older` and before `newer`.
    fn are_together(&self, newer: &Entry, older: &Entry) -> bool {
        self.moments.at_or_after(older.seqno) >= newer.seqno || active(Bug::FoldForgetsReaders)
    }

    /// Folds what is collected; `ended` says that no entry of the key follows.
    fn shorten(&mut self, ended: bool) {
        let before = self.entries.len();
        let mut rest = std::mem::take(&mut self.entries);
        // In reverse: so what is taken off its end is the newest.
        rest.reverse();
        let mut out = Vec::new();
        while let Some(first) = rest.pop() {
            if !first.is_operand() {
                out.push(first);
                continue;
            }
            let mut group = vec![first];
            let mut bytes = group[0].value.len();
            while let Some(next) = rest.last()
                && next.is_operand()
                && self.are_together(&group[group.len() - 1], next)
                && bytes + next.value.len() <= FOLD_BYTES
            {
                bytes += next.value.len();
                group.extend(rest.pop());
            }
            self.fold_group(group, &mut rest, ended, &mut out);
        }
        self.gone += (before - out.len()) as u64;
        self.entries = out;
    }

    /// Folds operands that are together, with the base behind them if there is one. `rest` is what follows, from its end.
    fn fold_group(
        &mut self,
        group: Vec<Entry>,
        rest: &mut Vec<Entry>,
        ended: bool,
        out: &mut Vec<Entry>,
    ) {
        let seqno = group[0].seqno;
        let last = &group[group.len() - 1];
        let base = rest.last().filter(|next| {
            next.kind != Kind::Merge && next.is_inline() && self.are_together(last, next)
        });
        let has_base = base.is_some();
        let value = base
            .filter(|base| base.kind == Kind::Put)
            .map(AsRef::as_ref);
        let at_bottom = rest.is_empty() && ended && !self.below.may_have(&self.key);
        let whole = has_base || at_bottom;
        let mut folded = None;
        if whole {
            folded = self.folded(value, &group).map(|value| (Kind::Put, value));
        }
        let is_value = folded.is_some();
        if folded.is_none() && group.len() > 1 {
            // An operand is a value, too: the oldest is what the others are merged into.
            let (newer, oldest) = group.split_at(group.len() - 1);
            let oldest = oldest.first().map(AsRef::as_ref);
            folded = self.folded(oldest, newer).map(|value| (Kind::Merge, value));
        }
        match folded {
            None => out.extend(group),
            Some((kind, value)) => out.push(Entry {
                seqno,
                kind,
                value: Kept::Inline(value),
            }),
        }
        if is_value && has_base {
            rest.pop();
        }
    }

    /// What operands come to; `None` if the operator fails, or that would be too long.
    fn folded(&self, base: Option<&[u8]>, group: &[Entry]) -> Option<Vec<u8>> {
        let folded = merge::fold(&*self.operator, &self.key, base, group);
        folded.ok().filter(|value| value.len() <= VALUE_INLINE_MAX)
    }
}

#[cfg(test)]
mod tests;
