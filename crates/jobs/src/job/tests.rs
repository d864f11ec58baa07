use std::path::Path;

use thermocline_base::{FileId, Steps};
use thermocline_compaction::output::OutputOptions;
use thermocline_env::sim::SimFs;
use thermocline_sst::{Identity, WriteOptions};
use thermocline_version::{Level, Place};

use super::*;
use crate::sink::FileSink;

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
        cf: CfId::DEFAULT,
        cutter: Cutter::new(OutputOptions::default(), vec![], vec![]),
        // Somebody reads below all of them: they stay.
        moments: Moments::new(vec![], SeqNo::ZERO),
        tombstones,
        below: RangesBelow::default(),
        settled: SeqNo::MAX,
        exists: &|_, _| true,
        prefixes: None,
        counting: None,
        operator: None,
        filter,
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
