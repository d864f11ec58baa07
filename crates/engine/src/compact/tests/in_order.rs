//! Values in blob files, as jobs read them.

use thermocline_sst::BlobWriter;
use thermocline_tables::ValuesInOrder;
use thermocline_version::FileKind;

use super::*;

const CF: CfId = CfId::DEFAULT;

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
        let file = catalog.pin_file(FileKind::Blob).unwrap();
        let (path, identity) = (files.blob_path(file), files.identity(file));
        let mut writer = BlobWriter::create(&*files.blob_storage, &path, identity).unwrap();
        let written: Vec<_> = (0..8u8)
            .map(|n| {
                let (key, value) = ([round, n], vec![n; 1000]);
                let blob = writer.append(CF, &key, &value).unwrap();
                (key, value, blob)
            })
            .collect();
        writer.finish().unwrap();
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
