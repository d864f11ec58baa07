//! Workloads in which batches are staged: each is written ahead over several items and zones, and
//! committed by one edit. At every instant before that a crash leaves nothing of it, at every later
//! one all of it, in all of its families, and all that was granted before.

use thermocline_base::options::Options;
use thermocline_engine::Durability;
use thermocline_env::simulated::SeededRandom;

use crate::groups::rare_write_back;
use crate::life::Life;
use crate::oracle::{Change, Op};
use crate::workload::{batch, below, key, run, value};

pub fn small_items(options: &mut Options) {
    rare_write_back(options);
    options.memtable.item_bytes_max = 4 << 10;
}

/// As `small_items`, in a manifest that is switched again and again.
pub fn small_items_and_manifest(options: &mut Options) {
    small_items(options);
    options.manifest.bytes_max = 512;
}

/// Larger than an item, over some families, with metadata; keys come more than once.
fn large(random: &SeededRandom, families: u16) -> Op {
    let mut changes: Vec<Change> = (0..7 + below(random, 4))
        .map(|n| Change {
            cf: u16::try_from(below(random, usize::from(families))).unwrap(),
            key: key(random).to_vec(),
            value: (n != 3).then(|| value(random, 700 + n).into()),
        })
        .collect();
    changes.push(Change::metadata(0, value(random, 20)));
    Op::Write(changes)
}

fn write_as(life: &Life, op: &Op, durability: Durability) {
    assert!(life.run_as(op, durability).unwrap(), "there is room");
}

/// Staged batches amid ordinary ones, durable and buffered, with nothing or something before them in
/// their memtable.
pub fn staged(life: &mut Life, random: &SeededRandom) {
    for n in 0..3 {
        for _ in 0..below(random, 3) {
            write_as(life, &batch(random, 2), Durability::Buffered);
        }
        if random.below(2) == 0 {
            run(life, &batch(random, 2));
        }
        let held = (life.engine().snapshot(), life.visible());
        write_as(life, &large(random, 2), Durability::Immediate);
        let (snapshot, model) = held;
        for ((cf, key), want) in model.data.iter().filter(|((cf, _), _)| *cf < 2) {
            let cf = thermocline_base::CfId(*cf);
            let found = snapshot.get(cf, key, <[u8]>::to_vec).unwrap();
            assert_eq!(found.as_deref(), Some(&**want));
        }
        if n == 1 {
            write_as(life, &large(random, 2), Durability::Buffered);
        }
    }
    run(life, &batch(random, 2));
}

/// The first that a database sees, and through lives that close, with families that come and go.
pub fn staged_lives(life: &mut Life, random: &SeededRandom) {
    for n in 0..2 {
        run(life, &large(random, 1));
        run(life, &Op::Family("red".into()));
        let red = life.visible().id("red").expect("it was made");
        let Op::Write(mut changes) = large(random, 1) else {
            unreachable!("it is a write")
        };
        changes[1].cf = red;
        changes[4].cf = red;
        changes.push(Change::metadata(red, value(random, 9)));
        run(life, &Op::Write(changes));
        if n == 1 {
            run(life, &batch(random, 1));
        }
        run(life, &Op::Drop("red".into()));
        life.close().unwrap();
        life.open().unwrap();
    }
}
