//! The exploration itself: how many states there must be, and which sites it must reach.

use std::collections::BTreeSet;
use std::io::Write;

use thermocline_base::{Point, Site};
use thermocline_testkit::Rng;
use thermocline_testkit::explore::times;

use crate::explore::{Outcome, Planted, explore, explore_until};
use crate::life::{Life, options};
use crate::logged;
use crate::oracle::Op;
use crate::raw::HERE;
use crate::snapshot::Snapshot;
use crate::workload::{self, named};

/// One test's share of the exploration.
struct Part {
    workloads: &'static [&'static str],
    /// At least; more, up to [`SEEDS_MAX`], until the bar is reached.
    seeds: u64,
    /// Of its points one in so many is crashed at, the others are only passed.
    one_in: u64,
    /// Fewer different states are a failure: somewhere a crash is no longer tried.
    bar: u64,
    /// Sites that it must reach, beyond those of every open and every write.
    sites: &'static [&'static str],
}

/// Sites that every part reaches.
const EVERYWHERE: &[&str] = &[
    "halloc: meta zone kept",
    "halloc: witness durable",
    "halloc: zone attached",
    "manifest: accepted edits durable",
    "manifest: edit durable",
    "memtable: item durable",
    "memtable: kept items durable",
];

/// Sites of preparing, sealing and dropping a memtable.
const MEMTABLES: &[&str] = &[
    "halloc: object committed",
    "halloc: object linked",
    "halloc: object released",
    "halloc: object taken",
    "memtable: descriptor durable",
    "memtable: floor durable",
];

const CREATION: Part = Part {
    workloads: &["creation"],
    seeds: 1,
    one_in: 6,
    bar: 1_100,
    sites: &[
        "env: folder created",
        "halloc: part counted",
        "halloc: part header durable",
        "halloc: region formatted",
        "manifest: new file durable",
        "pm: region grown",
    ],
};

const SMALL: Part = Part {
    workloads: &["points", "batches", "values", "idle"],
    seeds: 1,
    one_in: 2,
    bar: 10_000,
    sites: &["halloc: zone made wider"],
};

const SEALS: Part = Part {
    workloads: &["seals"],
    seeds: 1,
    one_in: 6,
    bar: 2_800,
    sites: MEMTABLES,
};

const GROWTH: Part = Part {
    workloads: &["growth", "full"],
    seeds: 1,
    one_in: 6,
    bar: 1_300,
    sites: &[
        "halloc: part counted",
        "halloc: part header durable",
        "pm: region grown",
    ],
};

const MANIFEST: Part = Part {
    workloads: &["manifest"],
    seeds: 1,
    one_in: 97,
    bar: 1_800,
    sites: &[
        "env: name changed",
        "env: name created",
        "env: name removed",
        "manifest: CURRENT durable as it was",
        "manifest: CURRENT temp durable",
        "manifest: new file durable",
        "manifest: new names durable",
        "manifest: switch durable",
    ],
};

const REOPEN: Part = Part {
    workloads: &["reopen"],
    seeds: 1,
    one_in: 6,
    bar: 4_400,
    sites: MEMTABLES,
};

const GROUPS: Part = Part {
    workloads: &["groups"],
    seeds: 2,
    one_in: 6,
    bar: 4_700,
    sites: &["memtable: deferred items durable"],
};

const BUFFERED: Part = Part {
    workloads: &["buffered", "mixed"],
    seeds: 1,
    one_in: 6,
    bar: 6_000,
    sites: &["memtable: deferred items durable"],
};

const FAMILIES: Part = Part {
    workloads: &["families", "lives"],
    seeds: 1,
    one_in: 6,
    bar: 8_000,
    sites: MEMTABLES,
};

const RECLAIM: Part = Part {
    workloads: &["overwrites", "gaps", "unsettled"],
    seeds: 1,
    one_in: 9,
    bar: 7_900,
    sites: MEMTABLES,
};

const MERGES: Part = Part {
    workloads: &["merges"],
    seeds: 1,
    one_in: 9,
    bar: 5_000,
    sites: MEMTABLES,
};

const STAGED: Part = Part {
    workloads: &["staged", "staged-lives"],
    seeds: 1,
    one_in: 6,
    bar: 8_100,
    sites: MEMTABLES,
};

const FLUSHES: Part = Part {
    workloads: &["flushes"],
    seeds: 1,
    one_in: 9,
    bar: 3_300,
    sites: &["sst: file named", "sst: table written"],
};

const SUNK: Part = Part {
    workloads: &["sunk"],
    seeds: 1,
    one_in: 23,
    bar: 1_000,
    sites: &["sst: file named", "sst: table written"],
};

const SINKING: Part = Part {
    workloads: &["sinking"],
    seeds: 1,
    one_in: 71,
    bar: 1_200,
    sites: &["sst: file named", "sst: table written"],
};

const ABSORBED: Part = Part {
    workloads: &["absorbed"],
    seeds: 1,
    one_in: 6,
    bar: 2_000,
    sites: &["sst: file named", "sst: table written"],
};

const FOLLOWED: Part = Part {
    workloads: &["followed"],
    seeds: 1,
    one_in: 33,
    bar: 2_800,
    sites: &["sst: file named", "sst: table written"],
};

const FLUSHED_LIVES: Part = Part {
    workloads: &["flushed-lives"],
    seeds: 1,
    one_in: 9,
    bar: 4_600,
    sites: &["sst: file named", "sst: table written"],
};

const SINKING_LIVES: Part = Part {
    workloads: &["sinking-lives"],
    seeds: 1,
    one_in: 91,
    bar: 3_700,
    sites: &["sst: file named", "sst: table written"],
};

const PARTITIONS: Part = Part {
    workloads: &["partitions"],
    seeds: 1,
    one_in: 91,
    bar: 3_500,
    sites: &["sst: file named", "sst: table written"],
};

const PM_TABLES: Part = Part {
    workloads: &["pm-tables"],
    seeds: 1,
    one_in: 43,
    bar: 1_400,
    sites: &[
        "level0: piece of a table durable",
        "sst: file named",
        "sst: table written",
    ],
};

const PM_TABLES_MERGED: Part = Part {
    workloads: &["pm-tables-merged"],
    seeds: 1,
    one_in: 211,
    bar: 1_000,
    sites: &["level0: piece of a table durable"],
};

const PM_TABLES_SPILLED: Part = Part {
    workloads: &["pm-tables-spilled"],
    seeds: 1,
    one_in: 151,
    bar: 1_000,
    sites: &["level0: piece of a table durable"],
};

const PM_TABLE_LIVES: Part = Part {
    workloads: &["pm-tables-lives"],
    seeds: 1,
    one_in: 19,
    bar: 1_500,
    sites: &["level0: piece of a table durable"],
};

const PM_TABLES_WIDE: Part = Part {
    workloads: &["pm-tables-wide"],
    seeds: 1,
    one_in: 7,
    bar: 1_000,
    sites: &[
        "halloc: zone made wider",
        "level0: piece of a table durable",
    ],
};

const TIERED: Part = Part {
    workloads: &["tiered"],
    seeds: 1,
    one_in: 43,
    bar: 1_400,
    sites: &[
        "level0: piece of a table durable",
        "sst: file named",
        "sst: table written",
    ],
};

const EVACUATED: Part = Part {
    workloads: &["evacuated"],
    seeds: 1,
    one_in: 83,
    bar: 1_400,
    sites: &["level0: piece of a table durable"],
};

const LEAVING: Part = Part {
    workloads: &["leaving"],
    seeds: 1,
    one_in: 61,
    bar: 3_000,
    sites: &[
        "level0: piece of a table durable",
        "sst: file named",
        "sst: table written",
    ],
};

const REWRITTEN: Part = Part {
    workloads: &["rewritten"],
    seeds: 1,
    one_in: 53,
    bar: 1_400,
    sites: &[
        "level0: piece of a table durable",
        "sst: file named",
        "sst: table written",
    ],
};

const RANGES: Part = Part {
    workloads: &["ranges", "ranges-flying", "ranges-staged"],
    seeds: 1,
    one_in: 9,
    bar: 7_500,
    sites: MEMTABLES,
};

const DROPPED: Part = Part {
    workloads: &["dropped", "dropped-pm"],
    seeds: 1,
    one_in: 101,
    bar: 1_000,
    sites: &["sst: file named", "sst: table written"],
};

const OPERANDS: Part = Part {
    workloads: &["operands", "operands-sinking", "operands-flying"],
    seeds: 1,
    one_in: 101,
    bar: 1_200,
    sites: MEMTABLES,
};

const PREPARED: Part = Part {
    workloads: &["prepared"],
    seeds: 1,
    one_in: 9,
    bar: 3_000,
    sites: MEMTABLES,
};

const PREPARED_LIVES: Part = Part {
    workloads: &["prepared-lives"],
    seeds: 1,
    one_in: 9,
    bar: 2_500,
    sites: &["sst: file named", "sst: table written"],
};

const FILTERS: Part = Part {
    workloads: &["filters"],
    seeds: 1,
    one_in: 401,
    bar: 800,
    sites: &["sst: file named", "sst: table written"],
};

const TTL: Part = Part {
    workloads: &["ttl"],
    seeds: 1,
    one_in: 401,
    bar: 800,
    sites: &["sst: file named", "sst: table written"],
};

const BLOBS: Part = Part {
    workloads: &["blobs"],
    seeds: 1,
    one_in: 13,
    bar: 3_000,
    sites: &[
        "sst: blobs written",
        "sst: file named",
        "sst: table written",
    ],
};

const APART: Part = Part {
    workloads: &["apart"],
    seeds: 1,
    one_in: 41,
    bar: 2_000,
    sites: &[
        "sst: blobs written",
        "sst: file named",
        "sst: table written",
    ],
};

const BLOB_LIVES: Part = Part {
    workloads: &["blob-lives"],
    seeds: 1,
    one_in: 25,
    bar: 2_000,
    sites: &["sst: blobs written", "sst: file named"],
};

const BLOBS_FLYING: Part = Part {
    workloads: &["blobs-flying"],
    seeds: 1,
    one_in: 91,
    bar: 3_000,
    sites: &["sst: blobs written", "sst: file named"],
};

const PARTS: &[&Part] = &[
    &CREATION,
    &SMALL,
    &SEALS,
    &GROWTH,
    &MANIFEST,
    &REOPEN,
    &GROUPS,
    &BUFFERED,
    &FAMILIES,
    &RECLAIM,
    &MERGES,
    &STAGED,
    &FLUSHES,
    &ABSORBED,
    &FOLLOWED,
    &FLUSHED_LIVES,
    &SUNK,
    &SINKING,
    &SINKING_LIVES,
    &PM_TABLES,
    &PM_TABLES_MERGED,
    &PM_TABLES_SPILLED,
    &PM_TABLE_LIVES,
    &PM_TABLES_WIDE,
    &TIERED,
    &EVACUATED,
    &LEAVING,
    &REWRITTEN,
    &PARTITIONS,
    &RANGES,
    &DROPPED,
    &OPERANDS,
    &PREPARED,
    &PREPARED_LIVES,
    &FILTERS,
    &TTL,
    &BLOBS,
    &APART,
    &BLOB_LIVES,
    &BLOBS_FLYING,
];

/// How many different states a sample comes to depends on where its points lie, and those move with every change of
/// the code. So what falls short goes on from another seed.
const SEEDS_MAX: u64 = 60;

/// What a plain run of the tests must explore, and a whole one.
const STATES_MIN: [u64; 2] = [30_000, 100_000];

fn run(part: &Part) {
    let workloads: Vec<_> = part.workloads.iter().map(|w| (*w, part.one_in)).collect();
    let sites: Vec<_> = EVERYWHERE.iter().chain(part.sites).copied().collect();
    sampled(&workloads, (part.seeds, part.bar), &sites);
}

/// Explores one point in so many of each workload, from at least `seeds` seeds, and from more until there are as many
/// states as a whole exploration's `least` asks for, and all of `sites` were reached. Of these more no point is tried
/// behind that; and second lives are crashed in only as long as states are missing, or a workload has not had its share.
pub fn sampled(workloads: &[(&str, u64)], (seeds, least): (u64, u64), sites: &[&str]) -> Outcome {
    let mut all = Outcome::default();
    let least = bar(least);
    let share = least / workloads.len() as u64;
    for seed in 1..=SEEDS_MAX {
        for &(name, usual) in workloads {
            let missing = least.saturating_sub(all.stats.states);
            let sought = sites.iter().copied();
            let sought: Vec<_> = sought.filter(|site| !all.reaches(site)).collect();
            let is_more = seed > seeds;
            if is_more && missing == 0 && sought.is_empty() {
                return all;
            }
            let planted = Planted {
                enough: Some(if is_more { missing } else { missing.max(share) }),
                ..Planted::default()
            };
            let one_in = one_in(usual);
            let only = move |point: Point| is_sampled(point.step, seed, one_in);
            let outcome = explore_until(&named(name), seed, planted, only, |now| {
                let found = |site: &&str| now.sites.iter().any(|other| other.0 == *site);
                is_more && now.stats.states >= missing && sought.iter().all(found)
            });
            say(&format!("{name}/{seed}"), &outcome);
            all.add(outcome);
        }
    }
    assert!(all.stats.states >= least, "{:?}", all.stats);
    if let Some(site) = all.missing(sites) {
        panic!("{workloads:?} never reached '{site}'");
    }
    all
}

/// Whether a crash at this step is among one in so many. It is drawn: steps of one kind come at equal distances now and
/// then, so that every n-th would be nearly all of one kind, or none.
pub fn is_sampled(step: u64, seed: u64, one_in: u64) -> bool {
    let one_in = usize::try_from(one_in).unwrap();
    Rng::new(step ^ seed << 40).one_in(one_in)
}

/// One point in how many is crashed at, where once one in `whole` was: one in more of them in a plain run, and in fewer in
/// a long one, which crashes at eight times as many points of recoveries and second lives.
fn one_in(whole: u64) -> u64 {
    times().map_or(4 * whole, |times| (3 * whole / times).max(1))
}

/// How many states there must be, where a whole exploration must have `whole`.
fn bar(whole: u64) -> u64 {
    times().map_or_else(|| part_of(whole), |_| most_of(whole))
}

/// Of so many states those of a whole exploration, in which points are a sixth fewer than was counted once.
fn most_of(whole: u64) -> u64 {
    whole * 5 / 6
}

/// Of so many states those of a plain run.
fn part_of(whole: u64) -> u64 {
    whole * 26 / 100
}

/// Prints past the harness, which swallows what passing tests print, and fails on a violation.
pub fn say(what: &str, outcome: &Outcome) {
    let stats = outcome.stats;
    let _ = writeln!(std::io::stderr(), "crash exploration, {what}: {stats:?}");
    assert!(
        outcome.violations.is_empty(),
        "{}",
        outcome.violations.join("\n")
    );
}

#[test]
fn creating_a_database_survives_every_crash() {
    run(&CREATION);
}

/// One of the longest: tests begin in the order of their names, and as the last one it would leave a processor idle.
#[test]
fn a_write_survives_any_crash() {
    run(&SMALL);
}

#[test]
fn seals_survive_every_crash() {
    run(&SEALS);
}

#[test]
fn growth_and_a_full_region_survive_every_crash() {
    run(&GROWTH);
}

#[test]
fn manifest_switches_and_new_families_survive_every_crash() {
    run(&MANIFEST);
}

#[test]
fn several_groups_in_flight_survive_every_crash() {
    run(&GROUPS);
}

#[test]
fn buffered_writes_survive_every_crash_as_a_prefix() {
    run(&BUFFERED);
}

#[test]
fn closing_and_opening_survive_every_crash() {
    run(&REOPEN);
}

#[test]
fn families_that_come_and_go_survive_every_crash() {
    run(&FAMILIES);
}

#[test]
fn dropping_dead_memtables_survives_every_crash() {
    run(&RECLAIM);
}

#[test]
fn merged_indexes_survive_every_crash() {
    run(&MERGES);
}

#[test]
fn staged_batches_survive_every_crash() {
    run(&STAGED);
}

#[test]
fn flushes_survive_every_crash() {
    run(&FLUSHES);
}

#[test]
fn flushes_that_come_by_themselves_survive_every_crash() {
    run(&ABSORBED);
}

#[test]
fn flushes_of_families_that_go_survive_every_crash() {
    run(&FLUSHED_LIVES);
}

#[test]
fn flushes_into_the_base_level_survive_every_crash() {
    run(&SUNK);
}

#[test]
fn what_a_change_feed_gave_survives_every_crash() {
    run(&FOLLOWED);
}

#[test]
fn compactions_survive_every_crash() {
    run(&SINKING);
}

#[test]
fn splits_and_merges_of_partitions_survive_every_crash() {
    run(&PARTITIONS);
}

#[test]
fn compactions_over_lives_and_of_families_that_go_survive_every_crash() {
    run(&SINKING_LIVES);
}

#[test]
fn tables_in_persistent_memory_survive_every_crash() {
    run(&PM_TABLES);
}

#[test]
fn tables_in_persistent_memory_that_are_merged_there_survive_every_crash() {
    run(&PM_TABLES_MERGED);
}

#[test]
fn tables_in_persistent_memory_that_go_into_files_of_level_0_survive_every_crash() {
    run(&PM_TABLES_SPILLED);
}

#[test]
fn tables_in_persistent_memory_over_lives_survive_every_crash() {
    run(&PM_TABLE_LIVES);
}

#[test]
fn pm_tables_of_entries_as_large_as_zones_survive_every_crash() {
    run(&PM_TABLES_WIDE);
}

#[test]
fn memtables_that_share_an_index_and_become_tables_in_persistent_memory_survive_every_crash() {
    run(&TIERED);
}

#[test]
fn memtables_that_are_evacuated_range_by_range_survive_every_crash() {
    run(&EVACUATED);
}

#[test]
fn ranges_that_leave_persistent_memory_with_level_0_survive_every_crash() {
    run(&LEAVING);
}

#[test]
fn what_is_rewritten_inside_persistent_memory_survives_every_crash() {
    run(&REWRITTEN);
}

#[test]
fn range_deletes_survive_every_crash() {
    run(&RANGES);
}

#[test]
fn tables_that_range_tombstones_cover_survive_every_crash_or_go() {
    run(&DROPPED);
}

#[test]
fn merges_survive_every_crash() {
    run(&OPERANDS);
}

#[test]
fn prepared_transactions_survive_every_crash() {
    run(&PREPARED);
}

#[test]
fn prepared_transactions_over_lives_and_flushes_survive_every_crash() {
    run(&PREPARED_LIVES);
}

#[test]
fn filtered_values_survive_every_crash() {
    run(&FILTERS);
}

#[test]
fn what_expires_goes_as_a_whole_whatever_crashes() {
    run(&TTL);
}

#[test]
fn long_values_survive_every_crash() {
    run(&BLOBS);
}

#[test]
fn values_apart_from_tables_and_their_collection_survive_every_crash() {
    run(&APART);
}

#[test]
fn long_values_over_lives_and_of_families_that_go_survive_every_crash() {
    run(&BLOB_LIVES);
}

#[test]
fn long_values_that_are_buffered_in_flight_and_staged_survive_every_crash() {
    run(&BLOBS_FLYING);
}

/// A store that crashes after every write does not lose space with each life.
#[test]
fn crashing_again_and_again_uses_no_more_space() {
    let options = options();
    let mut life = Life::fresh(&options, 31);
    for round in 0..60u8 {
        life.recover().unwrap();
        life.run(&Op::put(0, &[round % 3], [round; 100])).unwrap();
        let used = life.engine().metrics().space;
        assert!(used.zones_attached <= 1, "life {round}: {used:?}");
        let now = Snapshot::of(&life, HERE);
        life = now.life(&now.oldest(), &options, u64::from(round));
    }
    assert_eq!(life.recover().unwrap().data.len(), 3);
}

#[test]
fn the_parts_together_reach_every_site_and_the_bar() {
    let bars = || PARTS.iter().map(|part| part.bar);
    assert!(bars().map(part_of).sum::<u64>() >= STATES_MIN[0]);
    assert!(bars().map(most_of).sum::<u64>() >= STATES_MIN[1]);
    let run: BTreeSet<&str> = PARTS.iter().flat_map(|p| p.workloads).copied().collect();
    assert_eq!(run, workload::ALL.iter().map(|w| w.name).collect());
    // A region in the simulator has no file that could be made; the tests that kill children do.
    let of_files = thermocline_pm::SITES.iter().find(|s| s.0.contains("file"));
    let asked: BTreeSet<Site> = thermocline_engine::sites()
        .into_iter()
        .chain(thermocline_env::sites::ALL.iter().copied())
        .filter(|site| Some(site) != of_files)
        // Only copies link files: `copies` looks at those.
        .filter(|site| *site != thermocline_env::sites::NAME_LINKED)
        // Of a table that finds no room: the tests of `level0` look at those.
        .filter(|site| site.0 != "level0: unfinished table left")
        .collect();
    let parts = PARTS.iter().flat_map(|part| part.sites);
    let parts = parts.chain(logged::SITES);
    let reached: BTreeSet<Site> = EVERYWHERE.iter().chain(parts).map(|s| Site(s)).collect();
    assert_eq!(reached, asked);
}

/// What a violation has printed, and is to be run again.
pub fn replayed() -> Option<String> {
    std::env::var("CRASH").ok()
}

/// `CRASH=workload/seed/step` runs what a violation has printed.
#[test]
fn replay() {
    let Some(wanted) = replayed() else {
        return;
    };
    let mut words = wanted.split('/');
    let workload = named(words.next().unwrap());
    let seed = words.next().map_or(1, |seed| seed.parse().unwrap());
    let step: Option<u64> = words.next().map(|step| step.parse().unwrap());
    let outcome = explore(&workload, seed, Planted::default(), move |point| {
        step.is_none_or(|step| step == point.step)
    });
    say(&wanted, &outcome);
}
