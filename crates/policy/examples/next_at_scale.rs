//! How long a decision takes, in microseconds, by how many tables a store has:
//! `cargo run --release -p thermocline-policy --features examples --example next_at_scale`.
//!
//! Nothing is due; level 1 is too large; so it is, and a job runs there; nothing is due, and each table has a delete.
#![expect(
    clippy::disallowed_methods,
    reason = "an example measures by the real clock"
)]

use std::hint::black_box;
use std::time::Instant;

use thermocline_base::chunked::CHUNK_LEN_MAX;
use thermocline_base::{CfId, FileId, KeyRange, SeqNo};
use thermocline_policy::pick::{
    Cursors, DeletedRanges, Held, PickOptions, State, Stretch, Table, Tables,
};
use thermocline_policy::situation::{Charged, FamilyLevels, Levels, Situation};
use thermocline_policy::work::{Decision, Work};
use thermocline_policy::{Memory, next};

const TIMES: u32 = 200;

/// Levels that keep what their tables come to, as those of a version do.
#[derive(Debug)]
struct Kept<'k> {
    levels: [Vec<Table<'k>>; 3],
    /// By level, bytes and deletes.
    sums: [(u64, u64); 3],
    stretches: [Vec<Stretch>; 3],
}

impl Tables for Kept<'_> {
    fn level_count(&self) -> usize {
        self.levels.len()
    }

    fn level0(&self) -> &[Table<'_>] {
        &self.levels[0]
    }

    fn len_of(&self, level: usize) -> usize {
        self.levels.get(level).map_or(0, Vec::len)
    }

    fn table(&self, level: usize, place: usize) -> Table<'_> {
        self.levels[level][place]
    }

    fn bytes_of(&self, level: usize) -> u64 {
        self.sums.get(level).map_or(0, |sums| sums.0)
    }

    fn deletes_of(&self, level: usize) -> u64 {
        self.sums.get(level).map_or(0, |sums| sums.1)
    }

    fn stretches(&self, level: usize) -> &[Stretch] {
        self.stretches.get(level).map_or(&[][..], |all| &all[..])
    }
}

/// What is known of tables that lie in one chunk of a version's.
fn stretches(tables: &[Table<'_>]) -> Vec<Stretch> {
    let starts = (0..tables.len()).step_by(CHUNK_LEN_MAX);
    let stretch = |start: usize| {
        let places = start..tables.len().min(start + CHUNK_LEN_MAX);
        let of = &tables[places.clone()];
        Stretch {
            places,
            deletes_max: of.iter().map(|table| table.deletes).max().unwrap_or(0),
            entries_min: of.iter().map(|table| table.entries).min().unwrap_or(0),
            newest_min: of
                .iter()
                .map(|table| table.largest_seqno)
                .min()
                .unwrap_or(SeqNo(0)),
        }
    };
    starts.map(stretch).collect()
}

/// Where so many tables begin that have all keys, and where the last one ends.
fn bounds(tables: u32) -> Vec<[u8; 4]> {
    let each = u32::MAX / tables;
    (0..=tables).map(|n| (n * each).to_be_bytes()).collect()
}

/// A level of tables between these keys.
fn level(bounds: &[[u8; 4]], deletes: u64) -> Vec<Table<'_>> {
    let numbered = bounds.windows(2).zip(1..);
    let tables = numbered.map(|(pair, n)| Table {
        file: FileId(n),
        range: KeyRange::until(&pair[0][..], &pair[1][..]),
        bytes: 64 << 20,
        smallest_seqno: SeqNo(n),
        largest_seqno: SeqNo(n),
        entries: 1000,
        deletes,
        in_pm: false,
    });
    tables.collect()
}

/// Levels 1 and 2 with tables between these keys.
fn kept<'k>(upper: &'k [[u8; 4]], lower: &'k [[u8; 4]], deletes: u64) -> Kept<'k> {
    let levels = [Vec::new(), level(upper, deletes), level(lower, deletes)];
    let sum = |tables: &[Table<'_>]| -> (u64, u64) {
        let bytes = tables.iter().map(|table| table.bytes).sum();
        (bytes, tables.iter().map(|table| table.deletes).sum())
    };
    let sums = [sum(&levels[0]), sum(&levels[1]), sum(&levels[2])];
    let stretches = [Vec::new(), stretches(&levels[1]), stretches(&levels[2])];
    Kept {
        levels,
        sums,
        stretches,
    }
}

/// What is next beside these jobs, and how long it takes to say so.
fn ask(levels: &Kept<'_>, running: &[Held]) -> (Decision, f64) {
    let cursors = Cursors::default();
    let families = [FamilyLevels {
        family: CfId::DEFAULT,
        state: State { levels, running },
        running,
        options: PickOptions {
            last_level: 2,
            ..PickOptions::default()
        },
        cursors: &cursors,
        contents: &[],
        deleted: DeletedRanges::default(),
    }];
    let levels = Levels {
        families: &families,
        level0: None,
        pm_files: &[],
        is_past_share: false,
        relief: None,
        is_disk_full: false,
        is_by_hand: false,
        internal_gave_up: false,
        refused: &[],
        charged: Charged::None,
        garbage: &[],
        may_move: true,
    };
    let situation = Situation {
        levels: Some(levels),
        ..Situation::default()
    };
    let begun = Instant::now();
    for _ in 0..TIMES {
        black_box(next(black_box(&situation), &mut Memory::default()));
    }
    let micros = begun.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES);
    (next(&situation, &mut Memory::default()), micros)
}

fn main() {
    println!(
        "{:>8} {:>10} {:>10} {:>10} {:>10}",
        "tables", "nothing", "too large", "a job", "deletes"
    );
    for tables in [1_000, 10_000, 100_000] {
        // Level 1 may have a tenth of what level 2 has.
        let (few, many) = (tables / 12, tables / 6);
        let (upper, lower) = (bounds(few), bounds(tables - few));
        let (nothing, quiet) = ask(&kept(&upper, &lower, 0), &[]);
        let (none, deletes) = ask(&kept(&upper, &lower, 1), &[]);
        assert!(!nothing.is_something() && !none.is_something());
        let (upper, lower) = (bounds(many), bounds(tables - many));
        let levels = kept(&upper, &lower, 0);
        let (first, large) = ask(&levels, &[]);
        let Work::Compact { job, .. } = first.work else {
            panic!("level 1 is too large");
        };
        let (second, beside) = ask(&levels, &[job.holds]);
        assert!(second.is_something());
        println!("{tables:>8} {quiet:>10.1} {large:>10.1} {beside:>10.1} {deletes:>10.1}");
    }
}
