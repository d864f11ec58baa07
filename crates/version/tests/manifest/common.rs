//! What the tests of the manifest share: a folder, and edits that can be.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::{CfId, FileId, KeyRange, PmFamily, PmTableMeta, SeqNo, Steps};
use thermocline_env::Storage;
use thermocline_env::sim::SimFs;
use thermocline_env::simulated::SeededRandom;
use thermocline_version::{
    BlobBytes, Change, Level, NextIds, Place, PmTableInfo, State, TableRef, VersionEdit,
};

pub const DB_ID: [u8; 16] = *b"0123456789abcdef";
pub const REGION_ID: [u8; 16] = *b"fedcba9876543210";

pub fn dir() -> &'static Path {
    Path::new("/db")
}

/// A file system with the empty folder.
pub fn fresh() -> SimFs {
    let fs = SimFs::new(Steps::new());
    fs.create_dir_all(dir()).unwrap();
    fs
}

pub fn storage(fs: &SimFs) -> Arc<dyn Storage> {
    Arc::new(fs.clone())
}

/// The edit that creates a database.
pub fn created() -> VersionEdit {
    VersionEdit::new()
        .with(Change::Created {
            db_id: DB_ID,
            region_id: REGION_ID,
        })
        .with(Change::Options(vec![("pm".into(), "4 GiB".into())]))
        .with(Change::ColumnFamilyCreated {
            id: 0,
            name: "default".into(),
        })
}

/// A random edit of one to three changes that `state` takes.
pub fn next_edit(state: &State, random: &SeededRandom) -> VersionEdit {
    let mut after = state.clone();
    let mut edit = VersionEdit::new();
    for _ in 0..=random.below(3) {
        // Some guesses are refused: seqnos that go back, a drop before its cut. The law of age looks at
        // an edit as a whole.
        (edit, after) = loop {
            let longer = edit.clone().with(next_change(&after, random));
            let mut next = state.clone();
            if next.apply(&longer).is_ok() {
                break (longer, next);
            }
        };
    }
    edit
}

fn any<T: Copy>(of: &[T], random: &SeededRandom) -> Option<T> {
    let index = random.below(of.len().max(1) as u64);
    of.get(usize::try_from(index).unwrap()).copied()
}

fn next_change(state: &State, random: &SeededRandom) -> Change {
    let next = state.next_ids();
    let memtables: Vec<u64> = state.memtables().keys().copied().collect();
    let uncut: Vec<(u64, u64)> = state
        .chains()
        .filter(|(_, chain)| chain.cut.is_none())
        .map(|(_, chain)| (chain.id, chain.base_seqno))
        .collect();
    let families: Vec<u16> = state
        .families()
        .keys()
        .copied()
        .filter(|id| *id > 0)
        .collect();
    let lot = random.below(16);
    let change = match lot {
        0 | 1 => u16::try_from(next.cf).ok().map(|id| {
            let filler = "n".repeat(usize::try_from(random.below(200)).unwrap());
            let name = format!("cf-{id}-{filler}");
            Change::ColumnFamilyCreated { id, name }
        }),
        2 => any(&families, random).map(|id| Change::ColumnFamilyDropped { id }),
        3 | 4 => any(&memtables, random).map(|memtable| Change::ChainOpened {
            chain: next.chain + random.below(2),
            memtable,
            incarnation: next.incarnation.saturating_sub(1) + u32::from(random.below(2) == 1),
            nonce: random.next_u64(),
            base_seqno: random.below(3) * 1000,
            start: (random.below(2) == 1).then(|| random.below(1 << 40)),
        }),
        5 => any(&uncut, random).map(|(chain, base)| Change::ChainCut {
            chain,
            last_seqno: base + random.below(1000),
            end: random.next_u64(),
        }),
        6 => any(&memtables, random).map(|id| Change::MemtableDropped { id }),
        7 => Some(Change::NextIds(NextIds {
            chain: next.chain + random.below(3),
            ..next
        })),
        8 if random.below(2) == 0 => any(&families, random).map(|id| {
            let value = random.below(2) == 1;
            Change::ColumnFamilyOptions {
                id,
                options: vec![("reverse".into(), value.to_string())],
            }
        }),
        8 => {
            let value = random.below(1000).to_string();
            Some(Change::Options(vec![("memtable.bytes_max".into(), value)]))
        }
        9 => None,
        _ => file_change(state, random),
    };
    change.unwrap_or(Change::MemtableCreated {
        id: next.memtable + random.below(2),
    })
}

/// A guess at a change of tables or blob files. Of removals there are enough for the number of
/// files to stay small.
fn file_change(state: &State, random: &SeededRandom) -> Option<Change> {
    let next = state.next_ids();
    let version = state.version();
    let file = FileId(random.below(next.file.max(1)));
    let tables: Vec<Change> = version
        .tables()
        .map(|(place, table)| Change::table_removed(place, table))
        .collect();
    let blobs: Vec<FileId> = version.blob_files().map(|(file, _)| file).collect();
    let nth = usize::try_from(random.below(tables.len().max(1) as u64)).unwrap();
    match random.below(8) {
        0 => Some(Change::NextIds(NextIds {
            file: next.file + 1 + random.below(4),
            ..next
        })),
        1 | 2 => Some(Change::TableAdded {
            place: Place::new(CfId(0), Level(u8::try_from(random.below(3)).unwrap())),
            table: Arc::new(some_table(file, &blobs, random)),
        }),
        3 => tables.get(nth).cloned(),
        4 => Some(Change::BlobFileAdded {
            file,
            bytes: random.below(1 << 30),
        }),
        5 => any(&blobs, random).map(|file| Change::BlobFileRemoved { file }),
        6 => Some(Change::PmTableAdded {
            table: Arc::new(some_pm_table(file, next.chain, random)),
        }),
        _ => {
            let all: Vec<_> = version
                .pm_tables()
                .map(|(table, _)| table.clone())
                .collect();
            let nth = usize::try_from(random.below(all.len().max(1) as u64)).unwrap();
            let table = all.get(nth)?;
            Some(match random.below(3) {
                0 => Change::PmTableRemoved { file: table.file },
                _ => Change::TableAdded {
                    place: Place::new(CfId(0), Level::ZERO),
                    table: Arc::new(reference_to(table)),
                },
            })
        }
    }
}

fn some_pm_table(file: FileId, owner: u64, random: &SeededRandom) -> PmTableInfo {
    let seqno = random.below(1000);
    let seqnos = (SeqNo(seqno), SeqNo(seqno + random.below(100)));
    PmTableInfo {
        file,
        meta: PmTableMeta {
            owner: owner.saturating_sub(1 + random.below(3)),
            zones: 1,
            zone_bytes: 16 << 10,
            bytes: 4096,
            entries: 10,
            range_tombstones: 1,
            seqnos,
            families: vec![PmFamily {
                cf: CfId(0),
                entries: 10,
                deletes: 1,
                merges: 0,
                range_tombstones: 1,
                key_bytes: 100,
                value_bytes: 1000,
                seqnos,
                range: KeyRange::until(format!("key{}", random.below(500)).into(), "key999".into()),
            }],
            blobs: vec![],
        },
    }
}

fn reference_to(table: &PmTableInfo) -> TableRef {
    let family = &table.meta.families[0];
    TableRef {
        file: table.file,
        file_bytes: table.meta.bytes,
        bytes: table.meta.bytes,
        entries: family.entries + family.range_tombstones,
        deletes: family.deletes + family.range_tombstones,
        range: family.range.owned(),
        limited_below: false,
        limited_above: false,
        smallest_seqno: family.seqnos.0,
        largest_seqno: family.seqnos.1,
        blobs: vec![],
    }
}

fn some_table(file: FileId, blobs: &[FileId], random: &SeededRandom) -> TableRef {
    let key = |random: &SeededRandom| format!("key{}", random.below(1000));
    let (a, b) = (key(random), key(random));
    let seqno = random.below(1000);
    let blob = any(blobs, random).map(|file| BlobBytes {
        file,
        bytes: random.below(1 << 20),
    });
    let limited_below = random.below(4) == 0;
    let file_bytes = 4096 + file.0;
    TableRef {
        file,
        file_bytes,
        bytes: if limited_below {
            file_bytes / 2
        } else {
            file_bytes
        },
        entries: 100 + random.below(100),
        deletes: random.below(100),
        range: KeyRange::inclusive(a.clone().min(b.clone()), a.max(b)).owned(),
        limited_below,
        limited_above: false,
        smallest_seqno: SeqNo(seqno),
        largest_seqno: SeqNo(seqno + random.below(100)),
        blobs: blob.into_iter().collect(),
    }
}
