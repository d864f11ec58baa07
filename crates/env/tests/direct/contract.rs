//! What every file promises.

use std::io;
use std::path::Path;

use thermocline_base::{Error, Result};
use thermocline_env::simulated::SeededRandom;
use thermocline_env::{File, OpenMode};

use super::places::{Memory, SITE, UNIT, open, places};

fn is_misaligned(answer: Result<()>, file: &dyn File, offset: u64) {
    match answer.unwrap_err() {
        Error::Io {
            path,
            offset: at,
            source,
            ..
        } => {
            assert_eq!((&*path, at), (file.path(), Some(offset)));
            assert_eq!(source.kind(), io::ErrorKind::InvalidInput);
            assert!(source.to_string().contains("multiples of 4096"), "{source}");
        }
        other => panic!("{other}"),
    }
}

/// Asks the file system itself, so that nothing is skipped where it would be direct.
#[expect(clippy::disallowed_methods, reason = "what is tested is not asked")]
fn takes_the_flag(path: &Path) -> bool {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.read(true).custom_flags(libc::O_DIRECT);
    options.open(path).is_ok()
}

#[test]
fn whether_a_file_is_direct_is_known_and_the_disk_of_the_tests_allows_it() {
    for place in places() {
        let (file, _) = open(&place, "a", OpenMode::CreateNew);
        let unit = file.direct_unit();
        if let Some(direct) = place.direct {
            assert_eq!(unit.is_some(), direct, "{}", place.name);
        } else if takes_the_flag(&place.dir.join("a")) {
            assert!(unit.is_some(), "{}", place.name);
        } else {
            println!("{}: the file system refuses direct I/O", place.name);
        }
        assert!(unit.is_none_or(|unit| unit == UNIT), "{}", place.name);
        let plain = place.storage.open(&place.dir.join("a"), OpenMode::Read);
        assert_eq!(plain.unwrap().direct_unit(), None);
    }
}

#[test]
fn a_misaligned_transfer_is_an_error_that_names_the_place_and_moves_nothing() {
    for place in places() {
        let (file, counter) = open(&place, "a", OpenMode::CreateNew);
        let mut memory = Memory::filled(3 * UNIT, 1);
        if file.direct_unit().is_none() {
            file.write_at(memory.at(100, 1), 7).unwrap();
            continue;
        }
        for (len, offset, shift) in [(UNIT, 512, 0), (UNIT, 0, 512), (512, 0, 0), (1, UNIT, 1)] {
            let piece = memory.at(len, shift);
            let offset = offset as u64;
            is_misaligned(file.write_at(piece, offset), &*file, offset);
            is_misaligned(file.read_at(piece, offset).map(drop), &*file, offset);
        }
        is_misaligned(file.write_tail(b"x", 1), &*file, 1);
        for offset in [u64::MAX - 4095, i64::MAX as u64 - 4095] {
            let piece = memory.at(2 * UNIT, 0);
            is_misaligned(file.write_at(piece, offset), &*file, offset);
            is_misaligned(file.read_at(piece, offset).map(drop), &*file, offset);
        }
        assert!(file.is_empty().unwrap() && file.direct_unit().is_some());
        assert_eq!(counter.read() + counter.written(), 0);
        // Nothing at all may lie anywhere.
        file.write_at(&[], 1).unwrap();
        assert_eq!(file.read_at(&mut [], 1).unwrap(), 0);
    }
}

#[test]
fn a_file_is_written_in_pieces_with_a_tail_and_read_over_its_end() {
    for place in places() {
        let (file, written) = open(&place, "a", OpenMode::CreateNew);
        let direct = file.direct_unit().is_some();
        for (index, byte) in [1_u8, 2].into_iter().enumerate() {
            let mut memory = Memory::filled(3 * UNIT, byte);
            let piece = memory.at(3 * UNIT, 0);
            file.write_at(piece, (index * 3 * UNIT) as u64).unwrap();
        }
        file.write_tail(&[3; 100], 6 * UNIT as u64).unwrap();
        assert_eq!(file.direct_unit(), None, "{}", place.name);
        file.sync(SITE).unwrap();
        assert_eq!(file.len().unwrap(), 6 * UNIT as u64 + 100);

        let expected = [vec![1; 3 * UNIT], vec![2; 3 * UNIT], vec![3; 100]].concat();
        let (reader, read) = open(&place, "a", OpenMode::Read);
        assert_eq!(reader.direct_unit().is_some(), direct, "{}", place.name);
        let mut memory = Memory::filled(8 * UNIT, 9);
        let piece = memory.at(8 * UNIT, 0);
        assert_eq!(reader.read_at(piece, 0).unwrap(), expected.len());
        assert!(piece[..expected.len()] == expected, "{}", place.name);
        let there = reader.read_at(&mut piece[..2 * UNIT], 6 * UNIT as u64);
        assert_eq!(there.unwrap(), 100);
        assert!(piece[..100] == [3; 100]);
        assert_eq!(reader.read_at(piece, 7 * UNIT as u64).unwrap(), 0);
        assert!(
            reader.write_at(piece, 0).is_err(),
            "it was opened for reading"
        );
        let mut whole = vec![0; 10 * UNIT];
        let plain = place
            .storage
            .open(&place.dir.join("a"), OpenMode::Read)
            .unwrap();
        assert_eq!(plain.read_at(&mut whole, 0).unwrap(), expected.len());
        assert!(whole.starts_with(&expected), "{}", place.name);

        let unit = UNIT as u64;
        if place.name.contains("short") {
            assert!(
                !direct || written.direct_written() > 6 * unit,
                "parts twice"
            );
        } else if direct {
            let counts = (written.direct_written(), written.cached_written());
            assert_eq!(counts, (6 * unit, unit), "{}", place.name);
            assert_eq!((read.direct_read(), read.cached_read()), (8 * unit, 0));
        } else {
            assert_eq!((written.written(), written.direct_written()), (7 * unit, 0));
            assert_eq!(
                (read.read(), read.direct_read()),
                (8 * unit, 0),
                "{}",
                place.name
            );
        }
    }
}

/// Both ways at once, by one thread: what either handle wrote, either reads.
#[test]
fn direct_and_cached_handles_of_one_file_see_the_same_bytes() {
    for place in places() {
        for seed in 0..8 {
            let name = format!("{seed}");
            let (file, _) = open(&place, &name, OpenMode::CreateNew);
            let plain = place
                .storage
                .open(&place.dir.join(&name), OpenMode::ReadWrite);
            let plain = plain.unwrap();
            let random = SeededRandom::new(seed);
            let pick = |bound: usize| usize::try_from(random.below(bound as u64)).unwrap();
            let mut model: Vec<u8> = Vec::new();
            for step in 0..60_u8 {
                let (len, page) = (pick(6) * UNIT, pick(12) * UNIT);
                let mut memory = Memory::filled(len, step + 1);
                let mut place_in = |at: usize, len: usize| {
                    if len > 0 {
                        model.resize(model.len().max(at + len), 0);
                        model[at..at + len].fill(step + 1);
                    }
                };
                match pick(6) {
                    0 | 1 => {
                        file.write_at(memory.at(len, 0), page as u64).unwrap();
                        place_in(page, len);
                    }
                    2 => {
                        let (at, len) = (pick(50_000), pick(9000));
                        plain.write_at(&vec![step + 1; len], at as u64).unwrap();
                        place_in(at, len);
                    }
                    3 => {
                        model.resize(pick(70_000), 0);
                        file.set_len(model.len() as u64).unwrap();
                    }
                    4 => plain.sync(SITE).unwrap(),
                    _ => {}
                }
                let context = format!("{}, seed {seed} step {step}", place.name);
                let n = file.read_at(memory.at(len, 0), page as u64).unwrap();
                let expected = &model[page.min(model.len())..(page + len).min(model.len())];
                assert!(memory.at(len, 0)[..n] == *expected, "direct: {context}");
                let mut whole = vec![0; model.len() + 10];
                assert_eq!(
                    plain.read_at(&mut whole, 0).unwrap(),
                    model.len(),
                    "{context}"
                );
                assert!(whole.starts_with(&model), "cached: {context}");
            }
        }
    }
}
