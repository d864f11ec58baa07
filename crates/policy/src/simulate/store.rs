//! The tables of the model, and what policy is told of them.

use thermocline_base::options::Options;
use thermocline_base::{CfId, FileId};

use super::merge::{Table, cut, union, whole};
use super::setting::Setting;
use crate::Memory;
use crate::cost::Form;
use crate::geometry::{Geometry, Has};
use crate::level0::{
    Budget, Content, Family, Level0Plan, PartitionRate, draws, plan, wants_samples,
};
use crate::pick::{
    self, Cursors, Held, PickOptions, Slice, State, depth, level0_slices, pending_bytes, runs,
};
use crate::pressure::Debt;
use crate::rewrite::Contents;

/// Cells.
const CELLS: usize = 1024;

/// A sealed memtable.
#[derive(Debug, Clone)]
pub(super) struct Sealed {
    /// Records of each cell, each key once.
    pub records: Vec<f64>,
    pub numbers: Contents,
    /// Its seqno: the number of the memtable.
    pub seqno: u64,
}

/// See the [module](self).
pub(super) struct Store {
    pub keys: Vec<[u8; 4]>,
    pub keys_in_cell: f64,
    /// How often each cell is written, as a part of all.
    weights: Vec<f64>,
    pub record_bytes: u64,
    rates: Vec<(PartitionRate, Option<Vec<u8>>)>,
    pub levels: Vec<Vec<Table>>,
    pub held: Vec<Held>,
    pub cursors: Cursors,
    pub geometry: Geometry,
    pub budget: Budget,
    pub memory: Memory,
    pub next_file: u64,
    pub next_seqno: u64,
}

/// The levels as pickers see them.
pub(super) struct Seen<'a> {
    pub levels: Vec<Vec<pick::Table<'a>>>,
    pub contents: Vec<Content>,
    pub options: PickOptions,
}

impl Store {
    pub fn new(setting: &Setting, options: &Options) -> Store {
        let of = &options.compaction;
        let geometry = Geometry {
            levels: usize::try_from(of.levels).expect("at most 7"),
            level0_tables: usize::try_from(of.level0_tables).unwrap_or(usize::MAX),
            multiplier: of.multiplier,
            dynamic: of.dynamic,
            table_bytes: options.table_bytes(),
            base_bytes: options.base_bytes(),
            memtable_bytes: options.memtable_bytes(),
            pm_bytes_max: options.level0_pm_bytes(),
            in_pm: options.level0.shape().keeps_tables_in_pm(),
        };
        let all = setting.data_bytes as f64 / setting.record_bytes as f64;
        let weights = weights(setting.skew);
        let number = |n: usize| u32::try_from(n).expect("few cells").to_be_bytes();
        let rate = PartitionRate {
            start: Vec::new(),
            reads: setting.reads_per_s,
            writes: setting.writes_per_s / setting.record_bytes as f64,
            updates: 0.0,
        };
        let mut store = Store {
            keys: (0..=CELLS).map(number).collect(),
            keys_in_cell: all / CELLS as f64,
            weights,
            record_bytes: setting.record_bytes,
            rates: vec![(rate, None)],
            levels: vec![Vec::new(); geometry.levels + 1],
            held: Vec::new(),
            cursors: Cursors::default(),
            budget: Budget {
                form: Form::Corrected,
                bytes: geometry.pm_bytes_max.unwrap_or(0),
                bytes_while_merging: geometry.internal_limit().unwrap_or(0),
                part_bytes: geometry.internal_part_bytes(),
                table_bytes: geometry.table_bytes,
                blob_bytes_max: u64::MAX,
            },
            geometry,
            memory: Memory::default(),
            next_file: 1,
            next_seqno: 1,
        };
        let loaded = Table {
            file: 0,
            first: 0,
            records: vec![store.keys_in_cell; CELLS],
            in_pm: false,
            oldest: 0,
            newest: 0,
        };
        let last = store.levels.len() - 1;
        store.levels[last] = store.tables(&loaded, false);
        store
    }

    /// Tables of the usual size, numbered.
    pub fn tables(&mut self, table: &Table, in_pm: bool) -> Vec<Table> {
        let most = self.geometry.table_bytes as f64 / self.record_bytes as f64;
        let mut all = cut(table, most);
        for table in &mut all {
            (table.file, table.in_pm) = (self.next_file, in_pm);
            self.next_file += 1;
        }
        all
    }

    pub fn bytes(&self, table: &Table) -> f64 {
        table.entries() * self.record_bytes as f64
    }

    pub fn pm_table_bytes(&self) -> u64 {
        let in_pm = self.levels[0].iter().filter(|table| table.in_pm);
        whole(in_pm.map(|table| self.bytes(table)).sum())
    }

    /// A memtable that was written full.
    pub fn sealed(&mut self, bytes: u64) -> Sealed {
        let writes = bytes as f64 / self.record_bytes as f64;
        let n = self.keys_in_cell;
        let distinct = |weight: &f64| n * (1.0 - (-writes * weight / n).exp());
        let records: Vec<f64> = self.weights.iter().map(distinct).collect();
        self.next_seqno += 1;
        Sealed {
            numbers: Contents {
                bytes,
                records: whole(writes),
                keys: whole(records.iter().sum()),
            },
            records,
            seqno: self.next_seqno,
        }
    }

    pub fn seen(&self) -> Seen<'_> {
        let see = |table: &Table| table.seen(&self.keys, self.record_bytes);
        let levels = self.levels.iter();
        let levels: Vec<Vec<pick::Table<'_>>> = levels
            .map(|level| level.iter().map(see).collect())
            .collect();
        let content = |table: &Table| Content {
            entries: whole(table.entries()),
            zone_bytes: table.in_pm.then(|| whole(self.bytes(table))),
            blob_bytes: 0,
        };
        let pm_bytes = self.pm_table_bytes();
        let deepest = self.levels.iter().rposition(|level| !level.is_empty());
        let has = Has {
            deepest: deepest.unwrap_or(0),
            level0_pm_bytes: pm_bytes,
            pm_bytes,
        };
        Seen {
            contents: self.levels[0].iter().map(content).collect(),
            options: self.geometry.pick_options(&has),
            levels,
        }
    }

    pub fn debt(&self) -> Debt {
        let seen = self.seen();
        let state = State {
            levels: &seen.levels,
            running: &[],
        };
        let of = |in_pm: bool| {
            let some = seen.levels[0].iter().filter(|table| table.in_pm == in_pm);
            depth(&some.copied().collect::<Vec<_>>())
        };
        Debt {
            level0_tables: self.geometry.runs_for_delay(of(false), of(true)) as u64,
            pending_bytes: pending_bytes(&state, &seen.options),
            ..Debt::default()
        }
    }

    /// What costs say of level 0, once it was looked how many writes are updates.
    pub fn level0_plan(&mut self) -> Level0Plan {
        let planned = self.plan_now();
        let sampled = {
            let seen = self.seen();
            let state = State {
                levels: &seen.levels,
                running: &self.held,
            };
            let slices = level0_slices(&state);
            let asked = planned.slices.iter();
            let asked = asked.filter(|slice| wants_samples(&planned, slice));
            let sample = |slice: &Slice<'_>| {
                let files = slice.pm.iter().map(|n| FileId(self.levels[0][*n].file));
                ((CfId::DEFAULT, files.collect()), self.sample(&seen, slice))
            };
            asked
                .filter_map(|slice| slices.get(slice.place).map(sample))
                .collect()
        };
        self.memory.level0.sampled = sampled;
        self.plan_now()
    }

    fn plan_now(&self) -> Level0Plan {
        let seen = self.seen();
        let family = Family {
            family: CfId::DEFAULT,
            state: State {
                levels: &seen.levels,
                running: &self.held,
            },
            contents: &seen.contents,
            rates: &self.rates,
        };
        plan(&self.budget, &[family], &self.memory.level0)
    }

    /// Of how many writes of a slice how many are updates: exactly, on average.
    fn sample(&self, seen: &Seen<'_>, slice: &Slice<'_>) -> (u64, u64) {
        let tables: Vec<pick::Table<'_>> = slice.pm.iter().map(|n| seen.levels[0][*n]).collect();
        let runs = runs(&tables);
        let of = |run: &std::ops::Range<usize>| -> Vec<Table> {
            let places = slice.pm[run.clone()].iter();
            places.map(|n| self.levels[0][*n].clone()).collect()
        };
        let (mut again, mut drawn) = (0.0, 0.0);
        for (n, run) in runs.iter().enumerate() {
            let older: Vec<Table> = runs[n + 1..].iter().flat_map(of).collect();
            let Some(older) = union(&older, self.keys_in_cell) else {
                continue;
            };
            for table in of(run) {
                drawn += table.entries();
                let below = |cell: usize| {
                    let place = cell.checked_sub(older.first);
                    let records = place.and_then(|place| older.records.get(place));
                    records.map_or(0.0, |records| records / self.keys_in_cell)
                };
                let cells = table.records.iter().enumerate();
                again += cells.map(|(n, r)| r * below(table.first + n)).sum::<f64>();
            }
        }
        // A drawing is no more exact than this.
        let steps = draws(1);
        let share = again / f64::max(drawn, 1.0);
        (whole((share * steps as f64).round()), steps)
    }
}

/// How often each cell is written. Hot cells lie apart from each other.
fn weights(skew: f64) -> Vec<f64> {
    let rank = |cell: usize| ((cell * 389) % CELLS + 1) as f64;
    let weights = (0..CELLS).map(|cell| rank(cell).powf(-skew));
    let weights: Vec<f64> = weights.collect();
    let all: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / all).collect()
}
