//! An open store: what it holds, and for whom.

use std::path::PathBuf;
use std::sync::Weak;

use thermocline_base::budget::Account;
use thermocline_base::options::Options;
use thermocline_base::{Error, FileId, Line, Result, SeqNo};
use thermocline_catalog::owned::Reclaim;
use thermocline_catalog::{Catalog, Installed, Observer, Pinned, View};
use thermocline_commit::Commits;
use thermocline_commit::readers::Registration;
use thermocline_env::{LockGuard, Storage};
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
use crate::close::position::Position;
use crate::compact::state::Compactions;
use crate::expiry::Expiry;
use crate::families::table::Families;
use crate::flush::read_since::ReadSince;
use crate::holds::registry::Holds;
use crate::merge::merges::Merges;
use crate::next_memtable::prepared::Prepared;
use crate::partitions::rates::counters::PartitionRates;
use crate::prepared::registry::Registry;
use crate::pressure::gauge::Gauge;
use crate::relics::list::Relics;
use crate::report::Recovery;
use crate::room::news::Room;
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, RwLock};
use crate::wal::logs::Wal;
use crate::world::World;
use crate::write::writer::Writer;

/// An open store. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
    /// Closes the store when the last clone goes.
    pub(crate) _handle: Arc<Handle>,
}

/// Turns, each before the writer's lock.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Of whoever flushes: one at a time.
    pub flushing: Mutex<()>,
    /// Of whoever ingests: one at a time. Before `flushing`.
    pub ingesting: Mutex<()>,
    /// Shared by all who stage a batch.
    pub stages: RwLock<()>,
    /// Of whoever works ahead.
    pub ahead: Mutex<()>,
}

/// What all rooms of a store have in common: its parts, each of which takes care of itself, and what is plain.
pub(crate) struct Common {
    pub dir: PathBuf,
    pub world: World,
    pub options: Options,
    pub db_id: [u8; 16],
    pub space: Arc<Space>,
    /// What exists: manifest, versions, tables, and what readers see.
    pub catalog: Catalog,
    /// Groups between grant and finish, the watermarks, and who reads the past.
    pub commits: Commits,
    /// Shared with groups of changes, which outlive the store.
    pub families: Arc<Families>,
    /// What of families has expired.
    pub expiry: Expiry,
    /// Transactions that are prepared, and what nobody else may change meanwhile.
    pub prepared: Registry,
    /// What memtables own; held for moments.
    pub reclaim: Mutex<Reclaim>,
    /// Held by whoever does something that there is one of at a time, or that closing waits for.
    pub turns: Turns,
    pub merges: Merges,
    /// What was read since memtables were last flushed.
    pub read_since: ReadSince,
    pub compactions: Compactions,
    /// Who made room, and who wants some.
    pub room: Room,
    /// Who reads on of earlier openings.
    pub elders: Elders,
    /// How often partitions are read and written.
    pub rates: PartitionRates,
    pub recovery: Recovery,
    pub closed: AtomicBool,
    pub poison: Arc<Poison>,
    pub counted: Counted,
    /// Its DRAM.
    pub account: Arc<Account>,
    pub background: Arc<Background>,
    pub events: Arc<Events>,
    pub stalls: Stalls,
    pub latencies: Latencies,
    /// The folder's. The last field: whoever holds anything of a store that has failed keeps others out.
    pub lock: Mutex<Option<Box<dyn LockGuard>>>,
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
    /// Those above, who see to what is sealed, and make room.
    pub above: Weak<dyn Above>,
    pub writer: Line<Mutex<Writer>>,
    /// The next memtable, once it is named. After the writer's lock, where both are held.
    pub next: Mutex<Option<Prepared>>,
    /// What makes writes durable where records lie in DRAM.
    pub wal: Option<Wal>,
    /// DRAM promised to batches that are being staged. Raised under the writer's lock.
    pub staging: AtomicU64,
    /// The region's size when it was last told.
    pub region_seen: AtomicU64,
}

/// What memtables ask of whoever stands above them, under the writer's lock.
pub(crate) trait Above: Send + Sync {
    /// As [`Upkeep::sealed`].
    fn sealed(&self, writer: &mut Writer) -> Result<()>;

    /// As [`Upkeep::reclaim_or`].
    fn reclaim_or(&self, writer: &mut Writer, error: Error) -> Result<()>;

    /// As [`Upkeep::reclaim_descriptors`].
    fn reclaim_descriptors(&self, writer: &mut Writer) -> Result<()>;
}

/// Who reads, and how: a key is looked up, a value copied or held, a reader asked to leave.
pub(crate) struct Reads {
    pub common: Arc<Common>,
    /// Held by views, and by values in place.
    pub pins: Weak<Pinned>,
    /// Who is registered, and what is lent to whom.
    pub holds: Arc<Holds>,
    /// What was set aside of families that were dropped.
    pub relics: Arc<Relics>,
    /// By which ranges of memtables are measured.
    pub rulers: Rulers,
}

/// What nobody names or reads any more goes: files, blob files, tables in persistent memory.
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
    /// Of what this open found, and has not made durable because it only reads, all up to this seqno was durable
    /// before; else the largest number.
    pub known_durable: u64,
}

/// Tables are made, and let go of if nobody names them.
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

/// Memtables in which nothing is alive go.
pub(crate) struct Reclaimer {
    pub common: Arc<Common>,
    pub pressure: Arc<Pressure>,
    pub memtables: Arc<Memtables>,
    pub reads: Arc<Reads>,
    pub sweeper: Arc<Sweeper>,
}

/// Indexes of sealed memtables become one.
pub(crate) struct Merger {
    pub common: Arc<Common>,
    pub flush_due: Arc<FlushDue>,
    pub memtables: Arc<Memtables>,
    pub reclaimer: Arc<Reclaimer>,
}

/// What a writer that lacks something does under its lock.
pub(crate) struct Upkeep {
    pub common: Arc<Common>,
    pub flush_due: Arc<FlushDue>,
    pub reclaimer: Arc<Reclaimer>,
    pub merger: Arc<Merger>,
}

/// Compactions are carried out.
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

/// What a flush has taken is written.
pub(crate) struct FlushWriter {
    pub common: Arc<Common>,
    pub pressure: Arc<Pressure>,
    pub sweeper: Arc<Sweeper>,
    pub making: Arc<Making>,
    pub partitioner: Arc<Partitioner>,
}

/// Sealed memtables become tables, range by range.
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

/// Flushes from beginning to end, and who asks for them.
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

/// Batches that are too large for one item, and long values, go their own way in.
pub(crate) struct Stager {
    pub common: Arc<Common>,
    pub pressure: Arc<Pressure>,
    pub flush_due: Arc<FlushDue>,
    pub memtables: Arc<Memtables>,
    pub sweeper: Arc<Sweeper>,
    pub upkeep: Arc<Upkeep>,
    pub admission: Arc<Admission>,
}

/// Transactions are prepared and resolved.
pub(crate) struct Preparer {
    pub common: Arc<Common>,
    /// Whose way in their batches take.
    pub me: Weak<Inner>,
}

/// Families come and go.
pub(crate) struct FamilyChanges {
    pub common: Arc<Common>,
    pub memtables: Arc<Memtables>,
    pub reads: Arc<Reads>,
    pub flusher: Arc<Flusher>,
}

/// Tables of others become tables of the store.
pub(crate) struct Ingester {
    pub common: Arc<Common>,
    pub pressure: Arc<Pressure>,
    pub memtables: Arc<Memtables>,
    pub sweeper: Arc<Sweeper>,
    pub making: Arc<Making>,
    pub reclaimer: Arc<Reclaimer>,
    pub upkeep: Arc<Upkeep>,
    pub flusher: Arc<Flusher>,
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

/// An open store: its rooms, each of which knows those above it in this list that it has been given, and none below;
/// and what only opening, closing and the tasks of its threads know.
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
    /// Of a store that was closed: what those read who are still registered.
    pub left: Mutex<After>,
    /// What was durable when the store was last looked at as perhaps idle.
    pub idle_seen: AtomicU64,
}

/// A seqno that is registered for as long as there is a clone.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    pub held: Arc<Registered>,
    /// How many families had been dropped (`families`, invariant 4).
    pub drops: u64,
}

/// The registration that all clones of a moment share. Registering once more at a moment that is past
/// could not be made safe: a writer that looks for readers might find the new slot still free, and the
/// old one free already.
#[derive(Debug)]
pub(crate) struct Registered {
    pub inner: Arc<Inner>,
    pub registration: Registration,
}

/// A store that was closed, and that somebody may read.
#[derive(Debug)]
pub(crate) struct Left {
    /// Where it was open.
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
    /// As long as somebody reads on at a moment, or has a handle.
    pub inner: Weak<Inner>,
}

/// What those read who are registered with a store that is closed.
#[derive(Debug, Default)]
pub(crate) enum After {
    /// Nothing: there is nobody.
    #[default]
    Nothing,
    /// Its last view.
    View(Arc<View>),
    /// Views of the store that was opened since, which knows these moments.
    Opened(Vec<Moment>),
}

/// The stores that were open here before, and that somebody reads (`close`).
#[derive(Debug)]
pub(crate) struct Elders {
    pub storage: Arc<dyn Storage>,
    pub dir: PathBuf,
    pub left: Vec<Arc<Left>>,
    /// When somebody reads in them, ascending.
    pub moments: Vec<SeqNo>,
    /// Whether they have the folder again.
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
