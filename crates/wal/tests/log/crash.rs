//! A power cut at any point: what was synced is there, without a gap, and nothing else than what was
//! appended.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use thermocline_base::Steps;
use thermocline_env::Storage;
use thermocline_env::direct::DeviceBytes;
use thermocline_env::sim::SimFs;
use thermocline_testkit::{Replay, Rng, seeds};
use thermocline_wal::{LogReader, LogWriter, SITE_LOG_NAMED};

use crate::common::*;

fn images(fs: &SimFs, seed: u64) -> Vec<SimFs> {
    let choices = fs.pending().explore(128, 24, seed);
    let image = |choices: Vec<usize>| fs.image(&choices, Steps::new());
    let mut all: Vec<SimFs> = choices.into_iter().map(image).collect();
    all.push(fs.image_killed(Steps::new()));
    all
}

/// Panics if a crash leaves what must not be. Returns how many images there were.
pub fn crash_while_appending(seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let payloads = Arc::new(payloads(&mut rng, 14));
    let fs = fresh();
    let again = rng.one_in(2);
    if again {
        // A file that was another log's.
        let mut log = create(&fs, 6).unwrap();
        for payload in &self::payloads(&mut rng, 10) {
            log.append(payload).unwrap();
        }
        log.sync().unwrap();
        drop(log);
        fs.sync_dir(Path::new("/db"), SITE_LOG_NAMED).unwrap();
    }
    let named = Arc::new(AtomicBool::new(false));
    let durable = Arc::new(AtomicUsize::new(0));
    let count = Arc::new(AtomicU64::new(0));
    let (world, truth) = (fs.clone(), payloads.clone());
    let (is_named, acknowledged, seen) = (named.clone(), durable.clone(), count.clone());
    fs.steps().observe(Some(Arc::new(move |point| {
        let at_least = acknowledged.load(Ordering::SeqCst);
        let is_named = is_named.load(Ordering::SeqCst);
        for image in images(&world, point.step) {
            seen.fetch_add(1, Ordering::SeqCst);
            match frames(&image, 7) {
                Ok(found) => {
                    let what = format!("at step {}", point.step);
                    let whole = check(&found, &truth, at_least, &what);
                    if is_named {
                        keep(&image, &truth, whole, &what);
                    }
                }
                Err(error) => assert!(!is_named, "lost at step {}: {error}", point.step),
            }
        }
    })));
    let mut log = if again {
        fs.rename(&path(6), &path(7)).unwrap();
        let bytes = Arc::new(DeviceBytes::default());
        LogWriter::reuse(&fs, &path(7), id(7), &bytes).unwrap()
    } else {
        create(&fs, 7).unwrap()
    };
    fs.sync_dir(Path::new("/db"), SITE_LOG_NAMED).unwrap();
    named.store(true, Ordering::SeqCst);
    for (i, payload) in payloads.iter().enumerate() {
        log.append(payload).unwrap();
        if !rng.one_in(3) {
            log.sync().unwrap();
            durable.store(i + 1, Ordering::SeqCst);
        }
    }
    // Something happens later.
    fs.sync_dir(Path::new("/db"), SITE_LOG_NAMED).unwrap();
    fs.steps().observe(None);
    count.load(Ordering::SeqCst)
}

/// What a recovery keeps of an image, and makes durable, is there after another crash.
fn keep(image: &SimFs, payloads: &[Vec<u8>], whole: usize, what: &str) {
    let places = places(payloads);
    let from = places[whole / 2];
    LogReader::keep(image, &path(7), &id(7), from, places[whole]).unwrap();
    let after = image.image_none(Steps::new());
    // Before `from` all was durable, in a real recovery.
    let found = frames(&after, 7).unwrap();
    let kept = found.iter().filter(|(at, _)| *at >= from).count();
    assert!(kept >= whole - whole / 2, "{what}: {kept} of {whole}");
}

#[test]
fn a_crash_at_any_point_leaves_what_was_synced() {
    let mut images = 0;
    for seed in seeds(0..30) {
        let _replay = Replay::new("-p thermocline-wal --test log a_crash_at_any_point", seed);
        images += crash_while_appending(seed);
    }
    println!("{images} images");
    assert!(images > 2000 || std::env::var("THERMOCLINE_SEED").is_ok());
}
