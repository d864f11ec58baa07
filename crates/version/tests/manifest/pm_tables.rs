//! The model of tables in persistent memory, and edits that make some.

use std::sync::Arc;

use proptest::prelude::*;
use thermocline_base::{CfId, FileId, KeyRange, PmBlob, PmFamily, PmTableMeta, SeqNo};
use thermocline_version::{BlobBytes, Change, Level, PartitionId, Place, PmTableInfo, TableRef};

use crate::tables::points_of;

/// Whether a table can be what it says, of that which is drawn here.
pub fn is_sound(table: &PmTableInfo) -> bool {
    let table = &table.meta;
    let families = &table.families;
    let sum = |of: fn(&PmFamily) -> u64| families.iter().map(of).sum::<u64>();
    table.zones > 0
        && table.bytes <= table.zone_bytes
        && families.is_sorted_by(|a, b| a.cf < b.cf)
        && families.iter().all(|f| !points_of(&f.range).is_empty())
        && families.iter().all(|f| f.deletes <= f.entries)
        && sum(|f| f.entries) == table.entries
        && table.seqnos.1.0 < 1 << 63
}

/// Whether a reference to the table may stand there, whatever else refers to it.
pub fn may_refer(table: &PmTableInfo, place: Place, to: &TableRef) -> bool {
    let Some(family) = table.meta.families.iter().find(|f| f.cf == place.cf) else {
        return false;
    };
    let blob = |of: &BlobBytes| {
        let mut own = table.meta.blobs.iter();
        own.any(|own| own.file == of.file && of.bytes <= own.bytes)
    };
    place.level == Level::ZERO
        && (to.smallest_seqno, to.largest_seqno) == family.seqnos
        && points_of(&to.range).is_subset(&points_of(&family.range))
        && to.blobs.iter().all(blob)
}

/// All of what a table has of its `n`th family.
pub fn reference(table: &PmTableInfo, n: usize) -> Change {
    let families = &table.meta.families;
    let family = &families[n % families.len()];
    let blobs = table.meta.blobs.iter().map(|blob| BlobBytes {
        file: blob.file,
        bytes: blob.bytes / 2,
    });
    Change::TableAdded {
        place: Place {
            cf: family.cf,
            partition: PartitionId::WHOLE,
            level: Level::ZERO,
        },
        table: Arc::new(TableRef {
            file: table.file,
            file_bytes: 50,
            bytes: 50,
            entries: family.entries,
            deletes: family.deletes,
            range: family.range.owned(),
            limited_below: false,
            limited_above: false,
            smallest_seqno: family.seqnos.0,
            largest_seqno: family.seqnos.1,
            blobs: blobs.collect(),
        }),
    }
}

/// Changes of tables in persistent memory. Most that are added are sound.
pub fn change() -> impl Strategy<Value = Change> {
    let families = prop::collection::btree_set(0u16..4, 1..3);
    let range = (b'a'..=b'd', 0u8..5, any::<bool>());
    let blobs = prop::collection::vec((0u64..8, 0u64..40), 0..2);
    let odd = prop_oneof![10 => Just(0), 1 => 1u8..5];
    let added = (0u64..10, 0u64..9, families, range, 0u64..12, (blobs, odd));
    let added = added.prop_map(
        |(file, owner, families, (first, more, open), seqno, (blobs, odd))| {
            let seqnos = (SeqNo(seqno), SeqNo(seqno + u64::from(more)));
            let family = |cf| PmFamily {
                cf: CfId(cf),
                entries: 5,
                deletes: if odd == 1 { 6 } else { 1 },
                merges: 0,
                range_tombstones: 0,
                key_bytes: 5,
                value_bytes: 50,
                seqnos,
                range: KeyRange {
                    first: vec![first],
                    last: vec![first + more],
                    open,
                },
            };
            let families: Vec<PmFamily> = families.into_iter().map(family).collect();
            let blob = |(file, bytes)| PmBlob {
                file: FileId(file),
                values: 1,
                bytes,
            };
            let table = PmTableInfo {
                file: FileId(file),
                meta: PmTableMeta {
                    owner,
                    zones: if odd == 2 { 0 } else { 1 },
                    zone_bytes: if odd == 3 { 99 } else { 4096 },
                    bytes: 100,
                    entries: 5 * families.len() as u64 + u64::from(odd == 4),
                    range_tombstones: 0,
                    seqnos,
                    families,
                    blobs: blobs.into_iter().map(blob).collect(),
                },
            };
            Change::PmTableAdded {
                table: Arc::new(table),
            }
        },
    );
    let removed = (0u64..10).prop_map(|file| Change::PmTableRemoved { file: FileId(file) });
    prop_oneof![3 => added, 1 => removed]
}
