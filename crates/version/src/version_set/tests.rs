use thermocline_base::{CfId, KeyRange, PmFamily, PmTableMeta, SeqNo};

use super::*;
use crate::pm_table::PmTableInfo;
use crate::table::{BlobBytes, Level, Place, TableRef};

struct World {
    state: State,
    set: VersionSet,
}

impl World {
    fn new() -> World {
        let mut state = State::default();
        let first = VersionEdit::from(Change::Created {
            db_id: [1; 16],
            region_id: [2; 16],
        });
        let default = Change::ColumnFamilyCreated {
            id: 0,
            name: "default".into(),
        };
        state.apply(&first.with(default)).unwrap();
        let set = VersionSet::new(&state);
        let mut world = World { state, set };
        assert_eq!(world.set.pin_output(FileKind::Table), None);
        let reservation = world.set.reservation(&world.state, 20);
        world.install(reservation);
        world
    }

    fn install(&mut self, edit: impl Into<VersionEdit>) {
        let edit = edit.into();
        self.set.check(&edit).unwrap();
        self.state.apply(&edit).unwrap();
        self.set.install(&edit, &self.state);
    }

    fn written(&mut self) -> FileId {
        let file = self.set.pin_output(FileKind::Table).unwrap();
        self.install(added(file));
        self.set.unpin_output(file);
        file
    }
}

fn table(file: FileId) -> TableRef {
    TableRef {
        file,
        file_bytes: 10,
        bytes: 10,
        entries: 1,
        deletes: 0,
        range: KeyRange::inclusive("a", "b").owned(),
        limited_below: false,
        limited_above: false,
        smallest_seqno: SeqNo(file.0),
        largest_seqno: SeqNo(file.0),
        blobs: vec![],
    }
}

const PLACE: Place = Place {
    cf: CfId(0),
    partition: crate::table::PartitionId::WHOLE,
    level: Level::ZERO,
};

fn added(file: FileId) -> Change {
    let table = Arc::new(table(file));
    Change::TableAdded {
        place: PLACE,
        table,
    }
}

fn removed(file: FileId) -> Change {
    Change::table_removed(PLACE, &table(file))
}

#[test]
fn each_holder_keeps_the_files_of_its_version() {
    let mut world = World::new();
    let [one, two] = [world.written(), world.written()];
    let reader = Arc::clone(world.set.current());
    let hold = world.set.hold();
    world.install(removed(one));
    let later = Arc::clone(world.set.current());
    world.install(removed(two));
    assert_eq!((world.set.living(), world.set.holds()), (3, 1));
    assert_eq!(world.set.obsolete(), []);
    drop(reader);
    assert_eq!(world.set.obsolete(), [], "the checkpoint has it too");
    drop(hold);
    assert_eq!(world.set.obsolete(), [(one, FileKind::Table)]);
    drop(later);
    let both = [(one, FileKind::Table), (two, FileKind::Table)];
    assert_eq!(world.set.obsolete(), both);
    world.set.unlinked(one);
    assert_eq!(world.set.obsolete(), both[1..]);
    assert_eq!((world.set.living(), world.set.holds()), (1, 0));
}

#[test]
fn who_keeps_only_some_tables_keeps_their_blob_files_and_no_other_file() {
    let mut world = World::new();
    let [one, two] = [world.written(), world.written()];
    let blob = world.set.pin_output(FileKind::Blob).unwrap();
    world.install(Change::BlobFileAdded {
        file: blob,
        bytes: 5,
    });
    world.set.unpin_output(blob);
    let three = world.set.pin_output(FileKind::Table).unwrap();
    let refers = TableRef {
        blobs: vec![BlobBytes {
            file: blob,
            bytes: 5,
        }],
        ..table(three)
    };
    world.install(Change::TableAdded {
        place: PLACE,
        table: Arc::new(refers.clone()),
    });
    world.set.unpin_output(three);
    let version = Arc::clone(world.set.current());
    let kept = world.set.keep_only(&version, [&refers].into_iter());
    assert!(kept.tables_of(PLACE.cf).eq(version.tables_of(PLACE.cf)));
    drop(version);
    world.install(removed(one));
    world.install(Change::table_removed(PLACE, &refers));
    world.install(Change::BlobFileRemoved { file: blob });
    world.install(removed(two));
    let tables = [one, two].map(|file| (file, FileKind::Table));
    assert_eq!(world.set.obsolete(), tables);
    drop(kept);
    let rest = [(blob, FileKind::Blob), (three, FileKind::Table)];
    assert_eq!(world.set.obsolete(), [tables, rest].concat());
}

#[test]
fn an_output_is_no_prey_until_it_is_unpinned() {
    let mut world = World::new();
    let file = world.set.pin_output(FileKind::Table).unwrap();
    let found = [(file, FileKind::Table)];
    assert_eq!(world.set.obsolete(), []);
    assert_eq!(world.set.sweep(&found).unwrap(), []);
    // Named and removed again while it is pinned.
    world.install(added(file));
    world.install(removed(file));
    assert_eq!(world.set.obsolete(), []);
    world.set.unpin_output(file);
    assert_eq!(world.set.obsolete(), found);
    assert_eq!(world.set.sweep(&found).unwrap(), found);
}

#[test]
fn an_edit_names_only_files_that_are_named_or_pinned() {
    let mut world = World::new();
    let stranger = world.set.check(&added(FileId(9)).into()).unwrap_err();
    assert!(stranger.to_string().contains("file 9"), "{stranger}");
    let file = world.written();
    world
        .set
        .check(&VersionEdit::from(removed(file)).with(added(file)))
        .unwrap();
    world.install(removed(file));
    // Even while a reader or the folder has it.
    assert!(world.set.check(&added(file).into()).is_err());
    let blob = world.set.pin_output(FileKind::Blob).unwrap();
    assert!(
        world.set.check(&added(blob).into()).is_err(),
        "of another kind"
    );
    let edit = Change::BlobFileAdded {
        file: blob,
        bytes: 1,
    };
    world.set.check(&edit.into()).unwrap();
}

#[test]
fn after_a_failed_append_nothing_is_obsolete() {
    let mut world = World::new();
    let file = world.written();
    world.install(removed(file));
    assert_eq!(world.set.obsolete().len(), 1);
    let output = world.set.pin_output(FileKind::Table).unwrap();
    world.set.freeze();
    world.set.unpin_output(output);
    assert_eq!(world.set.obsolete(), []);
    let found = [(file, FileKind::Table), (output, FileKind::Table)];
    assert_eq!(world.set.sweep(&found).unwrap(), []);
}

#[test]
fn ids_are_handed_out_once_whatever_process_asks() {
    let mut world = World::new();
    let mut ids = Vec::new();
    while let Some(file) = world.set.pin_output(FileKind::Blob) {
        ids.push(file);
    }
    assert_eq!(ids, (1..=20).map(FileId).collect::<Vec<_>>());
    // Another process cannot know how many of them were used.
    let mut next = VersionSet::new(&world.state);
    assert_eq!(next.pin_output(FileKind::Table), None);
    let edit = next.reservation(&world.state, 5);
    world.state.apply(&edit).unwrap();
    next.install(&edit, &world.state);
    assert_eq!(next.pin_output(FileKind::Table), Some(FileId(21)));
    // A reservation knows of what else was counted meanwhile.
    let other = Change::MemtableCreated { id: 7 };
    world.state.apply(&other.into()).unwrap();
    let edit = next.reservation(&world.state, 5);
    world.state.apply(&edit).unwrap();
    assert_eq!(world.state.next_ids().file, 31);
}

/// Whoever needs a number reserves some until there is one. Where there are none any more he hears that, and does not try for ever.
#[test]
fn behind_the_last_number_nothing_is_reserved() {
    let mut world = World::new();
    let last = NextIds {
        file: (1 << 63) - 1,
        ..world.state.next_ids()
    };
    world.install(Change::NextIds(last));
    let mut set = VersionSet::new(&world.state);
    assert_eq!(set.pin_output(FileKind::Table), None);
    let edit = set.reservation(&world.state, 5);
    let error = world.state.apply(&edit).unwrap_err().to_string();
    assert!(error.contains("next file id"), "{error}");
}

#[test]
fn an_open_unlinks_what_nobody_names_unless_something_is_missing() {
    let mut world = World::new();
    let [one, two] = [world.written(), world.written()];
    let half = world.set.pin_output(FileKind::Table).unwrap();
    world.install(removed(two));
    let mut set = VersionSet::new(&world.state);
    let of = |files: &[FileId]| -> Vec<(FileId, FileKind)> {
        files.iter().map(|file| (*file, FileKind::Table)).collect()
    };
    let stranger = FileId(21);
    assert_eq!(
        set.sweep(&of(&[stranger, half, one, two])).unwrap(),
        of(&[two, half])
    );
    // What is not unlinked at once is obsolete like others.
    assert_eq!(set.obsolete(), []);
    set.left_by_sweep(&of(&[two, half]));
    assert_eq!(set.obsolete(), of(&[two, half]));
    set.unlinked(two);
    assert_eq!(set.obsolete(), of(&[half]));
    let error = set.sweep(&of(&[two, half])).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("corruption in 000001.sst at offset 0: a file that the manifest names"),
        "{error}"
    );
    // As is one of that number that is something else.
    let other = [(one, FileKind::Blob)];
    assert!(set.sweep(&other).is_err());
}

/// A table in persistent memory of which the default family has `reference`, with zones of this owner.
fn in_pm(reference: &TableRef, owner: u64) -> Change {
    let seqnos = (reference.smallest_seqno, reference.largest_seqno);
    let info = PmTableInfo {
        file: reference.file,
        meta: PmTableMeta {
            owner,
            zones: 1,
            zone_bytes: 1 << 20,
            bytes: 100,
            entries: 10,
            range_tombstones: 0,
            seqnos,
            families: vec![PmFamily {
                cf: CfId(0),
                entries: 10,
                deletes: 0,
                merges: 0,
                range_tombstones: 0,
                key_bytes: 10,
                value_bytes: 10,
                seqnos,
                range: KeyRange {
                    first: reference.range.first.to_vec(),
                    last: reference.range.last.to_vec(),
                    open: reference.range.open,
                },
            }],
            blobs: vec![],
        },
    };
    Change::PmTableAdded {
        table: Arc::new(info),
    }
}

/// A table in persistent memory is no file; it may be removed when no living version refers to it.
#[test]
fn a_table_in_persistent_memory_waits_for_the_last_version_that_refers_to_it() {
    let mut world = World::new();
    let file = world.set.take_number().unwrap();
    let reference = table(file);
    let ids = NextIds {
        chain: 1,
        ..world.state.next_ids()
    };
    world.install(Change::NextIds(ids));
    let alone = VersionEdit::from(added(file));
    assert!(world.set.check(&alone).is_err());
    let edit = VersionEdit::from(in_pm(&reference, 0));
    world.install(edit.with(added(file)));
    let reader = world.set.current().clone();
    world.install(Change::table_removed(PLACE, &reference));
    assert_eq!(world.set.unread_pm_tables(), []);
    drop(reader);
    assert_eq!(world.set.unread_pm_tables(), [file]);
    world.install(Change::PmTableRemoved { file });
    assert_eq!(world.set.unread_pm_tables(), []);
    assert_eq!(world.set.obsolete(), []);
}

#[test]
fn who_keeps_only_some_tables_keeps_no_other_in_persistent_memory() {
    let mut world = World::new();
    let ids = NextIds {
        chain: 2,
        ..world.state.next_ids()
    };
    world.install(Change::NextIds(ids));
    let [kept, other] = [0, 1].map(|owner| {
        let file = world.set.take_number().unwrap();
        let edit = VersionEdit::from(in_pm(&table(file), owner));
        world.install(edit.with(added(file)));
        file
    });
    let version = Arc::clone(world.set.current());
    let job = world.set.keep_only(&version, [&table(kept)].into_iter());
    assert!(job.tables_of(PLACE.cf).eq(version.tables_of(PLACE.cf)));
    let totals = job.pm_totals();
    assert_eq!(
        (totals.tables, totals.bytes, totals.retired),
        (1, 1 << 20, 0)
    );
    drop(version);
    world.install(removed(kept));
    world.install(removed(other));
    assert_eq!(world.set.unread_pm_tables(), [other]);
    drop(job);
    assert_eq!(world.set.unread_pm_tables(), [kept, other]);
}
