//! How a new incarnation begins: what is cut, what goes, and where writing starts (rules 4 and 5 of recovery, `docs/durability.md`).
//!
//! # The base goes with the cuts
//! A process that was killed may have given seqnos out that are nowhere any more: of writes that were not durable. How
//! many, only chains without a cut tell: what their zones could have held behind what was found, and where there are
//! logs what DRAM could have held, by the options that the manifest has (rule 5). Once they are cut they look as behind
//! a close, which leaves nothing to be lost, and the next open would begin right behind the last cut. So
//!
//! **an edit that cuts what a kill has left says the base of the new incarnation, too**:
//! 1. by the new chain, which it opens; or
//! 2. where the chain is named later, by a *write time*: the last pair of the manifest speaks of the seqno before the
//!    base. That is true: whatever has such a seqno was written by a process that is gone. Every open begins above the
//!    last pair ([`Start::decide`]), and that pair stays, or a larger one takes its place (`version::write_times`).
//!
//! The chain is named later where the disk has no room for its log, or for the edit. In the second case the edit is held
//! back, and goes into the manifest before whatever comes next. That need not be the chain's name.
//!
//! | a crash comes | the next open finds | and begins |
//! |---|---|---|
//! | before the edit is durable | what this one has found, without cuts, and the options of before | by rule 5, as this one: nothing was granted |
//! | after it, by 1 | cuts, and a chain that begins with the base | by rule 5, behind what that chain may have had |
//! | after it, by 2 | cuts, and the pair | with the base: nothing was granted |
//! | once the chain is named, behind 2 | as after 1 | as after 1 |
//!
//! So no open gives a seqno out that lies between a cut and the base behind it, and what a write has had there is never
//! another one's. A follower stands at a cut or before it, or right before the base or behind that. One that stands in
//! between has changes that were lost. This open refuses it, and so do all later ones, for their next chain begins with
//! that base or a larger one (`copies::feed`, 6).
//!
//! # Rejected
//! - *Holding the cuts back until the chain is named*: a full disk gets room by edits that drop memtables, and those
//!   cut the chains before. The options would have to wait, too, as rule 5 asks for those of the process that was killed.
//! - *A log without a byte*, so that the chain can be named: there may be no inode left either, or no room for the edit.
//! - *A gap behind each close*, too: nobody would know which options, and so how much DRAM, the lost writes had.

use thermocline_base::options::Options;
use thermocline_base::planted::{Bug, active};
use thermocline_base::{Error, Result, SeqNo};
use thermocline_halloc::{Space, Witness};
use thermocline_memtable::{Chain, Descriptor, Segment};
use thermocline_version::{Change, Manifest, State, VersionEdit, WriteTime};

use crate::expiry::CALENDAR_MAX;
use crate::flush::newest_in_tables;
use crate::open::spec::stored;
use crate::recover::found::Found;
use crate::recover::is_sealed;
use crate::world::World;

/// How the new incarnation begins.
pub(crate) struct Start {
    /// The memtable that takes the writes.
    pub active: u64,
    /// Those that stay, oldest first.
    pub memtables: Vec<u64>,
    /// Memtables that were prepared and never used.
    dropped: Vec<u64>,
    pub chain: Chain,
    pub nonce: u64,
    pub segment: Option<Segment>,
    /// Whether the last process did not close: its chains must be cut before anything is written.
    unsealed: bool,
    /// Whether the edit that cuts them names the new chain, too. Else it says where that begins.
    names_chain: bool,
}

impl Start {
    pub fn decide(
        world: &World,
        state: &State,
        found: &Found,
        descriptors: &[Descriptor],
        db_id: &[u8; 16],
    ) -> Result<Start> {
        let sealed = |id: u64| {
            let descriptor = descriptors.iter().find(|d| d.memtable == id);
            is_sealed(&state.memtables()[&id], descriptor.and_then(|d| d.floor))
        };
        let mut memtables: Vec<u64> = state.memtables().keys().copied().collect();
        let mut dropped = Vec::new();
        // A memtable behind one that was never sealed was prepared ahead and holds nothing.
        while let [.., before, _] = memtables[..]
            && !sealed(before)
        {
            dropped.extend(memtables.pop());
        }
        let active = *memtables.last().ok_or_else(|| {
            Error::corruption("the manifest", "the manifest", 0, "a memtable", "none")
        })?;
        if state.memtables()[&active].is_staged() {
            return Err(Error::corruption(
                "the manifest ends with a memtable that takes no writes",
                "the manifest",
                0,
                "a memtable behind the batch that was staged",
                format!("memtable {active}"),
            ));
        }
        let ids = state.next_ids();
        let last = found.incarnations.last().and_then(|i| i.plans.last());
        let unsealed = found.unsealed();
        let segment = found.rest_of(active);
        let (nonce, chain) = if active_bug_keeps_incarnation()
            && let Some(last) = last
        {
            (
                0,
                Chain {
                    base: found.last_seqno + 1,
                    ..last.chain
                },
            )
        } else {
            let nonce = world.env.random_u64()?;
            // Rule 5, for what is in tables, too.
            let in_tables = newest_in_tables(state);
            let timed = state.write_times().last();
            // Nothing that is younger may get a seqno of which the manifest says when it was written (`expiry`, 1). An
            // open before may have said its base by that.
            let given = in_tables.max(timed.map_or(0, |time| time.seqno.0));
            let base = found.next_base.max(found.last_seqno.max(given) + 1);
            (
                nonce,
                Chain::new(db_id, ids.chain, ids.incarnation, nonce, base),
            )
        };
        Ok(Start {
            active,
            memtables,
            dropped,
            chain,
            nonce,
            segment,
            unsealed,
            names_chain: unsealed,
        })
    }

    /// Whether the new chain is in the manifest once [`Start::record`] has run.
    pub fn recorded(&self) -> bool {
        self.names_chain
    }

    /// The new chain is named before its first grant, as if the store had been closed.
    pub fn name_later(&mut self) {
        self.names_chain = false;
    }

    /// Rule 4: one edit cuts what was found and opens what will be written, unless that has to wait: then it says the
    /// base alone.
    ///
    /// Where the disk has no room for that edit, it goes into the manifest with the next one, and the chain's name
    /// comes before its first grant: until then the manifest is as it was found, and nothing may
    /// be given back that it names. Returns whether it is durable.
    pub fn record(
        &mut self,
        world: &World,
        manifest: &mut Manifest,
        found: &Found,
        options: &Options,
    ) -> Result<bool> {
        let edit = self.edit(world, manifest.state(), found, options);
        if edit.changes.is_empty() {
            return Ok(true);
        }
        match manifest.append(&edit) {
            Err(Error::OutOfSpace(_)) => {
                self.name_later();
                let edit = self.edit(world, manifest.state(), found, options);
                manifest.append_or_hold(&edit)
            }
            appended => appended.map(|()| true),
        }
    }

    /// What [`Start::record`] says.
    fn edit(&self, world: &World, state: &State, found: &Found, options: &Options) -> VersionEdit {
        let mut edit = VersionEdit::new();
        if self.unsealed && !active(Bug::AcceptBeforeSeal) && !active_bug_keeps_incarnation() {
            edit.changes.extend(found.cuts(&self.dropped));
            edit.changes.extend(match self.names_chain {
                true => Some(self.opened()),
                false => self.base_alone(state, world.env.clock.unix_s()),
            });
        }
        edit.changes.extend(
            self.dropped
                .iter()
                .map(|&id| Change::MemtableDropped { id }),
        );
        let options = stored(options);
        if state.options() != options {
            edit.changes.push(Change::Options(options));
        }
        edit
    }

    /// The base of a chain that is named later, unless the manifest has said as much before. `unix_s` is the time; where
    /// the calendar was set back, a later one is as true. What is more than a calendar says counts as its end.
    fn base_alone(&self, state: &State, unix_s: u64) -> Option<Change> {
        let before = self.chain.base - 1;
        let last = state.write_times().last();
        let (said, said_at) = last.map_or((0, 0), |last| (last.seqno.0, last.unix_s));
        let time = WriteTime {
            seqno: SeqNo(before),
            unix_s: unix_s.min(CALENDAR_MAX).max(said_at.saturating_add(1)),
        };
        (said < before).then(|| Change::WriteTimes([time].into()))
    }

    /// Memtables that were prepared and never used, and are gone.
    pub fn dropped(&self) -> &[u64] {
        &self.dropped
    }

    pub fn witness(&self) -> Witness {
        Witness::of(self.chain.id, self.nonce)
    }

    fn opened(&self) -> Change {
        opened(&self.chain, self.active, self.nonce, self.segment)
    }

    pub fn release_dropped(&self, space: &Space, descriptors: &[Descriptor]) -> Result<()> {
        for descriptor in descriptors
            .iter()
            .filter(|d| self.dropped.contains(&d.memtable))
        {
            descriptor.release(space)?;
        }
        Ok(())
    }
}

fn active_bug_keeps_incarnation() -> bool {
    active(Bug::KeepIncarnation)
}

/// The change that records a chain.
pub(crate) fn opened(chain: &Chain, memtable: u64, nonce: u64, segment: Option<Segment>) -> Change {
    Change::ChainOpened {
        chain: chain.id,
        memtable,
        incarnation: chain.incarnation,
        nonce,
        base_seqno: chain.base,
        start: segment.map(|s| s.from.0),
    }
}
