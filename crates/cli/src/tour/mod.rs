//! The tour: the store at work on real data, every claim checked as it is made.

mod cities;
mod crash;
mod home;
mod pace;
mod place;
mod story;
mod tiers;
mod transact;

pub(crate) use crash::write_until_killed;

use std::path::PathBuf;

use thermocline::size::format_size;
use thermocline::{Db, Durability, Options};
use thermocline_bench::clock::{Instant, now};
use thermocline_bench::grouped;
use thermocline_bench::keys::Permutation;
use thermocline_bench::scratch;

use crate::args::TourArgs;
use crate::fail::{Failure, Outcome};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Progress;
use crate::store::Access;
use crate::text::count;
use crate::tour::cities::{BATCH_CITIES, City, cities};
use crate::tour::home::Home;
use crate::tour::pace::{go_on, millis, rate, seconds, timed, whole};
use crate::tour::place::Place;
use crate::tour::story::Story;

/// Random cities to read.
const GETS: usize = 100_000;
/// The country that is listed.
const COUNTRY: &str = "CH";
/// The middle of Zürich, and how far around it.
const ZURICH: Place = Place {
    lat: 47.36667,
    lon: 8.55,
};
const NEAR_KM: f64 = 15.0;
/// Characters of the cells that are scanned around it: cells of about 27 × 20 km there.
const CELL_CHARS: u32 = 4;
/// How many records the writer has acknowledged at least when it is killed, in each round, unless
/// the disk is very slow.
const KILL_AT: [u64; 3] = [2_000, 3_500, 5_000];

/// Runs the tour.
pub(crate) fn run(args: &TourArgs, output: &mut Output) -> Outcome {
    interrupt::catch();
    let mut home = Home::new(args)?;
    let path = home.database();
    let mut options = args.store.options(&path, Access::Create)?;
    let mut beside = Vec::new();
    match &mut home {
        _ if args.keep => {}
        Home::Scratch(scratch) => {
            options.pm_path = scratch.region(options.pm_path.as_deref())?;
            options.wal_path = scratch.logs(options.wal_path.as_deref())?;
        }
        Home::Named { .. } => {
            let logs = options.wal_path.as_deref().map(scratch::place_of_logs);
            options.wal_path = logs.transpose()?;
            beside.extend(options.wal_path.clone());
        }
    }
    let begun = now();
    let mut tour = Tour {
        story: Story::new(output),
        path,
        options,
        cities: Vec::new(),
        beside,
    };
    let told = tour.tell().and_then(|()| tour.end(begun, args.keep));
    let beside = std::mem::take(&mut tour.beside);
    match told {
        Ok(()) => home.leave(args, &beside, &mut tour.story),
        Err(failure) => Err(home.give_up(args.keep, &beside, failure)),
    }
}

struct Tour<'a> {
    story: Story<'a>,
    path: PathBuf,
    options: Options,
    cities: Vec<City>,
    /// What the database has outside its folder, and what goes with it: region, logs.
    beside: Vec<PathBuf>,
}

impl Tour<'_> {
    fn tell(&mut self) -> Outcome {
        self.story
            .title("A tour of Thermocline, an ordered key-value store")?;
        let db = self.open()?;
        self.load(&db)?;
        self.gets(&db)?;
        self.country(&db)?;
        self.around(&db)?;
        transact::tell(&mut self.story, &db)?;
        db.close()?;
        self.crash()?;
        self.verify()?;
        tiers::tell(&mut self.story, &self.cities, &self.options)
    }

    fn end(&mut self, begun: Instant, is_kept: bool) -> Outcome {
        let seconds = (now() - begun).as_secs_f64();
        let (label, text) = ("the whole tour", format!("{seconds:.1} s"));
        self.story.measure(label, text, "seconds", seconds);
        if is_kept {
            // With --json or --quiet nothing else says it, and the name of a temporary folder nobody knows.
            let path = self.path.display().to_string();
            let label = "the database stays in";
            self.story.measure(label, path.clone(), "kept_in", path);
        }
        self.story.end()
    }

    fn open(&mut self) -> Outcome<Db> {
        self.story.chapter("Open")?;
        let (db, time) = timed(|| Db::open(&self.path, self.options.clone()));
        let db = db?;
        let m = db.metrics();
        // A region in DRAM has a name there, and no file.
        if m.region_kind != "dram" {
            self.beside.push(m.region_path.clone());
        }
        self.story.say(&format!(
            "A new database in {}, with the default options unless you gave others. Opening took \
             {}.",
            self.path.display(),
            millis(time)
        ))?;
        self.story.say(&format!(
            "Its persistent memory is a region of kind '{}'. What a write there survives once it is \
             acknowledged: {}.",
            m.region_kind, m.region_survives
        ))?;
        self.story.say(&format!(
            "It may use up to {} of persistent memory and {} of DRAM, and takes them as it grows.",
            format_size(m.pm_limit_bytes),
            format_size(m.dram_limit_bytes)
        ))?;
        self.story.value("region_kind", m.region_kind);
        Ok(db)
    }

    fn load(&mut self, db: &Db) -> Outcome {
        self.story.chapter("Load")?;
        self.cities = cities()?;
        self.story.say(&format!(
            "{} cities of the world, from GeoNames (geonames.org, CC BY). Each becomes two \
             entries, written in one batch so that neither is ever there without the other:",
            grouped(self.cities.len() as u64)
        ))?;
        self.story
            .show("name/COUNTRY/NAME/N   what is known of the city, as JSON")?;
        self.story
            .show("place/CODE/N          its name key; codes of neighbours sort side by side")?;
        let entries = 2 * self.cities.len() as u64;
        let mut progress = Progress::new(self.story.output, entries, "entries");
        let begun = now();
        let mut batch = db.batch();
        let mut done = 0;
        for cities in self.cities.chunks(BATCH_CITIES) {
            for city in cities {
                batch.put(&city.name_key, &city.row);
                batch.put(&city.place_key, &city.name_key);
            }
            batch.commit(Durability::Immediate)?;
            done += 2 * cities.len() as u64;
            progress.set("loading", done);
            go_on()?;
        }
        let time = now() - begun;
        drop(progress);
        let m = db.metrics();
        self.story.say(&format!(
            "{} entries in {}, {} a second, in batches of {}, each durable before the next began. \
             {} of keys and values took {} of persistent memory; the index of all keys takes {} \
             of DRAM.",
            grouped(entries),
            seconds(time),
            grouped(rate(entries, time)),
            grouped(2 * BATCH_CITIES as u64),
            format_size(m.user_bytes_written),
            format_size(m.pm_bytes_written),
            format_size(m.dram_index_bytes)
        ))?;
        self.story.measure(
            "load, in durable batches",
            format!("{} entries/s", grouped(rate(entries, time))),
            "load_per_sec",
            rate(entries, time),
        );
        Ok(())
    }

    fn gets(&mut self, db: &Db) -> Outcome {
        self.story.chapter("Read")?;
        let order = Permutation::new(self.cities.len() as u64, 1);
        let picked: Vec<&City> = (0..GETS.min(self.cities.len()))
            .map(|i| &self.cities[thermocline::size::index(order.at(i as u64))])
            .collect();
        let begun = now();
        for city in &picked {
            let found = db.get(&city.name_key)?;
            if found.as_deref() != Some(city.row.as_bytes()) {
                return Err(Failure::Failed(format!(
                    "the tour read something else than it wrote for {}",
                    city.name_key
                )));
            }
        }
        let time = now() - begun;
        let count = picked.len() as u64;
        self.story.say(&format!(
            "{} cities in random order by their names, each compared with what was written: {}, \
             {} a second. For example:",
            grouped(count),
            seconds(time),
            grouped(rate(count, time))
        ))?;
        for city in picked.iter().take(2) {
            self.story
                .show(&format!("{}  →  {}", city.name_key, clip(&city.row, 72)))?;
        }
        if db.get("name/XX/Atlantis/00")?.is_some() {
            return Err(Failure::Failed(
                "the tour found a city that does not exist".to_string(),
            ));
        }
        self.story
            .say("name/XX/Atlantis/00 is not found, as it should be.")?;
        self.story.measure(
            "get, one thread",
            format!("{} /s", grouped(rate(count, time))),
            "get_per_sec",
            rate(count, time),
        );
        Ok(())
    }

    fn country(&mut self, db: &Db) -> Outcome {
        self.story.chapter("Scan a country, in both directions")?;
        let prefix = format!("name/{COUNTRY}/");
        let begun = now();
        let forward = db
            .prefix(&prefix)
            .map(|entry| entry.map(|(key, _)| key))
            .collect::<thermocline::Result<Vec<_>>>()?;
        let mut backward = db
            .prefix(&prefix)
            .rev()
            .map(|entry| entry.map(|(key, _)| key))
            .collect::<thermocline::Result<Vec<_>>>()?;
        let time = now() - begun;
        let mut expected: Vec<&[u8]> = self
            .cities
            .iter()
            .filter(|city| city.country == COUNTRY)
            .map(|city| city.name_key.as_bytes())
            .collect();
        expected.sort_unstable();
        let (last, first) = (names(&backward), names(&forward));
        backward.reverse();
        if forward != expected || backward != expected {
            return Err(Failure::Failed(format!(
                "the tour's scan of {prefix} found {} cities forward and {} backward, not {}",
                forward.len(),
                backward.len(),
                expected.len()
            )));
        }
        self.story.say(&format!(
            "All {} cities of Switzerland are one range of keys, {prefix}…, in order of their \
             names. Read from both ends in {}:",
            grouped(forward.len() as u64),
            millis(time)
        ))?;
        self.story.show(&format!("first  {first}"))?;
        self.story.show(&format!("last   {last}"))?;
        let count = (forward.len() + backward.len()) as u64;
        self.story.measure(
            "scan, forward and backward",
            format!("{} entries/s", grouped(rate(count, time))),
            "scan_per_sec",
            rate(count, time),
        );
        Ok(())
    }

    fn around(&mut self, db: &Db) -> Outcome {
        self.story.chapter("Find what is near")?;
        let begun = now();
        let cells = ZURICH.cells_around(CELL_CHARS);
        let mut found = Vec::new();
        for cell in &cells {
            for entry in db.prefix(format!("place/{cell}")) {
                found.push(entry?.1);
            }
        }
        let time = now() - begun;
        let by_key: std::collections::HashMap<&[u8], &City> = self
            .cities
            .iter()
            .map(|city| (city.name_key.as_bytes(), city))
            .collect();
        let mut near: Vec<(f64, &City)> = found
            .iter()
            .filter_map(|key| by_key.get(&**key))
            .map(|city| (ZURICH.km_to(city.place), *city))
            .filter(|(km, _)| *km <= NEAR_KM)
            .collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        let within = |city: &&City| ZURICH.km_to(city.place) <= NEAR_KM;
        let expected = self.cities.iter().filter(within).count();
        if near.len() != expected {
            return Err(Failure::Failed(format!(
                "the tour found {} cities near Zürich by scanning, but there are {expected}",
                near.len()
            )));
        }
        self.story.say(&format!(
            "What lies around Zürich is {} short ranges of place/… keys. They hold {} cities, \
             read in {}; {} of them lie within {NEAR_KM} km of its middle, and a look at every \
             city of the world finds the same. The nearest:",
            cells.len(),
            grouped(found.len() as u64),
            millis(time),
            grouped(near.len() as u64)
        ))?;
        for (km, city) in near.iter().filter(|(km, _)| *km > 0.0).take(5) {
            self.story.show(&format!("{km:>5.1} km  {}", city.name))?;
        }
        self.story.measure(
            "all cities around Zürich",
            millis(time),
            "around_ms",
            time.as_secs_f64() * 1000.0,
        );
        Ok(())
    }

    fn crash(&mut self) -> Outcome {
        self.story.chapter("Crash")?;
        self.story.say(
            "A second process opens the database, writes numbered records one by one, and reports \
             each number once that record is durable. It is killed in the middle (SIGKILL: no \
             chance to tidy up). Then this process reopens the database and counts.",
        )?;
        let (mut slowest, mut lost, mut acknowledged) = (0f64, 0, 0);
        let mut writes = 0f64;
        for (i, target) in KILL_AT.into_iter().enumerate() {
            go_on()?;
            let number = i as u64 + 1;
            let round = crash::round(&self.path, &self.options, number, target)?;
            let cut = match round.cut {
                0 => String::new(),
                cut => format!(" and cut off {} unfinished ones", grouped(cut)),
            };
            let one_more = match round.present - round.acknowledged {
                0 => "",
                _ => ", and so is the one whose number was still on its way",
            };
            self.story.say(&format!(
                "Round {number}: killed after acknowledging {} records, {} a second. Reopened in \
                 {:.1} ms, which indexed {} records{cut}. Every acknowledged record is there, \
                 without a gap{one_more}.",
                grouped(round.acknowledged),
                grouped(whole(round.per_second)),
                round.reopen_ms,
                grouped(round.recovered),
            ))?;
            slowest = slowest.max(round.reopen_ms);
            lost += round.acknowledged.saturating_sub(round.present);
            acknowledged += round.acknowledged;
            writes = writes.max(round.per_second);
        }
        self.count_cities()?;
        self.story.measure(
            "durable writes, one by one",
            format!("{} /s", grouped(whole(writes))),
            "durable_writes_per_sec",
            writes,
        );
        self.story.measure(
            "reopening after a kill, slowest",
            format!("{slowest:.1} ms"),
            "reopen_ms_max",
            slowest,
        );
        self.story.measure(
            "acknowledged records lost",
            format!("{lost} of {}", grouped(acknowledged)),
            "records_lost",
            lost,
        );
        self.story.value("records_acknowledged", acknowledged);
        Ok(())
    }

    /// After the crashes every city must still be there, with both of its entries.
    fn count_cities(&mut self) -> Outcome {
        let db = Db::open(&self.path, self.options.clone())?;
        let cities = self.cities.len() as u64;
        for prefix in ["name/", "place/"] {
            let mut count = 0;
            for entry in db.prefix(prefix) {
                entry?;
                count += 1;
            }
            if count != cities {
                return Err(Failure::Failed(format!(
                    "the tour lost data: {count} entries are under {prefix}, not {cities}"
                )));
            }
        }
        let region = db.metrics();
        db.close()?;
        self.story.say(&format!(
            "All {} cities are still there too. A kill shows that nothing lived only in the process. \
             All that a region of kind '{}' survives: {}.",
            grouped(cities),
            region.region_kind,
            region.region_survives
        ))
    }

    fn verify(&mut self) -> Outcome {
        self.story.chapter("Verify")?;
        let (report, time) = timed(|| Db::verify(&self.path, self.options.clone()));
        let report = report?;
        if let Some(fault) = report.faults.first() {
            return Err(Failure::Failed(format!(
                "the tour found {}; the first is in {} at offset {}: {}",
                count(report.fault_count(), "fault"),
                fault.place,
                fault.offset,
                fault.what
            )));
        }
        self.story.say(&format!(
            "Every checksum and every structural rule of {} records, {}, in {}: no fault.",
            grouped(report.records),
            format_size(report.bytes),
            seconds(time)
        ))?;
        self.story.measure(
            "faults",
            format!("none in {} records", grouped(report.records)),
            "faults",
            0,
        );
        Ok(())
    }
}

/// The first few names of `name/COUNTRY/NAME/N` keys.
fn names(keys: &[Vec<u8>]) -> String {
    let name = |key: &Vec<u8>| {
        let key = String::from_utf8_lossy(key).into_owned();
        let end = key.rfind('/').unwrap_or(key.len());
        let start = format!("name/{COUNTRY}/").len().min(end);
        key[start..end].to_string()
    };
    keys.iter().take(5).map(name).collect::<Vec<_>>().join(", ")
}

fn clip(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_rows_are_clipped_between_characters() {
        assert_eq!(clip("Zürich", 2), "Zü…");
        assert_eq!(clip("Zürich", 6), "Zürich");
    }
}
