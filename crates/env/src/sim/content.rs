//! The bytes of one simulated file: what is durable, what readers see, and every state in between
//! that a crash could leave.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The unit in which a kernel writes back.
pub(super) const PAGE: usize = 4096;
/// The unit in which a device writes whole.
pub(super) const SECTOR: usize = 512;
const PER_PAGE: u64 = (PAGE / SECTOR) as u64;

/// Most contents of one sector, or sizes of one file, that are remembered between two syncs; of
/// more, some in the middle are forgotten. A crash could leave those too, but tests that need
/// them write less between syncs.
const VERSIONS_MAX: usize = 16;

pub(super) type Sector = [u8; SECTOR];

/// Bytes by page; a page that is not there is zeros. Cloning shares the pages.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    pages: BTreeMap<u64, Arc<[u8; PAGE]>>,
    pub(super) len: u64,
}

/// Index and place within a unit of `unit` bytes.
fn split(offset: u64, unit: usize) -> (u64, usize) {
    let unit = unit as u64;
    let within = usize::try_from(offset % unit).expect("a remainder of a small number");
    (offset / unit, within)
}

impl Content {
    pub(super) fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let there = self.len.saturating_sub(offset);
        let want = usize::try_from(there).unwrap_or(usize::MAX).min(buf.len());
        let mut done = 0;
        while done < want {
            let (page, within) = split(offset + done as u64, PAGE);
            let n = (PAGE - within).min(want - done);
            match self.pages.get(&page) {
                Some(bytes) => buf[done..done + n].copy_from_slice(&bytes[within..within + n]),
                None => buf[done..done + n].fill(0),
            }
            done += n;
        }
        want
    }

    fn write(&mut self, bytes: &[u8], offset: u64) {
        let mut done = 0;
        while done < bytes.len() {
            let (page, within) = split(offset + done as u64, PAGE);
            let n = (PAGE - within).min(bytes.len() - done);
            let page = self.page_mut(page);
            page[within..within + n].copy_from_slice(&bytes[done..done + n]);
            done += n;
        }
        self.len = self.len.max(offset + bytes.len() as u64);
    }

    fn page_mut(&mut self, page: u64) -> &mut [u8; PAGE] {
        Arc::make_mut(
            self.pages
                .entry(page)
                .or_insert_with(|| Arc::new([0; PAGE])),
        )
    }

    fn sector(&self, index: u64) -> Sector {
        let mut sector = [0; SECTOR];
        if let Some(page) = self.pages.get(&(index / PER_PAGE)) {
            let (_, at) = split(index * SECTOR as u64, PAGE);
            sector.copy_from_slice(&page[at..at + SECTOR]);
        }
        sector
    }

    fn set_sector(&mut self, index: u64, sector: &Sector) {
        let (page, at) = split(index * SECTOR as u64, PAGE);
        self.page_mut(page)[at..at + SECTOR].copy_from_slice(sector);
    }

    /// Forgets everything behind `len`.
    fn trim(&mut self, len: u64) {
        let (page, within) = split(len, PAGE);
        if within == 0 {
            self.pages.split_off(&page);
        } else {
            self.pages.split_off(&(page + 1));
            if self.pages.contains_key(&page) {
                self.page_mut(page)[within..].fill(0);
            }
        }
        self.len = len;
    }

    /// The pages that hold anything but zeros.
    pub(super) fn pages(&self) -> impl Iterator<Item = (u64, &[u8; PAGE])> {
        self.pages
            .iter()
            .filter(|(_, page)| page.iter().any(|b| *b != 0))
            .map(|(index, page)| (*index, &**page))
    }
}

/// What a sector may hold beside its durable content.
#[derive(Debug, Clone)]
struct Unsynced<T> {
    /// Oldest first.
    versions: Vec<T>,
    /// A sync failed after the last change: the next sync passes over it.
    clean: bool,
}

impl<T: PartialEq> Unsynced<T> {
    fn push(&mut self, version: T) {
        self.clean = false;
        if self.versions.last() == Some(&version) {
            return;
        }
        if self.versions.len() == VERSIONS_MAX {
            self.versions.remove(VERSIONS_MAX / 2);
        }
        self.versions.push(version);
    }
}

impl<T> Default for Unsynced<T> {
    fn default() -> Self {
        Unsynced {
            versions: Vec::new(),
            clean: false,
        }
    }
}

/// What a failed sync leaves in memory. Either way the kernel holds the pages for clean, so a
/// later sync that succeeds does not write them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailedSync {
    /// Readers go on seeing the new content until the crash.
    Kept,
    /// Readers see the durable content again.
    Dropped,
}

/// One choice that a crash makes for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Size,
    Sector(u64),
}

/// A file without its names. Cloning shares the pages.
#[derive(Debug, Clone, Default)]
pub(super) struct Inode {
    durable: Content,
    live: Content,
    sectors: BTreeMap<u64, Unsynced<Sector>>,
    sizes: Unsynced<u64>,
    /// Up to here it was written to since a sync failed that held its size for written.
    reach: u64,
}

impl Inode {
    pub(super) fn durable(content: Content) -> Inode {
        Inode {
            live: content.clone(),
            durable: content,
            ..Inode::default()
        }
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Inode {
        let mut content = Content::default();
        content.write(bytes, 0);
        Inode::durable(content)
    }

    pub(super) fn live(&self) -> &Content {
        &self.live
    }

    pub(super) fn durable_content(&self) -> &Content {
        &self.durable
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        if bytes.is_empty() {
            return;
        }
        let len = self.live.len;
        self.live.write(bytes, offset);
        let last = (offset + bytes.len() as u64 - 1) / SECTOR as u64;
        for index in offset / SECTOR as u64..=last {
            self.note(index);
        }
        if self.live.len != len {
            if let Some(between) = end_between(offset, len, self.live.len) {
                self.sizes.push(between);
            }
            self.sizes.push(self.live.len);
        }
        // A page that is written has the size written with it, as far as it reaches.
        let page = PAGE as u64;
        let end = (offset + bytes.len() as u64).next_multiple_of(page);
        if end >= self.live.len {
            self.sizes.clean = false;
        } else if self.sizes.clean {
            self.reach = self.reach.max(end);
        }
    }

    pub(super) fn set_len(&mut self, len: u64) {
        let before = self.live.len;
        if len < before {
            let first = len / SECTOR as u64;
            let held: Vec<u64> = self
                .live
                .pages
                .range(first / PER_PAGE..)
                .flat_map(|(page, _)| page * PER_PAGE..(page + 1) * PER_PAGE)
                .filter(|index| *index >= first)
                .collect();
            self.live.trim(len);
            for index in held {
                self.note(index);
            }
        }
        self.live.len = len;
        if len != before {
            self.sizes.push(len);
        }
    }

    /// Remembers what `index` holds now as one of the contents that a crash may leave.
    fn note(&mut self, index: u64) {
        let now = self.live.sector(index);
        if let Some(unsynced) = self.sectors.get_mut(&index) {
            unsynced.push(now);
        } else if now != self.durable.sector(index) {
            self.sectors.entry(index).or_default().push(now);
        }
    }

    pub(super) fn sync(&mut self) {
        if !self.sizes.clean && self.sectors.values().all(|sector| !sector.clean) {
            self.sync_all();
            return;
        }
        let durable = &mut self.durable;
        self.sectors.retain(|index, unsynced| {
            if let (false, Some(last)) = (unsynced.clean, unsynced.versions.last()) {
                durable.set_sector(*index, last);
            }
            unsynced.clean
        });
        if !self.sizes.clean {
            self.sync_size();
        } else if self.reach > self.durable.len {
            let reach = self.reach;
            self.durable.len = reach;
            self.sizes.versions.retain(|size| *size > reach);
        }
    }

    fn sync_size(&mut self) {
        self.durable.len = self.live.len;
        self.sizes = Unsynced::default();
        self.reach = 0;
    }

    /// Everything is written back: of each page that differed both have the same. The others they share already, and a
    /// long file that is synced often has many.
    fn sync_all(&mut self) {
        let mut last = None;
        for page in self.sectors.keys().map(|index| index / PER_PAGE) {
            if last.replace(page) == Some(page) {
                continue;
            }
            match self.live.pages.get(&page) {
                Some(bytes) => drop(self.durable.pages.insert(page, Arc::clone(bytes))),
                None => drop(self.durable.pages.remove(&page)),
            }
        }
        self.sectors.clear();
        self.sync_size();
    }

    pub(super) fn fail_sync(&mut self, how: FailedSync) {
        match how {
            FailedSync::Kept => {
                for unsynced in self.sectors.values_mut() {
                    unsynced.clean = true;
                }
            }
            FailedSync::Dropped => {
                self.sectors.clear();
                let len = self.live.len;
                self.live = self.durable.clone();
                self.live.trim(len);
            }
        }
        // Kernels keep the size in memory either way.
        self.sizes.clean = !self.sizes.versions.is_empty();
        self.reach = 0;
    }

    /// The choices of a crash: what, and how many contents beside the durable one.
    pub(super) fn choices(&self) -> impl Iterator<Item = (Part, usize)> {
        let size = Some((Part::Size, self.sizes.versions.len())).filter(|(_, n)| *n > 0);
        size.into_iter().chain(
            self.sectors
                .iter()
                .map(|(index, unsynced)| (Part::Sector(*index), unsynced.versions.len())),
        )
    }

    /// What the device holds after a crash in which `pick` gave, for each of [`Inode::choices`] in
    /// order, 0 for the durable content or `n` for the n-th later one.
    pub(super) fn after_crash(&self, mut pick: impl FnMut() -> usize) -> Content {
        let mut content = self.durable.clone();
        if !self.sizes.versions.is_empty() {
            content.len = chosen(&self.sizes.versions, pick())
                .copied()
                .unwrap_or(content.len);
        }
        for (index, unsynced) in &self.sectors {
            if let Some(sector) = chosen(&unsynced.versions, pick()) {
                content.set_sector(*index, sector);
            }
        }
        content.trim(content.len);
        content
    }
}

/// Where a file may end that a write at `offset` makes longer, from `before` to `after` bytes, beside these two: a kernel adds page
/// after page. Of all such ends it is the last one.
fn end_between(offset: u64, before: u64, after: u64) -> Option<u64> {
    let page = PAGE as u64;
    let last = (after - 1) / page * page;
    (last > before.max(offset)).then_some(last)
}

fn chosen<T>(versions: &[T], choice: usize) -> Option<&T> {
    let index = choice.checked_sub(1)?;
    Some(versions.get(index).expect("a choice lies below its arity"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::SeededRandom;

    fn bytes(content: &Content) -> Vec<u8> {
        let mut all = vec![0; usize::try_from(content.len).unwrap()];
        content.read(&mut all, 0);
        all
    }

    /// What is written, cut off and made longer in any order is durable as readers see it, and what was cut off does not
    /// come back.
    #[test]
    fn a_sync_makes_durable_what_readers_see() {
        let random = SeededRandom::new(1);
        let mut inode = Inode::default();
        let mut model: Vec<u8> = Vec::new();
        for _ in 0..5_000 {
            let at = usize::try_from(random.below(20_000)).unwrap();
            match random.below(10) {
                0..6 => {
                    let len = usize::try_from(random.below(2_000)).unwrap();
                    let written = vec![u8::try_from(random.below(4)).unwrap(); len];
                    inode.write(&written, at as u64);
                    if len > 0 {
                        model.resize(model.len().max(at + len), 0);
                        model[at..at + len].copy_from_slice(&written);
                    }
                }
                6 => {
                    inode.set_len(at as u64);
                    model.resize(at, 0);
                }
                _ => {
                    inode.sync();
                    assert_eq!(inode.choices().count(), 0);
                    assert!(bytes(inode.durable_content()) == model);
                }
            }
            assert!(bytes(inode.live()) == model);
        }
    }
}
