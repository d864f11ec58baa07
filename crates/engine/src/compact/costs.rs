//! What is known of level 0 in persistent memory, for `policy::level0`, which decides about it; and what was decided.
//!
//! Unit costs begin with those of a machine as fast as this one, and are refined by what merges and drawings take. By a
//! clock that stands still, as in simulations, they stay the usual ones.

pub(crate) mod known;

use std::collections::{BTreeMap, BTreeSet};

use thermocline_base::{CfId, FileId, Result, SeqNo};
use thermocline_level0::{PmCursor, PmPart};
use thermocline_policy::level0::{
    Budget, Content, Family, Level0Plan, PartitionRate, SlicePlan, draws, plan, wants_samples,
};
use thermocline_policy::pick::{Held, Slice, level0_slices};
use thermocline_version::{TableRef, Version};

use super::shape::{Levels, seen};
use crate::store::Level0Costs;
use crate::sync::{Arc, lock};

/// What the tables of level 0 have, by place.
pub(super) fn contents_of(version: &Version, levels: &Levels<'_>) -> Vec<Content> {
    let level0 = levels.newest_first().iter();
    let content = |table: &&Arc<TableRef>| {
        let pm = version.pm_table(table.file);
        let references = || version.references(table.file).len().max(1) as u64;
        Content {
            entries: table.entries,
            zone_bytes: pm.map(|pm| pm.meta.zone_bytes / references()),
            blob_bytes: table.blob_bytes(),
        }
    };
    level0.map(content).collect()
}

/// A family, with what is known of it.
pub(super) struct OfFamily<'v> {
    pub cf: CfId,
    pub levels: Levels<'v>,
    /// What running jobs hold there.
    pub running: Vec<Held>,
    /// That, and tables that rest because a job has failed with them.
    pub held: Vec<Held>,
    pub contents: Vec<Content>,
}

impl<'v> OfFamily<'v> {
    pub fn of(version: &'v Version, cf: CfId, running: Vec<Held>) -> OfFamily<'v> {
        let levels = Levels::of(version, cf, None);
        OfFamily {
            cf,
            contents: contents_of(version, &levels),
            held: running.clone(),
            running,
            levels,
        }
    }

    /// The same, where these tables rest.
    pub fn beside(mut self, resting: &BTreeSet<FileId>) -> OfFamily<'v> {
        let (version, cf) = (self.levels.version, self.cf);
        let references = resting.iter().flat_map(|file| version.references(*file));
        let own = references.filter(|(place, _)| place.cf == cf);
        self.held.extend(own.map(|(place, table)| {
            let level = usize::from(place.level.0);
            Held::resting(level, &seen(table, false))
        }));
        self
    }
}

impl Level0Costs {
    /// What costs say of level 0 in persistent memory, in this version and beside jobs that hold this; `None` if they
    /// are not asked. What rests counts as ever: it takes its room.
    pub fn level0_plan(
        &self,
        version: &Version,
        held: impl Fn(CfId) -> Vec<Held>,
    ) -> Option<Level0Plan> {
        let families = version.families();
        let known = families.map(|cf| OfFamily::of(version, cf, held(cf)));
        self.level0_plan_of(version, &known.collect::<Vec<_>>())
    }

    /// The same, of what is known of all families, by their ids.
    pub(super) fn level0_plan_of(
        &self,
        version: &Version,
        known: &[OfFamily<'_>],
    ) -> Option<Level0Plan> {
        let costs = &self.common.compactions.costs;
        let form = costs.form?;
        // With other shapes some may lie there, because it was rewritten.
        if !self.common.options.level0.shape().keeps_tables_in_pm() && version.pm_table_count() == 0
        {
            return None;
        }
        let geometry = self.common.compactions.shape.geometry();
        let budget = Budget {
            form,
            bytes: self.common.compactions.shape.share.bytes(),
            bytes_while_merging: geometry.internal_limit().unwrap_or(0),
            part_bytes: geometry.internal_part_bytes(),
            table_bytes: geometry.table_bytes,
            blob_bytes_max: costs.blob_bytes_max,
        };
        let now = self.common.now_ns();
        let exists = |cf, partition| self.common.has_partition(cf, partition);
        let rates = |known: &OfFamily<'_>| {
            let partitions = version.partitions(known.cf);
            let rates = &self.common.rates;
            let rates = rates.per_second(now, &exists, partitions, known.cf);
            let with_end = rates.into_iter().map(|rate| {
                let end = partitions.of(&rate.start).end.map(<[u8]>::to_vec);
                (rate, end)
            });
            with_end.collect()
        };
        let rates: Vec<Vec<(PartitionRate, Option<Vec<u8>>)>> = known.iter().map(rates).collect();
        let sums = &self.common.compactions.sums;
        known.iter().for_each(|known| known.levels.with_sums(sums));
        let families = known.iter().zip(&rates).map(|(known, rates)| Family {
            family: known.cf,
            state: known.levels.state(&known.running),
            contents: &known.contents,
            rates,
        });
        let families: Vec<Family<'_>> = families.collect();
        Some(plan(&budget, &families, &lock(&costs.known).memory.level0))
    }

    /// Draws entries from slices of which it is worth it, and that have changed, and looks how many of them
    /// older runs have, too. The caller holds no lock.
    pub fn sample_level0(&self) {
        let costs = &self.common.compactions.costs;
        let version = self.common.catalog.version();
        let held = |cf: CfId| self.common.compactions.of_family(cf).0;
        let Some(plan) = self.level0_plan(&version, held) else {
            return;
        };
        // Whoever decides meanwhile knows what was known.
        let mut before = lock(&costs.known).memory.level0.sampled.clone();
        let mut sampled = BTreeMap::new();
        let asked = |slice: &&SlicePlan| wants_samples(&plan, slice);
        for slice in plan.slices.iter().filter(asked) {
            if self.common.check_open().is_err() {
                return;
            }
            let levels = Levels::of(&version, slice.family, None);
            let held = held(slice.family);
            let slices = level0_slices(&levels.state(&held));
            // Not if a job has begun or ended meanwhile.
            let same = |of: &&Slice<'_>| of.range.first == &slice.first[..] && of.on_top;
            let Some(of) = slices.get(slice.place).filter(same) else {
                continue;
            };
            let files: Vec<FileId> = of.pm.iter().map(|n| levels.reference(0, *n).file).collect();
            let key = (slice.family, files);
            let share = match before.remove(&key) {
                Some(share) => Some(share),
                // What is damaged is told by whoever reads it in earnest.
                None => self
                    .sample(slice.family, &levels.runs(&of.pm))
                    .unwrap_or(None),
            };
            sampled.extend(share.map(|share| (key, share)));
        }
        lock(&costs.known).memory.level0.sampled = sampled;
    }

    /// Of how many entries in runs, which come newest first, how many an older one has, too.
    fn sample(&self, cf: CfId, runs: &[Vec<Arc<TableRef>>]) -> Result<Option<(u64, u64)>> {
        let part = |table: &TableRef| {
            let (lower, upper) = table.limits();
            let found = self.common.catalog.table_files.pm.get(table.file)?;
            Some(PmPart::limited(found, cf, lower, upper))
        };
        let Some((_, newer)) = runs.split_last() else {
            return Ok(None);
        };
        let tables: usize = newer.iter().map(Vec::len).sum();
        let each = draws(tables);
        let (mut drawn, mut again, mut searches) = (0u64, 0u64, 0);
        let begun = self.common.now_ns();
        for (n, run) in newer.iter().enumerate() {
            for table in run {
                let Some(own) = part(table) else { continue };
                let mut cursor = PmCursor::new(own, false);
                let weight = (table.entries / each).max(1);
                for place in 0..each {
                    if !cursor.go_to_share(2 * place + 1, 2 * each)? {
                        continue;
                    }
                    drawn += weight;
                    let key = cursor.user_key();
                    let older = runs[n + 1..].iter().flatten();
                    for older in older.filter(|older| older.range.contains(key)) {
                        let Some(part) = part(older) else { continue };
                        searches += 1;
                        if part.get(key, SeqNo(SeqNo::MAX.0 - 1), false)?.is_some() {
                            again += weight;
                            break;
                        }
                    }
                }
            }
        }
        let took = self.common.now_ns().saturating_sub(begun);
        let mut known = lock(&self.common.compactions.costs.known);
        known.memory.level0.units.searched(searches, took);
        drop(known);
        Ok((drawn > 0).then_some((again, drawn)))
    }
}
