//! What of simulated memory is durable, and what may be.

use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_base::size::index;
use thermocline_base::{Result, Site};
use thermocline_env::sim::SimFs;

use super::fail::{Failure, failure_of};
use crate::writer::Writer;

pub(super) const WORD: u64 = 8;

pub(super) const WORDS_PER_LINE: u64 = 8;

pub(super) const LINE_BYTES: u64 = WORD * WORDS_PER_LINE;

const LINE: usize = 8;

#[derive(Default)]
pub(super) struct State {
    /// Bytes that belong to the region.
    pub(super) len: u64,
    /// So long its file was since the last growth was synced, or is: a crash may leave it so long, if that is more.
    pub(super) longest: u64,
    /// Whether its file is being made longer.
    pub(super) is_growing: bool,
    /// Counts stores.
    pub(super) clock: u64,
    /// By the number of the line.
    pub(super) pending: BTreeMap<u64, Line>,
    /// Lines flushed and not yet fenced, with the clock of their flush.
    pub(super) flushed: HashMap<Writer, Vec<(u64, u64)>>,
    /// One bit for each word of the capacity.
    pub(super) reads: Option<Vec<u64>>,
    pub(super) sites: BTreeMap<Site, u64>,
    pub(super) failure: Option<Failure>,
    /// Whose room it takes.
    pub(super) disk: Option<SimFs>,
}

/// A line of which something is not certain.
#[derive(Clone, Default)]
pub(super) struct Line {
    /// What is certain of each word.
    pub(super) durable: [u64; LINE],
    /// The stores since, oldest first. Never empty.
    pub(super) stores: Vec<Store>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Store {
    /// Which word of its line.
    pub(super) word: usize,
    pub(super) clock: u64,
    pub(super) value: u64,
    /// Whose write-combining buffer may still hold it.
    pub(super) buffered_by: Option<Writer>,
    /// A sync has failed since: no later one makes it certain.
    pub(super) clean: bool,
}

impl Line {
    /// Whether there are stores of this word.
    pub(super) fn is_open(&self, word: usize) -> bool {
        self.stores.iter().any(|s| s.word == word)
    }

    /// A word that read `old` is stored to.
    fn store(&mut self, old: u64, store: Store) {
        if !self.is_open(store.word) {
            self.durable[store.word] = old;
        }
        self.stores.push(store);
    }

    /// The stores that `covered` says are written back are certain: of each word those before the first that is not.
    fn written_back(&mut self, covered: impl Fn(&Store) -> bool) {
        let mut done: [Option<Store>; LINE] = [None; LINE];
        let mut waits = [false; LINE];
        for store in &self.stores {
            let word = store.word;
            waits[word] |= !covered(store);
            if !waits[word] {
                done[word] = Some(*store);
            }
        }
        // What comes behind what is clean was stored again, and is written back with all of its word.
        let done = done.map(|store| store.filter(|store| !store.clean));
        for (durable, store) in self.durable.iter_mut().zip(&done) {
            if let Some(store) = store {
                *durable = store.value;
            }
        }
        let is_done = |s: &Store| done[s.word].is_some_and(|d| s.clock <= d.clock);
        self.stores.retain(|store| !is_done(store));
    }
}

impl State {
    /// These bytes, all of one line, are stored from `off` on to the memory that has these words, word by word. The line is
    /// looked up once.
    pub(super) fn store_in_line(
        &mut self,
        words: &[AtomicU64],
        off: u64,
        bytes: &[u8],
        buffered_by: Option<Writer>,
    ) {
        let line = self.pending.entry(off / LINE_BYTES).or_default();
        line.stores.reserve(bytes.len().div_ceil(index(WORD)));
        let mut at = 0;
        while at < bytes.len() {
            let byte = off + at as u64;
            let skip = index(byte % WORD);
            let n = (8 - skip).min(bytes.len() - at);
            let cell = &words[index(byte / WORD)];
            let old = cell.load(Ordering::Relaxed);
            let mut word = old.to_le_bytes();
            word[skip..skip + n].copy_from_slice(&bytes[at..at + n]);
            let new = u64::from_le_bytes(word);
            self.clock += 1;
            let store = Store {
                word: index(byte / WORD % WORDS_PER_LINE),
                clock: self.clock,
                value: new,
                buffered_by,
                clean: false,
            };
            line.store(old, store);
            cell.store(new, Ordering::Release);
            at += n;
        }
    }

    /// The words of this range that are not certain, ascending.
    pub(super) fn open_words(&self, range: Range<u64>) -> Vec<u64> {
        let lines = range.start / WORDS_PER_LINE..range.end.div_ceil(WORDS_PER_LINE);
        let lines = self.pending.range(lines);
        let words = lines.flat_map(|(&at, line)| {
            let open = (0..LINE).filter(|&place| line.is_open(place));
            open.map(move |place| at * WORDS_PER_LINE + place as u64)
        });
        words.filter(|word| range.contains(word)).collect()
    }

    /// Forgets what is not certain of words from `word` on.
    pub(super) fn forget_from(&mut self, word: u64) {
        let (line, place) = (word / WORDS_PER_LINE, index(word % WORDS_PER_LINE));
        drop(self.pending.split_off(&(line + 1)));
        if let Some(last) = self.pending.get_mut(&line) {
            last.stores.retain(|store| store.word < place);
            if last.stores.is_empty() {
                self.pending.remove(&line);
            }
        }
    }

    pub(super) fn fence(&mut self, writer: Writer) {
        for (at, clock) in self.flushed.remove(&writer).unwrap_or_default() {
            let Entry::Occupied(mut line) = self.pending.entry(at) else {
                continue;
            };
            // What another writer's buffer may hold is not in the line that was written back.
            let covered = |store: &Store| {
                store.clock <= clock && store.buffered_by.is_none_or(|by| by == writer)
            };
            // Nearly always that is all that there is, and no word has to be looked at by itself.
            let mut stores = line.get().stores.iter();
            let is_all = stores.all(|store| covered(store) && !store.clean);
            if !is_all {
                line.get_mut().written_back(covered);
            }
            if is_all || line.get().stores.is_empty() {
                line.remove();
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
        for store in self.pending.values_mut().flat_map(|line| &mut line.stores) {
            store.clean = true;
        }
        Err(failure_of(once))
    }
}
