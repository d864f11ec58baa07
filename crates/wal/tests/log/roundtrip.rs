//! What is appended and synced is read again, on every kind of file system.

use std::sync::Arc;

use thermocline_base::ErrorKind;
use thermocline_env::Env;
use thermocline_env::direct::{DIRECT_UNIT, DeviceBytes};
use thermocline_testkit::{Replay, Rng, seeds};
use thermocline_wal::{GROWTH_BYTES_MAX, LogReader, LogWriter};

use crate::common::*;

#[test]
fn random_payloads_come_back_in_order() {
    for seed in seeds(0..40) {
        let _replay = Replay::new("-p thermocline-wal --test log random_payloads", seed);
        let mut rng = Rng::new(seed);
        let fs = fresh();
        fs.refuse_direct(rng.one_in(3));
        let payloads = payloads(&mut rng, 60);
        let mut log = create(&fs, 7).unwrap();
        let mut synced = 0;
        for (i, payload) in payloads.iter().enumerate() {
            assert_eq!(log.end(), places(&payloads)[i]);
            log.append(payload).unwrap();
            if rng.one_in(3) {
                log.sync().unwrap();
                synced = i + 1;
            }
            if rng.one_in(8) {
                let found = frames(&fs, 7).unwrap();
                assert_eq!(
                    found.len(),
                    synced,
                    "what is not synced is not written either"
                );
                check(&found, &payloads, synced, "");
            }
        }
        log.sync().unwrap();
        log.sync().unwrap();
        assert_eq!(frames(&fs, 7).unwrap().len(), payloads.len());
    }
}

#[test]
fn what_is_written_out_before_the_sync_is_there_with_the_rest() {
    for seed in seeds(0..40) {
        let _replay = Replay::new("-p thermocline-wal --test log what_is_written_out", seed);
        let mut rng = Rng::new(seed);
        let fs = fresh();
        fs.refuse_direct(rng.one_in(3));
        let payloads = payloads(&mut rng, 60);
        let places = places(&payloads);
        let mut log = create(&fs, 7).unwrap();
        for (i, payload) in payloads.iter().enumerate() {
            assert_eq!(log.end(), places[i]);
            log.append(payload).unwrap();
            if rng.one_in(3) {
                log.write_out().unwrap();
                assert!(log.waiting() < DIRECT_UNIT);
            }
            if rng.one_in(6) {
                // Room for later is made behind what is written.
                log.reserve(places[i + 1] + 50_000).unwrap();
            }
            if rng.one_in(10) {
                log.sync().unwrap();
                check(&frames(&fs, 7).unwrap(), &payloads, i + 1, "");
            }
        }
        log.sync().unwrap();
        assert_eq!(frames(&fs, 7).unwrap().len(), payloads.len());
    }
}

#[test]
fn a_log_in_the_file_of_another_has_nothing_of_it() {
    for seed in seeds(0..20) {
        let _replay = Replay::new("-p thermocline-wal --test log a_log_in_the_file", seed);
        let mut rng = Rng::new(seed);
        let (old, new) = (payloads(&mut rng, 40), payloads(&mut rng, 12));
        let fs = fresh();
        let mut log = create(&fs, 7).unwrap();
        for payload in &old {
            log.append(payload).unwrap();
        }
        log.sync().unwrap();
        drop(log);
        thermocline_env::Storage::rename(&fs, &path(7), &path(8)).unwrap();
        let bytes = Arc::new(DeviceBytes::default());
        let mut log = LogWriter::reuse(&fs, &path(8), id(8), &bytes).unwrap();
        assert_eq!(frames(&fs, 8).unwrap(), []);
        for (i, payload) in new.iter().enumerate() {
            log.append(payload).unwrap();
            log.sync().unwrap();
            check(&frames(&fs, 8).unwrap(), &new, i + 1, "");
        }
        let reader = LogReader::open(&fs, &path(8)).unwrap();
        let error = reader.expect(&id(7)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
}

#[test]
fn a_log_on_a_real_disk_is_written_over_and_not_longer_than_need_be() {
    let dir = tempfile::tempdir().unwrap();
    let storage = Env::real().storage;
    let bytes = Arc::new(DeviceBytes::default());
    let path = dir.path().join("000001.log");
    let mut log = LogWriter::create(&*storage, &path, id(1), &bytes).unwrap();
    let payload = [7; 10_000];
    for _ in 0..1000 {
        log.append(&payload).unwrap();
        if log.end().is_multiple_of(3) {
            log.sync().unwrap();
        }
    }
    log.sync().unwrap();
    let len = storage
        .open(&path, thermocline_env::OpenMode::Read)
        .unwrap()
        .len()
        .unwrap();
    assert!(len <= log.end() + GROWTH_BYTES_MAX + 4096, "{len}");
    let mut reader = LogReader::open(&*storage, &path).unwrap();
    let mut found = 0;
    while let Some(frame) = reader.next_frame().unwrap() {
        assert_eq!(frame.payload, payload);
        found += 1;
    }
    assert_eq!(found, 1000);
    // Every page twice at most, but for the last of each sync.
    assert!(bytes.written() < 3 * len, "{} for {len}", bytes.written());
}

#[test]
fn what_no_frame_can_carry_is_refused() {
    let fs = fresh();
    let mut log = create(&fs, 7).unwrap();
    let error = log.append(b"").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    log.append(b"x").unwrap();
    log.sync().unwrap();
    assert_eq!(frames(&fs, 7).unwrap().len(), 1);
}
