//! An open store: what it holds, and for whom.

use std::path::PathBuf;

use arc_swap::ArcSwap;
use thermocline_base::options::Options;
use thermocline_env::{Env, LockGuard};
use thermocline_halloc::Space;
use thermocline_pm::{Shadow, SimPm};
use thermocline_version::Manifest;

use crate::close::Handle;
use crate::commit::ack::Acks;
use crate::commit::bucket::Buckets;
use crate::commit::ring::Ring;
use crate::families::Families;
use crate::maintain::Maintainer;
use crate::metrics::{Counted, Recovery};
use crate::poison::Poison;
use crate::readers::Readers;
use crate::reclaim::Reclaim;
use crate::sync::{Arc, AtomicBool, Mutex};
use crate::value::Pins;
use crate::view::View;
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
    /// Whether a thread of the store's own works ahead (grows the region, names the next
    /// generation, covers the last write when idle, drops generations in which nothing is alive).
    /// Without it that is done when it is due, by
    /// whoever needs it: tests that explore crashes want one thread.
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

/// An open store. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
    /// Closes the store when the last clone goes.
    pub(crate) _handle: Arc<Handle>,
}

pub(crate) struct Inner {
    pub dir: PathBuf,
    pub world: World,
    pub options: Options,
    pub db_id: [u8; 16],
    pub space: Arc<Space>,
    pub manifest: Mutex<Manifest>,
    pub families: Families,
    pub writer: Mutex<Writer>,
    pub view: ArcSwap<View>,
    /// Where durable writes meet.
    pub buckets: Buckets,
    /// Groups between grant and finish, and the watermarks.
    pub ring: Ring,
    /// Held by whoever writes back what was deferred.
    pub syncing: Mutex<()>,
    pub acks: Acks,
    pub pins: Arc<Pins>,
    pub readers: Readers,
    /// What generations own; held for moments.
    pub reclaim: Mutex<Reclaim>,
    pub poison: Poison,
    pub counted: Counted,
    pub recovery: Recovery,
    pub closed: AtomicBool,
    pub maintainer: Maintainer,
    /// Held by whoever works ahead.
    pub ahead: Mutex<()>,
    pub lock: Mutex<Option<Box<dyn LockGuard>>>,
    /// Of a store that was closed: its folder, until nobody reads on.
    pub hold: Mutex<Option<Box<dyn LockGuard>>>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}
