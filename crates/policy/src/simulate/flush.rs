//! A flush, range by range: each range stays in persistent memory or leaves it.

use thermocline_base::KeyRange;
use thermocline_base::limits::MEMTABLES_MAX;

use super::doing::{Doing, Edit, Flushed, What};
use super::merge::{Table, union, whole};
use super::state::Run;
use super::store::Sealed;
use crate::cost::Form;
use crate::flush::{self, Because};
use crate::pick::{Held, Sinking, State, base_and_above, level0_cuts, pick_along, pick_sinking};
use crate::ranges::{self, Coming, Fate, Leaving, Range};
use crate::rewrite::{self, Contents, RewritePlan};
use crate::scans::Scans;
use crate::tuning::RANGE_TABLES;

impl Run {
    fn waiting(&self) -> flush::Sealed {
        let options = &self.setting.options;
        let skips = self.store.memory.level0.is_skipped();
        let zones = |sealed: &Sealed| self.store.zones_of_memtable(sealed.numbers.bytes);
        flush::Sealed {
            automatic: true,
            memtables: self.sealed.len(),
            memtables_due: usize::try_from(options.flush.generations).unwrap_or(usize::MAX),
            bytes: self.sealed.iter().map(zones).sum(),
            taken_bytes: 0,
            blob_bytes: 0,
            blob_bytes_due: u64::MAX,
            pm_bytes: self.region_bytes,
            sealed_percent: options.sealed_percent(),
            alone_percent: options.flush.pm_percent,
            tables: (skips || self.evacuates()).then(|| self.store.pm_table_bytes()),
            skips,
            descriptors_free: (MEMTABLES_MAX as usize).saturating_sub(self.sealed.len()),
            dram: flush::Dram {
                used: self.index_bytes(),
                limit: options.dram,
                percent: options.flush.dram_percent,
                held_by_all: self.index_bytes(),
                budget: options.dram,
            },
            scans: Scans {
                scanned: whole(self.scanned),
                // Lookups find too little there to matter.
                found: 0,
                records: self.sealed.iter().map(|s| s.numbers.records).sum(),
                active_records: whole(self.active.bytes) / self.setting.record.in_memtable(),
                active_bytes: whole(self.active.bytes),
            },
        }
    }

    /// What waits for a flush that is due, and why it is, behind the seal of the active memtable where that is wanted.
    pub(super) fn due(&mut self) -> Option<(flush::Sealed, Because)> {
        let mut waiting = self.waiting();
        if let Some(Because::Scans { seals: true, .. }) = waiting.plan().because {
            self.seal_active();
            waiting = self.waiting();
        }
        Some((waiting, waiting.plan().because?))
    }

    /// Begins a flush, if one is due.
    pub(super) fn begin_flush(&mut self) {
        let Some((waiting, because)) = self.due() else {
            return;
        };
        let for_scans = matches!(because, Because::Scans { .. });
        self.outcome.flushes_for_dram += u64::from(matches!(because, Because::Dram { .. }));
        let in_use = self.attached() + self.store.zones.largest;
        let mut room = self.region_bytes.saturating_sub(in_use);
        let zones = |sealed: &Sealed| self.store.zones_of_memtable(sealed.numbers.bytes);
        let shape = self.setting.options.level0.shape();
        let least = match ranges::sinks(shape, self.promise(&self.sealed).is_some()) {
            true => self.sinks_bytes(),
            false => waiting.takes_bytes(),
        };
        let count = flush::taken(self.sealed.iter().map(zones), least);
        let flushed = Flushed {
            zones: self.sealed[..count].iter().map(zones).sum(),
            records: self.sealed[..count]
                .iter()
                .map(|sealed| sealed.numbers.records)
                .sum(),
        };
        let taken: Vec<Sealed> = self.sealed.drain(..count).collect();
        self.count_for_scans(&waiting, &flushed, for_scans);
        self.store.memory.level0.corrected.age();
        let mut promised = self.promise(&taken);
        let sinks = ranges::sinks(shape, promised.is_some());
        let leaving = self.leaving(&taken, for_scans);
        promised = promised.filter(|_| !leaving.all);
        self.outcome.skip_changes += u64::from(leaving.because.is_some());
        let bytes: u64 = taken.iter().map(|sealed| sealed.numbers.bytes).sum();
        let ends = self.ends(&leaving, sinks, bytes);
        let each = bytes / ends.len() as u64;
        let (mut edits, mut holds, mut from) = (Vec::new(), Vec::new(), 0);
        let (mut device, mut processor) = (0.0, 0.0);
        for to in ends {
            let new = self.records_of(&taken, from, to);
            let range = Range {
                evacuates: self.evacuates(),
                leaves: leaving.all || self.is_cold(&leaving, to),
                bytes: each,
                promised,
                relieving: false,
            };
            let must = leaving.all || range.fate() == Fate::LacksRoom;
            let edit = match range.fate() {
                _ if sinks => self.along(&new, each, None, &mut holds),
                Fate::Stays => None,
                Fate::Leaves | Fate::LacksRoom => self.along(&new, each, Some(must), &mut holds),
            };
            let edit = edit.unwrap_or_else(|| self.stay(&new, &mut promised, &mut room));
            let (moved, worked) = self.count(&edit, new.entries);
            (device, processor) = (device + moved, processor + worked);
            edits.push(edit);
            from = to;
        }
        self.outcome.moved_bytes += device;
        self.outcome.processor_ns += processor;
        self.store.changes += 1;
        self.work.push(Doing {
            holds: None,
            device_bytes: device,
            processor_ns: processor,
            what: What::Flush {
                memtables: flushed,
                edits,
            },
        });
    }

    /// What scans have collected of what is flushed counts no more.
    fn count_for_scans(&mut self, waiting: &flush::Sealed, flushed: &Flushed, for_scans: bool) {
        let all = waiting.bytes + waiting.scans.active_bytes;
        self.scanned -= self.scanned * flushed.zones as f64 / all.max(1) as f64;
        if for_scans {
            self.outcome.records_for_scans += flushed.records;
        }
    }

    fn sinks_bytes(&self) -> u64 {
        let seen = self.store.seen();
        let state = State {
            levels: &seen.levels,
            running: &[],
        };
        ranges::sinks_bytes(base_and_above(&state, &seen.options))
    }

    fn evacuates(&self) -> bool {
        let shape = self.setting.options.level0.shape();
        let budget = self.store.budget.as_ref();
        shape.evacuates_by_range() && budget.is_none_or(|budget| budget.form != Form::Printed)
    }

    /// What of a flush of these does not stay in persistent memory.
    fn leaving(&mut self, taken: &[Sealed], for_scans: bool) -> Leaving {
        let options = &self.setting.options;
        let plan = match options.level0.shape().evacuates_by_range() {
            true => self.store.level0_plan(),
            false => None,
        };
        let Some(plan) = plan else {
            return Leaving::default();
        };
        let memtables: Vec<Contents> = taken.iter().map(|sealed| sealed.numbers).collect();
        let coming = Coming {
            memtables: &memtables,
            left_bytes: memtables.iter().map(|memtable| memtable.bytes).sum(),
            share: options.level0_pm_bytes().unwrap_or(0),
            usual_bytes: flush::usual_bytes(self.region_bytes, options.sealed_percent()),
            now_ns: whole(self.now_ns),
            written: self.written,
            for_scans,
        };
        ranges::leaving(&plan, &coming, &mut self.store.memory.level0)
    }

    /// Persistent memory that a flush may write.
    fn promise(&self, taken: &[Sealed]) -> Option<u64> {
        let options = &self.setting.options;
        let share = options.level0_pm_bytes()?;
        let left = |most: u64| most.saturating_sub(self.store.pm_table_bytes());
        if options.level0.shape().keeps_tables_in_pm() {
            // Compaction may be behind by a flush, but for a memtable.
            let flush = options.flush_pm_bytes();
            let least = flush.saturating_sub(options.memtable_bytes_beside(true));
            return Some(left(share + flush)).filter(|bytes| *bytes >= least);
        }
        let bytes = taken.iter().map(|sealed| sealed.numbers.bytes).sum();
        let ratio = options.flush.rewrite_ratio;
        if ratio == 0 || !options.level0.shape().rewrites() {
            return None;
        }
        let most = rewrite::live_bytes_max(bytes, ratio);
        let mut memtables = taken.iter();
        let lives = memtables.any(|sealed| rewrite::lives_by_count(&sealed.numbers, most));
        let live = || {
            let all = self.records_of(taken, 0, self.store.keys.cells()).entries;
            whole(all * self.setting.record.in_memtable() as f64)
        };
        let plan = RewritePlan {
            ratio,
            bytes,
            live_bytes: (!lives).then(live).filter(|live| *live <= most),
            room_bytes: left(share),
        };
        plan.rewrites().then(|| left(share))
    }

    /// Where ranges end.
    fn ends(&self, leaving: &Leaving, sinks: bool, bytes: u64) -> Vec<usize> {
        let cells = self.store.keys.cells();
        let range = self.setting.options.table_bytes() * RANGE_TABLES;
        let count = usize::try_from(ranges::count(bytes, range)).unwrap_or(1);
        let shape = self.setting.options.level0.shape();
        let is_one = count < 2 && leaving.colds.is_empty();
        let by_range = shape.evacuates_by_range() || sinks;
        if leaving.alone || !by_range || is_one {
            return vec![cells];
        }
        let seen = self.store.seen();
        let state = State {
            levels: &seen.levels,
            running: &[],
        };
        let place = |key: &[u8]| self.store.keys.cell_of(key);
        let mut cuts = level0_cuts(&state, &seen.options);
        cuts.sort_unstable();
        let cuts: Vec<usize> = cuts.iter().map(|key| place(key)).collect();
        let mut ends: Vec<usize> = (1..=count).map(|n| cells * n / count).collect();
        for n in 0..count - 1 {
            // The beginning of the next slice, if that is before the next of them.
            let cut = cuts[cuts.partition_point(|cut| *cut < ends[n])..].first();
            ends[n] = cut
                .copied()
                .filter(|cut| *cut < ends[n + 1])
                .unwrap_or(ends[n]);
        }
        for (_, key, _) in &leaving.colds {
            let cold = place(key);
            // Where the slice is apart from the one before.
            ends.extend(cuts[..cuts.partition_point(|cut| *cut <= cold)].last());
        }
        ends.retain(|end| *end > 0);
        ends.sort_unstable();
        ends.dedup();
        ends
    }

    fn is_cold(&self, leaving: &Leaving, to: usize) -> bool {
        let key = &self.store.keys.bounds[to][..];
        let mut before = leaving.colds.iter().filter(|(_, from, _)| &from[..] < key);
        before.next_back().is_some_and(|(.., cold)| *cold)
    }

    /// What memtables have in these cells.
    fn records_of(&self, taken: &[Sealed], from: usize, to: usize) -> Table {
        let parts = taken
            .iter()
            .filter_map(|sealed| sealed.table.part(from, to));
        let parts: Vec<Table> = parts.collect();
        union(&parts, &self.store.keys).expect("a flush takes something")
    }

    /// The range by itself: into persistent memory, as far as that is promised and there is room, or into files.
    fn stay(&mut self, new: &Table, promised: &mut Option<u64>, room: &mut u64) -> Edit {
        let written = |run: &mut Run, in_pm: bool| {
            let cuts = run.store.cuts_of_flush(in_pm);
            run.store.tables(new, in_pm, &cuts)
        };
        if let Some(promised) = promised {
            let come = written(self, true);
            let zones: u64 = come.iter().map(|table| self.store.zones_of(table)).sum();
            if zones <= (*promised).min(*room) {
                *promised -= zones;
                *room -= zones;
                return Edit::coming(0, come);
            }
        }
        Edit::coming(0, written(self, false))
    }

    /// The range merged with what it takes along, if there is something and no job is in the way. It sinks, or it may or `must`
    /// leave persistent memory.
    fn along(
        &mut self,
        new: &Table,
        bytes: u64,
        must: Option<bool>,
        holds: &mut Vec<Held>,
    ) -> Option<Edit> {
        let (from, to) = (new.first, new.end);
        let picked = {
            let seen = self.store.seen();
            let running = [&self.store.held[..], &holds[..]].concat();
            let state = State {
                levels: &seen.levels,
                running: &running,
            };
            let bounds = &self.store.keys.bounds;
            let range = KeyRange::until(&bounds[from][..], &bounds[to]);
            match must {
                None => match pick_sinking(&state, &seen.options, &range, bytes, u64::MAX) {
                    Sinking::Goes(along) => along,
                    Sinking::Meets | Sinking::Costs => return None,
                },
                Some(must) => pick_along(&state, &seen.options, &range, bytes, must)?,
            }
        };
        let mut edit = Edit::default();
        let mut inputs = vec![new.clone()];
        let inside = picked.inputs.iter().map(|n| (0, *n, from, to));
        let ends = match picked.is_cut {
            true => (from, to),
            false => (0, usize::MAX),
        };
        let below = picked.overlapped.iter();
        let below = below.map(|n| (picked.to, *n, ends.0, ends.1));
        for (level, n, from, to) in inside.chain(below) {
            let table = self.store.levels[level][n].clone();
            edit.gone.push((level, table.file));
            inputs.extend(table.part(from, to));
            for (from, to) in [(0, from), (to, usize::MAX)] {
                let rest = self.store.rest(&table, from, to);
                edit.come.extend(rest.map(|rest| (level, rest)));
            }
        }
        edit.rests = edit.come.len();
        edit.read = inputs.split_off(1);
        holds.push(picked.holds);
        inputs.extend(edit.read.iter().cloned());
        let merged = union(&inputs, &self.store.keys)?;
        let cuts = match picked.to {
            0 => self.store.cuts_of_flush(false),
            _ => self.store.cuts_below(),
        };
        let tables = self.store.tables(&merged, false, &cuts);
        edit.come
            .extend(tables.into_iter().map(|table| (picked.to, table)));
        Some(edit)
    }

    /// Counts what a range reads and writes; returns the device's part of it, and the processor's.
    fn count(&mut self, edit: &Edit, records: f64) -> (f64, f64) {
        let (mut written, mut pm, mut read) = (0.0, 0.0, 0.0);
        for (_, table) in &edit.come[edit.rests..] {
            let bytes = self.store.bytes(table);
            match table.in_pm {
                true => pm += bytes,
                false => written += bytes,
            }
        }
        let mut all = records;
        for table in &edit.read {
            all += table.entries;
            if !table.in_pm {
                read += self.store.bytes(table);
            }
        }
        self.outcome.flushed_bytes += written;
        self.outcome.pm_written_bytes += pm;
        let units = self.store.memory.level0.units;
        let each = if written > 0.0 {
            units.major
        } else {
            units.internal
        };
        (read + written, all * each)
    }
}
