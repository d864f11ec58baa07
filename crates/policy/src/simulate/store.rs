//! The tables of the model, and what policy is told of them.

use std::cell::Cell;

use thermocline_base::options::{Costs, Options, PartitionBy};

use super::keys::Keys;
use super::merge::{Cuts, Table, split, whole};
use super::record::Record;
use super::setting::Setting;
use crate::Memory;
use crate::cost::Form;
use crate::geometry::{Geometry, Has};
use crate::level0::{Budget, Content, PartitionRate};
use crate::partitions::{self, Adjustment};
use crate::pick::{self, Cursors, Held, PickOptions, Scores, State, depth, pending_bytes};
use crate::pressure::Debt;
use crate::rewrite::Contents;

/// A sealed memtable.
#[derive(Debug, Clone)]
pub(super) struct Sealed {
    /// What it has, each key once.
    pub table: Table,
    pub numbers: Contents,
}

/// See the [module](self).
pub(super) struct Store {
    pub keys: Keys,
    pub record: Record,
    pub rates: Vec<(PartitionRate, Option<Vec<u8>>)>,
    pub levels: Vec<Vec<Table>>,
    pub held: Vec<Held>,
    pub cursors: Cursors,
    pub geometry: Geometry,
    /// What costs are asked about level 0 in persistent memory, if they are.
    pub budget: Option<Budget>,
    pub memory: Memory,
    pub next_file: u64,
    pub next_seqno: u64,
    /// Changes with whatever decisions depend on.
    pub changes: u64,
    /// What levels add to a debt, once that was asked for, until an edit changes them: it is asked for with each memtable.
    pub known_debt: Cell<Option<Debt>>,
    pub zones: Zones,
    /// Where partitions begin, but for the first.
    pub starts: Vec<usize>,
    /// What a memtable of so many bytes has, of each class of each cell, once one was sealed.
    records_of_memtable: (u64, Vec<f64>),
}

/// The levels as pickers see them.
pub(super) struct Seen<'a> {
    pub levels: Vec<Vec<pick::Table<'a>>>,
    pub contents: Vec<Content>,
    pub options: PickOptions,
}

impl Store {
    pub fn new(setting: &Setting) -> Store {
        let options = &setting.options;
        let geometry = Geometry::of(options);
        let rate = PartitionRate {
            start: Vec::new(),
            reads: setting.reads_per_s,
            writes: setting.writes_per_s / setting.record.user() as f64,
            updates: 0.0,
        };
        let mut store = Store {
            keys: Keys::new(setting),
            record: setting.record,
            rates: vec![(rate, None)],
            levels: vec![Vec::new(); geometry.levels + 1],
            held: Vec::new(),
            cursors: Cursors::default(),
            budget: budget(options, &geometry),
            geometry,
            memory: Memory::default(),
            next_file: 1,
            next_seqno: 1,
            changes: 0,
            known_debt: Cell::new(None),
            zones: Zones::of(options),
            starts: Vec::new(),
            records_of_memtable: (0, Vec::new()),
        };
        if options.partition.by == PartitionBy::Size {
            store.starts = starts(&store, options.partition_bytes());
        }
        let all = store.keys.all(store.keys.cells());
        let loaded = Table::of(&store.keys, 0, all, (0, 0));
        let last = store.levels.len() - 1;
        store.levels[last] = store.tables(&loaded, false, &Cuts::new());
        if setting.is_filled {
            store.fill();
        }
        store
    }

    /// Fills level 0 in persistent memory, and the levels above the last one, as if data had come down through them for long.
    fn fill(&mut self) {
        let targets: Vec<Option<u64>> = {
            let seen = self.seen();
            let state = State {
                levels: &seen.levels,
                running: &[],
            };
            let scores = Scores::new(&state, &seen.options);
            (0..self.levels.len())
                .map(|level| scores.target(level))
                .collect()
        };
        for (level, target) in targets.into_iter().enumerate() {
            let Some(target) = target.filter(|_| level + 1 < self.levels.len()) else {
                continue;
            };
            let records = target as f64 / self.record_bytes(false);
            let full = Table::of(&self.keys, 0, self.keys.first_met(records), (0, 0));
            self.levels[level] = self.tables(&full, false, &Cuts::new());
        }
        if let Some(budget) = self.budget.as_ref().filter(|_| self.geometry.in_pm) {
            // As full as it is before anything has to leave, all of it one run.
            let bytes = budget.bytes.saturating_sub(budget.part_bytes) as f64;
            let records = bytes / self.record_bytes(true);
            let seqnos = (self.next_seqno, self.next_seqno);
            let full = Table::of(&self.keys, 0, self.keys.first_met(records), seqnos);
            self.levels[0] = self.tables(&full, true, &Cuts::new());
        }
    }

    /// Tables of the usual size, numbered.
    pub fn tables(&mut self, table: &Table, in_pm: bool, cuts: &Cuts) -> Vec<Table> {
        let most = self.geometry.table_bytes as f64 / self.record_bytes(in_pm);
        let mut all = split(table, most, cuts);
        for table in &mut all {
            (table.file, table.in_pm) = (self.next_file, in_pm);
            self.next_file += 1;
        }
        all
    }

    pub fn record_bytes(&self, in_pm: bool) -> f64 {
        match in_pm {
            true => self.record.in_pm_table() as f64,
            false => self.record.in_file() as f64,
        }
    }

    pub fn bytes(&self, table: &Table) -> f64 {
        table.entries * self.record_bytes(table.in_pm)
    }

    /// Persistent memory of the zones of a table there.
    pub fn zones_of(&self, table: &Table) -> u64 {
        // The last one is half full, on average.
        whole(self.bytes(table) + self.zones.usual * 0.5)
    }

    /// Likewise of a memtable whose records have so many bytes.
    pub fn zones_of_memtable(&self, bytes: u64) -> u64 {
        bytes + whole(self.zones.usual * 0.5)
    }

    pub fn pm_table_bytes(&self) -> u64 {
        let in_pm = self.levels[0].iter().filter(|table| table.in_pm);
        in_pm.map(|table| self.zones_of(table)).sum()
    }

    /// A memtable that was written full.
    pub fn sealed(&mut self, bytes: u64) -> Sealed {
        let writes = bytes as f64 / self.record.in_memtable() as f64;
        // Most are as large as the one before.
        if self.records_of_memtable.0 != bytes {
            self.records_of_memtable = (bytes, self.keys.distinct(writes));
        }
        let records = self.records_of_memtable.1.clone();
        self.next_seqno += 1;
        let seqnos = (self.next_seqno, self.next_seqno);
        let table = Table::of(&self.keys, 0, records, seqnos);
        Sealed {
            numbers: Contents {
                bytes,
                records: whole(writes),
                keys: whole(table.entries),
            },
            table,
        }
    }

    pub fn seen(&self) -> Seen<'_> {
        let see = |table: &Table| table.seen(&self.keys, self.bytes(table));
        let levels = self.levels.iter();
        let levels: Vec<Vec<pick::Table<'_>>> = levels
            .map(|level| level.iter().map(see).collect())
            .collect();
        let content = |table: &Table| Content {
            entries: whole(table.entries),
            zone_bytes: table.in_pm.then(|| self.zones_of(table)),
            blob_bytes: 0,
        };
        let pm_bytes = self.pm_table_bytes();
        let deepest = self.levels.iter().rposition(|level| !level.is_empty());
        let own = levels[0].iter().filter(|table| table.in_pm);
        let has = Has {
            deepest: deepest.unwrap_or(0),
            level0_pm_bytes: own.map(|table| table.bytes).sum(),
            pm_bytes,
        };
        Seen {
            contents: self.levels[0].iter().map(content).collect(),
            options: self.geometry.pick_options(&has),
            levels,
        }
    }

    pub fn debt(&self) -> Debt {
        if let Some(debt) = self.known_debt.get() {
            return debt;
        }
        let debt = self.debt_now();
        self.known_debt.set(Some(debt));
        debt
    }

    fn debt_now(&self) -> Debt {
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
}

fn budget(options: &Options, geometry: &Geometry) -> Option<Budget> {
    let form = match options.level0.internal {
        Costs::Off => return None,
        Costs::Corrected => Form::Corrected,
        Costs::Printed => Form::Printed,
    };
    Some(Budget {
        form,
        bytes: geometry.pm_bytes_max?,
        bytes_while_merging: geometry.internal_limit().unwrap_or(0),
        part_bytes: geometry.internal_part_bytes(),
        table_bytes: geometry.table_bytes,
        blob_bytes_max: options.blob.generation_bytes,
    })
}

/// Where partitions begin that have so many bytes at most, if they are divided as they are filled.
fn starts(store: &Store, limit: u64) -> Vec<usize> {
    let cells = store.keys.cells();
    let of_cell = store.keys.of_class.iter().sum::<f64>() * store.record_bytes(false);
    let mut starts = vec![0];
    loop {
        let end = |n: usize| starts.get(n + 1).copied().unwrap_or(cells);
        let partition = |(n, start): (usize, &usize)| partitions::Partition {
            start: &store.keys.bounds[*start],
            bytes: whole(of_cell * (end(n) - start) as f64),
        };
        let all: Vec<_> = starts.iter().enumerate().map(partition).collect();
        let middle = |n: usize| {
            let (from, to) = (starts[n], end(n));
            (to - from > 1).then(|| store.keys.bounds[usize::midpoint(from, to)].to_vec())
        };
        let key = match partitions::next(&all, limit, middle) {
            Some(Adjustment::Split(key)) => key,
            _ => break,
        };
        starts.push(store.keys.cell_of(&key));
        starts.sort_unstable();
    }
    starts.remove(0);
    starts
}

/// The parts of a region double up to 64 MiB. Each has sixteen zones, which have a mebibyte at most.
const PART_BYTES_MAX: u64 = 64 << 20;
const PART_ZONES: u64 = 16;
const ZONE_BYTES_MAX: u64 = 1 << 20;

/// How large zones are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Zones {
    /// On average over the bytes of the region.
    pub usual: f64,
    pub largest: u64,
}

impl Zones {
    fn of(options: &Options) -> Zones {
        let (mut has, mut zones, mut largest) = (0u64, 0.0, 0);
        while has < options.region_bytes_max() {
            let part = has.clamp(options.pm_region.part_bytes_first, PART_BYTES_MAX);
            largest = (part / PART_ZONES).min(ZONE_BYTES_MAX);
            zones += part as f64 * largest as f64;
            has += part;
        }
        let usual = zones / has.max(1) as f64;
        Zones { usual, largest }
    }
}
