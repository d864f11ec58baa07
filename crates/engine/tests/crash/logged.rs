//! Records in DRAM, and what a crash leaves of their logs: the workloads of the others, and some of its
//! own. Unlike theirs, these stores flush by themselves, as the baseline does.

use std::collections::BTreeSet;

use thermocline_base::options::{Options, Preset};
use thermocline_env::simulated::SeededRandom;

use crate::life::{Life, PM};
use crate::oracle::Op;
use crate::states::sampled;
use crate::workload::{ALL, Workload, batch, below, key, run, small_memtables, value};

/// Sites that only logs have, all of which are reached.
pub const SITES: &[&str] = &[
    "wal: frames durable",
    "wal: kept frames durable",
    "wal: log made",
    "wal: log named",
    "wal: owner durable",
];

pub fn in_dram(options: &mut Options) {
    options.preset = Preset::Leveled;
    options.set("level0.shape", "ssd").unwrap();
    options.dram = 4 * PM;
    options.flush.automatic = true;
}

fn small(options: &mut Options) {
    in_dram(options);
    small_memtables(options);
}

fn elsewhere(options: &mut Options) {
    small(options);
    options.wal_path = Some("/logs".into());
}

fn small_items(options: &mut Options) {
    in_dram(options);
    crate::staged::small_items(options);
}

fn long_values(options: &mut Options) {
    in_dram(options);
    crate::blobs::long_values(options);
}

fn rare_write_back(options: &mut Options) {
    in_dram(options);
    crate::groups::rare_write_back(options);
}

/// All of them.
pub fn all() -> Vec<Workload> {
    type Other = (&'static str, &'static str, fn(&mut Options));
    const OTHERS: &[Other] = &[
        ("points", "logged-points", in_dram),
        ("batches", "logged-batches", in_dram),
        ("values", "logged-values", in_dram),
        ("idle", "logged-idle", in_dram),
        ("seals", "logged-seals", small),
        ("reopen", "logged-reopen", small),
        ("groups", "logged-groups", in_dram),
        ("buffered", "logged-buffered", small),
        ("families", "logged-families", in_dram),
        ("overwrites", "logged-overwrites", small),
        ("staged", "logged-staged", small_items),
        ("ranges", "logged-ranges", small),
        ("ranges-flying", "logged-ranges-flying", rare_write_back),
        ("ranges-staged", "logged-ranges-staged", small_items),
        ("operands", "logged-operands", small),
        ("blobs", "logged-blobs", long_values),
        ("prepared", "logged-prepared", small_items),
        ("prepared-lives", "logged-prepared-lives", small_items),
    ];
    let other = |(name, own, set): &Other| {
        let workload = ALL.iter().find(|workload| workload.name == *name);
        workload.expect("it is there").with(own, *set)
    };
    let mut all: Vec<Workload> = OTHERS.iter().map(other).collect();
    all.push(Workload::of("logged-creation", in_dram, |life, random| {
        for _ in 0..3 {
            run(life, &batch(random, 1));
        }
    }));
    all.push(Workload::of("logged-flushes", small, flushes));
    all.push(Workload::of("logged-elsewhere", elsewhere, flushes));
    all
}

/// Flushes between writes, and lives that end in all ways.
fn flushes(life: &mut Life, random: &SeededRandom) {
    for round in 0..8 {
        for _ in 0..1 + below(random, 4) {
            let op = Op::put(0, key(random), value(random, 300));
            run(life, &op);
            run(life, &Op::delete(0, key(random)));
        }
        if random.below(3) != 0 {
            life.engine().flush().unwrap();
        }
        if round % 3 == 2 {
            life.close().unwrap();
            life.open().unwrap();
        }
    }
}

/// From one seed, if that is enough.
fn explored(workloads: Sampled, least: u64, sites: &[&str]) {
    let outcome = sampled(workloads, (1, least), sites);
    // Nothing of persistent memory is left to be crashed.
    let of_pm = |site: &str| {
        ["halloc", "memtable", "pm:"]
            .iter()
            .any(|p| site.starts_with(p))
    };
    let other: Vec<_> = outcome.sites.iter().filter(|site| of_pm(site.0)).collect();
    assert!(other.is_empty(), "{other:?}");
}

/// The workloads of a test, each with how many of its points there are to one that is crashed at.
type Sampled = &'static [(&'static str, u64)];

const WRITES: Sampled = &[
    ("logged-creation", 3),
    ("logged-points", 4),
    ("logged-batches", 3),
    ("logged-values", 4),
    ("logged-idle", 4),
];

const MEMTABLES: Sampled = &[
    ("logged-seals", 17),
    ("logged-reopen", 31),
    ("logged-overwrites", 13),
    ("logged-flushes", 29),
    ("logged-elsewhere", 47),
];

const GROUPS: Sampled = &[
    ("logged-groups", 1),
    ("logged-buffered", 17),
    ("logged-families", 5),
    ("logged-staged", 29),
];

const RANGES: Sampled = &[
    ("logged-ranges", 61),
    ("logged-ranges-flying", 4),
    ("logged-ranges-staged", 17),
];

const BLOBS: Sampled = &[("logged-blobs", 13)];

const OPERANDS: Sampled = &[("logged-operands", 61)];

const PREPARED: Sampled = &[("logged-prepared", 17), ("logged-prepared-lives", 9)];

#[test]
fn logged_writes_survive_every_crash() {
    explored(WRITES, 1_000, &[]);
}

#[test]
fn logged_memtables_survive_every_crash() {
    explored(MEMTABLES, 1_000, SITES);
}

#[test]
fn logged_groups_and_families_survive_every_crash() {
    explored(GROUPS, 500, &[]);
}

#[test]
fn logged_range_deletes_survive_every_crash() {
    explored(RANGES, 500, &[]);
}

#[test]
fn logged_long_values_survive_every_crash() {
    explored(BLOBS, 200, &[]);
}

#[test]
fn logged_merges_survive_every_crash() {
    explored(OPERANDS, 200, &[]);
}

#[test]
fn logged_transactions_that_are_prepared_survive_every_crash() {
    explored(PREPARED, 300, &[]);
}

#[test]
fn every_logged_workload_is_explored() {
    let explored = [WRITES, MEMTABLES, GROUPS, RANGES, BLOBS, OPERANDS, PREPARED].concat();
    let explored: BTreeSet<&str> = explored.iter().map(|(name, _)| *name).collect();
    assert_eq!(explored, all().iter().map(|w| w.name).collect());
}
