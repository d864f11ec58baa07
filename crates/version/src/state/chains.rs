//! How chains and memtables come and go.

use std::collections::{BTreeMap, BTreeSet};

use super::order::Order;
use crate::edit::{Change, NextIds};
use crate::impossible::{Impossible, at_least, must, next_of, possible_seqno};

/// A memtable, as the manifest names it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemtableEntry {
    /// Its chains, oldest first.
    pub chains: Vec<Chain>,
}

/// A chain of zones. See [`Change::ChainOpened`](crate::Change::ChainOpened).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain {
    /// Its id.
    pub id: u64,
    /// Who writes it.
    pub incarnation: u32,
    /// The random value of that incarnation.
    pub nonce: u64,
    /// The seqno of its first record; 0: the one after the previous chain's last.
    pub base_seqno: u64,
    /// Where it begins; `None`: at its own first zone.
    pub start: Option<u64>,
    /// Where recovery found its end, if it was cut.
    pub cut: Option<Cut>,
    /// Whether it was written before it was named: its records are numbered from 1, which stands
    /// for `base_seqno`. See [`Change::ChainAdopted`](crate::Change::ChainAdopted).
    pub staged: bool,
}

impl MemtableEntry {
    /// Whether it is a chain that was written before it was named: complete from the beginning.
    pub fn is_staged(&self) -> bool {
        self.chains.first().is_some_and(|chain| chain.staged)
    }
}

impl Chain {
    /// The chain that a change opens.
    pub(super) fn opened(change: &Change) -> Option<Chain> {
        let Change::ChainOpened {
            chain,
            memtable: _,
            incarnation,
            nonce,
            base_seqno,
            start,
        } = change
        else {
            return None;
        };
        Some(Chain {
            id: *chain,
            incarnation: *incarnation,
            nonce: *nonce,
            base_seqno: *base_seqno,
            start: *start,
            cut: None,
            staged: false,
        })
    }

    /// The chain that a change adopts.
    pub(super) fn adopted(change: &Change) -> Option<Chain> {
        let Change::ChainAdopted {
            chain,
            memtable: _,
            incarnation,
            nonce,
            base_seqno,
            last_seqno,
            end,
        } = change
        else {
            return None;
        };
        Some(Chain {
            id: *chain,
            incarnation: *incarnation,
            nonce: *nonce,
            base_seqno: *base_seqno,
            start: None,
            cut: Some(Cut {
                last_seqno: *last_seqno,
                end: *end,
            }),
            staged: true,
        })
    }

    /// The changes that name it, as the one or the other.
    pub(super) fn changes(&self, memtable: u64) -> impl Iterator<Item = Change> + use<> {
        let (named, cut) = match (self.staged, self.cut) {
            (true, Some(cut)) => {
                let adopted = Change::ChainAdopted {
                    chain: self.id,
                    memtable,
                    incarnation: self.incarnation,
                    nonce: self.nonce,
                    base_seqno: self.base_seqno,
                    last_seqno: cut.last_seqno,
                    end: cut.end,
                };
                (adopted, None)
            }
            (_, cut) => {
                let opened = Change::ChainOpened {
                    chain: self.id,
                    memtable,
                    incarnation: self.incarnation,
                    nonce: self.nonce,
                    base_seqno: self.base_seqno,
                    start: self.start,
                };
                (opened, cut)
            }
        };
        let chain = self.id;
        let cut = cut.map(|cut| Change::ChainCut {
            chain,
            last_seqno: cut.last_seqno,
            end: cut.end,
        });
        [named].into_iter().chain(cut)
    }
}

/// The end of a chain. See [`Change::ChainCut`](crate::Change::ChainCut).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The seqno of the last record.
    pub last_seqno: u64,
    /// The region's offset behind the last item.
    pub end: u64,
}

/// All memtables, and their chains in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Chains {
    memtables: BTreeMap<u64, MemtableEntry>,
    /// Those that have chains. Any number may have none.
    with_chains: BTreeSet<u64>,
    /// All chains, by their seqnos.
    order: Order,
}

impl Chains {
    /// The memtables that exist, by id, which is oldest first.
    pub(super) fn memtables(&self) -> &BTreeMap<u64, MemtableEntry> {
        &self.memtables
    }

    /// All chains, oldest first, each with its memtable.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Chain)> {
        self.order.iter().map(|(_, link)| {
            let chains = &self.memtables[&link.memtable].chains;
            (link.memtable, &chains[link.index])
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Whether there is a chain of this id.
    pub(super) fn has(&self, id: u64) -> bool {
        self.order.get(id).is_some()
    }

    pub(super) fn create_memtable(
        &mut self,
        id: u64,
        next: &mut NextIds,
    ) -> Result<(), Impossible> {
        let least = next.memtable;
        must(id >= least, "memtable id", at_least(least), id)?;
        next.memtable = next_of(id, "memtable id")?;
        self.memtables.insert(id, MemtableEntry::default());
        Ok(())
    }

    fn chain(&self, id: u64) -> Option<&Chain> {
        let link = self.order.get(id)?;
        self.memtables.get(&link.memtable)?.chains.get(link.index)
    }

    fn chain_mut(&mut self, id: u64) -> Option<&mut Chain> {
        let link = self.order.get(id)?;
        let memtable = self.memtables.get_mut(&link.memtable)?;
        memtable.chains.get_mut(link.index)
    }

    /// The chain after a dropped one may only be known to follow it (base seqno 0). It takes along
    /// where the dropped one ended, which must be known by now: the manifest would forget with
    /// which seqno it begins. An adopted one comes to stand behind another chain, and must be able to.
    pub(super) fn drop_memtable(&mut self, id: u64) -> Result<(), Impossible> {
        let what = "dropped memtable";
        let Some(dropped) = self.memtables.remove(&id) else {
            return must(false, what, "one that exists", id);
        };
        let mut followers = Vec::new();
        for chain in &dropped.chains {
            let after = self.order.get(chain.id).and_then(|link| link.after);
            let of = |after: &u64| self.order.get(*after).map(|link| link.memtable);
            let Some(after) = after.filter(|after| of(after) != Some(id)) else {
                continue;
            };
            followers.push(after);
            let Some(follower) = self.chain_mut(after).filter(|c| c.base_seqno == 0) else {
                continue;
            };
            let Some(cut) = chain.cut else {
                let expected = format!("a cut of chain {}, which a later one follows", chain.id);
                return must(false, what, expected, "none");
            };
            follower.base_seqno = cut.last_seqno + 1;
        }
        for chain in &dropped.chains {
            self.order.remove(chain.id);
        }
        self.with_chains.remove(&id);
        for follower in followers {
            if let Some(chain) = self.chain(follower).filter(|chain| chain.staged) {
                let before = self.order.get(follower).and_then(|link| link.before);
                self.check_behind(before, chain.base_seqno)?;
            }
        }
        Ok(())
    }

    /// An adopted chain with this first seqno may stand behind `before`, if it stands behind one, only where that has ended before it:
    /// else a snapshot could not name the one behind the other.
    fn check_behind(&self, before: Option<u64>, base: u64) -> Result<(), Impossible> {
        let Some(before) = before.and_then(|before| self.chain(before)) else {
            return Ok(());
        };
        let least = before.cut.map_or(u64::MAX, |cut| cut.last_seqno + 1);
        let what = "first seqno of a chain";
        must(base >= least, what, at_least(least), base)
    }

    pub(super) fn open(
        &mut self,
        memtable: u64,
        chain: Chain,
        next: &mut NextIds,
    ) -> Result<(), Impossible> {
        possible_seqno(chain.base_seqno, "first seqno of a chain")?;
        must(
            chain.id >= next.chain,
            "chain id",
            at_least(next.chain),
            chain.id,
        )?;
        let next_incarnation = next_incarnation(next, chain.incarnation)?;
        let next_chain = next_of(chain.id, "chain id")?;
        let Some(of) = self.memtables.get_mut(&memtable) else {
            return must(false, "memtable of a chain", "one that exists", memtable);
        };
        let what = "memtable of a chain";
        must(!of.is_staged(), what, "one that is not complete", memtable)?;
        next.chain = next_chain;
        next.incarnation = next.incarnation.max(next_incarnation);
        self.order.push(chain.id, memtable, of.chains.len());
        of.chains.push(chain);
        self.with_chains.insert(memtable);
        Ok(())
    }

    /// A chain that was written before it was named. `taken`: its id is that of something else.
    pub(super) fn adopt(
        &mut self,
        memtable: u64,
        chain: Chain,
        taken: bool,
        next: &mut NextIds,
    ) -> Result<(), Impossible> {
        let (base, last) = (chain.base_seqno, chain.cut.map_or(0, |cut| cut.last_seqno));
        possible_seqno(last, "last seqno of a chain")?;
        must(base > 0, "first seqno of a chain", at_least(1), base)?;
        must(last >= base, "last seqno of a chain", at_least(base), last)?;
        let twice = self.order.get(chain.id).is_some();
        must(!twice && !taken, "chain id", "one that is free", chain.id)?;
        self.check_behind(self.order.last(), base)?;
        let next_chain = next_of(chain.id, "chain id")?;
        let next_incarnation = next_incarnation(next, chain.incarnation)?;
        let what = "memtable of a chain";
        let newest = self.with_chains.last().is_none_or(|&last| last <= memtable);
        must(newest, what, "one before which all others are", memtable)?;
        let Some(of) = self.memtables.get_mut(&memtable) else {
            return must(false, what, "one that exists", memtable);
        };
        must(of.chains.is_empty(), what, "one without chains", memtable)?;
        next.chain = next.chain.max(next_chain);
        next.incarnation = next.incarnation.max(next_incarnation);
        self.order.push(chain.id, memtable, of.chains.len());
        of.chains.push(chain);
        self.with_chains.insert(memtable);
        Ok(())
    }

    pub(super) fn cut(&mut self, id: u64, last_seqno: u64, end: u64) -> Result<(), Impossible> {
        possible_seqno(last_seqno, "last seqno of a chain")?;
        let what = "last seqno of a chain";
        let Some(link) = self.order.get(id) else {
            return must(false, "cut chain", "one that exists", id);
        };
        let before = link.before.and_then(|before| self.chain(before)?.cut);
        if let Some(follower) = link.after.and_then(|after| self.chain(after))
            && let (0, Some(cut)) = (follower.base_seqno, follower.cut)
        {
            let most = cut.last_seqno;
            must(
                last_seqno <= most,
                what,
                format!("at most {most}"),
                last_seqno,
            )?;
        }
        let Some(chain) = self.chain_mut(id) else {
            return must(false, "cut chain", "one that exists", id);
        };
        must(chain.cut.is_none(), "cut of a chain", "one", "a second one")?;
        let least = match chain.base_seqno {
            0 => before.map_or(0, |cut| cut.last_seqno),
            base => base - 1,
        };
        must(last_seqno >= least, what, at_least(least), last_seqno)?;
        chain.cut = Some(Cut { last_seqno, end });
        Ok(())
    }
}

/// The incarnation after one of which a chain appears. Chains of the incarnation that was used
/// last may still do.
fn next_incarnation(next: &NextIds, incarnation: u32) -> Result<u32, Impossible> {
    let oldest = next.incarnation.saturating_sub(1);
    must(
        incarnation >= oldest,
        "incarnation",
        at_least(oldest),
        incarnation,
    )?;
    match incarnation.checked_add(1) {
        Some(next) => Ok(next),
        None => must(false, "incarnation", "below 2^32 - 1", incarnation).map(|()| 0),
    }
}
