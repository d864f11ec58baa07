//! Tables behind what a cursor is asked for.

use std::ops::Bound;

use thermocline_base::Codec;
use thermocline_memtable::Direction;

use super::*;

/// Tables before and behind the bounds are not opened: here they cannot be.
#[test]
fn tables_behind_a_bound_are_not_opened() {
    let mut home = Home::new();
    let compaction = &mut home.options.compaction;
    compaction.compression_level0 = Codec::None;
    compaction.compression = Codec::None;
    compaction.compression_last = Codec::None;
    let engine = home.open();
    load(&engine, 0..1000, 100);
    let tables = version_of(&engine);
    let mut tables: Vec<_> = tables.tables().map(|(_, table)| table.clone()).collect();
    tables.sort_by(|a, b| a.range.first.cmp(&b.range.first));
    assert!(tables.len() > 2, "{}", tables.len());
    let path = |n: usize| files(&engine).path(tables[n].file);
    let paths: Vec<_> = (0..tables.len()).map(path).collect();
    engine.close().unwrap();
    for asked in [0, tables.len() / 2, tables.len() - 1] {
        let whole: Vec<Vec<u8>> = paths.iter().map(|p| home.fs.contents(p).unwrap()).collect();
        for n in (0..tables.len()).filter(|n| *n != asked) {
            let damaged: Vec<u8> = whole[n].iter().map(|byte| byte ^ 0x55).collect();
            home.fs.install(&paths[n], &damaged);
        }
        let engine = home.open();
        let range = &tables[asked].range;
        let (low, high) = (
            Bound::Included(&*range.first),
            Bound::Included(&*range.last),
        );
        for (from, until, way) in [
            (low, high, Direction::Forward),
            (high, low, Direction::Reverse),
        ] {
            let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
            let mut seen = 0;
            let mut more = cursor.seek_within(from, until, way).unwrap();
            while more {
                seen += 1;
                more = cursor.step_within(until, way).unwrap();
            }
            assert_eq!(seen, tables[asked].entries, "{asked} {way:?}");
            // Who asks for more is told.
            let beyond = cursor.seek_within(from, Bound::Unbounded, way);
            assert!(beyond.unwrap());
            let mut more = Ok(true);
            while let Ok(true) = more {
                more = cursor.step_within(Bound::Unbounded, way);
            }
            let is_last = match way {
                Direction::Forward => asked == tables.len() - 1,
                Direction::Reverse => asked == 0,
            };
            assert_eq!(more.is_ok(), is_last, "{asked} {way:?}");
        }
        engine.close().unwrap();
        for (path, bytes) in paths.iter().zip(&whole) {
            home.fs.install(path, bytes);
        }
    }
}
