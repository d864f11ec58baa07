//! The workloads. Each is small, and each seed of it is another history.

use thermocline_base::options::Options;
use thermocline_base::step::Observer;
use thermocline_env::simulated::SeededRandom;

use crate::blobs;
use crate::compaction;
use crate::dropped;
use crate::families;
use crate::feed;
use crate::flush;
use crate::groups;
use crate::life::{Life, options};
use crate::logged;
use crate::merges;
use crate::operands;
use crate::oracle::{Change, Op};
use crate::partitions;
use crate::pm_tables;
use crate::prepared;
use crate::ranges;
use crate::reclaim;
use crate::rewrite;
use crate::staged;
use crate::sunk;

/// A history to crash.
#[derive(Clone, Copy)]
pub struct Workload {
    pub name: &'static str,
    set: fn(&mut Options),
    /// Crashes are tried from the first call on, or once the store is open.
    from_creation: bool,
    /// What happens before crashes are tried.
    before: fn(&mut Life, &SeededRandom),
    body: fn(&mut Life, &SeededRandom),
}

impl Workload {
    pub fn options(&self) -> Options {
        let mut options = options();
        (self.set)(&mut options);
        options
    }

    /// The workload under another name, with other options.
    pub const fn with(self, name: &'static str, set: fn(&mut Options)) -> Workload {
        Workload { name, set, ..self }
    }

    /// A workload from the creation of the store on.
    pub const fn of(
        name: &'static str,
        set: fn(&mut Options),
        body: fn(&mut Life, &SeededRandom),
    ) -> Workload {
        Workload {
            name,
            set,
            from_creation: true,
            before: nothing_before,
            body,
        }
    }

    pub fn run(&self, life: &mut Life, random: &SeededRandom, watched: &Observer) {
        if self.from_creation {
            life.observe(Some(watched.clone()));
        }
        life.open().unwrap();
        (self.before)(life, random);
        life.observe(Some(watched.clone()));
        (self.body)(life, random);
    }
}

pub fn small_memtables(options: &mut Options) {
    options.memtable.bytes_max = 2 << 10;
}

fn small_manifest(options: &mut Options) {
    options.manifest.bytes_max = 512;
    options.memtable.bytes_max = 1 << 10;
}

fn nothing_special(_: &mut Options) {}

fn nothing_before(_: &mut Life, _: &SeededRandom) {}

pub const ALL: &[Workload] = &[
    Workload {
        name: "creation",
        set: nothing_special,
        from_creation: true,
        before: nothing_before,
        body: |life, random| points(life, random, 4),
    },
    Workload {
        name: "points",
        set: nothing_special,
        from_creation: false,
        before: nothing_before,
        body: |life, random| points(life, random, 40),
    },
    Workload {
        name: "batches",
        set: nothing_special,
        from_creation: false,
        before: nothing_before,
        body: batches,
    },
    Workload {
        name: "values",
        set: nothing_special,
        from_creation: false,
        before: nothing_before,
        body: values,
    },
    Workload {
        name: "seals",
        set: small_memtables,
        from_creation: false,
        before: nothing_before,
        body: seals,
    },
    Workload {
        name: "growth",
        set: nothing_special,
        from_creation: false,
        before: nothing_before,
        body: growth,
    },
    Workload {
        name: "manifest",
        set: small_manifest,
        from_creation: false,
        before: nearly_switched,
        body: manifest,
    },
    Workload {
        name: "reopen",
        set: small_memtables,
        from_creation: false,
        before: nothing_before,
        body: reopen,
    },
    Workload {
        name: "full",
        set: nothing_special,
        from_creation: false,
        before: fill,
        body: full,
    },
    Workload {
        name: "groups",
        set: nothing_special,
        from_creation: false,
        before: groups::families,
        body: groups::groups,
    },
    Workload {
        name: "buffered",
        set: small_memtables,
        from_creation: false,
        before: groups::families,
        body: groups::buffered,
    },
    Workload {
        name: "mixed",
        set: groups::rare_write_back,
        from_creation: false,
        before: groups::families,
        body: groups::mixed,
    },
    Workload {
        name: "idle",
        set: nothing_special,
        from_creation: false,
        before: nothing_before,
        body: idle,
    },
    Workload {
        name: "families",
        set: groups::rare_write_back,
        from_creation: false,
        before: nothing_before,
        body: families::come_and_go,
    },
    Workload {
        name: "lives",
        set: small_manifest,
        from_creation: false,
        before: nothing_before,
        body: families::through_lives,
    },
    Workload {
        name: "overwrites",
        set: small_memtables,
        from_creation: false,
        before: nothing_before,
        body: reclaim::overwrites,
    },
    Workload {
        name: "gaps",
        set: small_memtables,
        from_creation: false,
        before: nothing_before,
        body: reclaim::gaps,
    },
    Workload {
        name: "unsettled",
        set: reclaim::few_dead,
        from_creation: false,
        before: nothing_before,
        body: reclaim::unsettled,
    },
    Workload {
        name: "merges",
        set: merges::many_memtables,
        from_creation: false,
        before: nothing_before,
        body: merges::merges,
    },
    Workload {
        name: "staged",
        set: staged::small_items,
        from_creation: false,
        before: groups::families,
        body: staged::staged,
    },
    Workload {
        name: "staged-lives",
        set: staged::small_items_and_manifest,
        from_creation: false,
        before: nothing_before,
        body: staged::staged_lives,
    },
    Workload {
        name: "flushes",
        set: flush::few_memtables,
        from_creation: false,
        before: nothing_before,
        body: flush::flushes,
    },
    Workload {
        name: "absorbed",
        set: flush::by_themselves,
        from_creation: false,
        before: nothing_before,
        body: flush::absorbed,
    },
    Workload {
        name: "followed",
        set: feed::retained,
        from_creation: false,
        before: nothing_before,
        body: feed::followed,
    },
    Workload {
        name: "flushed-lives",
        set: flush::few_memtables,
        from_creation: false,
        before: nothing_before,
        body: flush::flushed_lives,
    },
    Workload {
        name: "sunk",
        set: sunk::immutables,
        from_creation: false,
        before: nothing_before,
        body: sunk::sunk,
    },
    Workload {
        name: "sinking",
        set: compaction::small_levels,
        from_creation: false,
        before: nothing_before,
        body: compaction::sinking,
    },
    Workload {
        name: "sinking-lives",
        set: compaction::one_level,
        from_creation: false,
        before: nothing_before,
        body: compaction::sinking_lives,
    },
    Workload {
        name: "partitions",
        set: partitions::small_partitions,
        from_creation: false,
        before: nothing_before,
        body: partitions::partitions,
    },
    Workload {
        name: "pm-tables",
        set: pm_tables::in_pm,
        from_creation: false,
        before: nothing_before,
        body: pm_tables::sinking,
    },
    Workload {
        name: "pm-tables-merged",
        set: pm_tables::merged_there,
        from_creation: false,
        before: nothing_before,
        body: pm_tables::merged,
    },
    Workload {
        name: "pm-tables-spilled",
        set: pm_tables::over_much,
        from_creation: false,
        before: nothing_before,
        body: pm_tables::spilling,
    },
    Workload {
        name: "pm-tables-lives",
        set: pm_tables::in_pm,
        from_creation: false,
        before: nothing_before,
        body: pm_tables::sinking_lives,
    },
    Workload {
        name: "pm-tables-wide",
        set: pm_tables::of_large_entries,
        from_creation: false,
        before: nothing_before,
        body: pm_tables::wide,
    },
    Workload {
        name: "tiered",
        set: pm_tables::tiered,
        from_creation: false,
        before: nothing_before,
        body: pm_tables::sinking,
    },
    Workload {
        name: "rewritten",
        set: rewrite::little_lives,
        from_creation: false,
        before: nothing_before,
        body: rewrite::rewritten,
    },
    Workload {
        name: "leaving",
        set: pm_tables::leaving,
        from_creation: false,
        before: nothing_before,
        body: pm_tables::taking_along,
    },
    Workload {
        name: "evacuated",
        set: pm_tables::evacuated,
        from_creation: false,
        before: nothing_before,
        body: pm_tables::evacuating,
    },
    Workload {
        name: "ranges",
        set: small_memtables,
        from_creation: false,
        before: groups::families,
        body: ranges::ranges,
    },
    Workload {
        name: "dropped",
        set: compaction::small_levels,
        from_creation: false,
        before: nothing_before,
        body: dropped::dropping,
    },
    Workload {
        name: "dropped-pm",
        set: pm_tables::in_pm,
        from_creation: false,
        before: nothing_before,
        body: dropped::dropping,
    },
    Workload {
        name: "ranges-flying",
        set: groups::rare_write_back,
        from_creation: false,
        before: groups::families,
        body: ranges::flying,
    },
    Workload {
        name: "ranges-staged",
        set: ranges::staged_and_buffered,
        from_creation: false,
        before: groups::families,
        body: ranges::staged,
    },
    Workload {
        name: "filters",
        set: compaction::small_levels,
        from_creation: false,
        before: nothing_before,
        body: compaction::filters,
    },
    Workload {
        name: "ttl",
        set: compaction::small_levels,
        from_creation: false,
        before: nothing_before,
        body: compaction::ttl,
    },
    Workload {
        name: "operands",
        set: small_memtables,
        from_creation: false,
        before: operands::family,
        body: operands::operands,
    },
    Workload {
        name: "operands-sinking",
        set: pm_tables::tiered,
        from_creation: false,
        before: operands::family,
        body: operands::sinking,
    },
    Workload {
        name: "operands-flying",
        set: ranges::staged_and_buffered,
        from_creation: false,
        before: operands::family,
        body: operands::flying,
    },
    Workload {
        name: "prepared",
        set: prepared::small_items,
        from_creation: false,
        before: groups::families,
        body: prepared::prepared,
    },
    Workload {
        name: "prepared-lives",
        set: prepared::small_memtables,
        from_creation: false,
        before: groups::families,
        body: prepared::prepared_lives,
    },
    Workload {
        name: "blobs",
        set: blobs::long_values,
        from_creation: false,
        before: nothing_before,
        body: blobs::blobs,
    },
    Workload {
        name: "apart",
        set: blobs::values_apart,
        from_creation: false,
        before: nothing_before,
        body: blobs::apart,
    },
    Workload {
        name: "blob-lives",
        set: blobs::long_values,
        from_creation: false,
        before: nothing_before,
        body: blobs::blob_lives,
    },
    Workload {
        name: "blobs-flying",
        set: blobs::staged_values,
        from_creation: false,
        before: groups::families,
        body: blobs::blobs_flying,
    },
];

pub fn named(name: &str) -> Workload {
    let logged = logged::all().into_iter();
    ALL.iter()
        .copied()
        .chain(logged)
        .find(|workload| workload.name == name)
        .unwrap_or_else(|| panic!("there is no workload {name}"))
}

pub fn below(random: &SeededRandom, n: usize) -> usize {
    usize::try_from(random.below(n as u64)).unwrap()
}

/// Bytes that are all different from one write to the next.
pub fn value(random: &SeededRandom, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(random.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// One of a few keys, the empty one and prefixes of others among them.
pub fn key(random: &SeededRandom) -> &'static [u8] {
    const KEYS: &[&[u8]] = &[b"", b"a", b"ab", b"abc", b"b", b"\xff", b"some longer key"];
    KEYS[below(random, KEYS.len())]
}

pub fn change(random: &SeededRandom, families: u16) -> Change {
    let len = [0, 5, 30, 100][below(random, 4)];
    Change {
        cf: u16::try_from(below(random, usize::from(families))).unwrap(),
        key: key(random).to_vec(),
        value: (random.below(4) != 0).then(|| value(random, len).into()),
    }
}

pub fn run(life: &Life, op: &Op) {
    assert!(life.run(op).unwrap(), "there is room");
}

fn points(life: &mut Life, random: &SeededRandom, ops: usize) {
    for _ in 0..ops {
        run(life, &Op::Write(vec![change(random, 1)]));
    }
}

pub fn batch(random: &SeededRandom, families: u16) -> Op {
    let len = 2 + below(random, 5);
    Op::Write((0..len).map(|_| change(random, families)).collect())
}

fn batches(life: &mut Life, random: &SeededRandom) {
    run(life, &Op::Family("red".into()));
    for n in 0..16 {
        if n == 6 {
            run(life, &Op::Family("blue".into()));
        }
        let families = if n < 6 { 2 } else { 3 };
        run(life, &batch(random, families));
    }
}

fn values(life: &mut Life, random: &SeededRandom) {
    for len in [3000, 5000, 100, 20_000, 7000, 100, 12_000, 100] {
        run(life, &Op::put(0, key(random), value(random, len)));
        if random.below(3) == 0 {
            run(life, &Op::delete(0, key(random)));
        }
    }
}

fn seals(life: &mut Life, random: &SeededRandom) {
    for n in 0..18 {
        let len = 150 + below(random, 300);
        run(life, &Op::put(0, key(random), value(random, len)));
        if n % 3 == 0 {
            run(life, &Op::delete(0, key(random)));
        }
        if random.below(3) == 0 {
            life.engine().work_ahead().unwrap();
        }
    }
}

fn growth(life: &mut Life, random: &SeededRandom) {
    let at_first = life.engine().metrics().space.region_bytes;
    let mut after = 0;
    while after < 2 {
        run(life, &Op::put(0, key(random), value(random, 15_000)));
        if life.engine().metrics().space.region_bytes > at_first {
            after += 1;
        }
        if random.below(4) == 0 {
            life.engine().work_ahead().unwrap();
        }
    }
}

/// Long names until the manifest is about to be switched: when its snapshot has doubled.
fn nearly_switched(life: &mut Life, _: &SeededRandom) {
    let bytes = |life: &Life| life.engine().metrics().manifest_bytes;
    let limit = 2 * bytes(life);
    for n in 0.. {
        if bytes(life) + 500 > limit {
            return;
        }
        run(life, &Op::Family(format!("{n}{}", "x".repeat(200))));
    }
}

fn edits(life: &Life, random: &SeededRandom, n: u16) {
    if n.is_multiple_of(3) {
        run(life, &Op::Family(format!("family {n}")));
    }
    run(life, &batch(random, 2));
    run(life, &Op::put(0, key(random), value(random, 300)));
    life.engine().work_ahead().unwrap();
}

fn manifest(life: &mut Life, random: &SeededRandom) {
    for n in 0..6 {
        edits(life, random, n);
    }
}

fn reopen(life: &mut Life, random: &SeededRandom) {
    for round in 0..6 {
        // Sometimes nothing at all is written.
        for _ in 0..below(random, 4) {
            run(life, &batch(random, 1));
            run(life, &Op::put(0, key(random), value(random, 400)));
        }
        if round % 2 == 0 {
            life.engine().cover_idle().unwrap();
        }
        life.close().unwrap();
        life.open().unwrap();
    }
}

/// Fills the region until one more zone can be had. The way there is `growth`'s.
fn fill(life: &mut Life, random: &SeededRandom) {
    let mut n = 0u8;
    while life.engine().metrics().space.zones_free > 2 || !is_at_limit(life) {
        n += 1;
        run(life, &Op::put(0, &[n], value(random, 15_000)));
    }
}

fn full(life: &mut Life, random: &SeededRandom) {
    let mut refused = 0;
    for n in 0..10 {
        let op = Op::put(0, &[200 + n], value(random, 9_000));
        refused += u32::from(!life.run(&op).unwrap());
        run(life, &Op::delete(0, &[1 + n]));
    }
    assert!(refused > 0, "the region is full");
}

fn is_at_limit(life: &Life) -> bool {
    let space = life.engine().metrics().space;
    space.region_bytes == space.limit_bytes
}

fn idle(life: &mut Life, random: &SeededRandom) {
    for _ in 0..10 {
        run(life, &Op::Write(vec![change(random, 1)]));
        life.engine().cover_idle().unwrap();
        // A second time there is nothing to cover.
        life.engine().cover_idle().unwrap();
    }
}
