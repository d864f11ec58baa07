//! What a store is opened in, and with.

use std::time::Duration;

use thermocline_base::filter::CompactionFilter;
use thermocline_base::merge::MergeOperator;
use thermocline_env::Env;
use thermocline_observe::event::EventListener;
use thermocline_pm::{Shadow, SimPm};
use thermocline_runtime::Runtime;

use crate::sync::Arc;

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
    /// Whether threads work ahead (grow the region, name the next memtable, cover the last write
    /// when idle, drop memtables in which nothing is alive, flush others). Without them that is done
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
    /// The merge operators that its families may have, beside those that are built in.
    pub merge_operators: Vec<Arc<dyn MergeOperator>>,
    /// Compaction filters, and the names of the families that have them, of those that are made later, too. Of two for one
    /// family the latter counts.
    pub compaction_filters: Vec<(String, Arc<dyn CompactionFilter>)>,
    /// The TTLs of families, by name, of those that are made later, too; as with filters the latter of two counts.
    pub ttls: Vec<(String, Duration)>,
    /// Who reads only keeps no writer out, whether there is one yet or not.
    pub beside_writers: bool,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup")
            .field("runtime", &self.runtime)
            .field("listener", &self.listener.is_some())
            .field("merge_operators", &self.merge_operators)
            .field("compaction_filters", &self.compaction_filters)
            .field("ttls", &self.ttls)
            .field("beside_writers", &self.beside_writers)
            .finish()
    }
}
