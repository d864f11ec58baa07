//! The indexes of a memtable: one for each column family, and the DRAM that they take.

use std::sync::{Arc, OnceLock};

use thermocline_art::{NodeMemory, Slab, Tree, Version};
use thermocline_base::budget::Account;
use thermocline_base::sync::{AtomicBool, AtomicUsize, Ordering};
use thermocline_base::{CfId, SeqNo};

use crate::gaps::Gaps;
use crate::habit::Habit;
use crate::tombstones::{Ledger, Tombstones};

const PAGE: usize = 256;

/// Bytes of a key up to which nobody notes how long it is: writes of usual keys share no line that changes.
const NOTED_KEY_LEN: usize = 256;

/// Indexes are boxed: most families of a page have none.
type IndexPage = Box<[OnceLock<Box<Index>>]>;

/// What a memtable has of one family.
#[derive(Debug)]
pub(crate) struct Index {
    pub tree: Tree,
    tombstones: OnceLock<Box<Tombstones>>,
    gaps: OnceLock<Arc<Gaps>>,
    /// Made when the first cursor has used something.
    habit: OnceLock<Box<Habit>>,
    /// Whether it has had an operand. Relaxed: who must know asks a sealed memtable, which he got behind a lock.
    operands: AtomicBool,
    /// Bytes of the longest key that it has had, if that was long enough to be noted. Relaxed, as `operands`.
    longest_key: AtomicUsize,
    /// By how much the seqnos of an adopted chain lie above those in its lists of versions, which were made before.
    shift: u64,
}

impl Index {
    /// It has an operand.
    #[inline]
    pub fn note_operand(&self) {
        if !self.operands.load(Ordering::Relaxed) {
            self.operands.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it has had an operand.
    pub fn has_operands(&self) -> bool {
        self.operands.load(Ordering::Relaxed)
    }

    /// It has this key.
    #[inline]
    pub fn note_key(&self, key: &[u8]) {
        let len = key.len();
        if len > NOTED_KEY_LEN && len > self.longest_key.load(Ordering::Relaxed) {
            self.longest_key.fetch_max(len, Ordering::Relaxed);
        }
    }

    /// Bytes of a key; none that it has had is longer.
    pub fn longest_key(&self) -> usize {
        let noted = self.longest_key.load(Ordering::Relaxed);
        noted.max(NOTED_KEY_LEN)
    }

    /// What lists of versions have in place of a seqno.
    #[inline]
    pub fn stored(&self, seqno: SeqNo) -> SeqNo {
        SeqNo(seqno.0.saturating_sub(self.shift))
    }

    /// The seqno of a version in a list.
    pub fn real(&self, version: &Version) -> SeqNo {
        version.seqno.plus(self.shift)
    }

    /// The range tombstones, if there has been one.
    #[inline]
    pub fn tombstones(&self) -> Option<&Tombstones> {
        Some(self.tombstones.get()?)
    }

    /// The gaps, if there has been one.
    #[inline]
    pub fn gaps(&self) -> Option<&Gaps> {
        Some(self.gaps.get()?)
    }

    /// How far cursors go in it, if one has gone anywhere.
    #[inline]
    pub fn habit(&self) -> Option<&Habit> {
        Some(self.habit.get()?)
    }

    /// As [`Index::habit`], made where there is none.
    pub fn habit_or_new(&self) -> &Habit {
        self.habit.get_or_init(Box::default)
    }

    /// As [`Index::gaps`], made where there are none.
    pub fn gaps_or_new(&self, account: Option<&Arc<Account>>) -> &Gaps {
        self.gaps.get_or_init(|| Gaps::new(account))
    }
}

/// All indexes.
#[derive(Debug)]
pub(crate) struct Indexes {
    memory: Arc<Slab>,
    /// The DRAM of range tombstones.
    ledger: Arc<Ledger>,
    /// Index by column family, in two levels, so that looking one up takes no lock.
    pages: Box<[OnceLock<IndexPage>]>,
}

impl Default for Indexes {
    fn default() -> Indexes {
        Indexes {
            memory: Arc::new(Slab::new()),
            ledger: Arc::default(),
            pages: (0..PAGE).map(|_| OnceLock::new()).collect(),
        }
    }
}

impl Indexes {
    /// From now on their memory counts in `account`. There are none yet.
    pub fn charge_to(&mut self, account: &Arc<Account>) {
        self.memory = Arc::new(Slab::charged_to(account.clone()));
        self.ledger = Ledger::charged_to(account);
    }

    /// The first seqno is `base`. Nobody else has them yet.
    pub fn adopt(&mut self, base: SeqNo) {
        for page in self.pages.iter_mut().filter_map(OnceLock::get_mut) {
            for index in page.iter_mut().filter_map(OnceLock::get_mut) {
                // The first of a staged chain is 1.
                index.shift = base.0.saturating_sub(1);
                if let Some(tombstones) = index.tombstones.get_mut() {
                    tombstones.adopt(base);
                }
            }
        }
    }

    /// Their DRAM in bytes, free blocks included.
    pub fn bytes(&self) -> u64 {
        self.memory.usage().reserved_bytes + self.ledger.held()
    }

    /// Gives back nodes that were replaced and that no guard can see any more. Returns the bytes that still wait.
    pub fn collect(&self) -> u64 {
        self.from(CfId(0))
            .map(|(_, index)| index.tree.collect())
            .sum()
    }

    /// The memory of all trees.
    pub fn memory(&self) -> &dyn NodeMemory {
        &*self.memory
    }

    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    pub fn get(&self, cf: CfId) -> Option<&Index> {
        let page = self.pages[usize::from(cf.0) / PAGE].get()?;
        Some(page[usize::from(cf.0) % PAGE].get()?)
    }

    /// The indexes that there are, by family, from `cf` on.
    pub fn from(&self, cf: CfId) -> impl Iterator<Item = (CfId, &Index)> {
        let used = self.pages.iter().zip(0usize..);
        let pages = used.filter_map(|(page, p)| Some((page.get()?, p * PAGE)));
        let all = pages.flat_map(|(page, first)| page.iter().zip(first..));
        let made = all.filter_map(|(index, id)| Some((u16::try_from(id).ok()?, index.get()?)));
        made.map(|(id, index)| (CfId(id), &**index))
            .skip_while(move |(id, _)| *id < cf)
    }

    pub fn get_or_new(&self, cf: CfId) -> &Index {
        let page = self.pages[usize::from(cf.0) / PAGE]
            .get_or_init(|| (0..PAGE).map(|_| OnceLock::new()).collect());
        page[usize::from(cf.0) % PAGE].get_or_init(|| {
            Box::new(Index {
                tree: Tree::with_memory(self.memory.clone() as Arc<dyn NodeMemory>),
                tombstones: OnceLock::new(),
                gaps: OnceLock::new(),
                habit: OnceLock::new(),
                operands: AtomicBool::new(false),
                longest_key: AtomicUsize::new(0),
                shift: 0,
            })
        })
    }

    /// The range tombstones of a family, made if there are none, with checksums that start from `seed`.
    pub fn tombstones_or_new(&self, cf: CfId, seed: u64) -> &Tombstones {
        let slot = &self.get_or_new(cf).tombstones;
        if slot.get().is_none() {
            // Made before the slot is locked, since it counts its memory: what counts may be where a
            // test's scheduler goes over to another thread. Whoever came first stays.
            let _ = slot.set(Box::new(Tombstones::new(self.ledger.clone(), seed)));
        }
        slot.get().expect("it is set")
    }
}
