//! Random options: all presets and shapes, kinds of region, divisions, codecs; everything small.

use thermocline::Options;
use thermocline::options::{Codec, Costs, IndexKind, PartitionBy, Preset, Shape};
use thermocline_testkit::Rng;

use crate::machine::Machine;

/// Options of a store named `name` that does not exist yet.
pub fn fresh(rng: &mut Rng, machine: &Machine, name: &str) -> Options {
    let preset = *rng.pick(&[
        Preset::Thermocline,
        Preset::Thermocline,
        Preset::GlobalIndex,
        Preset::PmBlade,
        Preset::FlatLsm,
        Preset::Leveled,
        Preset::Trident,
    ]);
    let mut options = Options::preset(preset);
    // Where a region or logs lie is settled when the store is made.
    let elsewhere = rng.one_in(2).then(|| machine.shm(name)).flatten();
    match options.in_dram() {
        true => options.wal_path = elsewhere,
        false => options.pm_path = elsewhere,
    }
    redrawn(rng, &options)
}

/// Other options for a store that was opened with `before`.
pub fn redrawn(rng: &mut Rng, before: &Options) -> Options {
    let mut options = Options::preset(before.preset);
    options.pm_path = before.pm_path.clone();
    options.wal_path = before.wal_path.clone();
    options.pm = *rng.pick(&[4 << 20, 6 << 20, 8 << 20]);
    options.dram = *rng.pick(&[8 << 20, 32 << 20, 1 << 30]);
    options.pm_region.part_bytes_first = *rng.pick(&[256 << 10, 1 << 20]);
    options.memtable.bytes_max = *rng.pick(&[0, 64 << 10, 200_000]);
    options.memtable.item_bytes_max =
        *rng.pick(&[16 << 10, 50_000, options.memtable.item_bytes_max]);
    options.memtable.replay_threads = rng.below(3) as u64;
    options.memtable.idle_ms = *rng.pick(&[0, 1, 1000]);
    options.commit.buckets = rng.below(3) as u64;
    options.commit.ring_slots = *rng.pick(&[1, 64]);
    options.commit.buffered_bytes = *rng.pick(&[0, 0, 1 << 20]);
    options.manifest.bytes_max = *rng.pick(&[512, 20_000, 1 << 20]);
    options.blob.inline_bytes_max = *rng.pick(&[400, 5000, 1 << 20]);
    options.feed.retain_bytes = *rng.pick(&[0, 100_000]);
    options.ssd.direct = rng.below(2) == 1;
    // What is drawn next is drawn as ever: seeds that found something stay what they were.
    options.ssd.index = *rng.clone().pick(&IndexKind::ALL);
    apart(&mut options, &mut rng.clone());
    reading(&mut options, rng);
    level0(&mut options, rng);
    compaction(&mut options, rng);
    options
}

/// Values that lie apart from tables, or not.
fn apart(options: &mut Options, rng: &mut Rng) {
    options.blob.value_bytes_min = *rng.pick(&[0, 1, 100, 1000]);
    options.blob.file_bytes = *rng.pick(&[2 << 10, 64 << 10, 1 << 20]);
    options.blob.space_percent_max = *rng.pick(&[101, 130, 300]);
    options.blob.compression = *rng.pick(&Codec::ALL);
}

fn reading(options: &mut Options, rng: &mut Rng) {
    options.read.readahead = *rng.pick(&[1, 3, 64]);
    options.read.verify_checksums = rng.below(2) == 1;
    options.read.pin_bytes_min = *rng.pick(&[1, 1 << 10]);
    options.read.pins_percent_max = *rng.pick(&[0, 5]);
    options.read.cache_bytes = *rng.pick(&[0, 1, 64 << 10]);
    options.read.open_tables = *rng.pick(&[1, 3, 512]);
    options.read.ahead_bytes = *rng.pick(&[0, 5000, 256 << 10]);
}

fn level0(options: &mut Options, rng: &mut Rng) {
    if !options.in_dram() && rng.one_in(2) {
        options.level0.shape = Shape::ALL.get(rng.below(6)).copied();
    }
    options.level0.key_index ^= rng.clone().one_in(3);
    if rng.one_in(2) {
        options.level0.pm_percent = *rng.pick(&[10, 30, 50]);
        options.level0.internal = *rng.pick(&Costs::ALL);
        options.level0.merge_percent = *rng.pick(&[0, 100]);
        options.flush.generations = *rng.pick(&[0, 3]);
        options.flush.rewrite_ratio = *rng.pick(&[8, 2, 1, 0]);
    }
}

fn compaction(options: &mut Options, rng: &mut Rng) {
    let compaction = &mut options.compaction;
    compaction.level0_tables = 1 + rng.below(4) as u64;
    compaction.levels = 1 + rng.below(7) as u64;
    compaction.multiplier = *rng.pick(&[2, 10]);
    compaction.base_bytes = *rng.pick(&[0, 200_000]);
    compaction.table_bytes = *rng.pick(&[0, 50_000]);
    compaction.dynamic = rng.below(2) == 1;
    compaction.block_bytes = *rng.pick(&[256, 4 << 10]);
    compaction.compression_level0 = *rng.pick(&Codec::ALL);
    compaction.compression = *rng.pick(&Codec::ALL);
    compaction.compression_last = *rng.pick(&Codec::ALL);
    compaction.read_sample = *rng.pick(&[0, 1, 64]);
    options.partition.bytes = *rng.pick(&[4, 6]) * options.table_bytes();
    options.partition.prefix_len = 1 + rng.below(3) as u64;
    options.partition.by = *rng.pick(&PartitionBy::ALL);
    options.partition.cuts ^= rng.clone().one_in(3);
    let keys = ["b", "key/1", "key/2", "key/25", "m"];
    options.partition_keys = keys.map(|key| key.as_bytes().to_vec()).to_vec();
}
