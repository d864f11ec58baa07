//! The ordered index of level 0: the keys of its tables in files, in DRAM (`sst::keys`; TridentKV §3.3, option
//! `level0.key_index`). Point reads ask it before they open a table ([`search`](crate::search)).
//!
//! # Invariants
//! 1. *Those of level 0.* Who has written a table of level 0 has its keys kept here. The first [`Tables`](crate::Tables)
//!    whose level 0 names the table holds them from then on, and so do those that follow, as long as they name it there.
//!    So they go with the last reader who may need them, whether the table has gone or has only moved down. Those of a table
//!    that was never named go with its file.
//! 2. *Bounded.* All together take no more than an eighth of the store's DRAM, and are charged to its account. Where there is
//!    no room for those of a table, none of them are kept, and the table is read as others are.
//! 3. *They give way*, the oldest first, once cached blocks and open tables have: nothing brings them back before the store
//!    is opened again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use thermocline_base::FileId;
use thermocline_base::budget::{Account, Charge};
use thermocline_base::sync::{AtomicU64, Mutex, Ordering, lock};
use thermocline_sst::{TableKeys, Where};

/// What the keys of a table take beside themselves.
const BYTES_BESIDE: u64 = 256;

/// See the [module](self).
#[derive(Debug)]
pub struct Level0Keys {
    /// Most bytes that all of them may take; 0 if none are wanted.
    most: u64,
    bytes: Arc<AtomicU64>,
    all: Mutex<BTreeMap<FileId, Entry>>,
}

#[derive(Debug)]
struct Entry {
    keys: Weak<KeptKeys>,
    /// The same, until somebody holds them.
    unnamed: Option<Arc<KeptKeys>>,
}

/// The keys of one table, until they give way.
#[derive(Debug)]
pub(crate) struct KeptKeys(ArcSwapOption<Charged>);

#[derive(Debug)]
struct Charged {
    keys: TableKeys,
    charge: Charge,
    /// What all of them take.
    bytes: Arc<AtomicU64>,
}

impl Drop for Charged {
    fn drop(&mut self) {
        let bytes = self.charge.bytes();
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl KeptKeys {
    /// Where in the table `key` is, as far as is known.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Where {
        match &*self.0.load() {
            Some(charged) => charged.keys.find(key),
            None => Where::Ask,
        }
    }
}

impl Level0Keys {
    /// For at most so many bytes of keys; with 0 none are kept.
    pub(crate) fn new(most: u64) -> Level0Keys {
        Level0Keys {
            most,
            bytes: Arc::default(),
            all: Mutex::default(),
        }
    }

    /// DRAM that they take.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that those of another table may take; 0 if none are wanted.
    pub fn room(&self) -> u64 {
        self.most.saturating_sub(self.bytes())
    }

    /// Keeps those of a table of level 0, if there is room: says whether there was.
    pub fn keep(&self, file: FileId, keys: TableKeys, account: &Arc<Account>) -> bool {
        let bytes = keys.charge() + BYTES_BESIDE;
        let more = |all: u64| all.checked_add(bytes).filter(|all| *all <= self.most);
        let relaxed = Ordering::Relaxed;
        if self.bytes.fetch_update(relaxed, relaxed, more).is_err() {
            return false;
        }
        // Others may have to give way, so not under the lock.
        let Some(charge) = account.charge_or_evict(bytes) else {
            self.bytes.fetch_sub(bytes, relaxed);
            return false;
        };
        let charged = Charged {
            keys,
            charge,
            bytes: self.bytes.clone(),
        };
        let kept = Arc::new(KeptKeys(ArcSwapOption::from_pointee(charged)));
        let entry = Entry {
            keys: Arc::downgrade(&kept),
            unnamed: Some(kept),
        };
        let mut all = lock(&self.all);
        all.retain(|_, entry| entry.keys.strong_count() > 0);
        all.insert(file, entry);
        true
    }

    /// Those of a table of level 0, for who holds them from now on.
    pub(crate) fn find(&self, file: FileId) -> Option<Arc<KeptKeys>> {
        if self.most == 0 {
            return None;
        }
        let mut all = lock(&self.all);
        let entry = all.get_mut(&file)?;
        entry.unnamed.take().or_else(|| entry.keys.upgrade())
    }

    /// Those that nobody has come to hold of tables that are `named`, for whoever drops them: of level 0 they are held.
    pub(crate) fn unseen(&self, named: impl Fn(FileId) -> bool) -> Vec<Arc<KeptKeys>> {
        if self.most == 0 {
            return Vec::new();
        }
        let mut all = lock(&self.all);
        let unseen = all.iter_mut().filter(|(_, entry)| entry.unnamed.is_some());
        let unseen = unseen.filter(|(file, _)| named(**file));
        unseen
            .filter_map(|(_, entry)| entry.unnamed.take())
            .collect()
    }

    /// These files are not there any more.
    pub(crate) fn forget(&self, files: &BTreeSet<FileId>) {
        if self.most == 0 {
            return;
        }
        let mut all = lock(&self.all);
        for file in files {
            all.remove(file);
        }
    }

    /// Gives back about so many bytes, or all.
    pub(crate) fn evict(&self, bytes: u64) {
        let goal = self.bytes().saturating_sub(bytes);
        for entry in lock(&self.all).values() {
            if self.bytes() <= goal {
                return;
            }
            if let Some(kept) = entry.keys.upgrade() {
                kept.0.store(None);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use thermocline_base::budget::Budget;
    use thermocline_base::{CfId, Kind, SeqNo, Steps};
    use thermocline_env::sim::SimFs;
    use thermocline_sst::{Identity, KeyRef, TableWriter, Value, WriteOptions};

    use super::*;

    /// Those of a table that has this key alone.
    pub(crate) fn keys_of(key: &[u8]) -> TableKeys {
        let disk = SimFs::new(Steps::new());
        let (path, options) = (Path::new("/table"), WriteOptions::default());
        let identity = Identity::new([1; 16], FileId(7));
        let table = TableWriter::create(&disk, path, identity, CfId(0), options).unwrap();
        let mut table = table.with_keys(u64::MAX);
        let at = KeyRef::new(key, SeqNo(1));
        table.add(at, Kind::Put, Value::Inline(b"v")).unwrap();
        table.finish_with_keys().unwrap().1.unwrap()
    }

    pub(crate) fn account(limit: u64) -> Arc<Account> {
        Account::new(Budget::new(limit), limit)
    }

    #[test]
    fn keys_go_with_the_last_who_holds_them_or_with_their_file() {
        let account = account(1 << 20);
        let all = Level0Keys::new(1 << 20);
        assert!(all.keep(FileId(1), keys_of(b"k"), &account));
        assert!(all.keep(FileId(2), keys_of(b"k"), &account));
        assert_eq!(all.bytes(), account.charged());
        let first = all.find(FileId(1)).unwrap();
        assert_eq!(first.find(b"j"), Where::Not);
        assert!(matches!(first.find(b"k"), Where::Block(_)));
        let both = [first, all.find(FileId(1)).unwrap()];
        assert!(all.find(FileId(3)).is_none());
        let bytes = all.bytes();
        drop(both);
        assert!(all.find(FileId(1)).is_none());
        assert_eq!(all.bytes(), bytes / 2);
        // Nobody has named it.
        all.forget(&BTreeSet::from([FileId(2)]));
        assert_eq!((all.bytes(), account.charged()), (0, 0));
    }

    /// Tables that went down before anybody saw them in level 0 keep nothing.
    #[test]
    fn keys_that_nobody_comes_to_hold_go_with_what_is_named_elsewhere() {
        let account = account(1 << 20);
        let all = Level0Keys::new(1 << 20);
        let kept = |n: u64| assert!(all.keep(FileId(n), keys_of(b"k"), &account));
        (1..=3).for_each(kept);
        let held = all.find(FileId(1)).unwrap();
        // The third one is still being written.
        assert_eq!(all.unseen(|file| file < FileId(3)).len(), 1);
        assert_eq!(all.bytes(), account.charged());
        assert!(all.find(FileId(2)).is_none());
        assert!(all.find(FileId(1)).is_some() && all.find(FileId(3)).is_some());
        drop(held);
        assert_eq!((all.bytes(), account.charged()), (0, 0));
    }

    #[test]
    fn what_has_no_room_is_not_kept_and_gives_way() {
        let big = account(1 << 20);
        let one = keys_of(b"k").charge() + BYTES_BESIDE;
        let none = Level0Keys::new(0);
        assert!(none.room() == 0 && !none.keep(FileId(1), keys_of(b"k"), &big));
        let all = Level0Keys::new(2 * one);
        assert!(all.keep(FileId(1), keys_of(b"k"), &big));
        assert!(all.keep(FileId(2), keys_of(b"k"), &big));
        assert!(!all.keep(FileId(3), keys_of(b"k"), &big));
        assert_eq!((all.room(), big.charged()), (0, 2 * one));
        // Of a budget that is smaller none either.
        let other = Level0Keys::new(2 * one);
        let small = account(one - 1);
        assert!(!other.keep(FileId(1), keys_of(b"k"), &small));
        assert_eq!((other.bytes(), small.charged()), (0, 0));
        // The oldest gives way first.
        let held = [1, 2].map(|file| all.find(FileId(file)).unwrap());
        all.evict(1);
        assert_eq!(
            held.each_ref().map(|keys| keys.find(b"j")),
            [Where::Ask, Where::Not]
        );
        all.evict(u64::MAX);
        assert_eq!(held.each_ref().map(|keys| keys.find(b"j")), [Where::Ask; 2]);
        assert_eq!((all.bytes(), big.charged()), (0, 0));
    }
}
