use std::cell::Cell;
use std::path::{Path, PathBuf};

use thermocline_base::{FileId, Steps};
use thermocline_compaction::output::OutputOptions;
use thermocline_env::sim::SimFs;
use thermocline_sst::{Identity, WriteOptions};
use thermocline_version::{Level, Place};

use super::*;
use crate::sink::FileSink;

/// Of these range tombstones. Somebody reads below all of them: they stay.
fn recipe_of(tombstones: Vec<RangeTombstone>, options: OutputOptions) -> Recipe<'static> {
    Recipe {
        cf: CfId::DEFAULT,
        cutter: Cutter::new(options, vec![], vec![]),
        moments: Moments::new(vec![], SeqNo::ZERO),
        tombstones,
        below: RangesBelow::default(),
        settled: SeqNo::MAX,
        exists: &|_, _| true,
        prefixes: None,
        counting: None,
        operator: None,
        filter: None,
    }
}

/// Bytes of DRAM that a job of these range tombstones and no records takes.
fn memory_of(tombstones: Vec<RangeTombstone>, filter: Option<Filter<'_>>) -> u64 {
    let fs = SimFs::new(Steps::new());
    let next = || -> Result<_> {
        let identity = Identity::new([7; 16], FileId(1));
        Ok((Path::new("/a").to_path_buf(), identity))
    };
    let place = Place::new(CfId::DEFAULT, Level(1));
    let mut sink = FileSink::elsewhere(&fs, &next, place, WriteOptions::default());
    let recipe = Recipe {
        filter,
        ..recipe_of(tombstones, OutputOptions::default())
    };
    let job = Job::new(vec![], recipe, &mut sink).unwrap();
    job.memory()
}

#[test]
fn range_tombstones_and_what_a_filter_reads_count_in_what_a_job_takes() {
    let tombstones = (0..100u8).map(|n| RangeTombstone {
        start: vec![n; 1000],
        end: vec![n + 1; 1000],
        seqno: SeqNo(1000 - u64::from(n)),
    });
    let none = memory_of(vec![], None);
    let with = memory_of(tombstones.collect(), None);
    // Given, kept, and to be written.
    assert!(with >= none + 3 * 200_000, "{none}, {with}");
    let filter = Filter {
        expired: None,
        filter: None,
        seen: None,
        level: 1,
        read: &|_, _| Ok(Vec::new()),
        memory: &|| 4711,
    };
    assert_eq!(memory_of(vec![], Some(filter)), none + 4711);
}

/// What a job of these range tombstones and no records makes. Its sink has enough when an edit has so many bytes of its tables.
fn made_of(tombstones: Vec<RangeTombstone>, options: OutputOptions, names_max: u64) -> Outputs {
    let fs = SimFs::new(Steps::new());
    let files = Cell::new(0);
    let next = || -> Result<_> {
        files.set(files.get() + 1);
        let identity = Identity::new([7; 16], FileId(files.get()));
        Ok((PathBuf::from(format!("/{}", files.get())), identity))
    };
    let place = Place::new(CfId::DEFAULT, Level(1));
    let sink = FileSink::elsewhere(&fs, &next, place, WriteOptions::default());
    let (mut sink, mut outputs) = (sink.naming(names_max), Outputs::default());
    let mut job = Job::new(vec![], recipe_of(tombstones, options), &mut sink).unwrap();
    assert_eq!(job.step(&mut outputs).unwrap(), Step::Done);
    outputs
}

/// One edit names all that a job makes, and what goes into persistent memory has a promise. A broken job writes on, as long as no record
/// comes: then the edit is too long, or the promise too small, and so they are whenever the job is tried again.
#[test]
fn a_job_that_has_enough_ends_among_range_tombstones() {
    let apart = [b"ab", b"cd", b"ef"].map(|ends| RangeTombstone {
        start: vec![ends[0]],
        end: vec![ends[1]],
        seqno: SeqNo(5),
    });
    // A table has one of them.
    let small = OutputOptions {
        target_bytes: 1,
        ..OutputOptions::default()
    };
    for (names_max, ended_at, tables) in [(1, Some(&b"c"[..]), 1), (u64::MAX, None, 3)] {
        let outputs = made_of(apart.to_vec(), small, names_max);
        assert_eq!(outputs.ended_at.as_deref(), ended_at);
        assert_eq!(outputs.count(), tables);
    }
    // They lie over each other, and a table has room for some of their ends.
    let end = |n: u8| [&[250 - n][..], &[b'k'; 65_000]].concat();
    let nested = (0..100).map(|n| RangeTombstone {
        start: vec![n],
        end: end(n),
        seqno: SeqNo(1 + u64::from(n)),
    });
    let outputs = made_of(nested.collect(), OutputOptions::default(), 1);
    let ended_at = outputs.ended_at.as_deref();
    assert!(ended_at.is_some_and(|at| (150..250).contains(&at[0])));
    assert_eq!(outputs.count(), 1);
}
