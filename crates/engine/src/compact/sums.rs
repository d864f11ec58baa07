//! What tables of levels come to, for who asks again and again: bytes before each place, and what is known of each chunk of
//! tables without a look at one after the other. What is kept of a level is kept until somebody asks for it of other
//! tables: a flush changes level 0 alone, mostly.

use std::collections::BTreeMap;
use std::sync::Weak;

use thermocline_base::chunked::Folded;
use thermocline_base::{CfId, SeqNo};
use thermocline_policy::pick::Stretch;
use thermocline_policy::tuning::{SUMS_GROWTH, SUMS_KEPT_MIN};
use thermocline_version::{LevelTables, TableRef};

use crate::sync::{Arc, Mutex, lock};

/// Those of families and levels of which somebody has asked.
#[derive(Debug, Default)]
pub(super) struct LevelSums {
    before: Mutex<Kept<Arc<[u64]>>>,
    stretches: Mutex<Kept<Arc<Stretches>>>,
}

/// What follows from the tables of families and levels.
#[derive(Debug)]
struct Kept<T> {
    of: BTreeMap<(CfId, usize), (Weak<LevelTables>, T)>,
    /// From so many on it is looked which of them nobody asks for any more.
    sweep_at: usize,
}

/// What is known of the chunks of a level.
#[derive(Debug)]
pub(super) struct Stretches {
    /// By chunk, each as if it were the first.
    folded: Folded<Arc<TableRef>, Stretch>,
    all: Vec<Stretch>,
}

impl LevelSums {
    /// Bytes of the tables of a family's level before each of its places, and of all.
    pub fn before(&self, of: (CfId, usize), tables: &Arc<LevelTables>) -> Arc<[u64]> {
        let found = lock(&self.before).find(of, tables);
        found.unwrap_or_else(|| {
            // Nobody waits meanwhile. Who asks for the same adds up the same.
            let bytes = tables.iter().scan(0, |sum, table| {
                *sum += table.bytes;
                Some(*sum)
            });
            let before: Arc<[u64]> = [0].into_iter().chain(bytes).collect();
            lock(&self.before).keep(of, tables, before.clone());
            before
        })
    }

    /// What is known of the chunks of a family's level. Of those that the tables share with the ones that were asked for
    /// last it is known already.
    pub fn stretches(&self, of: (CfId, usize), tables: &Arc<LevelTables>) -> Arc<Stretches> {
        let kept = lock(&self.stretches);
        let (found, last) = (kept.find(of, tables), kept.last(of));
        drop(kept);
        found.unwrap_or_else(|| {
            let stretches = Arc::new(Stretches::of(tables, last.as_deref()));
            lock(&self.stretches).keep(of, tables, stretches.clone());
            stretches
        })
    }
}

impl<T> Default for Kept<T> {
    fn default() -> Kept<T> {
        Kept {
            of: BTreeMap::new(),
            sweep_at: 0,
        }
    }
}

impl<T: Clone> Kept<T> {
    fn find(&self, of: (CfId, usize), tables: &Arc<LevelTables>) -> Option<T> {
        let (own, kept) = self.of.get(&of)?;
        std::ptr::eq(own.as_ptr(), Arc::as_ptr(tables)).then(|| kept.clone())
    }

    /// What was kept last, of whatever tables.
    fn last(&self, of: (CfId, usize)) -> Option<T> {
        self.of.get(&of).map(|(_, kept)| kept.clone())
    }

    /// To look at all costs as much as to keep as many as there were when it was done last.
    fn keep(&mut self, of: (CfId, usize), tables: &Arc<LevelTables>, kept: T) {
        if self.of.len() >= self.sweep_at {
            // Of families that were dropped nobody asks any more.
            self.of.retain(|_, (tables, _)| tables.strong_count() > 0);
            self.sweep_at = SUMS_GROWTH * self.of.len().max(SUMS_KEPT_MIN);
        }
        self.of.insert(of, (Arc::downgrade(tables), kept));
    }
}

impl Stretches {
    fn of(tables: &LevelTables, last: Option<&Stretches>) -> Stretches {
        let nothing = Folded::default();
        let known = last.map_or(&nothing, |last| &last.folded);
        let folded = tables.list().folded(known, stretch_of);
        let mut next = 0;
        let placed = folded.iter().map(|of| {
            let places = next..next + of.places.len();
            next = places.end;
            Stretch {
                places,
                ..of.clone()
            }
        });
        Stretches {
            all: placed.collect(),
            folded,
        }
    }

    /// In the order of their places.
    pub fn all(&self) -> &[Stretch] {
        &self.all
    }
}

/// What is known of these tables together.
fn stretch_of(tables: &[Arc<TableRef>]) -> Stretch {
    let deletes = tables.iter().map(|table| table.deletes);
    let entries = tables.iter().map(|table| table.entries);
    let newest = tables.iter().map(|table| table.largest_seqno);
    Stretch {
        places: 0..tables.len(),
        deletes_max: deletes.max().unwrap_or(u64::MAX),
        entries_min: entries.min().unwrap_or(0),
        newest_min: newest.min().unwrap_or(SeqNo(0)),
    }
}

#[cfg(test)]
mod tests;
