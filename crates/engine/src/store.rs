//! The fields of an open store, room by room.

use std::path::PathBuf;
use std::sync::Weak;

use thermocline_base::budget::Account;
use thermocline_base::options::Options;
use thermocline_base::{Error, FileId, Result, SeqNo};
use thermocline_catalog::owned::Reclaim;
use thermocline_catalog::{Catalog, Installed, Observer, Pinned};
use thermocline_commit::Commits;
use thermocline_commit::readers::Registration;
use thermocline_env::Storage;
use thermocline_halloc::Space;
use thermocline_level0::PmTable;
use thermocline_memtable::Home;
use thermocline_observe::count::Counted;
use thermocline_observe::events::Events;
use thermocline_observe::latency::Latencies;
use thermocline_observe::poison::Poison;
use thermocline_observe::stall::Stalls;
use thermocline_runtime::Background;
use thermocline_version::WriteTime;

use crate::approximate::rulers::Rulers;
use crate::blobs::Blobs;
use crate::close::after::After;
use crate::close::folder::FolderLock;
use crate::close::position::Position;
use crate::compact::state::Compactions;
use crate::cursor::explore::Probes;
use crate::expiry::Expiry;
use crate::families::table::Families;
use crate::flush::read_since::ReadSince;
use crate::flush::written_since::WrittenSince;
use crate::holds::registry::Holds;
use crate::merge::merges::Merges;
use crate::next_memtable::prepared::Next;
use crate::partitions::rates::counters::PartitionRates;
use crate::prepared::registry::Registry;
use crate::pressure::gauge::Gauge;
use crate::relics::list::Relics;
use crate::report::Recovery;
use crate::room::news::Room;
use crate::sync::{Arc, AtomicBool, AtomicU64};
use crate::turns::Turns;
use crate::wal::logs::Wal;
use crate::world::World;
use crate::write::held::WriterLock;
use crate::write::writer::Writer;

/// An open store. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
    /// Closes the store when the last clone goes.
    pub(crate) _handle: Arc<Handle>,
}

/// What all rooms of a store have in common: its parts, each of which guards its own state, and plain fields.
pub(crate) struct Common {
    /// The folder: a path that stays right when the working folder changes.
    pub dir: PathBuf,
    /// The same as it was given to the opening, for who asks, and for errors.
    pub given: PathBuf,
    pub world: World,
    pub options: Options,
    pub db_id: [u8; 16],
    pub space: Arc<Space>,
    /// What exists: manifest, versions, tables, and what readers see.
    pub catalog: Catalog,
    /// Groups between grant and finish, the watermarks, and the registered readers.
    pub commits: Commits,
    /// Shared with groups of changes, which outlive the store.
    pub families: Arc<Families>,
    /// What has expired of each family.
    pub expiry: Expiry,
    /// The prepared transactions, and the keys and ranges that they claim.
    pub prepared: Registry,
    /// What memtables own.
    pub reclaim: Reclaim,
    /// Turns: held during work that is done one at a time, or that closing waits for.
    pub turns: Turns,
    pub merges: Merges,
    /// Where cursors of the background look for deleted keys.
    pub probes: Probes,
    /// What was read since memtables were last flushed.
    pub read_since: ReadSince,
    /// Who has written between the last two flushes.
    pub written_since: WrittenSince,
    pub compactions: Compactions,
    /// Signals that room was made, or is wanted.
    pub room: Room,
    /// Earlier openings that somebody still reads.
    pub elders: Elders,
    /// How often partitions are read and written.
    pub rates: PartitionRates,
    pub recovery: Recovery,
    pub closed: AtomicBool,
    pub poison: Arc<Poison>,
    pub counted: Counted,
    /// The store's DRAM.
    pub account: Arc<Account>,
    pub background: Arc<Background>,
    pub events: Arc<Events>,
    pub stalls: Stalls,
    pub latencies: Latencies,
    /// Whether somebody else writes to it, who has the folder.
    pub is_beside: bool,
    /// The folder's lock. It is the last field: if the store has failed, whatever still holds a part of it keeps other
    /// openers out.
    pub lock: FolderLock,
}

/// How much writers are held back, and what is done for room on a full disk.
pub(crate) struct Pressure {
    pub common: Arc<Common>,
    pub gauge: Gauge,
}

/// What it costs to leave level 0 in persistent memory as it is, and to merge it.
pub(crate) struct Level0Costs {
    pub common: Arc<Common>,
}

/// Which compaction comes next, and what it and others hold meanwhile.
pub(crate) struct Picker {
    pub common: Arc<Common>,
    pub pressure: Arc<Pressure>,
    pub level0_costs: Arc<Level0Costs>,
}

/// Whether a flush is due.
pub(crate) struct FlushDue {
    pub common: Arc<Common>,
    pub pressure: Arc<Pressure>,
}

/// Where writes go: the active memtable and its chain, the next one, the logs, and DRAM that is promised.
pub(crate) struct Memtables {
    pub common: Arc<Common>,
    pub pressure: Arc<Pressure>,
    /// The rooms above, which take care of sealed memtables and make room.
    pub above: Weak<dyn Above>,
    pub writer: WriterLock,
    /// The next memtable, once it is named, and the turn to name it.
    pub next: Next,
    /// The logs, which make writes durable where records lie in DRAM.
    pub wal: Option<Wal>,
    /// DRAM promised to batches that are being staged, and to merges of indexes. Raised under the writer's lock.
    pub staging: AtomicU64,
    /// The region's size, in bytes, when growth was last reported.
    pub region_seen: AtomicU64,
    /// The durable seqno when the store was last checked for being idle.
    pub idle_seen: AtomicU64,
}

/// What memtables ask of the rooms above them, under the writer's lock.
pub(crate) trait Above: Send + Sync {
    /// As [`Upkeep::sealed`].
    fn sealed(&self, writer: &mut Writer) -> Result<()>;

    /// As [`Upkeep::reclaim_or`].
    fn reclaim_or(&self, writer: &mut Writer, error: Error) -> Result<()>;

    /// As [`Upkeep::reclaim_descriptors`].
    fn reclaim_descriptors(&self, writer: &mut Writer) -> Result<()>;
}

/// Reading: looks keys up, copies values or holds them in place, and asks readers to give up old views.
pub(crate) struct Reads {
    pub common: Arc<Common>,
    /// Held by views, and by values in place.
    pub pins: Weak<Pinned>,
    /// The list of readers, and what each has been lent.
    pub holds: Arc<Holds>,
    /// What was set aside for readers of families that were dropped.
    pub relics: Arc<Relics>,
    /// Rulers that estimate the size of key ranges in memtables.
    pub rulers: Rulers,
}

/// Removes files, blob files and PM tables that are neither named nor read any more.
pub(crate) struct Sweeper {
    pub common: Arc<Common>,
    pub pressure: Arc<Pressure>,
    pub memtables: Arc<Memtables>,
    pub reads: Arc<Reads>,
    pub blobs: Arc<Blobs>,
}

/// What change feeds read, and what is kept for them.
pub(crate) struct Feeds {
    pub common: Arc<Common>,
    pub memtables: Arc<Memtables>,
    pub reads: Arc<Reads>,
    pub sweeper: Arc<Sweeper>,
    /// An open for reading does not make durable what it finds. All up to this seqno was durable before it. For other
    /// opens this is the largest number.
    pub known_durable: u64,
}

/// Makes tables, and releases those that no edit names.
pub(crate) struct Making {
    pub common: Arc<Common>,
    pub sweeper: Arc<Sweeper>,
}

/// How keys are divided, and how often each part is read and written.
pub(crate) struct Partitioner {
    pub common: Arc<Common>,
    pub pressure: Arc<Pressure>,
    pub picker: Arc<Picker>,
    pub memtables: Arc<Memtables>,
}

/// Drops memtables in which nothing is alive.
pub(crate) struct Reclaimer {
    pub common: Arc<Common>,
    pub pressure: Arc<Pressure>,
    pub memtables: Arc<Memtables>,
    pub reads: Arc<Reads>,
    pub sweeper: Arc<Sweeper>,
}

/// Merges indexes of sealed memtables into one.
pub(crate) struct Merger {
    pub common: Arc<Common>,
    pub flush_due: Arc<FlushDue>,
    pub memtables: Arc<Memtables>,
    pub reclaimer: Arc<Reclaimer>,
}

/// What a writer does under its lock when it lacks room, DRAM or a descriptor.
pub(crate) struct Upkeep {
    pub common: Arc<Common>,
    pub flush_due: Arc<FlushDue>,
    pub reclaimer: Arc<Reclaimer>,
    pub merger: Arc<Merger>,
}

/// Carries compactions out.
pub(crate) struct Compactor {
    pub common: Arc<Common>,
    pub pressure: Arc<Pressure>,
    pub level0_costs: Arc<Level0Costs>,
    pub picker: Arc<Picker>,
    pub memtables: Arc<Memtables>,
    pub sweeper: Arc<Sweeper>,
    pub making: Arc<Making>,
    pub partitioner: Arc<Partitioner>,
}

/// Writes the tables of a flush.
pub(crate) struct FlushWriter {
    pub common: Arc<Common>,
    pub pressure: Arc<Pressure>,
    pub sweeper: Arc<Sweeper>,
    pub making: Arc<Making>,
    pub partitioner: Arc<Partitioner>,
}

/// Turns sealed memtables into tables, range by range.
pub(crate) struct Evacuator {
    pub common: Arc<Common>,
    pub pressure: Arc<Pressure>,
    pub level0_costs: Arc<Level0Costs>,
    pub picker: Arc<Picker>,
    pub memtables: Arc<Memtables>,
    pub sweeper: Arc<Sweeper>,
    pub making: Arc<Making>,
    pub partitioner: Arc<Partitioner>,
    pub reclaimer: Arc<Reclaimer>,
    pub flush_writer: Arc<FlushWriter>,
}

/// Flushes from beginning to end, and the requests for them.
pub(crate) struct Flusher {
    pub common: Arc<Common>,
    pub pressure: Arc<Pressure>,
    pub flush_due: Arc<FlushDue>,
    pub memtables: Arc<Memtables>,
    pub sweeper: Arc<Sweeper>,
    pub making: Arc<Making>,
    pub reclaimer: Arc<Reclaimer>,
    pub merger: Arc<Merger>,
    pub compactor: Arc<Compactor>,
    pub flush_writer: Arc<FlushWriter>,
    pub evacuator: Arc<Evacuator>,
}

/// What a write meets before it gets its place: delay, a full disk, and room that has to be made.
pub(crate) struct Admission {
    pub common: Arc<Common>,
    pub pressure: Arc<Pressure>,
    pub flush_due: Arc<FlushDue>,
    pub memtables: Arc<Memtables>,
    pub reads: Arc<Reads>,
    pub sweeper: Arc<Sweeper>,
    pub reclaimer: Arc<Reclaimer>,
    pub evacuator: Arc<Evacuator>,
    pub flusher: Arc<Flusher>,
}

/// Writes batches that are too large for one item, and long values.
pub(crate) struct Stager {
    pub common: Arc<Common>,
    pub pressure: Arc<Pressure>,
    pub flush_due: Arc<FlushDue>,
    pub memtables: Arc<Memtables>,
    pub sweeper: Arc<Sweeper>,
    pub upkeep: Arc<Upkeep>,
    pub admission: Arc<Admission>,
}

/// Prepares and resolves transactions.
pub(crate) struct Preparer {
    pub common: Arc<Common>,
    /// The store, through which their batches are written.
    pub me: Weak<Inner>,
}

/// Creates and drops families.
pub(crate) struct FamilyChanges {
    pub common: Arc<Common>,
    pub memtables: Arc<Memtables>,
    pub reads: Arc<Reads>,
    pub flusher: Arc<Flusher>,
}

/// Ingests tables that were written for the store.
pub(crate) struct Ingester {
    pub common: Arc<Common>,
    pub pressure: Arc<Pressure>,
    pub memtables: Arc<Memtables>,
    pub sweeper: Arc<Sweeper>,
    pub making: Arc<Making>,
    pub reclaimer: Arc<Reclaimer>,
    pub upkeep: Arc<Upkeep>,
    pub flusher: Arc<Flusher>,
    pub admission: Arc<Admission>,
}

/// What a store says about itself.
pub(crate) struct Reporter {
    pub common: Arc<Common>,
    pub pressure: Arc<Pressure>,
    pub picker: Arc<Picker>,
    pub flush_due: Arc<FlushDue>,
    pub memtables: Arc<Memtables>,
    pub reads: Arc<Reads>,
    pub feeds: Arc<Feeds>,
    pub partitioner: Arc<Partitioner>,
    pub evacuator: Arc<Evacuator>,
}

/// An open store: its rooms, and fields that only opening, closing and the tasks of its threads use. A room knows some
/// of the rooms above it in this list, and none below it.
pub(crate) struct Inner {
    /// Itself, for calls that outlive the task that asks for them.
    pub me: Weak<Inner>,
    pub common: Arc<Common>,
    pub pressure: Arc<Pressure>,
    pub flush_due: Arc<FlushDue>,
    pub memtables: Arc<Memtables>,
    pub reads: Arc<Reads>,
    pub sweeper: Arc<Sweeper>,
    pub feeds: Arc<Feeds>,
    pub making: Arc<Making>,
    pub partitioner: Arc<Partitioner>,
    pub reclaimer: Arc<Reclaimer>,
    pub merger: Arc<Merger>,
    pub upkeep: Arc<Upkeep>,
    pub compactor: Arc<Compactor>,
    pub flusher: Arc<Flusher>,
    pub admission: Arc<Admission>,
    pub stager: Arc<Stager>,
    pub preparer: Arc<Preparer>,
    pub family_changes: Arc<FamilyChanges>,
    pub ingester: Arc<Ingester>,
    pub reporter: Arc<Reporter>,
    /// What readers that are still registered read after the store was closed.
    pub left: After<Moment>,
}

/// A seqno that is registered for as long as there is a clone.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    pub held: Arc<Registered>,
    /// Whether the store was closed before: only a handle comes then, which is no reader.
    pub is_late: bool,
}

/// The registration that all clones of a moment share. A second registration at a past moment would not be safe:
/// a writer that looks for readers might find the new slot still free, and the old one free already.
#[derive(Debug)]
pub(crate) struct Registered {
    pub inner: Arc<Inner>,
    pub registration: Registration,
    /// How many families had been dropped (`families`, invariant 4).
    pub drops: u64,
}

/// A store that was closed, and that may still have readers.
#[derive(Debug)]
pub(crate) struct Left {
    /// The process in which it was open.
    pub process: Option<std::thread::ThreadId>,
    pub db_id: [u8; 16],
    pub dir: PathBuf,
    /// Where its manifest ended when it was closed, or whoever followed it.
    pub position: std::sync::Mutex<Position>,
    /// What its readers hold.
    pub pinned: Weak<Pinned>,
    pub homes: Vec<Weak<Home>>,
    pub pm_tables: Vec<(FileId, Weak<PmTable>)>,
    pub relics: Weak<Relics>,
    pub blobs: Weak<Blobs>,
    pub holds: Weak<Holds>,
    /// Alive as long as there is a reader at a moment, or a handle.
    pub inner: Weak<Inner>,
}

/// The stores that were open here before, and that still have readers (`close`).
#[derive(Debug)]
pub(crate) struct Elders {
    pub storage: Arc<dyn Storage>,
    pub dir: PathBuf,
    pub left: Vec<Arc<Left>>,
    /// The moments at which their readers read, ascending.
    pub moments: Vec<SeqNo>,
    /// Whether they hold the folder again.
    pub ended: AtomicBool,
}

/// Closes the store when the last handle goes. Not a part of `Inner`, which workers, snapshots and
/// cursors may hold a little longer.
#[derive(Debug)]
pub(crate) struct Handle(pub Arc<Inner>);

impl std::fmt::Debug for Common {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Common")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Feeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.common.fmt(f)
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.common.fmt(f)
    }
}

impl Observer for Inner {
    fn installed(&self, installed: &Installed<'_>) {
        if let Some(version) = installed.version {
            self.common.compactions.note(version);
        }
        self.memtables.retire_logs(installed.chains_dropped);
    }

    fn write_time(&self, last: Option<WriteTime>) -> Option<WriteTime> {
        let expiry = &self.common.expiry;
        // Before the clock is read (`expiry`, 1).
        let durable = expiry.is_any().then(|| self.common.commits.ring.durable());
        expiry.next_pair(durable?, last)
    }
}
