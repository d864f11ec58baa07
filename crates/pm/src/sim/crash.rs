//! What a crash of simulated memory leaves: an image, and new memory made of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use thermocline_base::Steps;
use thermocline_base::checksum::{hash64, hash64_seeded};
use thermocline_base::size::index;
use thermocline_base::sync::{Mutex, lock};

use super::state::{Line, State, WORD, WORDS_PER_LINE};
use super::{Core, SimPm};
use crate::map::PAGE;

/// Of a file whole pages are mapped.
const PAGE_BYTES: u64 = PAGE as u64;

/// A word whose value after a crash is open.
#[derive(Debug, Clone)]
pub struct PendingWord {
    /// Its offset in the region.
    pub offset: u64,
    /// What it may hold: the certain value first, the newest last. At least two, all different.
    pub candidates: Vec<u64>,
}

/// The state of a [`SimPm`] at a crash, with the undecided words listed.
#[derive(Clone)]
pub struct CrashImage {
    words: Arc<Vec<u64>>,
    /// What lies behind the region, as far as its file may reach.
    behind: Arc<Vec<u64>>,
    len: u64,
    pending: Arc<Vec<PendingWord>>,
    /// Of the words: many images are never compared.
    base_digest: Arc<OnceLock<u64>>,
}

impl CrashImage {
    /// The words whose value is open.
    pub fn pending(&self) -> &[PendingWord] {
        &self.pending
    }

    /// The same with longer files, which the crash may have left just as well, since the region was growing or had been cut: one
    /// that ends half way, and the longest.
    pub fn longer(&self) -> Vec<CrashImage> {
        let all = self.behind.len() as u64 * WORD / PAGE_BYTES;
        let mut ends = vec![all.div_ceil(2), all];
        ends.dedup();
        ends.retain(|&pages| pages > 0);
        let with = |pages: u64| {
            let behind = &self.behind[..index(pages * PAGE_BYTES / WORD)];
            CrashImage {
                base_digest: Arc::default(),
                words: Arc::new([&self.words[..], behind].concat()),
                behind: Arc::default(),
                len: self.len + pages * PAGE_BYTES,
                pending: self.pending.clone(),
            }
        };
        ends.into_iter().map(with).collect()
    }

    /// New memory in which pending word `i` has its candidate `choice(i, word)`; nothing is pending
    /// there. It reports to `steps` and can grow to `capacity`.
    pub fn build(
        &self,
        capacity: u64,
        steps: Steps,
        mut choice: impl FnMut(usize, &PendingWord) -> usize,
    ) -> SimPm {
        let mut words = memory(&self.words, index(capacity.max(self.len) / WORD));
        for (i, word) in self.pending.iter().enumerate() {
            let value = word.candidates[choice(i, word)];
            words[index(word.offset / WORD)] = AtomicU64::new(value);
        }
        let sim = SimPm::of(words, false, steps);
        lock(&sim.core.state).len = self.len;
        sim
    }

    /// A hash of the image with these choices; different states have different ones.
    pub fn digest(&self, mut choice: impl FnMut(usize, &PendingWord) -> usize) -> u64 {
        let mut bytes = Vec::with_capacity(self.pending.len() * 16);
        for (i, word) in self.pending.iter().enumerate() {
            let chosen = choice(i, word);
            if chosen != 0 {
                bytes.extend_from_slice(&word.offset.to_le_bytes());
                bytes.extend_from_slice(&word.candidates[chosen].to_le_bytes());
            }
        }
        hash64_seeded(
            &bytes,
            *self.base_digest.get_or_init(|| digest(&self.words)),
        )
    }
}

/// So many words, of which the first are these. What is generic is optimised as its callers are, tests hardly: this is not.
fn memory(first: &[u64], count: usize) -> Vec<AtomicU64> {
    let mut words = Vec::with_capacity(count);
    words.extend(first.iter().map(|&word| AtomicU64::new(word)));
    words.resize_with(count, AtomicU64::default);
    words
}

fn digest(words: &[u64]) -> u64 {
    // In one go: images are compared at every step.
    let mut bytes = vec![0; words.len() * index(WORD)];
    for (to, word) in bytes.chunks_exact_mut(index(WORD)).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    hash64(&bytes)
}

/// What a word of a line may hold: the certain value first, the newest last, all different.
fn candidates(line: &Line, place: usize) -> Vec<u64> {
    let durable = line.durable[place];
    let mut candidates = vec![durable];
    for store in line.stores.iter().filter(|s| s.word == place) {
        candidates.retain(|&c| c != store.value);
        candidates.push(store.value);
    }
    if let Some(at) = candidates.iter().position(|&c| c == durable) {
        candidates[..=at].rotate_right(1);
    }
    candidates
}

impl SimPm {
    /// Memory in the same state, pending stores included, as a killed process leaves it to the next:
    /// everything stored is readable, and what was not persisted may still be lost. Flushes that
    /// were not fenced are forgotten; non-temporal stores have left their processor's buffer, since
    /// nothing runs there any more, and are like others.
    /// Within a growth the file is longer already.
    pub fn fork(&self, steps: Steps) -> SimPm {
        let state = lock(&self.core.state);
        let words = self
            .core
            .words
            .iter()
            .map(|w| AtomicU64::new(w.load(Ordering::Relaxed)))
            .collect();
        let mut pending = state.pending.clone();
        for store in pending.values_mut().flat_map(|line| &mut line.stores) {
            store.buffered_by = None;
        }
        let capacity = self.core.words.len() as u64 * WORD;
        let len = match state.is_growing {
            true => state.longest.min(capacity) / PAGE_BYTES * PAGE_BYTES,
            false => state.len,
        };
        let copy = State {
            len: len.max(state.len),
            longest: state.longest,
            clock: state.clock,
            pending,
            ..State::default()
        };
        SimPm {
            core: Arc::new(Core {
                stands_in: false,
                words,
                steps,
                tracks_reads: AtomicBool::new(false),
                state: Mutex::new(copy),
            }),
        }
    }

    /// A hash of what readers see: memories with different contents have different ones.
    pub fn digest(&self) -> u64 {
        let state = lock(&self.core.state);
        let used = index(state.len.div_ceil(WORD));
        let words = self.core.words[..used].iter();
        let words: Vec<u64> = words.map(|w| w.load(Ordering::Relaxed)).collect();
        digest(&words)
    }

    /// The state now, as a crash would find it.
    pub fn crash(&self) -> CrashImage {
        let state = lock(&self.core.state);
        let used = index(state.len.div_ceil(WORD));
        let mut words: Vec<u64> = self.core.words[..used]
            .iter()
            .map(|w| w.load(Ordering::Relaxed))
            .collect();
        let mut pending = Vec::new();
        for (&at, line) in &state.pending {
            for (place, &durable) in line.durable.iter().enumerate() {
                let word = at * WORDS_PER_LINE + place as u64;
                if index(word) >= used || !line.is_open(place) {
                    continue;
                }
                words[index(word)] = durable;
                let candidates = candidates(line, place);
                if candidates.len() > 1 {
                    pending.push(PendingWord {
                        offset: word * WORD,
                        candidates,
                    });
                }
            }
        }
        let end = index(state.longest / WORD).clamp(used, self.core.words.len().max(used));
        let behind = self.core.words[used..end].iter();
        CrashImage {
            base_digest: Arc::default(),
            words: Arc::new(words),
            behind: Arc::new(behind.map(|w| w.load(Ordering::Relaxed)).collect()),
            len: state.len,
            pending: Arc::new(pending),
        }
    }
}
