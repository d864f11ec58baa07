//! Tables that are open: of thousands not all at a time.
//!
//! # Invariants
//! 1. *Bounded.* Tables that are open take no more than an eighth of the store's DRAM, which is charged to its account, and
//!    no more stay open than `read.open_tables` says (decision 170). Beyond that tables are closed that were not
//!    read since the last look (second chance). A table that somebody reads, or has a cursor in, is passed over: it stays open
//!    for him, and is counted. To close it would free nothing, and it would be opened a second time beside itself. When he is done
//!    it may be one too many, until the next table is opened or somebody needs DRAM.
//! 2. *Read once.* Of threads that need a table that is not open one opens it, and the others wait for
//!    it.
//! 3. *No error is kept.* Who meets a table that does not open gets the error, naming file and offset, and
//!    the next one tries again.
//! 4. *No room is no error.* Where indexes leave no room for a table it is opened for the one who reads it,
//!    and closed after ([`Account::charge_over`](thermocline_base::budget::Account::charge_over)).

pub(crate) mod opening;

use std::collections::VecDeque;
use std::sync::Weak;

use arc_swap::ArcSwapOption;
use thermocline_base::FileId;
use thermocline_base::bounds::KeyBounds;
use thermocline_base::budget::Charge;
use thermocline_base::options::Options;
use thermocline_base::planted::{Bug, active};
use thermocline_base::size::index;
use thermocline_policy::tuning::{OPEN_FILES_PARTS, OPEN_PLACES_MIN, OPEN_TABLES_MIN};
use thermocline_sst::{CachedSource, Table};

use super::file::TableFile;

use std::sync::Arc;
use thermocline_base::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, lock};

/// A table's file, open or not.
#[derive(Debug)]
pub struct Handle {
    pub(crate) file: FileId,
    /// Null while it is closed.
    pub(crate) open: ArcSwapOption<OpenTable>,
    /// Held by whoever opens it.
    opening: Mutex<()>,
    /// Whether it was read since it was looked at. Relaxed: a guess.
    used: AtomicBool,
    /// Reads that it was asked by in vain, about (`observe::charged`). Relaxed: a guess.
    charged: AtomicU64,
}

/// A table that is open.
#[derive(Debug)]
pub struct OpenTable {
    pub table: Arc<Table>,
    pub file: Arc<TableFile>,
    pub source: CachedSource,
    _charge: Charge,
    of: Arc<OpenUse>,
}

/// What is open, in use or not.
#[derive(Debug, Default)]
pub struct OpenUse {
    tables: AtomicU64,
    bytes: AtomicU64,
    /// How often one was opened.
    opened: AtomicU64,
    /// Those that stay open, whose handles are there.
    staying: AtomicUsize,
}

/// The open tables of a store.
#[derive(Debug)]
pub struct OpenTables {
    tables_max: usize,
    bytes_max: u64,
    pub(crate) of: Arc<OpenUse>,
    /// Those that stay open, in the order in which they are looked at. Some may have gone.
    ring: Mutex<VecDeque<Weak<Handle>>>,
}

/// How many tables may stay open (0: any number), in a process that may have so many files open. Where no option says it, half of
/// them, since others want some, too.
pub(crate) fn tables_max(options: &Options, files_max: Option<u64>) -> usize {
    index(match options.read.open_tables {
        0 => files_max.map_or(0, |files| (files / OPEN_FILES_PARTS).max(OPEN_TABLES_MIN)),
        most => most,
    })
}

impl OpenTable {
    pub(crate) fn new(
        (table, file): (Arc<Table>, Arc<TableFile>),
        source: CachedSource,
        charge: Charge,
        of: &Arc<OpenUse>,
    ) -> OpenTable {
        of.tables.fetch_add(1, Ordering::Relaxed);
        of.bytes.fetch_add(charge.bytes(), Ordering::Relaxed);
        of.opened.fetch_add(1, Ordering::Relaxed);
        OpenTable {
            table,
            file,
            source,
            _charge: charge,
            of: of.clone(),
        }
    }

    /// What all keys of a range begin with, if the table says nothing of any that does. Nothing is read for that.
    #[inline]
    pub(crate) fn denied_prefix<'k>(&self, range: KeyBounds<'k>) -> Option<&'k [u8]> {
        let prefix = self.table.denied_prefix(range)?;
        // Who does not enter the table is not told what its range tombstones cover in older ones.
        let says = self.has_ranges() && !active(Bug::PrefixForgetsTombstones);
        (!says).then_some(prefix)
    }

    /// Whether it has range tombstones, of which the filter knows nothing.
    #[inline]
    pub(crate) fn has_ranges(&self) -> bool {
        self.table.range_tombstones().next().is_some()
    }
}

impl Drop for OpenTable {
    fn drop(&mut self) {
        self.of.tables.fetch_sub(1, Ordering::Relaxed);
        let bytes = self._charge.bytes();
        self.of.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl OpenUse {
    /// Tables that are open.
    pub fn tables(&self) -> u64 {
        self.tables.load(Ordering::Relaxed)
    }

    /// DRAM that they take.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// How often one was opened.
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }
}

impl Handle {
    pub fn new(file: FileId) -> Arc<Handle> {
        Arc::new(Handle {
            file,
            open: ArcSwapOption::empty(),
            opening: Mutex::default(),
            used: AtomicBool::new(true),
            charged: AtomicU64::new(0),
        })
    }

    /// The table, if it is open.
    pub fn opened(&self) -> Option<Arc<OpenTable>> {
        self.open.load_full()
    }

    /// Whether somebody has the table, beside this.
    fn is_held(&self) -> bool {
        matches!(&*self.open.load(), Some(open) if Arc::strong_count(open) > 1)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Its place in the ring is dropped later, and counts no more.
        if let Some(open) = &*self.open.load() {
            open.of.staying.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl OpenTables {
    /// With room for so many tables, any number if that is 0, and for so many bytes of them.
    pub fn new(tables_max: usize, bytes_max: u64) -> OpenTables {
        OpenTables {
            tables_max: match tables_max {
                0 => usize::MAX,
                most => most,
            },
            bytes_max,
            of: Arc::default(),
            ring: Mutex::default(),
        }
    }

    pub fn usage(&self) -> &OpenUse {
        &self.of
    }

    /// A table stays open from now on, which its handle has.
    pub(crate) fn add(&self, handle: &Arc<Handle>) {
        self.of.staying.fetch_add(1, Ordering::Relaxed);
        let mut ring = lock(&self.ring);
        // Tables go without a word, and nothing may ever have to be closed. So each is looked at twice, about.
        if ring.len() == ring.capacity() {
            ring.retain(|handle| handle.strong_count() > 0);
            let more = ring.len().max(OPEN_PLACES_MIN);
            ring.reserve_exact(more);
        }
        ring.push_back(Arc::downgrade(handle));
        // Places of tables that have gone are none too many.
        let staying = || self.of.staying.load(Ordering::Relaxed);
        self.close_while(&mut ring, || {
            staying() > self.tables_max || self.of.bytes() > self.bytes_max
        });
    }

    /// Closes tables until `bytes` less are charged, or none is open that nobody has.
    pub fn evict(&self, bytes: u64) {
        let goal = self.of.bytes().saturating_sub(bytes);
        self.close_while(&mut lock(&self.ring), || self.of.bytes() > goal);
    }

    /// Closes tables that nobody has, those first that were not read since they were looked at.
    fn close_while(&self, ring: &mut VecDeque<Weak<Handle>>, goes_on: impl Fn() -> bool) {
        // Twice around, at most: then each has had its chance.
        for _ in 0..2 * ring.len() {
            if !goes_on() {
                return;
            }
            let Some(weak) = ring.pop_front() else {
                return;
            };
            let Some(handle) = weak.upgrade() else {
                continue;
            };
            if handle.used.swap(false, Ordering::Relaxed) || handle.is_held() {
                ring.push_back(weak);
            } else if handle.open.swap(None).is_some() {
                self.of.staying.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use thermocline_base::budget::{Account, Budget};
    use thermocline_base::{CfId, Kind, SeqNo, Steps};
    use thermocline_env::Storage;
    use thermocline_env::sim::SimFs;
    use thermocline_sst::{
        BlockCache, Identity, KeyRef, TableWriter, Value, WriteOptions, open_table,
    };

    use super::*;

    /// A table that is open, and takes so many bytes.
    fn open_one(open: &OpenTables, account: &Arc<Account>, bytes: u64) -> Arc<Handle> {
        let fs = SimFs::new(Steps::new());
        let (path, identity) = (PathBuf::from("/table"), Identity::new([1; 16], FileId(7)));
        let options = WriteOptions::default();
        let mut table = TableWriter::create(&fs, &path, identity, CfId(0), options).unwrap();
        let at = KeyRef::new(b"key", SeqNo(1));
        table.add(at, Kind::Put, Value::Inline(b"value")).unwrap();
        table.finish().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(fs);
        let file = TableFile::open(&storage, path).unwrap();
        let table = open_table(&*file, identity).unwrap();
        let source = BlockCache::new(0).store().source(file.clone());
        let charge = account.charge_over(bytes);
        let opened = OpenTable::new((table, file), source, charge, &open.of);
        let handle = Handle::new(FileId(7));
        handle.open.store(Some(Arc::new(opened)));
        open.add(&handle);
        handle
    }

    #[test]
    fn tables_that_somebody_has_are_passed_over() {
        let account = Account::new(Budget::new(1 << 20), 1 << 20);
        let open = OpenTables::new(0, u64::MAX);
        let [first, second, third] = [(); 3].map(|()| open_one(&open, &account, 1000));
        let held = first.opened();
        open.evict(500);
        // It was the oldest, and its bytes would be there as before.
        let are_open = [&first, &second, &third].map(|handle| handle.opened().is_some());
        assert_eq!(are_open, [true, false, true]);
        assert_eq!((open.of.tables(), account.charged()), (2, 2000));
        drop(held);
        open.evict(u64::MAX);
        assert_eq!((open.of.tables(), account.charged()), (0, 0));
    }

    #[test]
    fn for_places_of_tables_that_have_gone_none_is_closed() {
        let account = Account::new(Budget::new(1 << 20), 1 << 20);
        let open = OpenTables::new(3, u64::MAX);
        let [cold, gone, gone_too] = [(); 3].map(|()| open_one(&open, &account, 1000));
        cold.used.store(false, Ordering::Relaxed);
        drop((gone, gone_too));
        let others = [(); 2].map(|()| open_one(&open, &account, 1000));
        // Three are open, and as many may be.
        assert!(cold.opened().is_some());
        assert_eq!(open.of.tables(), 3);
        let one_more = open_one(&open, &account, 1000);
        assert!(cold.opened().is_none());
        assert_eq!(open.of.tables(), 3);
        // One that was closed is not counted when it goes, either.
        drop((cold, others, one_more));
        assert_eq!(
            (open.of.tables(), open.of.staying.load(Ordering::Relaxed)),
            (0, 0)
        );
    }

    #[test]
    fn tables_that_have_gone_keep_no_place() {
        let open = OpenTables::new(0, u64::MAX);
        let kept: Vec<_> = (0..10).map(|n| Handle::new(FileId(n))).collect();
        kept.iter().for_each(|handle| open.add(handle));
        for n in 10..10_000 {
            open.add(&Handle::new(FileId(n)));
        }
        let ring = lock(&open.ring);
        assert!(ring.len() < 100, "{}", ring.len());
        let there = ring.iter().filter_map(Weak::upgrade);
        assert!(there.map(|handle| handle.file).eq((0..10).map(FileId)));
    }
}
