use std::cell::Cell;
use std::path::{Path, PathBuf};

use thermocline_base::{FileId, SeqNo, Steps};
use thermocline_compaction::output::OutputOptions;
use thermocline_env::sim::SimFs;
use thermocline_env::{OpenMode, Storage};
use thermocline_sst::{Identity, TablePart, WriteOptions, open_table, table_name};
use thermocline_testkit::Rng;
use thermocline_version::{Level, Place};

use super::*;
use crate::sink::FileSink;

fn path(file: FileId) -> PathBuf {
    Path::new("/db").join(table_name(file))
}

fn identity(file: FileId) -> Identity {
    Identity::new([7; 16], file)
}

fn key(n: u8) -> Vec<u8> {
    [&[n][..], &[b'k'; 65_000]].concat()
}

/// More range tombstones than a table has room for, each within the one before: so they come of memtables that were flushed one after the
/// other, or of one that a snapshot was taken of before each of them. A broken engine writes all their ends into the last
/// table, which refuses them; what was to be flushed or compacted fails for as long as they are there.
#[test]
fn tables_end_where_range_tombstones_do_that_lie_over_each_other() {
    let fs = SimFs::new(Steps::new());
    fs.create_dir_all(Path::new("/db")).unwrap();
    let made = Cell::new(0);
    let next = || -> Result<_> {
        made.set(made.get() + 1);
        let file = FileId(made.get());
        Ok((path(file), identity(file)))
    };
    let place = Place::new(CfId::DEFAULT, Level(1));
    let mut sink = FileSink::elsewhere(&fs, &next, place, WriteOptions::default());
    let cutter = Cutter::new(OutputOptions::default(), vec![], vec![]);
    let mut writing = Writing::new(CfId::DEFAULT, cutter, &mut sink);
    let mut outputs = Outputs::default();
    for n in 0..100 {
        let tombstone = RangeTombstone {
            start: key(n),
            end: key(250 - n),
            seqno: SeqNo(1 + u64::from(n)),
        };
        writing.begin_tombstone(tombstone, &mut outputs).unwrap();
    }
    // An entry among the ends.
    let at = key(200);
    writing.go_to(&at, &mut outputs).unwrap();
    let put = KeyRef::new(&at, SeqNo(500));
    let value = Value::Inline(b"v");
    writing.add(put, Kind::Put, value, &mut outputs).unwrap();
    writing.finish(&mut outputs).unwrap();
    let apart = outputs.tables.windows(2).all(|two| {
        let [(_, before), (_, behind)] = two else {
            return false;
        };
        before.range.ends_before(&behind.range.first)
    });
    assert!(apart);
    // Not one for each key.
    assert!(
        (5..20).contains(&outputs.tables.len()),
        "{}",
        outputs.tables.len()
    );
    let tables = outputs.tables.iter().map(|(_, table)| {
        let file = fs.open(&path(table.file), OpenMode::Read).unwrap();
        TablePart::whole(open_table(&*file, identity(table.file)).unwrap())
    });
    let tables: Vec<TablePart> = tables.collect();
    for n in 0..=u8::MAX {
        let key = key(n);
        let over = tables
            .iter()
            .filter_map(|table| table.covering(&key, SeqNo(1000)));
        let newest = over.map(|tombstone| tombstone.seqno.0).max();
        let expected = match u64::from(n) {
            n @ ..100 => Some(1 + n),
            100..=150 => Some(100),
            n @ 151..250 => Some(250 - n),
            _ => None,
        };
        assert_eq!(newest, expected, "{n}");
    }
}

/// What is kept of the ends comes to the same as a look at all range tombstones, which each key would cost.
#[test]
fn what_is_kept_of_ends_is_what_all_range_tombstones_say() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let begin = rng.one_in(2).then(|| vec![10u8]);
        let begin = begin.as_deref();
        let (mut all, mut ends) = (Vec::<RangeTombstone>::new(), Ends::default());
        for at in 10..120u8 {
            let key = [at];
            ends.pass(&key);
            let ended = all.iter().filter(|t| t.end[..] <= key[..]);
            let starts = all.iter().map(|t| match begin {
                Some(begin) if *t.start <= *begin => 0,
                _ => t.start.len(),
            });
            let beside: usize = starts.map(|len| BESIDE_KEYS + len).sum();
            let bytes: usize = ended.map(|t| t.end.len() + KEY_LEN_MAX).sum();
            assert_eq!(ends.bytes(), beside + bytes + 2 * KEY_LEN_MAX);
            let to = [at + u8::try_from(rng.below(30)).unwrap()];
            let to = rng.one_in(2).then_some(&to[..]);
            let ahead = all.iter().map(|t| &t.end[..]).filter(|end| *end > &key[..]);
            let next = ahead.filter(|end| to.is_none_or(|to| *end < to)).min();
            assert_eq!(ends.next(Some(&key), to), next);
            for _ in 0..rng.below(4) {
                let end = at + 1 + u8::try_from(rng.below(40)).unwrap();
                let tombstone = RangeTombstone {
                    start: vec![at; 1 + rng.below(3)],
                    end: vec![end; 1 + rng.below(9)],
                    seqno: SeqNo(1),
                };
                ends.add(&tombstone, begin);
                all.push(tombstone);
            }
        }
        let ahead = all.iter().filter(|t| t.end[..] > [119][..]);
        assert_eq!(ends.ahead_bytes, ahead.map(|t| t.end.len()).sum::<usize>());
    }
}
