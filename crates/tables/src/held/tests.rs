//! What is made of the version before is what is made of a version alone.

use std::collections::BTreeSet;

use thermocline_base::budget::Account;
use thermocline_base::options::{Emulation, RegionDemand};
use thermocline_base::{KeyRange, Kind, PmFamily, PmTableMeta, SeqNo, Steps};
use thermocline_env::Env;
use thermocline_halloc::{Space, SpaceSpec};
use thermocline_level0::{PmTableWriter, TableIdentity, Value};
use thermocline_pm::{Region, RegionSpec, SimPm};
use thermocline_testkit::{Replay, Rng, seeds};
use thermocline_version::{Change, FileKind, NextIds, PmTableInfo, State, VersionEdit, VersionSet};

use super::*;
use crate::keys::tests::{account, keys_of};

const FAMILIES: u16 = 5;

/// A table in persistent memory, which stands for all of them.
fn pm_table() -> (Arc<Space>, Arc<PmTable>) {
    let (pm, db_id) = (1 << 20, [1; 16]);
    let spec = SpaceSpec {
        part_bytes_first: 256 << 10,
        pm,
    };
    let of_region = RegionSpec {
        env: Env::real(),
        place: thermocline_pm::Place::Sim(SimPm::new(pm, Steps::new())),
        demand: RegionDemand::Any,
        capacity: pm,
        emulation: Emulation::None,
        read_only: false,
    };
    let region = Region::create(&of_region, Space::first_part_bytes(&spec)).unwrap();
    let space = Arc::new(Space::create(region, &[7; 16], spec).unwrap());
    let identity = TableIdentity::new(db_id, 5);
    let options = thermocline_level0::WriteOptions::default();
    let mut writer = PmTableWriter::new(Arc::clone(&space), identity, options);
    let value = Value::Inline(b"v");
    writer
        .add(CfId(0), b"k", SeqNo(1), Kind::Put, value)
        .unwrap();
    let written = writer.finish().unwrap().unwrap();
    let meta = written.meta.clone();
    let table = PmTable::open(space.region(), db_id, meta, &written.zones).unwrap();
    (space, table)
}

/// A table of the keys from `first` to `last`.
fn table(file: u64, (first, last): (u16, u16), seqno: u64) -> TableRef {
    TableRef {
        file: FileId(file),
        file_bytes: 1000,
        bytes: 1000,
        entries: 10,
        deletes: 0,
        range: KeyRange::inclusive(first.to_be_bytes(), last.to_be_bytes()).owned(),
        limited_below: false,
        limited_above: false,
        smallest_seqno: SeqNo(seqno),
        largest_seqno: SeqNo(seqno),
        blobs: vec![],
    }
}

fn added(place: Place, table: TableRef) -> Change {
    let table = Arc::new(table);
    Change::TableAdded { place, table }
}

/// What is known of a reference of this one in persistent memory.
fn info(table: &TableRef, families: &[CfId]) -> Change {
    let seqnos = (table.smallest_seqno, table.largest_seqno);
    let family = |cf: &CfId| PmFamily {
        cf: *cf,
        entries: 10,
        deletes: 0,
        merges: 0,
        range_tombstones: 0,
        key_bytes: 100,
        value_bytes: 100,
        seqnos,
        range: KeyRange::inclusive(table.range.first.to_vec(), table.range.last.to_vec()),
    };
    let meta = PmTableMeta {
        owner: table.file.0,
        zones: 1,
        zone_bytes: 16 << 10,
        bytes: 1000,
        entries: 10 * families.len() as u64,
        range_tombstones: 0,
        seqnos,
        families: families.iter().map(family).collect(),
        blobs: vec![],
    };
    let file = table.file;
    Change::PmTableAdded {
        table: Arc::new(PmTableInfo { file, meta }),
    }
}

/// A database whose tables are made up, and what lies beside its files.
struct World {
    state: State,
    pm: PmTables,
    keys: Level0Keys,
    account: Arc<Account>,
    pm_table: (Arc<Space>, Arc<PmTable>),
    next_file: u64,
}

impl World {
    fn new() -> World {
        let created = VersionEdit::new().with(Change::Created {
            db_id: [1; 16],
            region_id: [2; 16],
        });
        let edit = (0..FAMILIES).fold(created, |edit, id| {
            let name = id.to_string();
            edit.with(Change::ColumnFamilyCreated { id, name })
        });
        let edit = edit.with(Change::NextIds(NextIds {
            cf: u32::from(FAMILIES),
            file: 1 << 20,
            chain: 1 << 20,
            ..NextIds::default()
        }));
        let mut state = State::default();
        state.apply(&edit).unwrap();
        World {
            state,
            pm: PmTables::default(),
            keys: Level0Keys::new(1 << 30),
            account: account(1 << 30),
            pm_table: pm_table(),
            next_file: 1,
        }
    }

    /// Applies the changes, if they may be.
    fn apply(&mut self, changes: Vec<Change>) -> bool {
        self.state.apply(&VersionEdit { changes }).is_ok()
    }

    fn held(&self, version: &Arc<Version>, before: Option<&Held>) -> Held {
        Held::new(Arc::clone(version), (&self.pm, &self.keys), before)
    }

    /// A table that is newer than all others, and narrow.
    fn new_table(&mut self, rng: &mut Rng) -> TableRef {
        let file = self.next_file;
        self.next_file += 1;
        let first = u16::try_from(rng.below(4000)).unwrap();
        let last = first + u16::try_from(rng.below(20)).unwrap();
        table(file, (first, last), file)
    }

    fn family(&self, rng: &mut Rng) -> CfId {
        let all: Vec<u16> = self.state.families().keys().copied().collect();
        CfId(*rng.pick(&all))
    }

    /// Some reference that there is.
    fn some(&self, rng: &mut Rng) -> Option<(Place, Arc<TableRef>)> {
        let version = self.state.version();
        let n = rng.below(version.tables().count().max(1));
        let mut all = version.tables();
        all.nth(n).map(|(place, table)| (place, Arc::clone(table)))
    }

    /// Something that flushes, compactions and users do. Whether it may be is the state's to say.
    fn step(&mut self, rng: &mut Rng) -> bool {
        match rng.below(100) {
            0 => {
                let CfId(id) = self.family(rng);
                self.apply(vec![Change::ColumnFamilyDropped { id }])
            }
            1..20 => self.write(rng),
            20..40 => self.write_in_pm(rng),
            40..50 => {
                let table = self.new_table(rng);
                let level = Level(u8::try_from(1 + rng.below(3)).unwrap());
                let place = Place::new(self.family(rng), level);
                self.apply(vec![added(place, table)])
            }
            50..60 => self.cut(rng),
            60..70 => self.free(rng),
            lot => {
                let Some((place, table)) = self.some(rng) else {
                    return false;
                };
                let mut changes = vec![Change::table_removed(place, &table)];
                if lot < 85 {
                    let level = Level(place.level.0 + 1);
                    changes.push(added(Place { level, ..place }, TableRef::clone(&table)));
                }
                self.apply(changes)
            }
        }
    }

    /// A table of level 0, with its keys or without. Some that have keys are never seen there.
    fn write(&mut self, rng: &mut Rng) -> bool {
        let table = self.new_table(rng);
        if rng.one_in(2) {
            assert!(self.keys.keep(table.file, keys_of(b"k"), &self.account));
        }
        let place = Place::new(self.family(rng), Level::ZERO);
        let changes = vec![added(place, table.clone())];
        let is_there = self.apply(changes);
        if is_there && rng.one_in(4) {
            let down = Place::new(place.cf, Level(1));
            let removed = Change::table_removed(place, &table);
            self.apply(vec![removed, added(down, table)]);
        }
        is_there
    }

    /// A table in persistent memory, of one family or two, to which something refers or nothing.
    fn write_in_pm(&mut self, rng: &mut Rng) -> bool {
        let table = self.new_table(rng);
        let families = BTreeSet::from([self.family(rng), self.family(rng)]);
        let families: Vec<CfId> = families.into_iter().collect();
        let mut changes = vec![info(&table, &families)];
        for cf in families {
            if !rng.one_in(4) {
                changes.push(added(Place::new(cf, Level::ZERO), table.clone()));
            }
        }
        let open = Arc::clone(&self.pm_table.1);
        self.pm.add(table.file, open, Vec::new(), &self.account);
        self.apply(changes)
    }

    /// Cuts a table in two parts, one of which may go down.
    fn cut(&mut self, rng: &mut Rng) -> bool {
        let Some((place, table)) = self.some(rng) else {
            return false;
        };
        let at = [&*table.range.first, &[0]].concat();
        let Some([low, high]) = table.cut_at(&at, (1, 2)) else {
            return false;
        };
        let level = Level(place.level.0 + u8::from(rng.one_in(2)));
        self.apply(vec![
            Change::table_removed(place, &table),
            added(place, low),
            added(Place { level, ..place }, high),
        ])
    }

    /// Frees tables in persistent memory to which nothing refers.
    fn free(&mut self, rng: &mut Rng) -> bool {
        let version = self.state.version();
        let retired = version.pm_tables().filter(|(_, of)| of.is_empty());
        let files: Vec<FileId> = retired.map(|(table, _)| table.file).collect();
        if files.is_empty() {
            return false;
        }
        let file = *rng.pick(&files);
        self.pm.take(file);
        self.apply(vec![Change::PmTableRemoved { file }])
    }
}

type Placed = (u8, Vec<(FileId, Vec<u8>)>);

/// Files with handles, tables in persistent memory, files with keys, and runs.
type Shown = (Vec<FileId>, Vec<FileId>, Vec<FileId>, Vec<Vec<Placed>>);

fn shown(held: &Held) -> Shown {
    let of_run = |run: &Run| -> Placed {
        let tables = run
            .iter()
            .map(|table| (table.file, table.range.first.to_vec()));
        (run.level.0, tables.collect())
    };
    let families = (0..FAMILIES).map(CfId);
    (
        held.handles.iter().map(|(file, _)| *file).collect(),
        held.pm.iter().map(|(file, _)| *file).collect(),
        held.keys.iter().map(|(file, _)| *file).collect(),
        families
            .map(|cf| held.runs(cf).iter().map(of_run).collect())
            .collect(),
    )
}

/// Whether it is what the version says, whatever was before.
fn check(world: &World, held: &Held) {
    let version = held.version();
    assert_eq!(shown(held), shown(&world.held(version, None)));
    for file in (0..world.next_file).map(FileId) {
        let in_file = version.file(file) == Some(FileKind::Table);
        assert_eq!(held.handle(file).is_some(), in_file, "{file}");
        let in_pm = !in_file && !version.references(file).is_empty();
        assert_eq!(held.pm(file).is_some(), in_pm, "{file}");
        let kept = in_file && stands_in_level0(version.references(file));
        assert!(kept || held.keys(file).is_none(), "{file}");
    }
    assert_eq!(held.is_empty(), version.tables().next().is_none());
    for cf in version.families() {
        let runs = held.runs(cf).iter().flat_map(|run| run.iter());
        let mut in_runs: Vec<_> = runs.map(Arc::as_ptr).collect();
        let mut all: Vec<_> = version
            .tables_of(cf)
            .map(|(_, table)| Arc::as_ptr(table))
            .collect();
        in_runs.sort_unstable();
        all.sort_unstable();
        assert_eq!(in_runs, all, "{cf:?}");
    }
}

/// Whether what both have is the same.
fn check_same(before: &Held, after: &Held) {
    for (file, handle) in before.handles.iter() {
        let same = after.handle(*file).is_none_or(|h| Arc::ptr_eq(h, handle));
        assert!(same, "{file}");
    }
    for (file, keys) in before.keys.iter() {
        let same = after.keys(*file).is_none_or(|k| Arc::ptr_eq(k, keys));
        assert!(same, "{file}");
    }
    for (file, table) in before.pm.iter() {
        let same = after.pm(*file).is_none_or(|t| Arc::ptr_eq(t, table));
        assert!(same, "{file}");
    }
    // Of families that have not changed the runs are those of both.
    for cf in after.version().families() {
        let family = |held: &Held| held.version().family(cf).map(Arc::as_ptr);
        if family(before) == family(after) {
            assert!(std::ptr::eq(before.runs(cf), after.runs(cf)), "{cf:?}");
        }
    }
}

#[test]
fn what_is_made_of_the_version_before_is_what_a_version_alone_has() {
    for seed in seeds(0..20) {
        let _replay = Replay::new("-p thermocline-tables what_is_made_of_the_version", seed);
        let (mut rng, mut world) = (Rng::new(seed), World::new());
        let mut held = world.held(world.state.version(), None);
        let (mut happened, mut had_keys) = (0, false);
        for _ in 0..400 {
            happened += usize::from(world.step(&mut rng));
            // Not each version is shown, and some readers have looked at what was.
            if rng.one_in(3) {
                continue;
            }
            if rng.one_in(2) {
                held.runs(world.family(&mut rng));
            }
            let next = world.held(world.state.version(), Some(&held));
            check_same(&held, &next);
            check(&world, &next);
            had_keys |= !next.keys.is_empty();
            if rng.one_in(10) {
                let aside = world.family(&mut rng);
                let aside = VersionSet::new(&world.state).set_aside(&[aside]);
                let relic = world.held(&aside, Some(&next));
                check_same(&next, &relic);
                check(&world, &relic);
            }
            held = next;
        }
        assert!(happened > 100 && had_keys, "{happened}");
    }
}

/// Ten thousand tables of one family, in level 2, and one of another.
fn many() -> World {
    let mut world = World::new();
    let place = Place::new(CfId(0), Level(2));
    for some in 0..20u16 {
        let some = some * 500..(some + 1) * 500;
        let tables = some.map(|n| table(1 + u64::from(n), (4 * n, 4 * n + 2), 1));
        let changes = tables.map(|table| added(place, table)).collect();
        assert!(world.apply(changes));
    }
    world.next_file = 10_001;
    let mut rng = Rng::new(1);
    let other = world.new_table(&mut rng);
    assert!(world.apply(vec![added(Place::new(CfId(1), Level(1)), other)]));
    world
}

#[test]
fn of_ten_thousand_tables_an_edit_of_one_changes_few_chunks() {
    let mut world = many();
    let place = Place::new(CfId(0), Level(2));
    let before = world.held(world.state.version(), None);
    let (one, other) = (CfId(0), CfId(1));
    let old = before.runs(one)[0].clone();
    let removed = table(5000, (4 * 4999, 4 * 4999 + 2), 1);
    let new = table(20_000, (4 * 4999, 4 * 4999), 1);
    let changes = vec![Change::table_removed(place, &removed), added(place, new)];
    assert!(world.apply(changes));
    let after = world.held(world.state.version(), Some(&before));
    check_same(&before, &after);
    // One chunk lost a table, and the last one has got one.
    let (chunks, shared) = after.handles.shared_chunks(&before.handles);
    assert!(chunks > 150, "{chunks}");
    assert_eq!(shared, chunks - 2);
    let (chunks, shared) = after.runs(one)[0].shared_chunks(&old);
    assert!(chunks > 150 && shared + 2 >= chunks, "{shared} of {chunks}");
    // Runs that nobody had made are made once for both versions.
    assert!(std::ptr::eq(before.runs(other), after.runs(other)));
    assert!(!std::ptr::eq(before.runs(one), after.runs(one)));
}

#[test]
fn what_nothing_has_changed_of_shares_all_and_what_was_set_aside_is_made_of_its_own() {
    let mut world = many();
    let before = world.held(world.state.version(), None);
    assert!(world.apply(vec![Change::BlobFileAdded {
        file: FileId(30_000),
        bytes: 1,
    }]));
    let after = world.held(world.state.version(), Some(&before));
    let (chunks, shared) = after.handles.shared_chunks(&before.handles);
    assert_eq!(chunks, shared);
    let aside = VersionSet::new(&world.state).set_aside(&[CfId(1)]);
    let relic = world.held(&aside, Some(&after));
    assert_eq!(relic.handles.len(), 1);
    check_same(&after, &relic);
    drop(relic);
    check(&world, &after);
}

/// `n` tables in persistent memory of one family, and three files, of another one.
fn many_in_pm(n: u64) -> World {
    let mut world = World::new();
    let mut changes = Vec::new();
    for file in 1..=n {
        let key = 4 * u16::try_from(file).unwrap();
        let table = table(file, (key, key + 2), file);
        changes.push(info(&table, &[CfId(0)]));
        changes.push(added(Place::new(CfId(0), Level::ZERO), table));
        let open = Arc::clone(&world.pm_table.1);
        world.pm.add(FileId(file), open, Vec::new(), &world.account);
    }
    for file in n + 1..=n + 3 {
        let first = 4 * u16::try_from(file).unwrap();
        let place = Place::new(CfId(1), Level(1));
        changes.push(added(place, table(file, (first, first + 2), file)));
    }
    assert!(world.apply(changes));
    world.next_file = n + 4;
    world
}

/// Takes two of the files away.
fn without_files(world: &mut World, n: u64) {
    let place = Place::new(CfId(1), Level(1));
    let removed = (n + 1..=n + 2).map(|file| {
        let first = 4 * u16::try_from(file).unwrap();
        Change::table_removed(place, &table(file, (first, first + 2), file))
    });
    assert!(world.apply(removed.collect()));
}

#[test]
fn where_most_files_go_tables_in_persistent_memory_stay_shared() {
    for n in [10, 1000] {
        let mut world = many_in_pm(n);
        let before = world.held(world.state.version(), None);
        let runs = before.runs(CfId(0));
        without_files(&mut world, n);
        let after = world.held(world.state.version(), Some(&before));
        check_same(&before, &after);
        let (chunks, shared) = after.pm.shared_chunks(&before.pm);
        assert!(chunks > 0 && chunks == shared, "{shared} of {chunks}");
        assert!(std::ptr::eq(runs, after.runs(CfId(0))));
        assert_eq!(after.handles.len(), 1);
    }
}

#[test]
fn of_a_version_that_was_set_aside_what_is_held_already_is_not_asked_for() {
    let n = 1000;
    let mut world = many_in_pm(n);
    let (family, file) = (CfId(2), n + 10);
    let table = table(file, (1, 2), file);
    let open = Arc::clone(&world.pm_table.1);
    world.pm.add(FileId(file), open, Vec::new(), &world.account);
    let changes = vec![
        info(&table, &[family]),
        added(Place::new(family, Level::ZERO), table),
    ];
    assert!(world.apply(changes));
    let before = world.held(world.state.version(), None);
    let aside = VersionSet::new(&world.state).set_aside(&[family]);
    // Were it asked for, it would not be found.
    world.pm.take(FileId(file));
    let relic = world.held(&aside, Some(&before));
    assert_eq!((relic.pm.len(), relic.handles.len()), (1, 0));
    check_same(&before, &relic);
}
