//! Refusals, short transfers, crashes and faults.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::{Result, Steps};
use thermocline_env::direct::DeviceBytes;
use thermocline_env::fault::{Choppy, Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::real::RealStorage;
use thermocline_env::sim::SimFs;
use thermocline_env::{OpenMode, Storage};

use super::places::{Memory, Refusing, SITE, UNIT, disk_folder, on, open, simulated};

#[test]
fn a_refusal_at_any_transfer_is_no_error_and_ends_direct_io() {
    for transfers in 0..6 {
        let kernel = Arc::new(Refusing::after(transfers));
        let storage = Arc::new(RealStorage::with_syscalls(kernel));
        let place = on("refused later", storage, disk_folder(), Some(true));
        let (file, counter) = open(&place, "a", OpenMode::CreateNew);
        assert_eq!(file.direct_unit(), Some(UNIT));
        let mut memory = Memory::filled(2 * UNIT, 5);
        for index in 0..3 {
            let at = index * 2 * UNIT as u64;
            file.write_at(memory.at(2 * UNIT, 0), at).unwrap();
            memory.at(2 * UNIT, 0).fill(0);
            file.read_exact_at(memory.at(2 * UNIT, 0), at).unwrap();
            assert!(memory.at(2 * UNIT, 0).iter().all(|b| *b == 5));
        }
        assert_eq!(file.direct_unit(), (transfers == 6).then_some(UNIT));
        file.write_at(b"anything goes", 5).unwrap();
        let moved = counter.direct_read() + counter.direct_written();
        assert_eq!(moved, transfers * 2 * UNIT as u64);
    }
}

#[test]
fn a_kernel_that_never_moves_a_unit_gives_an_error_and_no_loop() {
    let storage = Arc::new(RealStorage::with_syscalls(Arc::new(Choppy::new(512))));
    let place = on("disk", storage, disk_folder(), None);
    let (file, _) = open(&place, "a", OpenMode::CreateNew);
    if file.direct_unit().is_none() {
        println!("skipped: the file system refuses direct I/O");
        return;
    }
    let mut memory = Memory::filled(UNIT, 1);
    let wrote = file.write_at(memory.at(UNIT, 0), UNIT as u64).unwrap_err();
    let read = file.read_at(memory.at(UNIT, 0), 0).unwrap_err();
    for (error, offset) in [(wrote, 4096), (read, 0)] {
        let text = error.to_string();
        let place = format!("{} at offset {offset}: ", file.path().display());
        assert!(text.contains(&place), "{text}");
    }
}

#[test]
fn nothing_is_durable_before_the_sync_and_the_tail_with_the_rest_after_it() {
    let (place, sim) = simulated("simulated", true);
    let path = place.dir.join("a");
    let (file, _) = open(&place, "a", OpenMode::CreateNew);
    sim.sync_dir(&place.dir, SITE).unwrap();
    let mut memory = Memory::filled(2 * UNIT, 1);
    file.write_at(memory.at(2 * UNIT, 0), 0).unwrap();
    file.write_tail(&[2; 9], 2 * UNIT as u64).unwrap();
    let whole = [vec![1; 2 * UNIT], vec![2; 9]].concat();
    assert_eq!(sim.image_none(Steps::new()).contents(&path).unwrap(), b"");
    let (mut lost, mut torn) = (0, 0);
    for seed in 0..200 {
        let left = sim
            .image_random(seed, Steps::new())
            .contents(&path)
            .unwrap();
        assert!(
            left.len() <= whole.len(),
            "never longer than what was written"
        );
        lost += usize::from(left.len() < whole.len());
        torn += usize::from(left.len() == whole.len() && left != whole);
    }
    assert!(lost > 20 && torn > 20, "{lost} {torn}");
    file.sync(SITE).unwrap();
    let image = sim.image_none(Steps::new());
    assert_eq!(image.contents(&path).unwrap(), whole);
    // What refuses goes on refusing after a crash.
    sim.refuse_direct(true);
    for image in [sim.image_all(Steps::new()), sim.image_killed(Steps::new())] {
        let counter = Arc::new(DeviceBytes::default());
        let again = image.open_direct(&path, OpenMode::Read, &counter).unwrap();
        assert_eq!(again.direct_unit(), None);
    }
}

/// Writes two pieces and a tail, syncs, and reads them back.
fn work(disk: &FaultStorage) -> Result<Vec<u8>> {
    let counter = Arc::new(DeviceBytes::default());
    let path = Path::new("/a");
    let file = disk.open_direct(path, OpenMode::CreateNew, &counter)?;
    for (index, byte) in [1_u8, 2].into_iter().enumerate() {
        let mut memory = Memory::filled(2 * UNIT, byte);
        file.write_at(memory.at(2 * UNIT, 0), (index * 2 * UNIT) as u64)?;
    }
    file.write_tail(&[3; 10], 4 * UNIT as u64)?;
    file.sync(SITE)?;
    let file = disk.open_direct(path, OpenMode::Read, &counter)?;
    let mut memory = Memory::filled(5 * UNIT, 0);
    let n = file.read_at(memory.at(5 * UNIT, 0), 0)?;
    Ok(memory.at(n, 0).to_vec())
}

#[test]
fn every_fault_at_every_call_is_what_it_says_and_never_a_misaligned_transfer() {
    let expected = [vec![1; 2 * UNIT], vec![2; 2 * UNIT], vec![3; 10]].concat();
    let fresh = || FaultStorage::over_sim(SimFs::new(Steps::new()));
    let counted = fresh();
    assert!(work(&counted).unwrap() == expected);
    assert_eq!(counted.calls_of(Op::Write), 3);
    let faults = [
        Fault::Eio,
        Fault::ShortWrite(0),
        Fault::ShortWrite(5),
        Fault::ShortWrite(UNIT + 700),
        Fault::NoSpace,
        Fault::ShortRead(700),
        Fault::FlipBit(33_333),
        Fault::LostWrite,
        Fault::Misdirected(UNIT as u64),
        Fault::Misdirected(513),
        Fault::SyncKept,
        Fault::SyncDropped,
    ];
    let mut runs = 0;
    for fault in faults {
        for at in 0..counted.calls_for(fault, None) {
            for repeat in [Repeat::Once, Repeat::Forever] {
                let disk = fresh();
                disk.arm(Plan {
                    fault,
                    op: None,
                    at,
                    repeat,
                });
                let answer = work(&disk);
                assert!(disk.fired() > 0);
                let context = format!("{fault:?} at call {at}, {repeat:?}");
                match (fault, answer) {
                    // Silent ones: no error, and no other bytes than were written somewhere.
                    (Fault::ShortRead(n), Ok(bytes)) => assert!(bytes == expected[..n]),
                    (Fault::FlipBit(_), Ok(bytes)) => assert!(bytes != expected, "{context}"),
                    (Fault::LostWrite, Ok(bytes)) => assert!(bytes != expected, "{context}"),
                    (Fault::Misdirected(by), Ok(bytes)) => {
                        // By less than a unit is by nothing.
                        assert_eq!(bytes == expected, by < UNIT as u64, "{context}");
                    }
                    (_, Ok(_)) => panic!("{context} is not reported"),
                    (_, Err(error)) => {
                        let text = error.to_string();
                        assert!(!text.contains("multiples of"), "{context}: {text}");
                    }
                }
                runs += 1;
            }
        }
    }
    assert!(runs > 60, "{runs}");
}

#[test]
fn space_that_ends_anywhere_leaves_whole_units_and_an_error() {
    for (room, below) in (0..17_000)
        .step_by(1111)
        .flat_map(|n| [(n, false), (n, true)])
    {
        let sim = SimFs::new(Steps::new());
        let disk = FaultStorage::over_sim(sim.clone());
        match below {
            false => disk.limit_space(room),
            true => sim.limit(room),
        }
        let answer = work(&disk);
        let left = sim.contents(Path::new("/a")).unwrap().len();
        let total = 4 * UNIT + 10;
        if room >= total as u64 {
            assert_eq!((answer.is_ok(), left), (true, total));
        } else {
            let text = answer.unwrap_err().to_string();
            assert!(text.contains("No space left"), "{text}");
            assert!(left.is_multiple_of(UNIT) || left > 4 * UNIT, "{left}");
        }
    }
}
