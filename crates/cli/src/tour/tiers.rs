//! The chapter of the tour on data that does not fit persistent memory.

use std::time::Duration;

use thermocline::size::{format_size, index};
use thermocline::{Db, Durability, Metrics, Options};
use thermocline_bench::clock::now;
use thermocline_bench::grouped;
use thermocline_bench::keys::Permutation;
use thermocline_bench::scratch::Scratch;

use crate::fail::{Failure, Outcome};
use crate::progress::Progress;
use crate::tour::cities::{BATCH_CITIES, City};
use crate::tour::pace::{go_on, seconds};
use crate::tour::story::Story;

/// Persistent memory and DRAM of the store.
const PM: u64 = 4 << 20;
const DRAM: u64 = 16 << 20;
/// How often all cities are written.
const ROUNDS: u64 = 3;
/// Random cities to read.
const GETS: usize = 20_000;

/// Fills a small store several times over, and shows what lies where.
pub(super) fn tell(story: &mut Story<'_>, cities: &[City], options: &Options) -> Outcome {
    story.chapter("More than fits")?;
    let mut scratch = Scratch::new("thermocline-tiers")?;
    let place = options.pm_path.as_deref().filter(|path| path.is_dir());
    let options = Options {
        pm_path: scratch.region(place)?,
        wal_path: scratch.logs(options.wal_path.as_deref())?,
        ..small(options)
    };
    let db = Db::open(scratch.path().join("small.db"), options)?;
    story.say(&format!(
        "A second store, which may use {} of persistent memory and {} of DRAM. All cities are written {} \
         times: what does not fit sinks to tables on the SSD, and what was overwritten goes on the way.",
        format_size(PM),
        format_size(DRAM),
        ROUNDS
    ))?;
    let filled = fill(&db, story, cities)?;
    let m = db.metrics();
    story.say(&format!(
        "{} of keys and values in {}, until nothing was left to do in the background; then {} cities once \
         more. They became {} bytes on the SSD for each byte written. Now there are:",
        format_size(m.user_bytes_written),
        seconds(filled),
        BATCH_CITIES,
        m.write_amplification_ssd().map_or_else(|| "no".into(), |a| format!("{a:.1}"))
    ))?;
    for row in tiers(&m) {
        story.show(&row)?;
    }
    let (hits, time) = read(&db, cities)?;
    let in_pm = hits.memtable + hits.global_index + hits.pm_table;
    story.say(&format!(
        "{} random cities, each compared with what was written, in {}: {} were found in persistent memory, {} \
         in blocks of tables that were cached in DRAM, {} in blocks read from the SSD.",
        grouped(GETS.min(cities.len()) as u64),
        seconds(time),
        grouped(in_pm),
        grouped(hits.block_cache),
        grouped(hits.ssd)
    ))?;
    if in_pm == 0 || hits.block_cache + hits.ssd == 0 {
        return Err(Failure::Failed(
            "the tour's small store did not spread over its tiers".to_string(),
        ));
    }
    let bytes = m.user_bytes_written;
    story.measure(
        "written through 4 MiB, drained",
        format!("{} in {}", format_size(bytes), seconds(filled)),
        "tiers_user_bytes",
        bytes,
    );
    story.value("tiers_gets", GETS.min(cities.len()) as u64);
    story.value("tiers_hits_memtable", hits.memtable);
    story.value("tiers_hits_global_index", hits.global_index);
    story.value("tiers_hits_pm_table", hits.pm_table);
    story.value("tiers_hits_block_cache", hits.block_cache);
    story.value("tiers_hits_ssd", hits.ssd);
    db.close()?;
    Ok(scratch.remove()?)
}

/// The options of the tour for the small store. A first part that is larger than all of its region is as large as that.
fn small(options: &Options) -> Options {
    let mut small = Options {
        pm: PM,
        dram: DRAM,
        ..options.clone()
    };
    let part = small.pm_region.part_bytes_first.min(PM);
    small.pm_region.part_bytes_first = part;
    small
}

/// Writes all cities, again and again, and waits for the background.
fn fill(db: &Db, story: &mut Story<'_>, cities: &[City]) -> Outcome<Duration> {
    let entries = 2 * cities.len() as u64;
    let mut progress = Progress::new(story.output, ROUNDS * entries, "entries");
    let begun = now();
    let mut batch = db.batch();
    for round in 0..ROUNDS {
        let mut done = round * entries;
        for cities in cities.chunks(BATCH_CITIES) {
            for city in cities {
                batch.put(&city.name_key, &city.row);
                batch.put(&city.place_key, &city.name_key);
            }
            batch.commit(Durability::Immediate)?;
            done += 2 * cities.len() as u64;
            progress.set("loading", done);
            go_on()?;
        }
    }
    db.drain()?;
    let time = now() - begun;
    // So that something lies in persistent memory, however much went just now.
    for city in cities.iter().take(BATCH_CITIES) {
        batch.put(&city.name_key, &city.row);
    }
    batch.commit(Durability::Immediate)?;
    Ok(time)
}

/// One row for each tier and level.
fn tiers(m: &Metrics) -> Vec<String> {
    let row = |name: &str, text: String| format!("{name:<18} {text}");
    let mut rows = vec![
        row(
            "DRAM",
            format!(
                "{} of indexes, {} of cached blocks and filters",
                format_size(m.dram_index_bytes),
                format_size(m.dram_tables_bytes + m.dram_blocks_bytes)
            ),
        ),
        row(
            "persistent memory",
            format!(
                "{} of records in {} memtables, {} in {} tables of level 0",
                format_size(m.pm_active_bytes + m.pm_sealed_bytes + m.pm_retired_bytes),
                m.memtables.len(),
                format_size(m.pm_table_bytes),
                grouped(m.pm_tables)
            ),
        ),
    ];
    for level in m.levels.iter().filter(|level| level.tables > 0) {
        let what = format!(
            "{} in {} tables, {} entries",
            format_size(level.bytes),
            level.tables,
            grouped(level.entries)
        );
        rows.push(row(&format!("SSD, level {}", level.level), what));
    }
    rows
}

/// Reads random cities; where they were found.
fn read(db: &Db, cities: &[City]) -> Outcome<(thermocline::Hits, Duration)> {
    let before = db.metrics().hits;
    let order = Permutation::new(cities.len() as u64, 2);
    let begun = now();
    for i in 0..GETS.min(cities.len()) {
        let city = &cities[index(order.at(i as u64))];
        if db.get(&city.name_key)?.as_deref() != Some(city.row.as_bytes()) {
            return Err(Failure::Failed(format!(
                "the tour read something else than it wrote for {}",
                city.name_key
            )));
        }
    }
    let time = now() - begun;
    let after = db.metrics().hits;
    let hits = thermocline::Hits {
        memtable: after.memtable - before.memtable,
        global_index: after.global_index - before.global_index,
        pm_table: after.pm_table - before.pm_table,
        block_cache: after.block_cache - before.block_cache,
        ssd: after.ssd - before.ssd,
    };
    Ok((hits, time))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else the tour would end with an error in its last chapter, about an option that is right for its first store.
    #[test]
    fn a_first_part_that_does_not_fit_the_small_store_is_smaller_there() {
        let mut options = Options::default();
        options.pm_region.part_bytes_first = 64 << 20;
        options.validate().unwrap();
        let small = small(&options);
        small.validate().unwrap();
        assert_eq!((small.pm, small.pm_region.part_bytes_first), (PM, PM));
    }
}
