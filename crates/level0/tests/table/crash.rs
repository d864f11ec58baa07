//! A crash at each fence, in every state that the model allows: either an edit names the table and all of it
//! is there, or none does and its zones are free.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use thermocline_base::planted::{Bug, plant};
use thermocline_base::{ErrorKind, Kind, Site, Steps};
use thermocline_level0::{GroupSize, PmTable, SITES, Written, verify_table};
use thermocline_pm::SimPm;
use thermocline_pm::sim::CrashImage;
use thermocline_testkit::Rng;

use crate::world::*;

const PM: u64 = 1 << 20;
const FIRST: u64 = 256 << 10;

/// The images at every point of writing a table, and the one when it can be named.
struct Run {
    before: Vec<CrashImage>,
    named: CrashImage,
    written: Written,
    sites: BTreeSet<Site>,
    zones: u64,
}

fn run(model: &Model) -> Run {
    let (sim, space) = space(PM, FIRST);
    // An earlier life of the zones: a table of the same entries that was released.
    let earlier = model
        .write(&space, options(GroupSize::Eight))
        .unwrap()
        .unwrap();
    space.release(&earlier.zones);
    let zones = space.usage().zones_free;
    let found = Arc::new(Mutex::new(Vec::new()));
    let (sink, watched) = (found.clone(), sim.clone());
    sim.steps().observe(Some(Arc::new(move |_| {
        sink.lock().unwrap().push(watched.crash());
    })));
    let written = model
        .write(&space, options(GroupSize::Eight))
        .unwrap()
        .unwrap();
    sim.steps().observe(None);
    let before = std::mem::take(&mut *found.lock().unwrap());
    Run {
        before,
        named: sim.crash(),
        written,
        sites: sim.sites().into_keys().collect(),
        zones,
    }
}

fn model_of(seed: u64) -> Model {
    let mut rng = Rng::new(seed);
    let mut model = model(&mut rng, Keys::Tables, 150);
    for (_, content) in model.entries.values_mut() {
        if let Content::Bytes(bytes) = content {
            bytes.truncate(150);
        }
    }
    for n in 0..40u8 {
        let content = Content::Bytes(vec![n; 700]);
        model.put(0, &[b'v', n], 9, Kind::Put, content);
    }
    model
}

fn states(image: &CrashImage, seed: u64, mut check: impl FnMut(SimPm)) -> usize {
    let mut seen = BTreeSet::new();
    for choice in image.choices(4096, 200, seed, |_| true) {
        if seen.insert(image.digest(|i, _| choice[i])) {
            check(image.build(PM, Steps::new(), |i, _| choice[i]));
        }
    }
    seen.len()
}

#[test]
fn a_table_is_whole_or_free_at_every_crash() {
    let (mut count, mut whole) = (0, 0);
    for seed in 0..4 {
        let model = model_of(seed);
        let run = run(&model);
        assert!(run.written.zones.len() > 2, "several pieces");
        for site in SITES
            .iter()
            .filter(|site| **site != thermocline_level0::SITE_ABANDONED)
        {
            assert!(run.sites.contains(site), "{site:?} was not reached");
        }
        for (n, image) in run.before.iter().enumerate() {
            count += states(image, n as u64, |sim| {
                // Nobody names it.
                let (space, zones) = reopen(&sim, PM, FIRST, false).unwrap();
                assert!(zones.is_empty());
                assert_eq!(space.usage().zones_free, run.zones);
                // If an edit named it all the same, it would be whole, or an error.
                let (space, zones) = reopen(&sim, PM, FIRST, true).unwrap();
                let opened = PmTable::open(space.region(), DB_ID, run.written.meta.clone(), &zones);
                match opened.and_then(|table| verify_table(&table)) {
                    Ok(verified) => {
                        whole += 1;
                        assert_eq!(verified.entries, model.entries.len() as u64);
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "{error}"),
                }
            });
        }
        count += states(&run.named, seed, |sim| {
            let (space, zones) = reopen(&sim, PM, FIRST, true).unwrap();
            assert_eq!(zones, run.written.zones);
            let table = open(&space, &run.written).unwrap();
            verify_table(&table).unwrap();
        });
    }
    println!("{count} states, {whole} of them whole before they were named");
    assert!(count > 3000 && whole > 0);
}

#[test]
fn a_table_that_is_named_before_its_fence_is_noticed() {
    let model = model_of(1);
    let _planted = plant(Bug::NameTableUnpersisted);
    let run = run(&model);
    let mut lost = 0;
    states(&run.named, 1, |sim| {
        let (space, zones) = reopen(&sim, PM, FIRST, true).unwrap();
        let opened = PmTable::open(space.region(), DB_ID, run.written.meta.clone(), &zones);
        lost += usize::from(opened.and_then(|table| verify_table(&table)).is_err());
    });
    assert!(lost > 0);
}
