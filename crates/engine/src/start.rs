//! How a new incarnation begins: what is cut, what goes, and where writing starts (design §14).

use thermocline_base::options::Options;
use thermocline_base::planted::{Bug, active};
use thermocline_base::{Error, Result};
use thermocline_halloc::{Space, Witness};
use thermocline_memtable::{Chain, Descriptor, Segment};
use thermocline_version::{Change, Manifest, State, VersionEdit};

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
    /// Whether the edit that cuts them names the new chain, too.
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
            // Nothing that is younger may get a seqno of which the manifest says when it was written (`expiry`, 1).
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

    /// Rule 4: one edit cuts what was found and opens what will be written, unless that has to wait.
    ///
    /// Where the disk has no room for that edit, it goes into the manifest with the next one, and the chain's name
    /// with it, which comes before its first grant: until then the manifest is as it was found, and nothing may
    /// be given back that it names. Returns whether it is durable.
    pub fn record(
        &mut self,
        manifest: &mut Manifest,
        found: &Found,
        options: &Options,
    ) -> Result<bool> {
        let mut edit = VersionEdit::new();
        if self.unsealed && !active(Bug::AcceptBeforeSeal) && !active_bug_keeps_incarnation() {
            edit.changes.extend(found.cuts(&self.dropped));
            edit.changes.extend(self.names_chain.then(|| self.opened()));
        }
        edit.changes.extend(
            self.dropped
                .iter()
                .map(|&id| Change::MemtableDropped { id }),
        );
        let options = stored(options);
        if manifest.state().options() != options {
            edit.changes.push(Change::Options(options));
        }
        if edit.changes.is_empty() {
            return Ok(true);
        }
        match manifest.append(&edit) {
            Err(Error::OutOfSpace(_)) => {
                self.name_later();
                edit.changes
                    .retain(|change| !matches!(change, Change::ChainOpened { .. }));
                manifest.append_or_hold(&edit)
            }
            appended => appended.map(|()| true),
        }
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
