//! Adding versions to what the tree has for a key, and leaving out what nobody needs any more.
//!
//! # What it costs
//! Blocks never change (V1), so a version goes into a copy of its block and of those before it. Blocks in which all is
//! older stay where they are, and the copy leads to them.
//!
//! - An operand that is the newest copies one block at most, or none: the n-th costs what the first did.
//! - One that comes late copies those that are newer, and one block. What is copied is cut anew (V3), so that it is no
//!   more for the next one that comes late.
//! - Many that come late together, below many newer ones (an old step of a replay, a large batch beside another), would
//!   copy the newer ones again and again. So those of one key go in with one update ([`Entry::with_versions`]), which
//!   copies them once.
//!
//! # Who frees what
//! What was copied is retired when the copy is in the slot, and what is shared is not: V2. An entry that is not stored
//! gives back its own blocks and leaves what it shares.

use thermocline_base::{Result, SeqNo};

use crate::leaf::Leaf;
use crate::memory::NodeMemory;
use crate::versions::{Blocks, Entry, NewEntry, OPERANDS_A_BLOCK, Tail, Version, list};

impl<'g> Entry<'g> {
    /// This entry with one more version, trimmed to what is needed: the new version, the newest
    /// one, and for each moment of `readers` the newest version not after it, with what that is an operand on. A version
    /// with the same seqno is replaced. `present` tells the seqno of the leaf where there is just one.
    ///
    /// # Errors
    /// Those of `present`, or [`thermocline_base::Error::OutOfSpace`].
    ///
    /// # Panics
    /// If `leaf` has another fingerprint than this entry, that is, belongs to another key.
    pub fn with_version(
        self,
        seqno: SeqNo,
        leaf: Leaf,
        present: impl FnOnce() -> Result<SeqNo>,
        readers: &(impl Moments + ?Sized),
    ) -> Result<NewEntry<'g>> {
        assert_eq!(leaf.fingerprint(), self.link.word().fingerprint());
        let new = Version { seqno, leaf };
        let Some((first, tail)) = list(self.link.word()) else {
            let only = Version {
                seqno: present()?,
                leaf: self.leaf(),
            };
            return spliced((&[only], None), new, &readers, self.memory);
        };
        if leaf.is_operand()
            && let Some(all) = self.as_tail(seqno)
        {
            // It hides nothing: all stays, and nothing is copied.
            return NewEntry::block(1, std::iter::once(new), Some(all), self.memory);
        }
        if tail.is_none() || first[first.len() - 1].seqno <= seqno {
            return spliced((first, tail), new, &readers, self.memory);
        }
        let (above, tail) = self.down_to(seqno);
        spliced((&above, tail), new, &readers, self.memory)
    }

    /// As [`Entry::with_version`] for each of `new`, newest first, but none of these stays only because it is new.
    ///
    /// Nobody misses what is left out: `readers` are all moments at which somebody may read, those among them at which
    /// groups in flight end, and by the same moments the next version of the key would leave it out.
    ///
    /// # Errors
    /// As [`Entry::with_version`].
    ///
    /// # Panics
    /// If there is none, they are in another order, or one has another fingerprint than this entry.
    pub fn with_versions(
        self,
        new: &[Version],
        present: impl FnOnce() -> Result<SeqNo>,
        readers: &(impl Moments + ?Sized),
    ) -> Result<NewEntry<'g>> {
        let descends = |pair: &[Version]| pair[0].seqno > pair[1].seqno;
        assert!(new.windows(2).all(descends), "newest first");
        let fingerprint = self.link.word().fingerprint();
        let is_own = |version: &Version| version.leaf.fingerprint() == fingerprint;
        assert!(new.iter().all(is_own), "versions of another key");
        let oldest = new
            .last()
            .expect("whoever calls has a version: see Panics")
            .seqno;
        let hide_nothing = new.iter().all(|version| version.leaf.is_operand());
        let whole = hide_nothing.then(|| self.as_tail(oldest)).flatten();
        let (old, tail) = match (self.list(), whole) {
            (Some(_), None) => self.down_to(oldest),
            (_, Some(whole)) => (Vec::new(), Some(whole)),
            (None, None) => {
                let only = Version {
                    seqno: present()?,
                    leaf: self.leaf(),
                };
                (vec![only], None)
            }
        };
        let mut all = merged(&old, new);
        let mut above = None;
        all.retain(|version| {
            let needed = is_needed(version.seqno, above, &readers);
            if !version.leaf.is_operand() {
                above = Some(version.seqno);
            }
            needed
        });
        let tail = tail.filter(|tail| is_needed(tail.oldest, above, &readers));
        match (all.as_slice(), tail) {
            ([only], None) => Ok(NewEntry::from(only.leaf)),
            (all, tail) => NewEntry::laid_out(all, tail, self.memory),
        }
    }

    /// The whole list as what follows a newer block, if its first block is full, and all of it older than `seqno`.
    fn as_tail(self, seqno: SeqNo) -> Option<Tail> {
        let (first, tail) = list(self.link.word())?;
        let last = first[first.len() - 1].seqno;
        let follows = first.len() >= OPERANDS_A_BLOCK && first[0].seqno < seqno;
        follows.then_some(Tail {
            older: self.link.word(),
            oldest: tail.map_or(last, |tail| tail.oldest),
        })
    }

    /// The versions of the first block, and of each other one in which not all is older than `seqno`; and what
    /// follows them.
    fn down_to(self, seqno: SeqNo) -> (Vec<Version>, Option<Tail>) {
        let (mut above, mut rest) = (Vec::new(), None);
        for (versions, tail) in Blocks::of(self.link) {
            if !above.is_empty() && versions[0].seqno < seqno {
                // `rest` leads to it.
                break;
            }
            above.extend_from_slice(versions);
            rest = tail;
        }
        (above, rest)
    }
}

/// `old` and `new`, both newest first, as one. Of two with the same seqno the new one stays.
fn merged(old: &[Version], new: &[Version]) -> Vec<Version> {
    let mut all = Vec::with_capacity(old.len() + new.len());
    let mut rest = old;
    for version in new {
        let newer = rest.partition_point(|old| old.seqno > version.seqno);
        all.extend_from_slice(&rest[..newer]);
        all.push(*version);
        let same = rest
            .get(newer)
            .is_some_and(|old| old.seqno == version.seqno);
        rest = &rest[newer + usize::from(same)..];
    }
    all.extend_from_slice(rest);
    all
}

/// `old` with a version more, trimmed, before `tail`, which stays as it is or goes.
fn spliced<'m>(
    (old, tail): (&[Version], Option<Tail>),
    new: Version,
    readers: &dyn Moments,
    memory: &'m dyn NodeMemory,
) -> Result<NewEntry<'m>> {
    let seqno = new.seqno;
    let newer = old.partition_point(|version| version.seqno > seqno);
    let rest = &old[newer..];
    let rest = match rest.first() {
        Some(same) if same.seqno == seqno => &rest[1..],
        _ => rest,
    };
    let all = || old[..newer].iter().chain([&new]).chain(rest).copied();
    let kept = || {
        let mut above = None;
        all().filter(move |version| {
            let needed = is_needed(version.seqno, above, readers);
            if !version.leaf.is_operand() {
                above = Some(version.seqno);
            }
            needed || version.seqno == seqno
        })
    };
    let tail = tail.filter(|tail| {
        let oldest_base = all().rfind(|version| !version.leaf.is_operand());
        is_needed(tail.oldest, oldest_base.map(|base| base.seqno), readers)
    });
    let len = kept().count();
    if len == 1 && tail.is_none() {
        return Ok(NewEntry::from(new.leaf));
    }
    if len > OPERANDS_A_BLOCK && kept().any(|version| version.leaf.is_operand()) {
        let kept: Vec<Version> = kept().collect();
        return NewEntry::laid_out(&kept, tail, memory);
    }
    NewEntry::block(len, kept(), tail, memory)
}

/// Whether somebody may be answered with a version at `seqno`, or with one behind it, if the next base above is at `above`.
fn is_needed(seqno: SeqNo, above: Option<SeqNo>, readers: &dyn Moments) -> bool {
    above.is_none_or(|above| readers.any_in(seqno, above))
}

/// The moments at which somebody may read.
pub trait Moments {
    /// Whether somebody may read at `from`, or later but before `to`: whoever does sees a version at
    /// `from` whose next newer version is at `to`.
    fn any_in(&self, from: SeqNo, to: SeqNo) -> bool;
}

impl<M: Moments + ?Sized> Moments for &M {
    fn any_in(&self, from: SeqNo, to: SeqNo) -> bool {
        (**self).any_in(from, to)
    }
}

/// Ascending.
impl Moments for [SeqNo] {
    fn any_in(&self, from: SeqNo, to: SeqNo) -> bool {
        let first = self.partition_point(|&reader| reader < from);
        self.get(first).is_some_and(|&reader| reader < to)
    }
}
