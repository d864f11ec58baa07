//! The state of the writer: one thread at a time holds it, under the writer's lock.

use std::sync::Arc;

use thermocline_base::SeqNo;
use thermocline_memtable::{ChainWriter, Descriptor, Memtable};
use thermocline_policy::{seal, tuning};
use thermocline_version::Change;

use crate::dram::credit::Credit;
use crate::next_memtable::prepared::Prepared;

/// Seqnos that a memtable spans. Unit tests do not open a store thousands of times.
pub(super) const SPAN_MAX: u64 = if cfg!(test) {
    1 << 14
} else {
    tuning::SPAN_MAX
};

/// Cuts of this incarnation's sealed chains that the manifest does not have yet. The clean close records them, or
/// an edit that drops one of the chains. Under the writer's lock, as all that the writer has.
#[derive(Default)]
pub(crate) struct Ended(Vec<Change>);

impl Ended {
    /// Takes them: the caller records them.
    pub fn take(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.0)
    }

    /// Puts cuts back that the manifest does not have after all.
    pub fn give_back(&mut self, cuts: Vec<Change>) {
        self.0.splice(..0, cuts);
    }
}

/// The state that the writer's lock protects.
pub(crate) struct Writer {
    pub active: Arc<Memtable>,
    /// The limits of the active memtable.
    pub limits: seal::Limits,
    pub descriptor: Option<Descriptor>,
    pub chain: ChainWriter,
    pub(super) nonce: u64,
    pub(super) next_seqno: u64,
    /// Whether the manifest names the chain.
    pub(super) recorded: bool,
    pub ended: Ended,
    /// Whether the chain's zone may be the one that is kept back for deletes.
    pub(super) in_reserve: bool,
    /// Writes that are known to fit the DRAM budgets.
    pub credit: Credit,
    /// Whether the index of the active memtable takes so much DRAM that it should be sealed.
    pub heavy: bool,
    /// Whether a write needed the next memtable, and was refused since that was not named and it would not wait.
    pub wants_next: bool,
    /// Whether a later item's `published` covers the last write.
    pub covered: bool,
    /// Whether transactions watch. If so, changes are noted as they are granted (`commit::recent`).
    pub watched: bool,
}

impl Writer {
    pub fn new(
        (active, limits): (Arc<Memtable>, seal::Limits),
        descriptor: Option<Descriptor>,
        chain: ChainWriter,
        nonce: u64,
        recorded: bool,
    ) -> Writer {
        let base = chain.chain().base;
        Writer {
            active,
            limits,
            descriptor,
            chain,
            nonce,
            next_seqno: base,
            recorded,
            ended: Ended::default(),
            in_reserve: true,
            credit: Credit::default(),
            heavy: false,
            wants_next: false,
            covered: true,
            watched: false,
        }
    }

    /// The cut of the current chain if nothing more is written. The caller has nothing in flight, so all that was
    /// granted is durable.
    pub(super) fn cut(&self) -> Change {
        Change::ChainCut {
            chain: self.chain.chain().id,
            last_seqno: self.next_seqno - 1,
            end: self.chain.state().at.0,
        }
    }

    /// The cuts of all chains of this incarnation; a prepared one ends empty.
    pub fn cuts(&self, prepared: Option<&Prepared>) -> Vec<Change> {
        let prepared = prepared.map(|prepared| prepared.cut(self.next_seqno - 1));
        let ended = self.ended.0.iter().cloned();
        ended.chain([self.cut()]).chain(prepared).collect()
    }

    /// The active memtable, by its numbers.
    pub(super) fn in_hand(&self) -> seal::Active {
        // Only a merged index has several memtables, and those were sealed.
        let home = &self.active.homes()[0];
        seal::Active {
            bytes: home.bytes(),
            blob_bytes: home.blobs().bytes(),
            span: self.next_seqno - home.base().0,
            heavy: self.heavy,
            is_empty: home.is_empty(),
        }
    }

    /// The next seqno that is given out.
    pub fn next_seqno(&self) -> u64 {
        self.next_seqno
    }

    /// Goes over to the next memtable, behind all that was granted. Returns the writer of the old chain.
    pub fn go_over(
        &mut self,
        (active, limits): (Arc<Memtable>, seal::Limits),
        chain: ChainWriter,
    ) -> ChainWriter {
        let cut = self.cut();
        self.ended.0.push(cut);
        (self.active, self.limits) = (active, limits);
        self.credit = Credit::default();
        (self.heavy, self.wants_next) = (false, false);
        std::mem::replace(&mut self.chain, chain)
    }

    /// Goes on with a new memtable, behind `last`. The manifest covers everything up to `last`.
    pub fn go_on(
        &mut self,
        active: Arc<Memtable>,
        descriptor: Option<Descriptor>,
        chain: ChainWriter,
        nonce: u64,
        last: SeqNo,
    ) {
        self.active = active;
        self.descriptor = descriptor;
        self.chain = chain;
        self.nonce = nonce;
        self.next_seqno = last.0 + 1;
        self.credit = Credit::default();
        self.covered = true;
    }

    /// Whether the manifest names the chain that this writer appends to.
    pub fn is_recorded(&self) -> bool {
        self.recorded
    }
}
