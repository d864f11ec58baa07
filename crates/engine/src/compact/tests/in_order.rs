//! Values in blob files, as jobs read them.

use std::sync::{OnceLock, Weak};

use thermocline_base::{BlobRef, Result};
use thermocline_catalog::Catalog;
use thermocline_env::File;
use thermocline_env::hooks::{Hooked, Hooks};
use thermocline_sst::BlobWriter;
use thermocline_tables::{TableFiles, ValuesInOrder};
use thermocline_version::FileKind;

use super::*;
use crate::sync::{Mutex, lock};

const CF: CfId = CfId::DEFAULT;

/// Writes eight values into a blob file.
fn write_values(catalog: &Catalog, round: u8) -> Vec<([u8; 2], Vec<u8>, BlobRef)> {
    let files = &*catalog.table_files;
    let file = catalog.pin_file(FileKind::Blob).unwrap();
    let (path, identity) = (files.blob_path(file), files.identity(file));
    let mut writer = BlobWriter::create(&*files.blob_storage, &path, identity).unwrap();
    let append = |n: u8| {
        let (key, value) = ([round, n], vec![n; 1000]);
        let blob = writer.append(CF, &key, &value).unwrap();
        (key, value, blob)
    };
    let written = (0..8).map(append).collect();
    writer.finish().unwrap();
    written
}

/// Its last piece would be charged until the job ends, and it would have a share of what those have that are read.
#[test]
fn a_file_of_which_the_last_value_was_read_keeps_no_piece() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &tiny());
    let catalog = &engine.inner.common.catalog;
    let files = &*catalog.table_files;
    let meter = engine.inner.common.meter();
    let values = ValuesInOrder::new(files, CF, &meter);
    for round in 0..3u8 {
        let written = write_values(catalog, round);
        // The job may come back to it.
        for _ in 0..2 {
            for (n, (key, value, blob)) in written.iter().enumerate() {
                assert_eq!(values.read(key, *blob).unwrap(), *value);
                let has_piece = (1..7).contains(&n);
                assert_eq!(values.memory() > 0, has_piece, "{round} {n}");
            }
        }
    }
}

/// Notes at each read of a file whether it leaves no room for reads of jobs, where one may be under way.
#[derive(Debug, Default)]
struct Counting {
    files: OnceLock<Weak<TableFiles>>,
    noted: Mutex<Vec<bool>>,
}

impl Hooks for Counting {
    fn read_at(&self, file: &dyn File, buf: &mut [u8], offset: u64) -> Result<usize> {
        if let Some(files) = self.files.get().and_then(Weak::upgrade) {
            lock(&self.noted).push(!files.reader().has_room(1));
        }
        file.read_at(buf, offset)
    }
}

/// Those of values, too, that are read alone.
#[test]
fn reads_of_values_count_among_those_of_jobs() {
    let machine = Machine::new(PM);
    let hooks = Arc::new(Counting::default());
    let mut world = machine.world();
    world.env.storage = Hooked::new(world.env.storage, hooks.clone());
    let engine = Engine::open(world, Path::new("/db"), tiny()).unwrap();
    let catalog = &engine.inner.common.catalog;
    let meter = engine.inner.common.meter();
    let values = ValuesInOrder::new(&catalog.table_files, CF, &meter);
    let written = write_values(catalog, 0);
    let files = Arc::downgrade(&catalog.table_files);
    hooks.files.set(files).unwrap();
    for (key, value, blob) in written.iter().take(3) {
        assert_eq!(values.read(key, *blob).unwrap(), *value);
        let noted = std::mem::take(&mut *lock(&hooks.noted));
        // The first is read alone, and the file is opened for it. Those behind it come in a piece.
        assert!(noted.is_empty() || noted.contains(&true), "{key:?}");
        assert!(!noted.is_empty() || values.memory() > 0, "{key:?}");
    }
}
