//! What of simulated memory is durable, and what may be.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_base::{Result, Site};
use thermocline_env::sim::SimFs;

use super::fail::{Failure, failure_of};
use crate::writer::Writer;

pub(super) const WORD: u64 = 8;

pub(super) const WORDS_PER_LINE: u64 = 8;

#[derive(Default)]
pub(super) struct State {
    /// Bytes that belong to the region; growing is atomic and durable.
    pub(super) len: u64,
    /// Counts stores.
    pub(super) clock: u64,
    pub(super) pending: BTreeMap<u64, Word>,
    /// Lines flushed and not yet fenced, with the clock of their flush.
    pub(super) flushed: HashMap<Writer, Vec<(u64, u64)>>,
    /// One bit for each word of the capacity.
    pub(super) reads: Option<Vec<u64>>,
    pub(super) sites: BTreeMap<Site, u64>,
    pub(super) failure: Option<Failure>,
    /// Whose room it takes.
    pub(super) disk: Option<SimFs>,
}

#[derive(Clone)]
pub(super) struct Word {
    pub(super) durable: u64,
    /// The stores since `durable`, oldest first. Never empty.
    pub(super) stores: Vec<Store>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Store {
    pub(super) clock: u64,
    pub(super) value: u64,
    /// Whose write-combining buffer may still hold it.
    pub(super) buffered_by: Option<Writer>,
    /// A sync has failed since: no later one makes it certain.
    pub(super) clean: bool,
}

impl State {
    pub(super) fn store_word(
        &mut self,
        word: u64,
        old: u64,
        new: u64,
        buffered_by: Option<Writer>,
        cell: &AtomicU64,
    ) {
        self.clock += 1;
        let store = Store {
            clock: self.clock,
            value: new,
            buffered_by,
            clean: false,
        };
        self.pending
            .entry(word)
            .or_insert_with(|| Word {
                durable: old,
                stores: Vec::new(),
            })
            .stores
            .push(store);
        cell.store(new, Ordering::Release);
    }

    pub(super) fn fence(&mut self, writer: Writer) {
        for (line, clock) in self.flushed.remove(&writer).unwrap_or_default() {
            for word in line * WORDS_PER_LINE..(line + 1) * WORDS_PER_LINE {
                let Some(history) = self.pending.get_mut(&word) else {
                    continue;
                };
                // What another writer's buffer may hold is not in the line that was written back.
                let covered = |store: &Store| {
                    store.clock <= clock && store.buffered_by.is_none_or(|by| by == writer)
                };
                let open = history.stores.iter().position(|store| !covered(store));
                let done = open.unwrap_or(history.stores.len());
                // What comes behind what is clean was stored again, and is written back with all of its word.
                if done > 0 && !history.stores[done - 1].clean {
                    history.durable = history.stores[done - 1].value;
                    history.stores.drain(..done);
                }
                if history.stores.is_empty() {
                    self.pending.remove(&word);
                }
            }
        }
    }

    /// Whether this sync is the one that fails, or comes after it.
    pub(super) fn fail_if_due(&mut self) -> Result<()> {
        let Some(failure) = &mut self.failure else {
            return Ok(());
        };
        let Some(once) = failure.next() else {
            return Ok(());
        };
        if once.is_some() {
            self.failure = None;
        }
        self.flushed.remove(&Writer::current());
        for store in self.pending.values_mut().flat_map(|word| &mut word.stores) {
            store.clean = true;
        }
        Err(failure_of(once))
    }
}
