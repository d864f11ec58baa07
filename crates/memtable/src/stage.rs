//! Batches that do not fit into an item: written ahead, as a memtable of their own.
//!
//! A large batch is written into a chain that nobody knows yet, beside all other writers, and indexed
//! there. It gets its seqnos last of all, when the manifest *adopts* the chain. Until then its records
//! are numbered from 1; what 1 stands for, the chain's base, the manifest says. So its items, their
//! checksums and its index need no change when it is known.
//!
//! # Crash argument
//! Before the adoption the manifest does not name the chain: its zones are free at the next open. All
//! of its items are durable before the adoption is written. After it the chain is complete: it was
//! cut in the edit that named it, so the walk demands every item (`walk`), and nothing is ever
//! appended to it.

use std::sync::Arc;

use thermocline_art::{OPERANDS_A_BLOCK, Reckoning};
use thermocline_base::budget::Account;
use thermocline_base::planted::{Bug, active};
use thermocline_base::{BatchEntry, CfId, Kind, Result, SeqNo};
use thermocline_halloc::{Reserve, Space, Zone};
use thermocline_pm::PmOff;
use thermocline_policy::tuning::STAGED_ITEM_BYTES;

use crate::append::{ChainWriter, Grant, ItemBuilder, Persist};
use crate::chain::Chain;
use crate::format::{ITEM_HEADER, item_bytes, record_bytes};
use crate::table::Memtable;
use crate::trail::Trail;

/// A batch on its way into a chain of its own.
#[derive(Debug)]
pub struct Stage<'a> {
    chain: ChainWriter,
    memtable: Memtable,
    builder: ItemBuilder,
    /// The records of the next item, for which there is room.
    pending: Vec<BatchEntry<'a>>,
    /// What they take in it, header included.
    bytes: u64,
    item_bytes_max: u64,
    /// The number of the first of them.
    next: u64,
    space: Arc<Space>,
    /// Where its items lie, in order.
    items: Vec<Grant>,
    /// Whether an item was granted that is not complete.
    failed: bool,
}

/// A complete staged chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Staged {
    /// Its id.
    pub chain: u64,
    /// Its records.
    pub records: u64,
    /// Behind its last item.
    pub end: PmOff,
}

impl<'a> Stage<'a> {
    /// An empty stage in chain `chain`, whose id is reserved. Its items take at most `item_bytes_max`
    /// bytes, unless one record needs more.
    pub fn new(
        space: &Arc<Space>,
        chain: Chain,
        account: &Arc<Account>,
        item_bytes_max: u64,
    ) -> Stage<'a> {
        let chain = chain.staged();
        let memtable = Memtable::new(space.region().clone(), 0, vec![chain]);
        Stage {
            chain: ChainWriter::new(space.clone(), chain, None),
            memtable: memtable.charged_to(account),
            builder: ItemBuilder::default(),
            pending: Vec::new(),
            bytes: ITEM_HEADER as u64,
            item_bytes_max: item_bytes_max.min(STAGED_ITEM_BYTES),
            next: 1,
            space: space.clone(),
            items: Vec::new(),
            failed: false,
        }
    }

    /// Adds a record; stores and indexes those before it when an item is full.
    ///
    /// # Errors
    /// [`thermocline_base::Error::OutOfSpace`]: the record was not added, and if [`Stage::can_go_on`] may
    /// be again when there is room. A failed persist.
    pub fn push(&mut self, entry: BatchEntry<'a>) -> Result<()> {
        let record = record_bytes(entry.key.len(), entry.value.len()) as u64;
        let with = (self.bytes + record).next_multiple_of(64);
        if with > self.item_bytes_max.min(self.chain.state().left) {
            self.store()?;
        }
        if self.pending.is_empty() {
            let alone = item_bytes(std::iter::once(entry));
            self.chain.ensure(alone, Reserve::Keep)?;
        }
        self.bytes += record;
        self.pending.push(entry);
        Ok(())
    }

    /// Whether records can be added after an error: not once an item was stored that is not indexed, for
    /// the system refused memory.
    pub fn can_go_on(&self) -> bool {
        !self.failed
    }

    /// Stores and indexes what is left. All of it is durable on return.
    ///
    /// # Errors
    /// As [`Stage::push`].
    pub fn complete(&mut self) -> Result<Staged> {
        self.store()?;
        Ok(Staged {
            chain: self.chain.chain().id,
            records: self.next - 1,
            end: self.chain.state().at,
        })
    }

    fn store(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let entries = self.pending.iter().copied();
        let bytes = self.bytes.next_multiple_of(64);
        let grant = self.chain.grant(bytes);
        // Until it is stored and indexed.
        self.failed = true;
        let region = self.space.region();
        let persist = match active(Bug::AdoptUnpersisted) {
            true => Persist::Deferred,
            false => Persist::Now,
        };
        // Nothing is published: what came before it is not known yet.
        let offsets = self
            .builder
            .store(region, &grant, entries.clone(), self.next, 0, persist)?;
        for ((entry, &at), number) in entries.zip(offsets).zip(self.next..) {
            match entry.kind {
                Kind::RangeDelete => {
                    let (start, end) = (entry.key, entry.value);
                    self.memtable
                        .cover_at(entry.cf, (start, end), SeqNo(number), &[])?;
                }
                _ => {
                    self.memtable.refer(entry);
                    let record = (entry.kind, entry.key);
                    self.memtable
                        .keep_newest(entry.cf, record, at, SeqNo(number))?;
                }
            }
        }
        let records = self.pending.len() as u64;
        self.memtable.count_item(bytes, records);
        self.items.push(grant);
        self.next += records;
        self.pending.clear();
        self.bytes = ITEM_HEADER as u64;
        self.failed = false;
        Ok(())
    }

    /// The zones that it has taken.
    pub fn zones(&self) -> &[Zone] {
        self.chain.zones()
    }

    /// Where its items lie, all of them, as memtable `id`, with the seqnos from `first` to `last`.
    pub fn trail(&self, id: u64, first: SeqNo, last: SeqNo) -> Trail {
        let mut trail = self.chain.trail(id, Some(last.0));
        trail.chain.base = first.0;
        trail
    }

    /// Its chain.
    pub fn chain(&self) -> &Chain {
        self.chain.chain()
    }

    /// Where its items lie, in order.
    pub fn items(&self) -> &[Grant] {
        &self.items
    }

    /// Most DRAM in bytes that indexes of so many records in each of these families take here, which may be operands if
    /// the families `have_operators`.
    pub fn reserve_bound(
        &self,
        updates: impl IntoIterator<Item = (CfId, u64)>,
        have_operators: bool,
    ) -> u64 {
        // Of a key without operands the newest record stays: there are no lists.
        let readers = have_operators.then_some(OPERANDS_A_BLOCK);
        self.memtable.reckoned(Reckoning::new(0, readers), updates)
    }

    /// Most DRAM in bytes that `count` range tombstones, whose keys have `key_bytes` bytes together, take
    /// here.
    pub fn tombstones_bound(&self, count: u64, key_bytes: u64) -> u64 {
        // Each is promised alone before it is added.
        let one = self.memtable.tombstones_bound(count.min(1), 0, 0);
        self.memtable.tombstones_bound(count, key_bytes, 0) + one
    }

    /// Memtable `id`, whose chain this is, with the seqnos from `base` on.
    pub fn adopted(mut self, id: u64, base: SeqNo) -> Memtable {
        self.memtable.adopt(id, base);
        self.memtable.seal();
        self.memtable
    }
}

#[cfg(test)]
mod tests;
