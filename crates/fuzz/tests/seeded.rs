//! Every target, many times, on inputs made from seeds. Prints how often each ran and how it went.
//!
//! `THERMOCLINE_SEED` replays one seed. `THERMOCLINE_EXPLORE` makes the runs more: the first ones are the same.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thermocline_base::Site;
use thermocline_base::checksum::hash64;
use thermocline_base::planted::{Bug, plant};
use thermocline_env::{Env, OpenMode};
use thermocline_fuzz::memory::{Counting, measure};
use thermocline_fuzz::mutate::damaged;
use thermocline_fuzz::{Answer, MEMORY_MAX, SEAL, Target, target, targets};
use thermocline_testkit::explore::explored;
use thermocline_testkit::{Rng, seeds};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Keeps the input of a run that panics, and says how to repeat it.
struct Kept<'a> {
    target: &'a Target,
    seed: u64,
    input: &'a [u8],
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let (name, seed) = (self.target.name, self.seed);
        eprintln!("THERMOCLINE_SEED={seed} cargo test -p thermocline-fuzz --test seeded {name}");
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{seed}"));
        let env = Env::real();
        // That of an earlier run.
        let _ = env.storage.remove(&path);
        let kept = env
            .storage
            .open(&path, OpenMode::CreateNew)
            .and_then(|file| {
                file.write_at(self.input, 0)?;
                file.sync(Site("fuzz: input kept"))
            });
        match kept {
            Ok(()) => eprintln!(
                "its input is {}; once this is mended, move it to regressions/{name}/",
                path.display()
            ),
            Err(error) => eprintln!("its input could not be kept: {error}"),
        }
    }
}

/// The input of a seed.
fn input_of(target: &Target, samples: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let mut rng =
        Rng::new(hash64(target.name.as_bytes()) ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    damaged(&mut rng, samples)
}

/// Runs the target once; whether what it read is right.
fn run(target: &Target, input: &[u8], answers: Option<&BTreeSet<u64>>) -> (Answer, usize) {
    let (answer, memory) = measure(|| (target.run)(input));
    assert!(memory < MEMORY_MAX, "it took {memory} bytes of memory");
    if let (Answer::Read(digest), Some(answers)) = (answer, answers)
        && input[0] & SEAL == 0
    {
        assert!(
            answers.contains(&digest),
            "damaged, it reads as something else"
        );
    }
    (answer, memory)
}

fn drive(name: &str) {
    let target = target(name).expect("there is one");
    let samples = (target.samples)();
    let first = (target.run)(&samples[0]);
    assert!(
        matches!(first, Answer::Read(_)),
        "the first sample is refused"
    );
    let answers = target.answers();
    let now = AtomicU64::new(u64::MAX);
    let (mut runs, mut read, mut sealed, mut most) = (0, 0, 0, 0);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| watch(name, &now));
        let _done = Done(&now, watch.thread());
        for seed in seeds(0..explored(target.runs / 24, target.runs / 3)) {
            let input = input_of(target, &samples, seed);
            let _kept = Kept {
                target,
                seed,
                input: &input,
            };
            // The watcher only looks whether it moves.
            now.store(seed, Ordering::Relaxed);
            let (answer, memory) = run(target, &input, answers.as_ref());
            runs += 1;
            most = most.max(memory);
            if answer != Answer::Refused {
                read += 1;
                sealed += u64::from(input[0] & SEAL);
            }
        }
    });
    println!(
        "fuzz: {name}: {runs} executions, {} refused, {read} read, {sealed} of these sealed anew; \
         at most {} KiB of memory",
        runs - read,
        most >> 10
    );
    assert!(
        runs < 1000 || (read > runs / 100 && runs - read > runs / 100),
        "it tells nothing apart"
    );
}

const DONE: u64 = u64::MAX - 1;

/// Ends the watch, also where a run panics.
struct Done<'a>(&'a AtomicU64, &'a std::thread::Thread);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(DONE, Ordering::Relaxed);
        self.1.unpark();
    }
}

/// Says which seed it is that does not end: nothing fails by it.
fn watch(name: &str, now: &AtomicU64) {
    let mut last = u64::MAX;
    loop {
        std::thread::park_timeout(Duration::from_secs(60));
        match now.load(Ordering::Relaxed) {
            DONE => return,
            seed if seed == last => eprintln!(
                "still at it: THERMOCLINE_SEED={seed} cargo test -p thermocline-fuzz --test seeded \
                 {name}"
            ),
            seed => last = seed,
        }
    }
}

macro_rules! driven {
    ($($name:ident)*) => {
        $(#[test] fn $name() { drive(stringify!($name)); })*

        #[test]
        fn every_target_is_driven() {
            let driven = [$(stringify!($name)),*];
            let all: Vec<&str> = targets::ALL.iter().map(|target| target.name).collect();
            assert_eq!(all, driven);
        }
    };
}

driven!(table blobs pm_table manifest edit current items log region names options backup note store api);

/// What once failed, as it was found, and with and without checksums made right.
#[test]
fn inputs_that_failed_once() {
    let env = Env::real();
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let mut count = 0;
    for target in targets::ALL {
        let dir = root.join(target.name);
        if !env
            .storage
            .is_dir(&dir)
            .expect("the folder can be looked at")
        {
            continue;
        }
        let answers = target.answers();
        for name in env.storage.list(&dir).expect("the folder can be read") {
            let file = env.storage.open(&dir.join(&name), OpenMode::Read).unwrap();
            let mut input = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
            file.read_exact_at(&mut input, 0).unwrap();
            println!("{} {name}", target.name);
            run(target, &input, answers.as_ref());
            input[0] ^= SEAL;
            run(target, &input, answers.as_ref());
            count += 1;
        }
    }
    println!("fuzz: {count} inputs that failed once");
}

/// Whether a target fails on one of so many seeds while the bug is planted.
fn is_caught(name: &str, bug: Bug, runs: u64) -> bool {
    let target = target(name).expect("there is one");
    let samples = (target.samples)();
    let answers = target.answers();
    let _planted = plant(bug);
    (0..runs).any(|seed| {
        let input = input_of(target, &samples, seed);
        let once = || run(target, &input, answers.as_ref());
        let caught = catch_unwind(AssertUnwindSafe(once)).is_err();
        if caught {
            println!("fuzz: {name} catches {bug:?} with seed {seed}");
        }
        caught
    })
}

#[test]
fn planted_bugs_are_caught() {
    for (name, bug, runs) in [
        ("table", Bug::SkipBlockChecksum, 5000),
        ("table", Bug::PartLeaksBehindLimit, 5000),
        ("blobs", Bug::SkipBlockChecksum, 5000),
        ("pm_table", Bug::SkipGroupChecksum, 5000),
        ("items", Bug::CutBelowPublished, 5000),
        ("log", Bug::SkipFrameChecksum, 5000),
        ("items", Bug::WalkAcceptsGap, 5000),
        ("store", Bug::SkipBlockChecksum, 3000),
        ("api", Bug::DropUnrecorded, 1000),
    ] {
        assert!(is_caught(name, bug, runs), "{name} does not catch {bug:?}");
    }
}
