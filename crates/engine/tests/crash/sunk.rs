//! A workload with shape `immutables`: memtables are flushed into the base level, a group of ranges by one edit
//! (`engine::flush::sink`), and into level 0 where too much lies below. A crash at any instant, inside the recovery from
//! another one too, finds the groups that were named, and the rest in memtables; the next life flushes on.

use thermocline_base::CfId;
use thermocline_base::options::{Options, Shape};
use thermocline_env::simulated::SeededRandom;

use crate::compaction::small_levels;
use crate::life::Life;
use crate::oracle::{Op, Step};
use crate::workload::{below, run, value};

/// A flush has a few memtables, of which each range becomes a table or two. Nothing else is due.
pub fn immutables(options: &mut Options) {
    small_levels(options);
    options.level0.shape = Some(Shape::Immutables);
    options.level0.evacuation_threads = 2;
    options.compaction.table_bytes = 1 << 10;
    options.compaction.base_bytes = 64 << 10;
    options.compaction.level0_tables = 8;
    options.partition.rate_sample = 1;
}

/// All keys of one family, and some of another one.
fn write(life: &Life, random: &SeededRandom, red: u16) {
    for n in 0..8u8 {
        let len = 700 + below(random, 100);
        run(life, &Op::put(0, &[b'c', n], value(random, len)));
        if n % 2 == 0 {
            run(life, &Op::put(red, &[n], value(random, 300)));
        }
    }
}

/// Of one family a few keys in the middle, and all from one on; one of them comes back.
fn clear(life: &Life, random: &SeededRandom) {
    let clear = |from: u8, to: Option<u8>| Step::Clear {
        cf: 0,
        from: vec![b'c', from],
        to: to.map(|to| vec![b'c', to]),
    };
    run(life, &Op::Steps(vec![clear(2, Some(4)), clear(5, None)]));
    run(life, &Op::delete(0, &[b'c', 1]));
    run(life, &Op::put(0, &[b'c', 6], value(random, 700)));
}

/// Flushes, and reads back all of it; the number of tables in level 0, and below.
fn sink(life: &Life) -> (u64, u64) {
    life.engine().flush().unwrap();
    let model = life.visible();
    let found = life.dump(&[model.clone().into()]).unwrap();
    assert!(found == model, "{}", model.difference(&found));
    let levels = life.engine().metrics().levels;
    let tables = |level: usize| levels.get(level).map_or(0, |level| level.tables);
    (tables(0), tables(1))
}

/// Over nothing, over what came before, past it into level 0, and with what lies there, with range tombstones over
/// several ranges. Beside snapshots, in two families, over two lives.
pub fn sunk(life: &mut Life, random: &SeededRandom) {
    run(life, &Op::Descending("red".into()));
    let red = life.visible().id("red").expect("it was made");
    let mut together = 0;
    for round in 0..4u8 {
        let held = (life.engine().snapshot(), life.expected());
        match round {
            // Little, over much.
            2 => {
                run(life, &Op::put(0, b"c\0", value(random, 20)));
                run(life, &Op::put(0, b"c\x07", value(random, 20)));
            }
            _ => write(life, random, red),
        }
        if round == 3 {
            clear(life, random);
        }
        let (level0, below) = sink(life);
        assert_eq!(level0 > 0, round == 2, "round {round}: {level0} tables");
        assert!(below > 0, "round {round}");
        let (snapshot, model) = held;
        for ((cf, key), value) in &model.data {
            let found = snapshot.value(CfId(*cf), key).unwrap();
            assert_eq!(found.as_deref(), Some(&**value));
        }
        drop(snapshot);
        if round == 1 {
            together += life.engine().metrics().ranges_ahead;
            life.close().unwrap();
            life.open().unwrap();
        }
    }
    together += life.engine().metrics().ranges_ahead;
    assert!(together > 3, "{together}");
    life.engine().reclaim().unwrap();
}
