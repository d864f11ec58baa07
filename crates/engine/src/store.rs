//! An open store: what it holds, and for whom.

use std::path::PathBuf;
use std::sync::Weak;

use thermocline_base::Line;
use thermocline_base::budget::Account;
use thermocline_base::options::Options;
use thermocline_catalog::{Catalog, Installed, Observer, Pinned};
use thermocline_commit::Commits;
use thermocline_env::{Env, LockGuard};
use thermocline_halloc::Space;
use thermocline_observe::count::Counted;
use thermocline_observe::event::EventListener;
use thermocline_observe::events::Events;
use thermocline_observe::latency::Latencies;
use thermocline_observe::poison::Poison;
use thermocline_observe::stall::Stalls;
use thermocline_pm::{Shadow, SimPm};
use thermocline_runtime::{Background, Runtime};

use crate::approximate::Rulers;
use crate::blobs::Blobs;
use crate::close::{After, Elders, Handle};
use crate::compact::Compactions;
use crate::families::Families;
use crate::generation::Prepared;
use crate::holds::Holds;
use crate::merge::Merges;
use crate::metrics::Recovery;
use crate::partitions::PartitionRates;
use crate::pressure::Pressure;
use crate::reclaim::Reclaim;
use crate::relics::Relics;
use crate::room::Room;
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, RwLock};
use crate::wal::Wal;
use crate::write::Writer;

/// The outside world of a store.
#[derive(Debug, Clone)]
pub struct World {
    /// Files, clock, randomness.
    pub env: Env,
    /// Simulated persistent memory in place of a mapped file.
    pub sim: Option<SimPm>,
    /// A model of caches before the mapped file, for tests that kill the process: what was not
    /// persisted dies with it. Without effect where `sim` is set.
    pub shadow: Option<Shadow>,
    /// Whether threads work ahead (grow the region, name the next generation, cover the last write
    /// when idle, drop generations in which nothing is alive, flush others). Without them that is done
    /// when it is due, by whoever needs it: tests that explore crashes want one thread.
    pub background: bool,
}

impl World {
    /// The real world.
    pub fn real() -> World {
        World {
            env: Env::real(),
            sim: None,
            shadow: None,
            background: true,
        }
    }
}

/// What a store is opened with that is not kept with it.
#[derive(Clone, Default)]
pub struct Setup {
    /// What it shares with other stores of the process; `None` gives it threads of its own.
    pub runtime: Option<Runtime>,
    /// Who is told what happens.
    pub listener: Option<Arc<dyn EventListener>>,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup")
            .field("runtime", &self.runtime)
            .field("listener", &self.listener.is_some())
            .finish()
    }
}

/// An open store. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
    /// Closes the store when the last clone goes.
    pub(crate) _handle: Arc<Handle>,
}

pub(crate) struct Inner {
    /// Itself, for calls that outlive the task that asks for them.
    pub me: Weak<Inner>,
    pub dir: PathBuf,
    pub world: World,
    pub options: Options,
    pub db_id: [u8; 16],
    pub space: Arc<Space>,
    /// What exists: manifest, versions, tables, and what readers see.
    pub catalog: Catalog,
    /// By which ranges of generations are measured.
    pub rulers: Rulers,
    /// Held by whoever flushes, so that there is one at a time and closing can wait for it. Before the
    /// writer's.
    pub flushing: Mutex<()>,
    pub merges: Merges,
    pub compactions: Compactions,
    pub blobs: Arc<Blobs>,
    /// Who made room, and who wants some.
    pub room: Room,
    /// How much writers are held back.
    pub pressure: Pressure,
    /// Held by whoever ingests. Before `flushing`.
    pub ingesting: Mutex<()>,
    /// Shared with groups of changes, which outlive the store.
    pub families: Arc<Families>,
    pub writer: Line<Mutex<Writer>>,
    /// The next generation, once it is named. After the writer's lock, where both are held.
    pub next: Mutex<Option<Prepared>>,
    /// Groups between grant and finish, the watermarks, and who reads the past.
    pub commits: Commits,
    /// Of what this open found, and has not made durable because it only reads, all up to this seqno was durable
    /// before; else the largest number.
    pub known_durable: u64,
    /// What makes writes durable where records lie in DRAM.
    pub wal: Option<Wal>,
    /// Held by views, and by values in place.
    pub pins: Weak<Pinned>,
    /// Who is registered, and what is lent to whom.
    pub holds: Arc<Holds>,
    /// Who reads on of earlier openings.
    pub elders: Elders,
    /// What was set aside of families that were dropped.
    pub relics: Arc<Relics>,
    /// Of a store that was closed: what those read who are still registered.
    pub left: Mutex<After>,
    /// What generations own; held for moments.
    pub reclaim: Mutex<Reclaim>,
    /// Held shared by whoever stages a batch, so that closing can wait for that. Before the writer's.
    pub stages: RwLock<()>,
    /// DRAM promised to batches that are being staged. Raised under the writer's lock.
    pub staging: AtomicU64,
    pub poison: Arc<Poison>,
    pub counted: Counted,
    pub recovery: Recovery,
    pub closed: AtomicBool,
    /// Its DRAM.
    pub account: Arc<Account>,
    pub background: Arc<Background>,
    pub events: Arc<Events>,
    pub stalls: Stalls,
    pub latencies: Latencies,
    /// How often partitions are read and written.
    pub rates: PartitionRates,
    /// The region's size when it was last told.
    pub region_seen: AtomicU64,
    /// What was durable when the store was last looked at as perhaps idle.
    pub idle_seen: AtomicU64,
    /// Held by whoever works ahead, so that closing can wait for that.
    pub ahead: Mutex<()>,
    pub lock: Mutex<Option<Box<dyn LockGuard>>>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// Nanoseconds by the clock of its world.
    pub fn now_ns(&self) -> u64 {
        self.world.env.clock.now_ns()
    }
}

impl Observer for Inner {
    fn installed(&self, installed: &Installed<'_>) {
        if let Some(version) = installed.version {
            self.compactions.note(version);
        }
        self.retire_logs(installed.chains_dropped);
    }
}
