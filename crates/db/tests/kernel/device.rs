//! The device as the parent process sees it: builds the shim, and cuts the power.
//!
//! What lies where is said in `shim/device.h`. The store's folder is the page cache; the state folder has the
//! images, and which pages are dirty. Between two processes
//! - nothing happens, and the next process finds the page cache as it is ([`Device::begin`]);
//! - dirty pages are lost by a write-back that failed while nobody had the file open: they are clean, and nobody is
//!   ever told ([`Device::lose`]);
//! - clean pages leave memory, and the next process finds what the device has ([`Device::evict`]);
//! - the power goes ([`Device::cut`]): of names and of pages that are not on the device yet, any may be there, pages in
//!   part, and of a size that was not synced the old or the new one.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use thermocline_testkit::Rng;

const PAGE: usize = 4096;
/// What a device writes whole.
const SECTOR: usize = 512;

/// The shim, compiled once for the whole run.
pub(crate) fn shim() -> &'static Path {
    static SHIM: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = SHIM.get_or_init(|| {
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let sources = [
            ("device.h", include_str!("shim/device.h")),
            ("device.c", include_str!("shim/device.c")),
            ("calls.c", include_str!("shim/calls.c")),
        ];
        let library = ["-shared", "-fPIC", "-pthread", "-o", "shim.so"];
        let arguments = [&library[..], &["device.c", "calls.c", "-ldl"]].concat();
        compile(home.path(), &sources, &arguments);
        let path = home.path().join("shim.so");
        (home, path)
    });
    path
}

/// Compiles these sources in a folder.
pub(crate) fn compile(home: &Path, sources: &[(&str, &str)], arguments: &[&str]) {
    for (name, text) in sources {
        std::fs::write(home.join(name), text).unwrap();
    }
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let done = Command::new(compiler)
        .args(["-O1", "-Wall", "-Wextra", "-Werror"])
        .args(arguments)
        .current_dir(home)
        .output()
        .expect("a C compiler is there: the blocks' compression needs it, too");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "it does not compile:\n{said}");
}

/// What a path stands for: a folder, or a file by its inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    Folder,
    File(u64),
}

type Tree = BTreeMap<PathBuf, Entry>;

/// One change of names.
#[derive(Debug, Clone)]
struct Change {
    /// Each of these syncs it.
    folders: Vec<PathBuf>,
    removes: Option<PathBuf>,
    makes: Option<(PathBuf, Entry)>,
}

/// A device with one folder on it.
#[derive(Debug)]
pub(crate) struct Device {
    pub root: PathBuf,
    pub state: PathBuf,
    /// The names that were on it when the state began.
    base: Tree,
}

impl Device {
    pub fn new(home: &Path) -> Device {
        let device = Device {
            root: home.join("root"),
            state: home.join("state"),
            base: Tree::new(),
        };
        std::fs::create_dir(&device.root).unwrap();
        std::fs::create_dir(&device.state).unwrap();
        device
    }

    /// Forgets what was counted, for the next process.
    pub fn begin(&self) {
        let _ = std::fs::remove_file(self.state.join("counts"));
    }

    /// How often each call was made, and how often one failed.
    pub fn counts(&self) -> Vec<u64> {
        let bytes = std::fs::read(self.state.join("counts")).unwrap_or_default();
        let words = bytes.chunks_exact(8);
        words
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
            .collect()
    }

    fn image(&self, inode: u64) -> Option<Vec<u8>> {
        std::fs::read(self.state.join(format!("i{inode}"))).ok()
    }

    fn dirty(&self, inode: u64) -> Vec<u8> {
        std::fs::read(self.state.join(format!("p{inode}"))).unwrap_or_default()
    }

    /// The files of the page cache.
    fn cached(&self) -> Tree {
        let mut tree = Tree::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let data = path.symlink_metadata().unwrap();
                if data.is_dir() {
                    folders.push(path.clone());
                    tree.insert(path, Entry::Folder);
                } else {
                    tree.insert(path, Entry::File(data.ino()));
                }
            }
        }
        tree
    }

    /// Write-back of some dirty pages has failed while nobody had the files open.
    pub fn lose(&self, rng: &mut Rng) {
        let all = rng.one_in(2);
        for entry in self.cached().values() {
            let Entry::File(inode) = entry else { continue };
            let mut dirty = self.dirty(*inode);
            for page in &mut dirty {
                if *page != 0 && (all || rng.one_in(2)) {
                    *page = 0;
                }
            }
            if !dirty.is_empty() {
                std::fs::write(self.state.join(format!("p{inode}")), dirty).unwrap();
            }
        }
    }

    /// Clean pages leave the page cache: whoever reads them next gets what the device has.
    pub fn evict(&self) {
        for (path, entry) in self.cached() {
            let Entry::File(inode) = entry else { continue };
            let Some(image) = self.image(inode) else {
                continue;
            };
            let dirty = self.dirty(inode);
            let file = std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open(path)
                .unwrap();
            let len = usize::try_from(file.metadata().unwrap().len()).unwrap();
            for from in (0..len).step_by(PAGE) {
                if dirty.get(from / PAGE).is_some_and(|dirty| *dirty != 0) {
                    continue;
                }
                let mut page = vec![0; PAGE.min(len - from)];
                let there = image.get(from..).unwrap_or_default();
                let there = &there[..there.len().min(page.len())];
                page[..there.len()].copy_from_slice(there);
                file.write_all_at(&page, from as u64).unwrap();
            }
        }
    }

    /// Cuts the power, and has the folder show what is on the device then.
    pub fn cut(&mut self, rng: &mut Rng) {
        let names = self.names(rng);
        let cached: BTreeMap<u64, PathBuf> = self
            .cached()
            .into_iter()
            .filter_map(|(path, entry)| match entry {
                Entry::File(inode) => Some((inode, path)),
                Entry::Folder => None,
            })
            .collect();
        let fresh = self.root.with_extension("after");
        std::fs::create_dir(&fresh).unwrap();
        let habit = rng.below(4);
        // A folder sorts before what is in it.
        for (path, entry) in names {
            let place = fresh.join(path.strip_prefix(&self.root).unwrap());
            if !place.parent().is_some_and(Path::is_dir) {
                continue;
            }
            match entry {
                Entry::Folder => std::fs::create_dir(place).unwrap(),
                Entry::File(inode) => {
                    let cached = cached.get(&inode);
                    let cached = cached.map(|path| std::fs::read(path).unwrap());
                    let content = match self.image(inode) {
                        Some(image) => surviving(image, cached, &self.dirty(inode), habit, rng),
                        None => {
                            cached.expect("what has no image was not there when the state began")
                        }
                    };
                    std::fs::write(place, content).unwrap();
                }
            }
        }
        std::fs::remove_dir_all(&self.root).unwrap();
        std::fs::rename(&fresh, &self.root).unwrap();
        std::fs::remove_dir_all(&self.state).unwrap();
        std::fs::create_dir(&self.state).unwrap();
        self.base = self.cached();
        for (path, entry) in &self.base {
            if let Entry::File(inode) = entry {
                std::fs::copy(path, self.state.join(format!("i{inode}"))).unwrap();
            }
        }
    }

    /// The names that are on the device when the power is cut.
    fn names(&self, rng: &mut Rng) -> Tree {
        let text = std::fs::read_to_string(self.state.join("names")).unwrap_or_default();
        let mut tree = self.base.clone();
        let mut pending: Vec<Change> = Vec::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split('\t').collect();
            let [what, a, b, inode] = words[..] else {
                continue; // cut short by the kill
            };
            let (a, b) = (PathBuf::from(a), PathBuf::from(b));
            let file = Entry::File(inode.parse().unwrap());
            let (removes, makes) = match what {
                "S" => {
                    let (done, left) = pending
                        .into_iter()
                        .partition::<Vec<_>, _>(|change| change.folders.contains(&a));
                    pending = left;
                    done.iter().for_each(|change| apply(&mut tree, change));
                    continue;
                }
                "C" => (None, Some((a, file))),
                "L" => (None, Some((b, file))),
                "M" => (None, Some((a, Entry::Folder))),
                "R" => (Some(a), Some((b, file))),
                _ => (Some(a), None),
            };
            let paths = removes.iter().chain(makes.iter().map(|(path, _)| path));
            let folders = paths.map(|path| path.parent().unwrap().to_path_buf());
            pending.push(Change {
                folders: folders.collect(),
                removes,
                makes,
            });
        }
        let (habit, first) = (rng.below(4), rng.below(pending.len() + 1));
        for (n, change) in pending.iter().enumerate() {
            let is_there = match habit {
                0 => false,
                1 => true,
                2 => n < first,
                _ => rng.one_in(2),
            };
            if is_there {
                apply(&mut tree, change);
            }
        }
        tree
    }
}

fn apply(tree: &mut Tree, change: &Change) {
    let removed = change.removes.as_ref().and_then(|path| tree.remove(path));
    let Some((path, entry)) = &change.makes else {
        return;
    };
    // A folder that is renamed takes along what is in it.
    if let (Some(Entry::Folder), Some(from)) = (removed, &change.removes) {
        let below: Vec<PathBuf> = tree
            .keys()
            .filter(|p| p.starts_with(from))
            .cloned()
            .collect();
        for old in below {
            let moved = path.join(old.strip_prefix(from).unwrap());
            let entry = tree.remove(&old).unwrap();
            tree.insert(moved, entry);
        }
        tree.insert(path.clone(), Entry::Folder);
        return;
    }
    tree.insert(path.clone(), *entry);
}

/// What of a file survives: its image, and of its dirty pages none, all, some, or some sectors.
fn surviving(
    image: Vec<u8>,
    cached: Option<Vec<u8>>,
    dirty: &[u8],
    habit: usize,
    rng: &mut Rng,
) -> Vec<u8> {
    // Of a file that was removed nothing is in memory.
    let Some(cached) = cached else {
        return image;
    };
    let mut content = image;
    let len = match habit {
        0 => content.len(),
        1 => cached.len(),
        _ => *rng.pick(&[content.len(), cached.len()]),
    };
    content.resize(len, 0);
    let pages = dirty.iter().enumerate().filter(|(_, dirty)| **dirty != 0);
    for (page, _) in pages {
        let whole = match habit {
            0 => continue,
            1 => true,
            2 if rng.one_in(2) => continue,
            2 => true,
            _ => false,
        };
        for from in (page * PAGE..(page + 1) * PAGE).step_by(SECTOR) {
            let end = (from + SECTOR).min(len).min(cached.len());
            if from < end && (whole || rng.one_in(2)) {
                content[from..end].copy_from_slice(&cached[from..end]);
            }
        }
    }
    content
}
