//! Workloads in which memtables die, lie in the middle, and leave zones that are used again; and
//! what must still be noticed where memtables are missing.

use thermocline_base::options::Options;
use thermocline_engine::Durability;
use thermocline_env::simulated::SeededRandom;
use thermocline_version::{Change, Manifest};

use crate::groups::rare_write_back;
use crate::life::{Life, dir, options};
use crate::oracle::Op;
use crate::raw::HERE;
use crate::snapshot::Snapshot;
use crate::workload::{below, run, small_memtables, value};

const HOT: [&[u8]; 2] = [b"hot", b"hotter"];

fn hot(life: &Life, random: &SeededRandom) {
    let key = HOT[below(random, HOT.len())];
    if random.below(5) == 0 {
        run(life, &Op::delete(0, key));
    } else {
        let len = 300 + below(random, 500);
        run(life, &Op::put(0, key, value(random, len)));
    }
}

/// Everything dies again and again, beside a snapshot that some of it must stay for.
pub fn overwrites(life: &mut Life, random: &SeededRandom) {
    let mut held = None;
    for n in 0..20 {
        hot(life, random);
        if n == 4 || n == 12 {
            held = Some((life.engine().snapshot(), life.expected()));
        }
        if n == 9 || n == 17 {
            let Some((snapshot, model)) = held.take() else {
                unreachable!("a snapshot is held")
            };
            for key in HOT {
                let found = snapshot.get(thermocline_base::CfId::DEFAULT, key, <[u8]>::to_vec);
                let want = model.data.get(&(0, key.to_vec()));
                assert_eq!(found.unwrap().as_deref(), want.map(|value| &**value));
            }
        }
        if random.below(4) == 0 {
            life.engine().reclaim().unwrap();
        }
    }
    assert!(life.engine().metrics().memtables_dropped >= 4);
}

/// Memtables with something that lives between others that die, over several incarnations.
pub fn gaps(life: &mut Life, random: &SeededRandom) {
    let mut dropped = 0;
    for n in 0..26u8 {
        // Not in every memtable.
        if n % 12 == 1 {
            run(life, &Op::put(0, &[b'c', n], value(random, 50)));
        }
        hot(life, random);
        if n == 9 || n == 19 {
            dropped += life.engine().metrics().memtables_dropped;
            life.close().unwrap();
            life.open().unwrap();
        }
    }
    dropped += life.engine().metrics().memtables_dropped;
    let metrics = life.engine().metrics();
    let ids: Vec<u64> = metrics.memtables.iter().map(|m| m.id).collect();
    assert!(dropped >= 2, "{dropped} dropped");
    let holes = ids.windows(2).filter(|pair| pair[0] + 1 < pair[1]);
    assert!(holes.count() >= 1, "{ids:?}");
}

pub fn few_dead(options: &mut Options) {
    rare_write_back(options);
    options.memtable.bytes_max = 2 << 10;
}

/// What is newer and not yet durable makes nothing dead: a crash may take it back.
pub fn unsettled(life: &mut Life, random: &SeededRandom) {
    for _ in 0..3 {
        for key in HOT {
            run(life, &Op::put(0, key, value(random, 900)));
        }
        // Into the memtable after theirs: all of it is superseded, and nothing is settled.
        for key in [HOT[0], HOT[1], HOT[0]] {
            let op = match random.below(3) {
                0 => Op::delete(0, key),
                _ => Op::put(0, key, value(random, 100)),
            };
            assert!(life.run_as(&op, Durability::Buffered).unwrap());
            life.engine().reclaim().unwrap();
        }
        if random.below(2) == 0 {
            life.engine().sync().unwrap();
            life.engine().reclaim().unwrap();
        }
    }
    assert!(life.engine().metrics().memtables_dropped >= 1);
}

/// A store whose memtables are some that live and gaps between them, as a crash leaves it.
fn gapped(seed: u64) -> Life {
    let mut options = options();
    small_memtables(&mut options);
    let random = SeededRandom::new(seed);
    let mut life = Life::fresh(&options, seed);
    life.open().unwrap();
    for n in 0..16u8 {
        if n % 5 == 1 {
            run(&life, &Op::put(0, &[b'c', n], value(&random, 50)));
        }
        run(&life, &Op::put(0, b"hot", value(&random, 700)));
    }
    life
}

fn crashed(life: &Life, seed: u64) -> Life {
    let now = Snapshot::of(life, HERE);
    let mut options = options();
    small_memtables(&mut options);
    let mut next = now.life(&now.oldest(), &options, seed);
    next.expect(&now.expect);
    next
}

/// Damage in the memtable before a gap is noticed though what followed it is gone.
#[test]
fn damage_beside_a_gap_is_noticed() {
    let life = gapped(5);
    crashed(&life, 1).recover().unwrap();
    let (_, state) = Manifest::open(life.world().env.storage, dir(), true).unwrap();
    let chains: Vec<_> = state.chains().map(|(_, chain)| *chain).collect();
    let behind = chains.iter().skip(1).position(|c| c.base_seqno != 0);
    let before = chains[behind.expect("there is a gap")];
    assert!(before.cut.is_some(), "the edit cut it");
    let end = before.cut.unwrap().end;
    let zone = end / (16 << 10) * (16 << 10);
    // The last record's value; the first item's header; both copies of the zone's header.
    for places in [
        vec![end - 60],
        vec![zone + 128 + 8],
        vec![zone + 8, zone + 72],
    ] {
        let mut again = crashed(&life, 2);
        for at in places {
            again.pm.rot(at, 1);
        }
        let why = again.recover().unwrap_err();
        assert!(why.contains("corruption"), "{why}");
    }
}

/// A manifest that has lost the edit that dropped a memtable names zones that are somebody else's,
/// or a memtable whose floor is gone: an error, never data.
#[test]
fn a_manifest_that_lost_a_drop_is_noticed() {
    let mut noticed = 0;
    for seed in 0..12 {
        let mut options = options();
        small_memtables(&mut options);
        let random = SeededRandom::new(seed);
        let mut life = Life::fresh(&options, seed);
        life.open().unwrap();
        run(&life, &Op::put(0, b"cold", value(&random, 100)));
        loop {
            let before = life.engine().metrics().memtables_dropped;
            run(&life, &Op::put(0, b"hot", value(&random, 700)));
            if life.engine().metrics().memtables_dropped > before && random.below(3) == 0 {
                break;
            }
        }
        let (manifest, state) = Manifest::open(life.world().env.storage, dir(), true).unwrap();
        let path = manifest.path().to_path_buf();
        drop(manifest);
        let mut next = crashed(&life, seed + 100);
        let model = next.tracker.lock().unwrap().expect().allowed[0].clone();
        let file = next.world().env.storage;
        let file = file
            .open(&path, thermocline_env::OpenMode::ReadWrite)
            .unwrap();
        let len = file.len().unwrap();
        let mut last = [0; 1];
        file.read_exact_at(&mut last, len - 9).unwrap();
        file.write_at(&[last[0] ^ 1], len - 9).unwrap();
        let (_, cut) = Manifest::open(next.world().env.storage, dir(), true).unwrap();
        if cut.memtables().len() <= state.memtables().len() {
            // The last edit was another one.
            continue;
        }
        noticed += 1;
        let why = next.recover().unwrap_err();
        assert!(why.contains("corruption"), "{why}");
        assert!(model.data.len() == 2);
    }
    assert!(noticed > 3, "{noticed}");
}

/// The edit that drops fixes the base of what follows.
#[test]
fn a_gap_leaves_a_base_behind() {
    let life = gapped(6);
    let (_, state) = Manifest::open(life.world().env.storage, dir(), true).unwrap();
    let edits: Vec<_> = state.snapshot().collect();
    let opened = edits.iter().flat_map(|edit| &edit.changes);
    let bases = opened.filter_map(|change| match change {
        Change::ChainOpened { base_seqno, .. } => Some(*base_seqno),
        _ => None,
    });
    let bases: Vec<u64> = bases.filter(|&base| base > 1).collect();
    assert!(!bases.is_empty());
    assert!(bases.is_sorted());
}
