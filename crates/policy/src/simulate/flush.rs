//! A flush: its ranges, each of which stays in persistent memory or leaves it.

use thermocline_base::KeyRange;

use super::doing::{Doing, Edit, What};
use super::merge::{Table, union, whole};
use super::state::Run;
use super::store::Sealed;
use crate::flush;
use crate::pick::{Held, State, pick_along};
use crate::ranges::{self, Coming, Fate, Leaving, Range};
use crate::rewrite::Contents;
use crate::tuning::RANGE_TABLES;

impl Run {
    fn is_flush_due(&self) -> bool {
        let skipped = self.store.memory.level0.is_skipped();
        let sealed = flush::Sealed {
            automatic: true,
            memtables: self.sealed.len(),
            memtables_due: 0,
            bytes: self.sealed.len() as u64 * self.memtable_bytes,
            blob_bytes: 0,
            blob_bytes_due: u64::MAX,
            pm_bytes: self.setting.pm_bytes,
            sealed_percent: self.options.sealed_percent(),
            alone_percent: self.options.flush.pm_percent,
            skipped_tables: skipped.then(|| self.store.pm_table_bytes()),
            descriptors_free: 64 - self.sealed.len().min(64),
            dram: flush::Dram {
                used: 0,
                limit: u64::MAX,
                percent: 100,
                held_by_all: 0,
                budget: u64::MAX,
            },
        };
        sealed.plan().due
    }

    /// Begins a flush of all that is sealed, if one is due.
    pub(super) fn begin_flush(&mut self) {
        if !self.is_flush_due() {
            return;
        }
        let taken = std::mem::take(&mut self.sealed);
        self.store.memory.level0.corrected.age();
        let plan = self.store.level0_plan();
        let memtables: Vec<Contents> = taken.iter().map(|sealed| sealed.numbers).collect();
        let sealed_percent = self.options.sealed_percent();
        let coming = Coming {
            memtables: &memtables,
            share: self.store.budget.bytes,
            usual_bytes: flush::usual_bytes(self.setting.pm_bytes, sealed_percent),
            now_ns: whole(self.now_ns),
        };
        let leaving = ranges::leaving(&plan, &coming, &mut self.store.memory.level0);
        self.outcome.skip_changes += u64::from(leaving.because.is_some());
        let bytes: u64 = memtables.iter().map(|memtable| memtable.bytes).sum();
        let ends = self.ends(&leaving, bytes);
        let each = bytes / ends.len() as u64;
        let mut promised = self.promise().filter(|_| !leaving.all);
        let (mut edits, mut holds, mut from) = (Vec::new(), Vec::new(), 0);
        let (mut device, mut records) = (0.0, 0.0);
        for to in ends {
            let new = self.records_of(&taken, from, to);
            records += new.entries();
            let range = Range {
                evacuates: true,
                leaves: leaving.all || self.is_cold(&leaving, to),
                bytes: each,
                promised,
                relieving: false,
            };
            let must = leaving.all || range.fate() == Fate::LacksRoom;
            let edit = match range.fate() {
                Fate::Stays => None,
                Fate::Leaves | Fate::LacksRoom => self.along(&new, each, must, &mut holds),
            };
            let edit = edit.unwrap_or_else(|| {
                let stays = !leaving.all && promised.is_some_and(|promised| promised >= each);
                let come = self.store.tables(&new, stays);
                let written = whole(come.iter().map(|table| self.store.bytes(table)).sum());
                promised = promised.map(|promised| promised.saturating_sub(written));
                Edit {
                    gone: Vec::new(),
                    come: come.into_iter().map(|table| (0, table)).collect(),
                }
            });
            device += self.count(&edit);
            edits.push(edit);
            from = to;
        }
        self.outcome.moved_bytes += device;
        self.work.push(Doing {
            holds: None,
            device_bytes: device,
            processor_ns: records * self.store.memory.level0.units.internal,
            what: What::Flush {
                memtables: taken.len(),
                edits,
            },
        });
    }

    /// Persistent memory that a flush may write.
    fn promise(&self) -> Option<u64> {
        let most = self.store.budget.bytes + self.options.flush_pm_bytes();
        let left = most.saturating_sub(self.store.pm_table_bytes());
        let room = self.setting.pm_bytes.saturating_sub(self.attached());
        Some(left.min(room)).filter(|bytes| *bytes > 0)
    }

    /// Where ranges end.
    fn ends(&self, leaving: &Leaving, bytes: u64) -> Vec<usize> {
        let cells = self.store.keys.len() - 1;
        if leaving.alone {
            return vec![cells];
        }
        let count = ranges::count(bytes, self.options.table_bytes() * RANGE_TABLES);
        let count = usize::try_from(count).unwrap_or(1);
        let mut ends: Vec<usize> = (1..=count).map(|n| cells * n / count).collect();
        let place = |key: &[u8]| self.store.keys.partition_point(|cell| &cell[..] < key);
        ends.extend(leaving.colds.iter().map(|(_, key, _)| place(key)));
        ends.retain(|end| *end > 0);
        ends.sort_unstable();
        ends.dedup();
        ends
    }

    fn is_cold(&self, leaving: &Leaving, to: usize) -> bool {
        let key = &self.store.keys[to][..];
        let mut before = leaving.colds.iter().filter(|(_, from, _)| &from[..] < key);
        before.next_back().is_some_and(|(.., cold)| *cold)
    }

    /// What memtables have in these cells.
    fn records_of(&self, taken: &[Sealed], from: usize, to: usize) -> Table {
        let part = |sealed: &Sealed| Table {
            file: 0,
            first: from,
            records: sealed.records[from..to].to_vec(),
            in_pm: false,
            oldest: sealed.seqno,
            newest: sealed.seqno,
        };
        let parts: Vec<Table> = taken.iter().map(part).collect();
        union(&parts, self.store.keys_in_cell).expect("a flush takes something")
    }

    /// The range merged with what it takes along, if there is something and no job is in the way.
    fn along(
        &mut self,
        new: &Table,
        bytes: u64,
        must: bool,
        holds: &mut Vec<Held>,
    ) -> Option<Edit> {
        let (from, to) = (new.first, new.end());
        let picked = {
            let seen = self.store.seen();
            let running = [&self.store.held[..], &holds[..]].concat();
            let state = State {
                levels: &seen.levels,
                running: &running,
            };
            let range = KeyRange::until(&self.store.keys[from], &self.store.keys[to]);
            pick_along(&state, &seen.options, &range, bytes, must)?
        };
        let mut edit = Edit::default();
        let mut inputs = vec![new.clone()];
        let inside = picked.inputs.iter().map(|n| (0, *n, from, to));
        let whole = picked
            .overlapped
            .iter()
            .map(|n| (picked.to, *n, 0, usize::MAX));
        for (level, n, from, to) in inside.chain(whole) {
            let table = self.store.levels[level][n].clone();
            edit.gone.push((level, table.file));
            inputs.extend(table.part(from, to));
            for mut rest in [table.part(0, from), table.part(to, usize::MAX)]
                .into_iter()
                .flatten()
            {
                rest.file = self.store.next_file;
                self.store.next_file += 1;
                edit.come.push((level, rest));
            }
        }
        holds.push(picked.holds);
        let merged = union(&inputs, self.store.keys_in_cell)?;
        let tables = self.store.tables(&merged, false);
        edit.come
            .extend(tables.into_iter().map(|table| (picked.to, table)));
        Some(edit)
    }

    /// Counts what a range writes; returns the device's part of it.
    fn count(&mut self, edit: &Edit) -> f64 {
        // What stays of tables that were cut is not written.
        let rest = |table: &Table| edit.gone.iter().any(|(level, _)| *level == 0) && table.in_pm;
        let (mut device, mut pm) = (0.0, 0.0);
        for (_, table) in edit.come.iter().filter(|(_, table)| !rest(table)) {
            let bytes = self.store.bytes(table);
            match table.in_pm {
                true => pm += bytes,
                false => device += bytes,
            }
        }
        self.outcome.flushed_bytes += device;
        self.outcome.pm_written_bytes += pm;
        device
    }
}
