//! What costs say of level 0 in persistent memory, once it was looked how many writes are updates; and where tables end.

use thermocline_base::{CfId, FileId};

use super::merge::{Cuts, Table, union_of, whole};
use super::store::{Seen, Store};
use crate::level0::{Family, Level0Plan, draws, plan, wants_samples};
use crate::pick::{self, Slice, State, level0_cuts, level0_gaps, level0_slices, runs};

impl Store {
    /// `None` if costs are not asked.
    pub fn level0_plan(&mut self) -> Option<Level0Plan> {
        let sampled = {
            let seen = self.seen();
            let planned = self.plan_now(&seen)?;
            if !planned
                .slices
                .iter()
                .any(|slice| wants_samples(&planned, slice))
            {
                return Some(planned);
            }
            let state = State {
                levels: &seen.levels,
                running: &self.held,
            };
            let slices = level0_slices(&state);
            let asked = planned.slices.iter();
            let asked = asked.filter(|slice| wants_samples(&planned, slice));
            let known = &self.memory.level0.sampled;
            let sample = |slice: &Slice<'_>| {
                let files = slice.pm.iter().map(|n| FileId(self.levels[0][*n].file));
                let key = (CfId::DEFAULT, files.collect());
                let found = known.get(&key).copied();
                let found = found.unwrap_or_else(|| self.sample(&seen, slice));
                (key, found)
            };
            asked
                .filter_map(|slice| slices.get(slice.place).map(sample))
                .collect()
        };
        self.memory.level0.sampled = sampled;
        self.plan_now(&self.seen())
    }

    fn plan_now(&self, seen: &Seen<'_>) -> Option<Level0Plan> {
        // With other shapes some may lie there, because it was rewritten.
        if !self.geometry.in_pm && !self.levels[0].iter().any(|table| table.in_pm) {
            return None;
        }
        let family = Family {
            family: CfId::DEFAULT,
            state: State {
                levels: &seen.levels,
                running: &self.held,
            },
            contents: &seen.contents,
            rates: &self.rates,
        };
        Some(plan(self.budget.as_ref()?, &[family], &self.memory.level0))
    }

    /// Of how many writes of a slice how many are updates: exactly, on average.
    fn sample(&self, seen: &Seen<'_>, slice: &Slice<'_>) -> (u64, u64) {
        let tables: Vec<pick::Table<'_>> = slice.pm.iter().map(|n| seen.levels[0][*n]).collect();
        let runs = runs(&tables);
        let of = |run: &std::ops::Range<usize>| {
            let places = slice.pm[run.clone()].iter();
            places.map(|n| &self.levels[0][*n]).collect::<Vec<_>>()
        };
        let (mut again, mut drawn) = (0.0, 0.0);
        let (classes, of_class) = (self.keys.classes(), &self.keys.of_class);
        for (n, run) in runs[..runs.len().saturating_sub(1)].iter().enumerate() {
            let older: Vec<&Table> = runs[n + 1..].iter().flat_map(of).collect();
            let Some(older) = union_of(&older, &self.keys) else {
                continue;
            };
            for table in of(run) {
                drawn += table.entries;
                let cells = table.first.max(older.first)..table.end.min(older.end);
                for cell in cells {
                    let (own, below) = (cell - table.first, cell - older.first);
                    let own = &table.records[own * classes..][..classes];
                    let below = &older.records[below * classes..][..classes];
                    let parts = own.iter().zip(below).zip(of_class);
                    again += parts.map(|((own, below), n)| own * below / n).sum::<f64>();
                }
            }
        }
        // A drawing is no more exact than this.
        let steps = draws(1);
        let share = again / f64::max(drawn, 1.0);
        (whole((share * steps as f64).round()), steps)
    }

    /// These cells, where tables end from so many bytes on.
    fn cuts(&self, cells: impl Iterator<Item = usize>, least: u64, in_pm: bool) -> Cuts {
        let least = least as f64 / self.record_bytes(in_pm);
        cells.map(|cell| (cell, least)).collect()
    }

    /// The same, in level 0, where partitions may change it.
    fn cuts_in_level0(
        &self,
        cells: impl Iterator<Item = usize>,
        mut least: u64,
        in_pm: bool,
    ) -> Cuts {
        let starts = self.starts.iter().copied();
        let at_starts = self.geometry.partition_table_min(least);
        let at_starts = at_starts.filter(|_| !self.starts.is_empty());
        least = at_starts.unwrap_or(least);
        let starts = starts.filter(|_| at_starts.is_some());
        self.cuts(cells.chain(starts), least, in_pm)
    }

    /// Where a flush into level 0 may end tables.
    pub fn cuts_of_flush(&self, in_pm: bool) -> Cuts {
        let seen = self.seen();
        let state = State {
            levels: &seen.levels,
            running: &[],
        };
        let is_empty = self.levels[0].is_empty();
        let least = self.geometry.flush_table_min(is_empty, false);
        let cells = |keys: Vec<Vec<u8>>| {
            let cells: Vec<usize> = keys.iter().map(|key| self.keys.cell_of(key)).collect();
            cells.into_iter()
        };
        let between = cells(level0_cuts(&state, &seen.options));
        let mut cuts = self.cuts_in_level0(between, least, in_pm);
        if self.geometry.level0_ends_at_partitions() && !is_empty {
            let gaps = level0_gaps(&state, &seen.options);
            cuts.extend(self.cuts(cells(gaps.ends), least, in_pm));
            cuts.extend(self.cuts(cells(gaps.within), self.geometry.table_min(), in_pm));
        }
        cuts
    }

    /// Where a merge inside level 0 may.
    pub fn cuts_within(&self, in_pm: bool) -> Cuts {
        let mut deeper = self.levels.iter().skip(1);
        let below = deeper.find(|level| !level.is_empty());
        let begins = below.into_iter().flatten().map(|table| table.first);
        self.cuts_in_level0(begins, self.geometry.first_table_min(), in_pm)
    }

    /// Where one that goes down may.
    pub fn cuts_below(&self) -> Cuts {
        let starts = self.starts.iter().copied();
        self.cuts(starts, self.geometry.sinking_table_min(), false)
    }
}
