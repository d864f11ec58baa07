//! Events for subscribers of `tracing`.

use std::path::Path;

use tracing::Level;

use crate::event::Event;

/// The target of all events in `tracing`.
const TARGET: &str = "thermocline";

/// One event of `tracing`, of the store in `$db`.
macro_rules! tell {
    ($db:expr, $level:ident, $what:literal $(, $($field:tt)+)?) => {
        tracing::event!(
            target: TARGET,
            Level::$level,
            db = %$db.display(),
            $($($field)+,)?
            $what
        )
    };
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
            | Event::Decided { .. }
            | Event::FlushBegun { .. }
            | Event::FlushFinished { error: None, .. }
            | Event::IndexesMerged { .. }
            | Event::IndexDivided { .. }
            | Event::MemtablePrepared { .. }
            | Event::MemtableSealed { .. }
            | Event::MemtableDropped { .. }
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
    pub(super) fn is_traced(&self) -> bool {
        match self.level() {
            Level::ERROR => tracing::enabled!(target: TARGET, Level::ERROR),
            Level::WARN => tracing::enabled!(target: TARGET, Level::WARN),
            Level::INFO => tracing::enabled!(target: TARGET, Level::INFO),
            _ => tracing::enabled!(target: TARGET, Level::DEBUG),
        }
    }

    /// Tells `tracing`.
    pub(super) fn trace(&self, db: &Path) {
        match self {
            Event::CompactionBegun { .. } | Event::CompactionFinished { .. } => {
                self.trace_compaction(db);
            }
            Event::MemtablePrepared { .. }
            | Event::MemtableSealed { .. }
            | Event::MemtableDropped { .. }
            | Event::FlushBegun { .. }
            | Event::FlushFinished { .. }
            | Event::IndexesMerged { .. }
            | Event::IndexDivided { .. } => self.trace_memtable(db),
            Event::PartitionSplit { .. }
            | Event::PartitionsMerged { .. }
            | Event::PartitionsMade { .. } => self.trace_partitions(db),
            _ => self.trace_store(db),
        }
    }

    fn trace_memtable(&self, db: &Path) {
        match self {
            Event::MemtablePrepared { id } => tell!(db, DEBUG, "memtable prepared", id),
            Event::MemtableSealed { id, records, bytes } => {
                tell!(db, DEBUG, "memtable sealed", id, records, bytes);
            }
            Event::MemtableDropped { id } => tell!(db, DEBUG, "memtable dropped", id),
            Event::FlushBegun { memtables, bytes } => {
                tell!(db, DEBUG, "flush begun", memtables, bytes);
            }
            Event::FlushFinished {
                error: Some(error),
                took,
                ..
            } => tell!(db, WARN, "flush failed", error = %error, took = ?took),
            Event::FlushFinished {
                because,
                memtables,
                bytes_in,
                tables,
                bytes_read,
                bytes,
                rewritten,
                took,
                stages,
                error: None,
            } => {
                tell!(db, DEBUG, "flush finished", because = %because, memtables, bytes_in, tables, bytes_read, bytes, rewritten, took = ?took, stages = ?stages);
            }
            Event::IndexesMerged {
                indexes,
                keys,
                keys_after,
                took,
            } => tell!(db, DEBUG, "indexes merged", indexes, keys, keys_after, took = ?took),
            Event::IndexDivided {
                parts,
                keys,
                keys_after,
                took,
            } => tell!(db, DEBUG, "index divided", parts, keys, keys_after, took = ?took),
            _ => {}
        }
    }

    fn trace_partitions(&self, db: &Path) {
        match self {
            Event::PartitionSplit { family, start, cut } => {
                let start = start.escape_ascii();
                tell!(db, DEBUG, "partition split", family, start = %start, cut);
            }
            Event::PartitionsMerged {
                family,
                merged,
                joined,
            } => tell!(db, DEBUG, "partitions merged", family, merged, joined),
            Event::PartitionsMade { made } => tell!(db, DEBUG, "partitions made", made),
            _ => {}
        }
    }

    fn trace_store(&self, db: &Path) {
        match self {
            Event::Opened {
                records,
                cut_records,
                after_crash,
                took,
            } => tell!(db, INFO, "opened", records, cut_records, after_crash, took = ?took),
            Event::RegionGrown {
                from_bytes,
                to_bytes,
            } => tell!(db, DEBUG, "region grown", from_bytes, to_bytes),
            Event::Decided { work, because } => {
                tell!(db, DEBUG, "decided", work, because = %because);
            }
            Event::ManifestSwitched { path, bytes } => {
                tell!(db, DEBUG, "manifest switched", path = %path.display(), bytes);
            }
            Event::ColumnFamilyCreated { name } => {
                tell!(db, INFO, "column family created", name = %name);
            }
            Event::ColumnFamilyDropped { name } => {
                tell!(db, INFO, "column family dropped", name = %name);
            }
            Event::WriteStalled { cause, took } => {
                tell!(db, WARN, "write stalled", cause = cause.name(), took = ?took);
            }
            Event::WritesRefused { cause } => tell!(db, WARN, "writes refused", cause = %cause),
            Event::EventsLost { events } => tell!(db, WARN, "events lost", events),
            Event::WritesResumed => tell!(db, INFO, "writes resumed"),
            Event::Poisoned { cause } => tell!(db, ERROR, "poisoned", cause = %cause),
            Event::Closed { error: None } => tell!(db, INFO, "closed"),
            Event::Closed { error: Some(error) } => {
                tell!(db, WARN, "closed with an error", error = %error);
            }
            _ => {}
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
                family,
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
                family,
                reason,
                from,
                to,
                tables,
                moved,
                tables_written,
                bytes_read,
                bytes_written,
                entries_dropped,
                took,
                stages,
                error: None,
            } => tracing::event!(
                target: TARGET,
                Level::DEBUG,
                db = %db,
                id,
                family,
                ?reason,
                from,
                to,
                tables,
                moved,
                tables_written,
                bytes_read,
                bytes_written,
                entries_dropped,
                ?took,
                ?stages,
                "compaction finished"
            ),
            _ => {}
        }
    }
}
