//! What happens to a store, told to whoever listens.
//!
//! An event is emitted where it happens, under whatever locks, and delivered later, as a call of the
//! store (`runtime::strand`): by a courier, in the order in which events were emitted, one at a time, and under
//! no lock, so that a listener may use the store, be slow, and block. A store without threads delivers at the
//! end of the call in which they happened, and closing delivers what is left before it returns.
//!
//! # What waits is bounded
//! While [`WAITING_MAX`](waiting::WAITING_MAX) events wait, further ones are dropped and counted, and the next that is taken, or
//! the end of those that wait, is preceded by [`Event::EventsLost`]: the gap is told where it is. That a
//! store was poisoned, or closed, is never dropped: each happens once. The newest are dropped, not the
//! oldest: whoever emits has no time, and may be under a lock, where nothing of a subscriber's may be dropped.
//!
//! The same events go to `tracing`, with the target `thermocline` and the store's folder as the field
//! `db`. Whether somebody listens is asked when an event is emitted, and it is delivered to whom the
//! emitting thread's events go, on whatever thread. Without a listener and a subscriber an event costs
//! what it takes to ask that.

mod waiting;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thermocline_base::sync::{AtomicU64, Mutex, Ordering, lock};
use thermocline_base::{CfId, Error};
use thermocline_policy::pick::Reason as CompactionReason;
use tracing::{Dispatch, Level, dispatcher};

use self::waiting::Waiting;
use crate::runtime::Background;
use crate::stall::StallCause;

/// The target of all events in `tracing`.
const TARGET: &str = "thermocline";

/// Something that happened to a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The store was opened.
    Opened {
        /// Records that were indexed again.
        records: u64,
        /// Readable records of unfinished writes that were cut off at the end.
        cut_records: u64,
        /// Whether the process before did not close the store.
        after_crash: bool,
        /// From the start of opening until the store took requests.
        took: Duration,
    },
    /// The manifest names the next memtable generation, ahead of need.
    GenerationPrepared {
        /// Its number.
        id: u64,
    },
    /// A memtable generation takes no more writes.
    GenerationSealed {
        /// Its number.
        id: u64,
        /// Records in it, older versions and tombstones included.
        records: u64,
        /// Persistent memory of its records and headers, in bytes.
        bytes: u64,
    },
    /// A memtable generation is gone.
    GenerationDropped {
        /// Its number.
        id: u64,
    },
    /// Sealed memtable generations are being written into tables.
    FlushBegun {
        /// How many.
        generations: usize,
        /// Persistent memory of their records and headers, in bytes.
        bytes: u64,
    },
    /// A flush has ended.
    FlushFinished {
        /// Memtable generations that it took.
        generations: usize,
        /// Tables that it wrote.
        tables: usize,
        /// Bytes of these tables.
        bytes: u64,
        /// Whether they lie in persistent memory because little was alive in the generations, and not because all of
        /// level 0 does.
        rewritten: bool,
        /// From its beginning to its end.
        took: Duration,
        /// Why everything is as before, if it is.
        error: Option<String>,
    },
    /// Indexes of sealed memtable generations were merged into one.
    IndexesMerged {
        /// How many.
        indexes: usize,
        /// Their keys.
        keys: u64,
        /// Keys of the new one.
        keys_after: u64,
        /// From beginning to end.
        took: Duration,
    },
    /// The region of persistent memory has grown.
    RegionGrown {
        /// Its size before, in bytes.
        from_bytes: u64,
        /// Its size now, in bytes.
        to_bytes: u64,
    },
    /// The manifest was rewritten in a new file.
    ManifestSwitched {
        /// The new file.
        path: PathBuf,
        /// Its size, in bytes.
        bytes: u64,
    },
    /// A compaction has begun.
    CompactionBegun {
        /// Its number, from 1 in each opening of the store.
        id: u64,
        /// The column family.
        family: CfId,
        /// Why.
        reason: CompactionReason,
        /// The level that the tables leave.
        from: usize,
        /// The level that they go to.
        to: usize,
        /// Tables that it takes, of both levels.
        tables: usize,
        /// Their bytes.
        bytes: u64,
    },
    /// A compaction has ended.
    CompactionFinished {
        /// Its number, from 1 in each opening of the store.
        id: u64,
        /// The column family.
        family: CfId,
        /// Why it was begun.
        reason: CompactionReason,
        /// The level that the tables left.
        from: usize,
        /// The level that they went to.
        to: usize,
        /// Tables that it took, of both levels.
        tables: usize,
        /// Whether they were moved unread.
        moved: bool,
        /// Tables that it wrote.
        tables_written: usize,
        /// Bytes that it read.
        bytes_read: u64,
        /// Bytes of the tables that it wrote.
        bytes_written: u64,
        /// Entries that it read and nobody needed.
        entries_dropped: u64,
        /// From its beginning to its end.
        took: Duration,
        /// Why everything is as before, if it is.
        error: Option<String>,
    },
    /// A partition was divided.
    PartitionSplit {
        /// The column family.
        family: CfId,
        /// The first key of the new partition.
        start: Vec<u8>,
        /// Tables, or parts of tables, that reached over it and became two parts each.
        cut: usize,
    },
    /// Partitions were merged with those before them.
    PartitionsMerged {
        /// The column family.
        family: CfId,
        /// How many were merged, and are no more.
        merged: usize,
        /// Tables, or larger parts of tables, that parts became again.
        joined: usize,
    },
    /// A flush has made partitions of prefixes that it met first.
    PartitionsMade {
        /// How many, in all families.
        made: usize,
    },
    /// A column family was made.
    ColumnFamilyCreated {
        /// Its name.
        name: String,
    },
    /// A column family was dropped.
    ColumnFamilyDropped {
        /// Its name.
        name: String,
    },
    /// A write was held up by the store's own work.
    WriteStalled {
        /// By what.
        cause: StallCause,
        /// For how long.
        took: Duration,
    },
    /// A write was refused for lack of space, after all before it were taken. Further ones are not
    /// told, until one at least as large as the smallest that was refused is taken.
    WritesRefused {
        /// Which budget is used up, and the remedy.
        cause: String,
    },
    /// A write is taken again as large as one that was refused.
    WritesResumed,
    /// Events were dropped here, because 4,096 waited for whoever listens.
    EventsLost {
        /// How many.
        events: u64,
    },
    /// A persist failed: the store takes no writes until it is opened again.
    Poisoned {
        /// What failed.
        cause: String,
    },
    /// The store was closed.
    Closed {
        /// Why that was not orderly; the next open recovers.
        error: Option<String>,
    },
}

/// Listens to the events of a store.
///
/// It is called on a thread of the store's runtime that does nothing else, in the order of events, one at a
/// time, and under no lock: it may use the store, and close it. While it runs other events of the store
/// and its callbacks wait, and nothing else does. Up to 4,096 events wait; further ones are dropped, and
/// [`Event::EventsLost`] says how many. Closing the store waits for it, unless that is done in it.
/// A panic in it ends the delivery of that event only.
///
/// Functions and closures are listeners.
pub trait EventListener: Send + Sync {
    /// Takes an event.
    fn event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync> EventListener for F {
    fn event(&self, event: &Event) {
        self(event);
    }
}

/// The events of one store.
pub(crate) struct Events {
    db: Arc<Path>,
    listener: Option<Arc<dyn EventListener>>,
    background: Arc<Background>,
    waiting: Arc<Mutex<Waiting>>,
    /// Bytes of the smallest write that was refused and not told to be taken again; `u64::MAX` if
    /// there is none. Relaxed: it guards nothing.
    refused_bytes: AtomicU64,
}

impl Events {
    pub fn new(
        db: &Path,
        listener: Option<Arc<dyn EventListener>>,
        background: Arc<Background>,
    ) -> Events {
        Events {
            db: db.into(),
            listener,
            background,
            waiting: Arc::default(),
            refused_bytes: AtomicU64::new(u64::MAX),
        }
    }

    /// Has `event` delivered. May be called under any lock.
    pub fn emit(&self, event: Event) {
        let dispatch = event
            .is_traced()
            .then(|| dispatcher::get_default(Dispatch::clone));
        if dispatch.is_none() && self.listener.is_none() {
            return;
        }
        let Some(lost_before) = lock(&self.waiting).take(&event) else {
            return;
        };
        let listens = Listens {
            db: self.db.clone(),
            listener: self.listener.clone(),
            dispatch,
        };
        if lost_before > 0 {
            let listens = listens.clone();
            self.background
                .run(Box::new(move || listens.tell_lost(lost_before)));
        }
        let waiting = self.waiting.clone();
        self.background.run(Box::new(move || {
            lock(&waiting).leave();
            listens.tell(&event);
            let lost = lock(&waiting).lost_at_end();
            listens.tell_lost(lost);
        }));
    }

    /// Events that wait, and those that were dropped.
    pub fn usage(&self) -> (u64, u64) {
        let waiting = lock(&self.waiting);
        (waiting.events, waiting.lost_ever)
    }

    /// A write of `bytes` bytes was not let through.
    #[cold]
    pub fn refused(&self, bytes: u64, error: &Error) {
        if let Error::OutOfSpace(cause) = error
            && self.refused_bytes.fetch_min(bytes, Ordering::Relaxed) == u64::MAX
        {
            self.emit(Event::WritesRefused {
                cause: cause.clone(),
            });
        }
    }

    /// A write of `bytes` bytes that does not only delete was let through.
    #[inline]
    pub fn accepted(&self, bytes: u64) {
        if bytes >= self.refused_bytes.load(Ordering::Relaxed) {
            self.resumed();
        }
    }

    #[cold]
    fn resumed(&self) {
        if self.refused_bytes.swap(u64::MAX, Ordering::Relaxed) != u64::MAX {
            self.emit(Event::WritesResumed);
        }
    }
}

/// Who is told an event.
#[derive(Clone)]
struct Listens {
    db: Arc<Path>,
    listener: Option<Arc<dyn EventListener>>,
    dispatch: Option<Dispatch>,
}

impl Listens {
    fn tell(&self, event: &Event) {
        if let Some(dispatch) = &self.dispatch {
            dispatcher::with_default(dispatch, || event.trace(&self.db));
        }
        if let Some(listener) = &self.listener {
            listener.event(event);
        }
    }

    fn tell_lost(&self, events: u64) {
        if events > 0 {
            self.tell(&Event::EventsLost { events });
        }
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events")
            .field("db", &self.db)
            .finish_non_exhaustive()
    }
}

impl Event {
    fn level(&self) -> Level {
        match self {
            Event::Opened { .. }
            | Event::ColumnFamilyCreated { .. }
            | Event::ColumnFamilyDropped { .. }
            | Event::WritesResumed => Level::INFO,
            Event::Closed { error: None } => Level::INFO,
            Event::CompactionFinished { error: Some(_), .. }
            | Event::FlushFinished { error: Some(_), .. } => Level::WARN,
            Event::CompactionBegun { .. }
            | Event::CompactionFinished { error: None, .. }
            | Event::FlushBegun { .. }
            | Event::FlushFinished { error: None, .. }
            | Event::IndexesMerged { .. }
            | Event::GenerationPrepared { .. }
            | Event::GenerationSealed { .. }
            | Event::GenerationDropped { .. }
            | Event::RegionGrown { .. }
            | Event::PartitionSplit { .. }
            | Event::PartitionsMerged { .. }
            | Event::PartitionsMade { .. }
            | Event::ManifestSwitched { .. } => Level::DEBUG,
            Event::WriteStalled { .. }
            | Event::WritesRefused { .. }
            | Event::EventsLost { .. }
            | Event::Closed { error: Some(_) } => Level::WARN,
            Event::Poisoned { .. } => Level::ERROR,
        }
    }

    /// Whether a subscriber wants it.
    fn is_traced(&self) -> bool {
        match self.level() {
            Level::ERROR => tracing::enabled!(target: TARGET, Level::ERROR),
            Level::WARN => tracing::enabled!(target: TARGET, Level::WARN),
            Level::INFO => tracing::enabled!(target: TARGET, Level::INFO),
            _ => tracing::enabled!(target: TARGET, Level::DEBUG),
        }
    }

    /// Tells `tracing`.
    fn trace(&self, db: &Path) {
        // One macro for each level, with the fields of each event.
        macro_rules! tell {
            ($level:ident, $what:literal $(, $($field:tt)+)?) => {
                tracing::event!(
                    target: TARGET,
                    Level::$level,
                    db = %db.display(),
                    $($($field)+,)?
                    $what
                )
            };
        }
        match self {
            Event::Opened {
                records,
                cut_records,
                after_crash,
                took,
            } => tell!(INFO, "opened", records, cut_records, after_crash, took = ?took),
            Event::GenerationPrepared { id } => tell!(DEBUG, "generation prepared", id),
            Event::GenerationSealed { id, records, bytes } => {
                tell!(DEBUG, "generation sealed", id, records, bytes);
            }
            Event::GenerationDropped { id } => tell!(DEBUG, "generation dropped", id),
            Event::FlushBegun { generations, bytes } => {
                tell!(DEBUG, "flush begun", generations, bytes);
            }
            Event::FlushFinished {
                error: Some(error),
                took,
                ..
            } => tell!(WARN, "flush failed", error = %error, took = ?took),
            Event::FlushFinished {
                generations,
                tables,
                bytes,
                rewritten,
                took,
                error: None,
            } => {
                tell!(DEBUG, "flush finished", generations, tables, bytes, rewritten, took = ?took);
            }
            Event::IndexesMerged {
                indexes,
                keys,
                keys_after,
                took,
            } => tell!(DEBUG, "indexes merged", indexes, keys, keys_after, took = ?took),
            Event::RegionGrown {
                from_bytes,
                to_bytes,
            } => tell!(DEBUG, "region grown", from_bytes, to_bytes),
            Event::ManifestSwitched { path, bytes } => {
                tell!(DEBUG, "manifest switched", path = %path.display(), bytes);
            }
            Event::CompactionBegun { .. } | Event::CompactionFinished { .. } => {
                self.trace_compaction(db);
            }
            Event::PartitionSplit { family, start, cut } => {
                let start = start.escape_ascii();
                tell!(DEBUG, "partition split", family = family.0, start = %start, cut);
            }
            Event::PartitionsMerged {
                family,
                merged,
                joined,
            } => tell!(
                DEBUG,
                "partitions merged",
                family = family.0,
                merged,
                joined
            ),
            Event::PartitionsMade { made } => tell!(DEBUG, "partitions made", made),
            Event::ColumnFamilyCreated { name } => {
                tell!(INFO, "column family created", name = %name);
            }
            Event::ColumnFamilyDropped { name } => {
                tell!(INFO, "column family dropped", name = %name);
            }
            Event::WriteStalled { cause, took } => {
                tell!(WARN, "write stalled", cause = cause.name(), took = ?took);
            }
            Event::WritesRefused { cause } => tell!(WARN, "writes refused", cause = %cause),
            Event::EventsLost { events } => tell!(WARN, "events lost", events),
            Event::WritesResumed => tell!(INFO, "writes resumed"),
            Event::Poisoned { cause } => tell!(ERROR, "poisoned", cause = %cause),
            Event::Closed { error: None } => tell!(INFO, "closed"),
            Event::Closed { error: Some(error) } => {
                tell!(WARN, "closed with an error", error = %error);
            }
        }
    }

    fn trace_compaction(&self, db: &Path) {
        let db = db.display();
        match self {
            Event::CompactionBegun {
                id,
                family,
                reason,
                from,
                to,
                tables,
                bytes,
            } => tracing::event!(
                target: TARGET,
                Level::DEBUG,
                db = %db,
                id,
                family = family.0,
                ?reason,
                from,
                to,
                tables,
                bytes,
                "compaction begun"
            ),
            Event::CompactionFinished {
                id,
                error: Some(error),
                ..
            } => {
                tracing::event!(target: TARGET, Level::WARN, db = %db, id, error = %error, "compaction failed");
            }
            Event::CompactionFinished {
                id,
                moved,
                tables_written,
                bytes_read,
                bytes_written,
                entries_dropped,
                took,
                ..
            } => tracing::event!(
                target: TARGET,
                Level::DEBUG,
                db = %db,
                id,
                moved,
                tables_written,
                bytes_read,
                bytes_written,
                entries_dropped,
                ?took,
                "compaction finished"
            ),
            _ => {}
        }
    }
}
