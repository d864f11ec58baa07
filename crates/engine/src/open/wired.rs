//! Step 4 of opening: the store, of what was found.

use std::path::{Path, PathBuf};
use std::sync::Weak;

use thermocline_base::budget::Account;
use thermocline_base::options::Options;
use thermocline_base::planted::{Bug, active};
use thermocline_base::size::index;
use thermocline_base::{Error, Result};
use thermocline_catalog::owned::Reclaim;
use thermocline_catalog::view::{Front, View};
use thermocline_catalog::{Catalog, Observer, Pinned, Pins, files};
use thermocline_commit::Commits;
use thermocline_env::LockGuard;
use thermocline_halloc::Space;
use thermocline_memtable::Memtable;
use thermocline_observe::count::Counted;
use thermocline_observe::event::EventListener;
use thermocline_observe::events::Events;
use thermocline_observe::latency::Latencies;
use thermocline_observe::poison::Poison;
use thermocline_observe::stall::Stalls;
use thermocline_policy::pressure::Due;
use thermocline_policy::split::Tools;
use thermocline_policy::tuning::JOB_THREADS_ALONE;
use thermocline_runtime::{Background, Client, Runtime};
use thermocline_tables::{Lent, TableFiles, Tables, read_level0_keys};
use thermocline_version::{Manifest, VersionSet};

use super::named::Named;
use super::recovered::Recovered;
use crate::approximate::rulers::Rulers;
use crate::blobs::Blobs;
use crate::close::after::After;
use crate::close::folder::FolderLock;
use crate::compact::state::Compactions;
use crate::cursor::explore::Probes;
use crate::expiry::{Expiry, Ttls};
use crate::families::table::Families;
use crate::flush::read_since::ReadSince;
use crate::flush::written_since::WrittenSince;
use crate::holds::registry::Holds;
use crate::merge::merges::Merges;
use crate::next_memtable::prepared::Next;
use crate::partitions::rates::counters::PartitionRates;
use crate::prepared::registry::Registry;
use crate::pressure::gauge::Gauge;
use crate::report::Recovery;
use crate::room::news::Room;
use crate::store::{
    Above, Admission, Common, Compactor, Evacuator, FamilyChanges, Feeds, FlushDue, FlushWriter,
    Flusher, Ingester, Inner, Level0Costs, Making, Memtables, Merger, Partitioner, Picker,
    Preparer, Pressure, Reads, Reclaimer, Reporter, Stager, Sweeper, Upkeep,
};
use crate::sync::{Arc, AtomicBool, AtomicU64};
use crate::turns::Turns;
use crate::wal::logs::Wal;
use crate::write::env::limits;
use crate::write::held::WriterLock;
use crate::write::seal_limits;
use crate::write::writer::Writer;

/// What the store has in common with others, who listens, and how they know it.
pub(super) struct Shared {
    /// Its folder, as it was given.
    pub given: PathBuf,
    pub runtime: Runtime,
    pub account: Arc<Account>,
    pub listener: Option<Arc<dyn EventListener>>,
    pub ttls: Ttls,
}

/// The tables of the store, swept and opened for reading.
struct OpenedTables {
    versions: VersionSet,
    files: Arc<TableFiles>,
    tables: Arc<Tables>,
}

/// The files of the tables that the manifest names.
fn table_files(
    named: &Named,
    dir: &Path,
    (runtime, account): (&Runtime, &Arc<Account>),
) -> Arc<TableFiles> {
    let options = &named.options;
    let threads = match runtime.options().jobs {
        jobs @ 1.. if named.world.background => jobs,
        _ => JOB_THREADS_ALONE,
    };
    let dram = account.budget().limit().min(options.dram);
    let tools = Tools::of(index(options.compaction.io_depth), threads, dram);
    let lent = Lent {
        cache: &runtime.common(),
        bufs: runtime.bufs(),
        reader: runtime.reader(),
        async_reader: runtime.async_reader(),
        job_io: runtime.job_io(named.world.background),
        coroutines: tools.coroutines,
        piece_bytes: tools.piece_bytes,
    };
    let storage = &named.world.env.storage;
    TableFiles::new(
        storage,
        dir,
        named.origins.clone(),
        (options, account),
        &lent,
    )
}

/// The same, of a store to which somebody else writes, which are open, and stay so: he may remove them before all else is read.
///
/// # Errors
/// [`Error::Busy`] if he has removed one; [`Error::Corruption`] if one is missing that is still named; those of the file system.
pub(super) fn table_files_beside(
    named: &Named,
    dir: &Path,
    shared: (&Runtime, &Arc<Account>),
) -> Result<Arc<TableFiles>> {
    let files = table_files(named, dir, shared);
    let version = named.manifest.state().version();
    let kept = files.keep_open(version);
    if let Err(Error::Busy(_)) = &kept {
        let (_, now) = Manifest::open(named.world.env.storage.clone(), dir, true)?;
        let is_named = |file| now.version().file(file).is_some();
        if version.files().all(|(file, _)| is_named(file)) {
            let mut versions = VersionSet::new(named.manifest.state());
            files::sweep(&files, &mut versions, (true, false))?;
        }
    }
    kept.map(|()| files)
}

/// Those that are `kept` open, if somebody else writes to the store, or all that there are.
fn open_tables(
    named: &Named,
    recovered: &Recovered,
    (dir, kept): (&Path, Option<Arc<TableFiles>>),
    shared: &Shared,
) -> Result<OpenedTables> {
    let mut versions = VersionSet::new(named.manifest.state());
    let files = match kept {
        Some(files) => {
            // Logs, too, may refer to files that were named while they were read.
            files.keep_open(versions.current())?;
            files
        }
        None => {
            let files = table_files(named, dir, (&shared.runtime, &shared.account));
            let who = (named.options.read_only, recovered.may_be_read());
            files::sweep(&files, &mut versions, who)?;
            files
        }
    };
    let current = versions.current().clone();
    let (space, zones) = (&recovered.space, &recovered.zones);
    let of = (&*current, named.db_id);
    files.pm.open_all(space, zones, of, &shared.account)?;
    read_level0_keys(&current, &files);
    Ok(OpenedTables {
        versions,
        tables: Tables::new(current, files.clone(), None),
        files,
    })
}

/// What memtables own; those that were flushed are on their way out.
fn owned(named: &Named, recovered: &mut Recovered) -> Reclaim {
    let reclaim = Reclaim::new(
        &named.state,
        &recovered.zones,
        &recovered.descriptors,
        &recovered.start.memtables,
        recovered.found.trails(),
        recovered.strangers,
    );
    reclaim.found_flushed(std::mem::take(&mut recovered.rebuilt.flushed));
    reclaim
}

/// What the open had to do.
fn told(named: &Named, recovered: &Recovered, started: u64) -> Recovery {
    let rebuilt = &recovered.rebuilt;
    Recovery {
        records: rebuilt.records,
        kept_records: rebuilt.flushed.iter().map(|m| m.len()).sum(),
        chains: recovered.found.chains().count() as u64,
        cut_records: recovered.found.cut_records,
        sealed_by_recovery: recovered.found.unsealed(),
        nanos: named.world.env.clock.now_ns() - started,
    }
}

/// What readers see.
fn seen(named: &Named, live: Vec<Arc<Memtable>>, tables: Arc<Tables>, pins: &Arc<Pins>) -> View {
    let front = named.state.evacuation().map(Front::of);
    let front = front.filter(|_| !active(Bug::FrontForgotten));
    let memtables = live.into_iter().rev().collect();
    View::new(memtables, tables, front.map(Arc::new), Some(pins.clone()))
}

fn gauge(space: &Space, options: &Options, dir: &Path) -> Gauge {
    // If the disk does not say, the region grows as if it lay elsewhere.
    let on_disk = space.region().takes_room_of(dir).unwrap_or(false);
    Gauge::new(options.base_bytes(), Due::of(options)).with_region_on_disk(on_disk)
}

/// All that a store is made of.
struct Parts<'a> {
    dir: &'a Path,
    lock: Option<Box<dyn LockGuard>>,
    named: Named,
    recovered: Recovered,
    opened: OpenedTables,
    view: View,
    pins: &'a Pins,
    writer: Writer,
    reclaim: Reclaim,
    families: Families,
    shared: Shared,
    commits: Commits,
    recovery: Recovery,
}

impl Parts<'_> {
    /// What all rooms have in common, and what only some of them have.
    fn into_common(self, me: &Weak<Inner>) -> (Common, Own) {
        let (named, recovered) = (self.named, self.recovered);
        let (options, world, shared) = (named.options, named.world, self.shared);
        let clock = world.env.clock.clone();
        let own = Own {
            writer: self.writer,
            known_durable: recovered.known_durable(options.read_only),
            last_seqno: recovered.last_seqno(),
            gauge: gauge(&recovered.space, &options, self.dir),
            blobs: Blobs::new(recovered.version.blob_files().next().is_some()),
            wal: recovered.wal,
            pins: Arc::downgrade(self.pins.pinned()),
            holds: Holds::new(clock.clone()),
        };
        let client = me.clone() as Weak<dyn Client>;
        let threads = world.background && !options.read_only;
        let background = Arc::new(Background::new(shared.runtime, client, threads));
        let events = Events::new(&shared.given, shared.listener, background.clone());
        let events = Arc::new(events);
        let poison = Arc::new(Poison::telling(events.clone()));
        let rates = named.manifest.state().rates();
        let rates = PartitionRates::new(options.partition.rate_sample, rates, clock.now_ns());
        let current = self.opened.versions.current().clone();
        let common = Common {
            stalls: Stalls::new(clock.clone(), events.clone()),
            dir: self.dir.to_path_buf(),
            given: shared.given,
            world,
            db_id: named.db_id,
            catalog: Catalog::new(
                (named.manifest, named.manifest_bytes),
                self.opened.versions,
                (self.view, self.opened.files),
                (poison.clone(), events.clone()),
                me.clone() as Weak<dyn Observer>,
            ),
            turns: Turns::default(),
            merges: Merges::default(),
            probes: Probes::default(),
            read_since: ReadSince::default(),
            written_since: WrittenSince::default(),
            compactions: Compactions::new(&options, clock.clone(), &current),
            room: Room::default(),
            families: Arc::new(self.families),
            expiry: Expiry::new(shared.ttls, clock.clone()),
            prepared: Registry::default(),
            commits: self.commits,
            elders: recovered.elders,
            reclaim: self.reclaim,
            poison,
            counted: Counted::default(),
            recovery: self.recovery,
            closed: AtomicBool::new(false),
            account: shared.account,
            background,
            events,
            rates,
            latencies: Latencies::new(options.metrics.latency_every, clock),
            options,
            space: recovered.space,
            is_beside: named.beside.is_some(),
            lock: FolderLock::new(self.lock),
        };
        (common, own)
    }
}

/// What some rooms have beside what all have in common.
struct Own {
    writer: Writer,
    known_durable: u64,
    last_seqno: u64,
    gauge: Gauge,
    blobs: Arc<Blobs>,
    wal: Option<Wal>,
    pins: Weak<Pinned>,
    holds: Arc<Holds>,
}

/// A room, of rooms that it shares with others and of what is its own.
macro_rules! room {
    ($room:ident: $($shared:ident),* $(; $($own:ident: $of:expr),*)?) => {
        Arc::new($room { $($shared: $shared.clone(),)* $($($own: $of),*)? })
    };
}

/// Each room is given those that it may use: all of them stand above it here.
fn rooms(common: Common, own: Own, me: &Weak<Inner>) -> Inner {
    let common = Arc::new(common);
    let region_seen = AtomicU64::new(common.space.region_bytes());
    let pressure = room!(Pressure: common; gauge: own.gauge);
    let level0_costs = room!(Level0Costs: common);
    let picker = room!(Picker: common, pressure, level0_costs);
    let flush_due = room!(FlushDue: common, pressure);
    let memtables = room!(Memtables:
        common, pressure;
        above: me.clone() as Weak<dyn Above>,
        writer: WriterLock::new(own.writer),
        next: Next::default(), wal: own.wal, staging: AtomicU64::new(0), region_seen: region_seen,
        idle_seen: AtomicU64::new(own.last_seqno));
    let reads = room!(Reads:
        common;
        pins: own.pins, holds: own.holds, relics: Arc::default(), rulers: Rulers::default());
    let sweeper = room!(Sweeper: common, pressure, memtables, reads; blobs: own.blobs);
    let feeds = room!(Feeds: common, memtables, reads, sweeper; known_durable: own.known_durable);
    let making = room!(Making: common, sweeper);
    let partitioner = room!(Partitioner: common, pressure, picker, memtables);
    let reclaimer = room!(Reclaimer: common, pressure, memtables, reads, sweeper);
    let merger = room!(Merger: common, flush_due, memtables, reclaimer);
    let upkeep = room!(Upkeep: common, flush_due, reclaimer, merger);
    let compactor = room!(Compactor:
        common, pressure, level0_costs, picker, memtables, sweeper, making, partitioner);
    let flush_writer = room!(FlushWriter: common, pressure, sweeper, making, partitioner);
    let evacuator = room!(Evacuator:
        common, pressure, level0_costs, picker, memtables, sweeper, making, partitioner,
        reclaimer, flush_writer);
    let flusher = room!(Flusher:
        common, pressure, flush_due, memtables, sweeper, making, reclaimer, merger, compactor,
        flush_writer, evacuator);
    let admission = room!(Admission:
        common, pressure, flush_due, memtables, reads, sweeper, reclaimer, evacuator, flusher);
    let stager = room!(Stager: common, pressure, flush_due, memtables, sweeper, upkeep, admission);
    let preparer = room!(Preparer: common; me: me.clone());
    let family_changes = room!(FamilyChanges: common, memtables, reads, flusher);
    let ingester = room!(Ingester:
        common, pressure, memtables, sweeper, making, reclaimer, upkeep, flusher, admission);
    let reporter = room!(Reporter:
        common, pressure, picker, flush_due, memtables, reads, feeds, partitioner, evacuator);
    Inner {
        me: me.clone(),
        common,
        pressure,
        flush_due,
        memtables,
        reads,
        sweeper,
        feeds,
        making,
        partitioner,
        reclaimer,
        merger,
        upkeep,
        compactor,
        flusher,
        admission,
        stager,
        preparer,
        family_changes,
        ingester,
        reporter,
        left: After::new(),
    }
}

/// Puts the store together. If it fails, what was recovered goes before the lock, since that comes first: elders hold the
/// folder again before anybody else may open the store.
pub(super) fn wire(
    named: Named,
    (dir, lock, started): (&Path, Option<Box<dyn LockGuard>>, u64),
    (mut recovered, kept): (Recovered, Option<Arc<TableFiles>>),
    families: Families,
    shared: Shared,
) -> Result<Arc<Inner>> {
    let recovery = told(&named, &recovered, started);
    let opened = open_tables(&named, &recovered, (dir, kept), &shared)?;
    let reclaim = owned(&named, &mut recovered);
    let pins: Arc<Pins> = Arc::default();
    let live = std::mem::take(&mut recovered.rebuilt.live);
    let view = seen(&named, live, opened.tables.clone(), &pins);
    shared.account.opened();
    let (kind, run) = (
        recovered.space.region().kind(),
        recovered.space.longest_run(),
    );
    let commits = Commits::new(limits(&named.options, kind, run), recovered.last_seqno());
    let limits = seal_limits(&named.options, opened.versions.current());
    let registered = recovered.elders.register(&commits.readers);
    let parts = Parts {
        dir,
        lock,
        writer: recovered.writer(view.memtables[0].clone(), limits),
        named,
        recovered,
        opened,
        view,
        pins: &pins,
        reclaim,
        families,
        shared,
        commits,
        recovery,
    };
    let inner = Arc::new_cyclic(|me: &Weak<Inner>| {
        let (common, own) = parts.into_common(me);
        rooms(common, own, me)
    });
    inner.common.elders.follow(&inner, registered);
    Ok(inner)
}
