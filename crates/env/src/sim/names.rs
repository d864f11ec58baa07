//! The names in one simulated folder: what is durable, what readers see, and the changes whose
//! order and survival a crash decides.

use std::collections::BTreeMap;
use std::fmt;

/// A file's identity, whatever its names.
pub(super) type FileNo = u64;

#[derive(Debug, Clone)]
pub(super) enum Change {
    Create(String, FileNo),
    /// A second name, of a file that has its first one in another folder.
    Link(String, FileNo),
    Rename(String, String, FileNo),
    Remove(String, FileNo),
}

impl Change {
    pub(super) fn file(&self) -> FileNo {
        match self {
            Change::Create(_, no)
            | Change::Link(_, no)
            | Change::Rename(_, _, no)
            | Change::Remove(_, no) => *no,
        }
    }

    fn apply(&self, names: &mut BTreeMap<String, FileNo>) {
        match self {
            Change::Create(name, no) | Change::Link(name, no) => {
                names.insert(name.clone(), *no);
            }
            Change::Rename(_, to, no) => {
                // A file has one name in a folder: the earlier ones go, even one from which a lost rename
                // should have taken it.
                names.retain(|_, other| other != no);
                names.insert(to.clone(), *no);
            }
            Change::Remove(name, no) => {
                if names.get(name) == Some(no) {
                    names.remove(name);
                }
            }
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Create(name, _) => write!(f, "create {name}"),
            Change::Link(name, _) => write!(f, "link {name}"),
            Change::Rename(from, to, _) => write!(f, "rename {from} to {to}"),
            Change::Remove(name, _) => write!(f, "remove {name}"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The next sync makes it durable.
    Unsynced,
    /// A sync failed: later syncs pass over it, a crash may keep it or not.
    Doubtful,
    /// Durable, but behind a doubtful one.
    Certain,
}

/// A folder. Cloning copies the names.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    durable: BTreeMap<String, FileNo>,
    pub(super) live: BTreeMap<String, FileNo>,
    changes: Vec<(Change, Fate)>,
}

impl Names {
    pub(super) fn durable(names: BTreeMap<String, FileNo>) -> Names {
        Names {
            live: names.clone(),
            durable: names,
            changes: Vec::new(),
        }
    }

    pub(super) fn durable_names(&self) -> &BTreeMap<String, FileNo> {
        &self.durable
    }

    pub(super) fn change(&mut self, change: Change) {
        change.apply(&mut self.live);
        self.changes.push((change, Fate::Unsynced));
    }

    /// Gives a name that is durable at once, for tests that lay out a folder.
    pub(super) fn install(&mut self, name: String, no: FileNo) {
        self.durable.insert(name.clone(), no);
        self.live.insert(name, no);
    }

    pub(super) fn sync(&mut self) {
        for (_, fate) in &mut self.changes {
            if *fate == Fate::Unsynced {
                *fate = Fate::Certain;
            }
        }
        let settled = self
            .changes
            .iter()
            .take_while(|(_, fate)| *fate == Fate::Certain)
            .count();
        for (change, _) in self.changes.drain(..settled) {
            change.apply(&mut self.durable);
        }
    }

    pub(super) fn fail_sync(&mut self) {
        for (_, fate) in &mut self.changes {
            if *fate == Fate::Unsynced {
                *fate = Fate::Doubtful;
            }
        }
    }

    /// The changes that a crash keeps or loses, each on its own.
    pub(super) fn choices(&self) -> impl Iterator<Item = &Change> {
        self.changes
            .iter()
            .filter(|(_, fate)| *fate != Fate::Certain)
            .map(|(change, _)| change)
    }

    /// Every file that has, had or may get a name here.
    pub(super) fn files(&self) -> impl Iterator<Item = FileNo> {
        self.durable
            .values()
            .copied()
            .chain(self.changes.iter().map(|(change, _)| change.file()))
    }

    /// The names after a crash in which `keep` decided over each of [`Names::choices`] in order.
    pub(super) fn after_crash(&self, mut keep: impl FnMut() -> bool) -> BTreeMap<String, FileNo> {
        let mut names = self.durable.clone();
        for (change, fate) in &self.changes {
            if *fate == Fate::Certain || keep() {
                change.apply(&mut names);
            }
        }
        names
    }
}
