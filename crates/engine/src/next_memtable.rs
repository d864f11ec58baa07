//! The next memtable: named ahead of need, and gone over to when the active one is full.
//!
//! Naming costs an fsync of the manifest. It is made under a lock of its own, [`Memtables::next`], and not
//! under the writer's: writers go on meanwhile. Only a write that needs the memtable at that very
//! moment waits for it.
//!
//! # Invariants
//! 1. *Names in order.* Chains and memtables get their ids, their edit and the region's witness
//!    under `next`: ids are given out in the order in which the manifest learns of them, and the
//!    witness is never more than one edit behind. The one exception is the chain of an incarnation,
//!    which got its id from opening: it is named under the writer's lock before anything is prepared.
//! 2. *No name is lost.* A memtable that the manifest names and that was not gone over to is in
//!    `next` whenever that lock is free. Whoever goes over, or names a memtable out of turn
//!    ([`stage`](crate::stage)), holds the writer's lock and then `next`, until it is done. So
//!    memtables are used in the order of their ids.
//! 3. *Closing sees it.* Who prepares in the background holds `Turns::ahead`, which closing waits for
//!    after it has refused new work; so the cut of the prepared chain is among the last ones.

pub(crate) mod prepared;

use std::sync::Arc;

use thermocline_base::{Result, SeqNo};
use thermocline_halloc::Witness;
use thermocline_memtable::{Chain, ChainWriter, Descriptor, Memtable};
use thermocline_observe::cause::StallCause;
use thermocline_observe::event::Event;
use thermocline_version::{Change, VersionEdit};

use crate::start::opened;
use crate::store::Memtables;
use crate::write::seal_limits;
use crate::write::writer::Writer;
use prepared::{Naming, Prepared};

impl Memtables {
    /// The next memtable, for a write that needs it now.
    pub fn lock_next(&self) -> Naming<'_> {
        self.next.try_begin_naming().unwrap_or_else(|| {
            let begun = self.common.now_ns();
            let next = self.next.begin_naming();
            self.common.stalls.held_up(StallCause::Memtable, begun);
            next
        })
    }

    /// Lets the region remember a chain that the manifest has just learned of, or what says whose logs are.
    pub fn witness(&self, chain: &Chain, nonce: u64) -> Result<()> {
        let set = self.common.space.set_witness(Witness::of(chain.id, nonce));
        let known = self.wal.as_ref().map(|wal| wal.know(chain.id, nonce));
        set.and(known.unwrap_or(Ok(())))
            .map_err(|error| self.common.poison.poison(error))
    }

    /// Names the next memtable in the manifest, so that no fsync falls on the put path when the
    /// active one is full. The chain of `incarnation` has been named.
    pub fn prepare(&self, next: &mut Naming<'_>, incarnation: u32) -> Result<()> {
        // Whoever had the lock before may have failed halfway.
        self.common.poison.check()?;
        if next.has_next() || self.common.space.descriptors().free() == 0 {
            return Ok(());
        }
        let ids = self.common.catalog.edits().state().next_ids();
        let nonce = self.common.world.env.random_u64()?;
        // It follows on from the chain before: base 0 in the manifest, known only at the switch.
        let chain = Chain::new(&self.common.db_id, ids.chain, incarnation, nonce, 0);
        let log = self.begin_log(chain.id, nonce)?;
        let edit = VersionEdit::new()
            .with(Change::MemtableCreated { id: ids.memtable })
            .with(opened(&chain, ids.memtable, nonce, None));
        self.edit_with_log(edit, &log)?;
        self.witness(&chain, nonce)?;
        let descriptor = Descriptor::create(&self.common.space, &self.common.db_id, ids.memtable)
            .map_err(|error| self.common.poison.poison(error))?;
        self.common
            .events
            .emit(Event::MemtablePrepared { id: ids.memtable });
        next.named(Prepared {
            id: ids.memtable,
            chain,
            descriptor,
            log,
        });
        Ok(())
    }

    /// Seals the active memtable and goes on in the next. Without a free descriptor the active
    /// one just grows.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] if the disk has no room for naming the next: then, too, it may just grow.
    pub fn rotate(&self, writer: &mut Writer, next: &mut Naming<'_>) -> Result<()> {
        if !next.has_next() {
            self.above()?.reclaim_descriptors(writer)?;
        }
        if !next.has_next() {
            let begun = self.common.now_ns();
            self.record_chain(writer)?;
            self.prepare(next, writer.chain.chain().incarnation)?;
            if !next.has_next() {
                return Ok(());
            }
            self.common.stalls.held_up(StallCause::Memtable, begun);
        }
        // A memtable is sealed only when `durable` has passed its last grant.
        self.common.commits.drain(self)?;
        let Some(next) = next.take_next() else {
            return Ok(());
        };
        let durable = SeqNo(writer.next_seqno() - 1);
        if let Some(descriptor) = &mut writer.descriptor {
            descriptor
                .set_floor(&self.common.space, durable.0)
                .map_err(|error| self.common.poison.poison(error))?;
        }
        writer.active.seal();
        let sealed = writer.active.id();
        self.common.events.emit(Event::MemtableSealed {
            id: sealed,
            records: writer.active.len(),
            bytes: writer.active.bytes(),
        });
        let chain = Chain {
            base: writer.next_seqno(),
            ..next.chain
        };
        let region = self.common.space.region().clone();
        let memtable = Memtable::new(region, next.id, vec![chain]);
        let memtable = Arc::new(memtable.charged_to(&self.common.account));
        self.common
            .catalog
            .show(self.common.catalog.view().with(memtable.clone()));
        let descriptor = std::mem::replace(&mut writer.descriptor, next.descriptor);
        let chain = ChainWriter::new(self.common.space.clone(), chain, None);
        let limits = seal_limits(&self.common.options, &self.common.catalog.version());
        let before = writer.go_over((memtable, limits), chain);
        self.go_over_to_log(next.log);
        let trail = before.trail(sealed, Some(durable.0));
        self.common
            .reclaim
            .sealed(sealed, before.zones(), descriptor, trail);
        self.above()?.sealed(writer)
    }
}
