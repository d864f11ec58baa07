//! A [`VersionSet`] at work: jobs that write files and install edits, readers and checkpoints that
//! hold versions, files that are unlinked, processes that end. The oracle is a folder, the sets of
//! files that each holder's version names, and a list of what was handed out.

use std::collections::BTreeSet;
use std::sync::Arc;

use thermocline_base::{CfId, FileId, KeyRange, SeqNo};
use thermocline_env::simulated::SeededRandom;
use thermocline_testkit::explore::{explored, side_by_side};
use thermocline_version::{
    BlobBytes, Change, FileKind, Hold, Level, Place, State, TableRef, Version, VersionEdit,
    VersionSet,
};

use crate::common::created;
use crate::tables::ModelTables;

type File = (FileId, FileKind);

enum Holder {
    Reader(Arc<Version>),
    Checkpoint(Hold),
}

impl Holder {
    fn version(&self) -> &Version {
        match self {
            Holder::Reader(version) => version,
            Holder::Checkpoint(hold) => hold.version(),
        }
    }
}

struct World {
    random: SeededRandom,
    state: State,
    set: VersionSet,
    model: ModelTables,
    /// What is in the folder.
    folder: BTreeSet<File>,
    /// What jobs write just now.
    pinned: BTreeSet<File>,
    holders: Vec<(Holder, ModelTables)>,
    /// Every id that was handed out.
    handed_out: BTreeSet<FileId>,
    seqno: u64,
    unlinked: u64,
    kept_for_holders: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let mut state = State::default();
        state.apply(&created()).unwrap();
        World {
            random: SeededRandom::new(seed),
            set: VersionSet::new(&state),
            state,
            model: ModelTables::default(),
            folder: BTreeSet::new(),
            pinned: BTreeSet::new(),
            holders: Vec::new(),
            handed_out: BTreeSet::new(),
            seqno: 1,
            unlinked: 0,
            kept_for_holders: 0,
        }
    }

    fn below(&self, n: usize) -> usize {
        usize::try_from(self.random.below(n.max(1) as u64)).unwrap()
    }

    /// Appends and installs an edit that can be; whether it could.
    fn install(&mut self, edit: &VersionEdit) -> bool {
        let mut after = self.state.clone();
        let refused = self.set.check(edit).is_err();
        if after.apply(edit).is_err() || refused {
            return false;
        }
        let families: Vec<u16> = self.state.families().keys().copied().collect();
        let next = after.next_ids().file;
        for change in &edit.changes {
            assert!(self.model.apply(change, &families, next), "{change:?}");
        }
        self.state = after;
        let version = self.set.install(edit, &self.state);
        assert!(Arc::ptr_eq(&version, self.set.current()));
        true
    }

    fn output(&mut self, kind: FileKind) -> FileId {
        if let Some(file) = self.set.pin_output(kind) {
            assert!(self.handed_out.insert(file), "{file} twice");
            self.pinned.insert((file, kind));
            self.folder.insert((file, kind));
            return file;
        }
        let edit = self.set.reservation(&self.state, 1 + self.random.below(6));
        assert!(self.install(&edit));
        self.output(kind)
    }

    fn unpin(&mut self, file: File) {
        self.set.unpin_output(file.0);
        self.pinned.remove(&file);
    }

    /// A job: removes some tables, writes some files, installs or fails.
    fn job(&mut self) {
        let cf = CfId([0, 1][self.below(2)]);
        let mut edit = VersionEdit::new();
        let references: Vec<_> = self.model.references.clone();
        for (place, table) in references {
            if place.cf == cf && self.below(3) == 0 {
                edit = edit.with(Change::table_removed(place, &table));
                // Parts of it stay, or it moves.
                if self.below(3) == 0 {
                    let letter = [b"defghijkl"[self.below(9)]];
                    let part = table.part(Some(&letter), None).map(Arc::new);
                    edit.changes
                        .extend(part.map(|table| Change::TableAdded { place, table }));
                }
            }
        }
        for (file, _) in self.model.blobs.clone() {
            if self.below(4) == 0 {
                edit = edit.with(Change::BlobFileRemoved { file });
            }
        }
        let mut outputs = Vec::new();
        for _ in 0..self.below(4) {
            let kind = [FileKind::Table, FileKind::Table, FileKind::Blob][self.below(3)];
            let file = self.output(kind);
            outputs.push((file, kind));
            self.seqno += 10;
            edit = edit.with(match kind {
                FileKind::Blob => Change::BlobFileAdded { file, bytes: 100 },
                FileKind::Table => Change::TableAdded {
                    place: Place::new(cf, Level(0)),
                    table: Arc::new(self.table(file)),
                },
            });
        }
        // The sweep and other jobs run while the files are written.
        if self.below(3) == 0 {
            self.job();
        }
        self.check();
        let fails = self.below(5) == 0;
        if fails || !self.install(&edit) {
            self.check();
        }
        for file in outputs {
            self.check();
            self.unpin(file);
        }
    }

    fn table(&self, file: FileId) -> TableRef {
        let (a, b) = (b"abcdef"[self.below(6)], b"ghijkl"[self.below(6)]);
        let blob = self.model.blobs.get(self.below(self.model.blobs.len()));
        TableRef {
            file,
            file_bytes: 100,
            bytes: 100,
            entries: 10,
            deletes: 1,
            range: KeyRange::inclusive([a], [b]).owned(),
            limited_below: false,
            limited_above: false,
            smallest_seqno: SeqNo(self.seqno),
            largest_seqno: SeqNo(self.seqno + 9),
            blobs: blob
                .map(|(file, _)| BlobBytes {
                    file: *file,
                    bytes: 10,
                })
                .into_iter()
                .collect(),
        }
    }

    /// What is obsolete is what the oracle says, exactly.
    fn check(&mut self) {
        let named = self.model.files();
        let held = |file: &File| self.holders.iter().any(|(_, m)| m.files().contains(file));
        let free = self.folder.iter().filter(|file| !named.contains(file));
        let free: Vec<File> = free.filter(|f| !self.pinned.contains(f)).copied().collect();
        let expected: Vec<File> = free.iter().filter(|file| !held(file)).copied().collect();
        assert_eq!(self.set.obsolete(), expected);
        self.kept_for_holders += (free.len() - expected.len()) as u64;
        let checkpoints = self.holders.iter();
        let checkpoints = checkpoints.filter(|(h, _)| matches!(h, Holder::Checkpoint(_)));
        assert_eq!(self.set.holds(), checkpoints.count());
        assert!(self.set.living() <= 1 + self.holders.len());
    }

    fn unlink(&mut self) {
        for (file, kind) in self.set.obsolete() {
            // Not always: unlinking may fail.
            if self.below(4) > 0 {
                assert!(self.folder.remove(&(file, kind)));
                self.set.unlinked(file);
                self.unlinked += 1;
            }
        }
    }

    /// The process ends. What it unlinked may come back, since no folder was synced for it.
    fn crash(&mut self, gone: &BTreeSet<File>) {
        self.holders.clear();
        self.pinned.clear();
        for file in gone.difference(&self.folder.clone()) {
            if self.below(4) == 0 {
                self.folder.insert(*file);
            }
        }
        // Through the manifest: from a snapshot.
        let mut state = State::default();
        for edit in self.state.snapshot() {
            state.apply(&edit).unwrap();
        }
        self.state = state;
        self.set = VersionSet::new(&self.state);
        let stranger = (FileId(1 << 40), FileKind::Table);
        let mut found: Vec<File> = self.folder.iter().rev().copied().collect();
        found.push(stranger);
        let goes = self.set.sweep(&found).unwrap();
        let named = self.model.files();
        let expected = self.folder.difference(&named).copied();
        assert!(goes.iter().copied().eq(expected));
        if let Some(lost) = named.first() {
            found.retain(|file| file != lost);
            let error = self.set.sweep(&found).unwrap_err().to_string();
            let name = match lost.1 {
                FileKind::Table => format!("expected table {},", lost.0),
                FileKind::Blob => format!("expected blob file {},", lost.0),
            };
            assert!(error.contains(&name), "{error}");
        }
        goes.iter().for_each(|file| {
            self.folder.remove(file);
        });
        assert_eq!(self.folder, named);
    }

    fn step(&mut self, gone: &mut BTreeSet<File>) {
        match self.below(16) {
            0..=5 => self.job(),
            6 | 7 => {
                let version = Arc::clone(self.set.current());
                self.holders
                    .push((Holder::Reader(version), self.model.clone()));
            }
            8 => {
                let hold = Holder::Checkpoint(self.set.hold());
                self.holders.push((hold, self.model.clone()));
            }
            9 | 10 if !self.holders.is_empty() => {
                let nth = self.below(self.holders.len());
                let (holder, model) = self.holders.swap_remove(nth);
                model.check(holder.version()).unwrap();
            }
            11 => {
                let id = *self.state.families().keys().last().unwrap();
                let edit = match id {
                    0 => Change::ColumnFamilyCreated {
                        // Ids of families are not reused either; the jobs know only the first.
                        id: u16::try_from(self.state.next_ids().cf).unwrap(),
                        name: "other".into(),
                    },
                    id => Change::ColumnFamilyDropped { id },
                };
                assert!(self.install(&edit.into()));
            }
            12..=14 => self.unlink(),
            _ if self.below(6) == 0 => self.crash(gone),
            _ => {}
        }
        self.check();
        gone.extend(&self.folder);
    }
}

#[test]
fn a_file_goes_exactly_when_nobody_can_read_it_any_more() {
    let seeds: Vec<u64> = (0..explored(50, 150)).collect();
    // It comes last, and is one of the longest. A seed that fails has begun and not ended.
    let counts = side_by_side(&seeds, |&seed| {
        let mut world = World::new(seed);
        let mut gone = BTreeSet::new();
        println!("seed {seed} has begun");
        for _ in 0..120 {
            world.step(&mut gone);
        }
        println!("seed {seed} has ended");
        (world.unlinked, world.kept_for_holders)
    });
    let unlinked: u64 = counts.iter().map(|&(unlinked, _)| unlinked).sum();
    let kept: u64 = counts.iter().map(|&(_, kept)| kept).sum();
    println!("{unlinked} files unlinked; {kept} times a file was kept for a holder");
    let least = explored(270, 1_000);
    assert!(unlinked > least && kept > least, "{unlinked} {kept}");
}
