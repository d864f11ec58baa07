//! A power cut at any point: a table is whole or does not open, and one that was finished, and its
//! name synced, is whole. Values of a blob file that were synced stay.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use thermocline_base::{BlobRef, ErrorKind, Steps};
use thermocline_env::sim::SimFs;
use thermocline_env::{OpenMode, Storage};
use thermocline_sst::{BlobFile, BlobWriter, WriteOptions, read_blob, sites};
use thermocline_testkit::Rng;
use thermocline_testkit::explore::explored;

use crate::common::*;

/// Every image of `fs` at this instant, up to a number, one after the other.
fn images(fs: &SimFs, seed: u64) -> impl Iterator<Item = SimFs> {
    let choices = fs.pending().explore(256, 60, seed);
    choices
        .into_iter()
        .map(|choices| fs.image(&choices, Steps::new()))
}

/// Runs `work`, and `check` on every image at every crash point; how many images there were.
fn at_every_point(
    fs: &SimFs,
    work: impl FnOnce(),
    check: impl Fn(&SimFs) + Send + Sync + 'static,
) -> u64 {
    let count = Arc::new(AtomicU64::new(0));
    let (world, seen, check) = (fs.clone(), Arc::clone(&count), Arc::new(check));
    let last = Arc::clone(&check);
    let reached = Arc::new(Mutex::new(Vec::new()));
    let sites_seen = Arc::clone(&reached);
    fs.steps().observe(Some(Arc::new(move |point| {
        sites_seen.lock().unwrap().push(point.site);
        for image in images(&world, point.step) {
            check(&image);
            seen.fetch_add(1, Ordering::SeqCst);
        }
    })));
    work();
    fs.steps().observe(None);
    for image in images(fs, 0) {
        last(&image);
    }
    assert!(reached.lock().unwrap().contains(&sites::FILE_NAMED));
    count.load(Ordering::SeqCst)
}

/// Panics if a crash leaves what must not be.
pub fn crash_while_writing(seed: u64, n: usize) -> u64 {
    let mut rng = Rng::new(seed);
    let contents = Arc::new(random_contents(&mut rng, n));
    let options = WriteOptions {
        block_bytes: 1024,
        ..WriteOptions::default()
    };
    let fs = fresh();
    let acknowledged = Arc::new(AtomicBool::new(false));
    let (named, truth) = (Arc::clone(&acknowledged), Arc::clone(&contents));
    let work = || {
        contents.write(&fs, 7, options).unwrap();
        fs.sync_dir(Path::new("/db"), sites::FILE_NAMED).unwrap();
        acknowledged.store(true, Ordering::SeqCst);
        // Something happens later.
        fs.sync_dir(Path::new("/db"), sites::FILE_NAMED).unwrap();
    };
    at_every_point(&fs, work, move |image| match read_all(image, 7) {
        Ok(found) => assert_same(&found, &truth, "after a crash"),
        Err(e) => {
            assert!(!named.load(Ordering::SeqCst), "lost: {e}");
            assert!(
                matches!(e.kind(), ErrorKind::Io | ErrorKind::Corruption),
                "{e}"
            );
        }
    })
}

#[test]
fn a_crash_leaves_a_whole_table_or_none() {
    let images: u64 = (0..explored(10, 20))
        .map(|seed| crash_while_writing(seed, 60))
        .sum();
    let large: u64 = (0..explored(1, 2))
        .map(|seed| crash_while_writing(seed, 1500))
        .sum();
    println!("{images} images of small tables, {large} of large ones");
    assert!(images > explored(500, 1000));
}

/// References and the values that lie there.
type Appended = Arc<Mutex<Vec<(BlobRef, Vec<u8>)>>>;

/// Panics if a crash loses a synced value or returns another.
pub fn crash_while_appending(seed: u64) -> u64 {
    let file = Path::new("/db/000009.blob");
    let fs = fresh();
    let synced: Appended = Arc::default();
    let pending: Appended = Arc::default();
    let (durable, written) = (Arc::clone(&synced), Arc::clone(&pending));
    let work = || {
        let mut rng = Rng::new(seed);
        let mut writer = BlobWriter::create(&fs, file, identity(9)).unwrap();
        writer.sync().unwrap();
        fs.sync_dir(Path::new("/db"), sites::FILE_NAMED).unwrap();
        for _ in 0..8 {
            for _ in 0..3 {
                let len = rng.below(3000);
                let value = random_bytes(&mut rng, len);
                let blob = writer.append(CF, b"key", &value).unwrap();
                pending.lock().unwrap().push((blob, value));
            }
            writer.sync().unwrap();
            synced.lock().unwrap().append(&mut pending.lock().unwrap());
        }
        writer.finish().unwrap();
    };
    at_every_point(&fs, work, move |image| {
        let durable = durable.lock().unwrap();
        let written = written.lock().unwrap();
        for (blob, value) in durable.iter().chain(written.iter()) {
            let read = image.open(file, OpenMode::Read).and_then(|opened| {
                let blobs = BlobFile::open(&*opened, identity(9))?;
                read_blob(&blobs, &*opened, *blob)
            });
            match read {
                Ok(found) => assert_eq!(&found, value),
                Err(e) => assert!(!durable.iter().any(|(b, _)| b == blob), "lost: {e}"),
            }
        }
    })
}

#[test]
fn a_crash_keeps_values_that_were_synced() {
    let images: u64 = (0..6).map(crash_while_appending).sum();
    println!("{images} images");
    assert!(images > 1000);
}
