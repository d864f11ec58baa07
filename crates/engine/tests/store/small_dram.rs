//! Records in DRAM, and little of it.

use thermocline_base::options::{Options, Preset};
use thermocline_base::{CfId, WriteBatch};
use thermocline_engine::{Durability, Engine, World};
use thermocline_testkit::explore::{side_by_side, times};

const CF: CfId = CfId::DEFAULT;

/// Nobody is refused what only has to wait for a flush, and the budget is kept.
#[test]
fn little_dram_is_waited_for() {
    let lens: &[u32] = match times() {
        Some(_) => &[20, 1000],
        None => &[1000],
    };
    let sizes = [1024, 1536, 3072];
    let all = sizes
        .iter()
        .flat_map(|&kib| lens.iter().map(move |&len| (kib, len)));
    let all: Vec<(u64, u32)> = all.collect();
    // Each waits for its disk, and they come last.
    side_by_side(&all, |&(kib, len)| {
        let home = tempfile::tempdir().unwrap();
        let options = Options {
            dram: kib << 10,
            ..Options::preset(Preset::Leveled)
        };
        let dir = home.path().join("db");
        let engine = Engine::open(World::real(), &dir, options).unwrap();
        let (mut refused, mut most) = (0, 0);
        let mut last = String::new();
        let writes = (6u32 << 20) / (len + 60);
        for n in 0..writes {
            let key = n.wrapping_mul(0x9e37_79b9).to_be_bytes();
            let mut batch = WriteBatch::new();
            batch.put(CF, &key, &vec![7; len as usize]).unwrap();
            if let Err(error) = engine.write(batch.iter(), Durability::Buffered) {
                refused += 1;
                last = error.to_string();
            }
            most = most.max(engine.metrics().dram.used);
        }
        let over = engine.metrics().dram.overdrawn;
        let what = format!("{kib} KiB, values of {len}");
        assert_eq!((refused, over), (0, 0), "{what}: {last}, {most} used");
        engine.close().unwrap();
    });
}

/// A write that needs much at once waits for a compaction that works with that.
#[test]
fn little_dram_is_waited_for_by_large_batches() {
    side_by_side(&[1024, 2048, 4096], |&kib| {
        let home = tempfile::tempdir().unwrap();
        let options = Options {
            dram: kib << 10,
            ..Options::preset(Preset::Leveled)
        };
        let dir = home.path().join("db");
        let engine = Engine::open(World::real(), &dir, options).unwrap();
        for n in 0..200u32 {
            let mut batch = WriteBatch::new();
            for m in 0..1000 {
                let key = (n * 1000 + m).to_string();
                batch.put(CF, key.as_bytes(), &[7; 80]).unwrap();
            }
            let written = engine.write(batch.iter(), Durability::Buffered);
            written.unwrap_or_else(|e| panic!("{kib} KiB, batch {n}: {e}"));
        }
        assert_eq!(engine.metrics().dram.overdrawn, 0, "{kib} KiB");
        engine.close().unwrap();
    });
}
