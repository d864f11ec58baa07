//! What a run found.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use thermocline::size::format_size;

use crate::curve::Curve;
use crate::numbers::grouped;
use crate::report::{Drained, HitCounts, Latency, brief, whole};

/// Attempts that were refused since others were faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Aborts {
    /// Somebody else had changed what must not change.
    pub conflict: u64,
    /// Rolled back to break a deadlock.
    pub deadlock: u64,
    /// A lock was not free in time.
    pub lock_timeout: u64,
    /// How often a transaction was made again. Only the last attempts before the end of a run are not.
    pub retries: u64,
}

impl Aborts {
    pub(crate) fn add(&mut self, other: &Aborts) {
        self.conflict += other.conflict;
        self.deadlock += other.deadlock;
        self.lock_timeout += other.lock_timeout;
        self.retries += other.retries;
    }
}

/// What was done of one kind of transaction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KindReport {
    /// Those that committed.
    pub committed: u64,
    /// Those that were rolled back on purpose.
    pub rolled_back: u64,
    /// Latencies in microseconds, of all attempts of a transaction together.
    pub latency_us: Latency,
    /// What was refused on the way.
    pub aborts: Aborts,
}

/// Something that must be true of the tables at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What must be true.
    pub name: &'static str,
    /// Of how many things it was asked.
    pub checked: u64,
    /// Of how many it is not.
    pub faults: u64,
    /// The first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
}

impl Check {
    pub(crate) fn new(name: &'static str) -> Check {
        Check {
            name,
            checked: 0,
            faults: 0,
            first: None,
        }
    }

    /// Asks one thing.
    pub(crate) fn ask(&mut self, is_true: bool, else_what: impl FnOnce() -> String) {
        self.checked += 1;
        if !is_true {
            self.faults += 1;
            self.first.get_or_insert_with(else_what);
        }
    }
}

/// The result of one run. Counters count the measured part only.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OltpReport {
    /// The workload's name.
    pub workload: &'static str,
    /// The preset of the store.
    pub preset: String,
    /// `immediate` or `buffered`.
    pub durability: &'static str,
    /// `pessimistic` or `optimistic`.
    pub locking: &'static str,
    /// `snapshot` or `serializable`.
    pub isolation: &'static str,
    /// Threads.
    pub threads: usize,
    /// Keys of each set. Tables of records have their sizes in `settings`: there this is `None`, as the next three are.
    pub num: Option<u64>,
    /// Bytes of a key.
    pub key_size: Option<usize>,
    /// Bytes of a value.
    pub value_size: Option<usize>,
    /// How keys were chosen.
    pub distribution: Option<String>,
    /// The seed.
    pub seed: u64,
    /// The kind of the region.
    pub region_kind: &'static str,
    /// The emulation profile.
    pub emulate: String,
    /// What is the workload's own.
    pub settings: serde_json::Value,
    /// Rows that were loaded, and how long that took.
    pub loaded_rows: u64,
    /// Seconds that loading took; 0 if the tables were there.
    pub load_seconds: f64,
    /// Transactions, those that were rolled back on purpose included.
    pub ops: u64,
    /// Time of the measured part, in seconds.
    pub seconds: f64,
    /// Transactions a second.
    pub ops_per_sec: f64,
    /// TPC-C's new orders a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_orders_per_minute: Option<f64>,
    /// Latencies in microseconds by kind, or those of the only one, of all attempts of a transaction together.
    pub latency_us: serde_json::Value,
    /// The same by percentile, for each kind: to be drawn, so JSON does not have it.
    #[serde(skip)]
    pub latency_curves: Vec<Curve>,
    /// By kind.
    pub kinds: BTreeMap<&'static str, KindReport>,
    /// Transactions in each second of the run; the last one may be short.
    pub ops_by_second: Vec<u64>,
    /// Counts of the workload's own.
    pub counts: BTreeMap<&'static str, u64>,
    /// What must be true at the end.
    pub checks: Vec<Check>,
    /// Bytes of keys and values written.
    pub user_bytes_written: u64,
    /// Bytes stored in persistent memory.
    pub pm_bytes_written: u64,
    /// Bytes of 256-byte media units touched.
    pub pm_media_bytes_written: u64,
    /// Lines of 64 bytes written back.
    pub pm_lines_written_back: u64,
    /// Fences.
    pub pm_fences: u64,
    /// Bytes written to the SSD.
    pub ssd_bytes_written: u64,
    /// Bytes read from the SSD.
    pub ssd_bytes_read: u64,
    /// SSD bytes for each user byte.
    pub write_amplification_ssd: f64,
    /// Persistent-memory bytes for each user byte.
    pub write_amplification_pm: f64,
    /// Background work at the end.
    pub drained: Drained,
    /// Delay that the engine put on writers, in milliseconds.
    pub stall_ms: f64,
    /// The longest single delay, in milliseconds.
    pub stall_ms_max: f64,
    /// How many writes were delayed.
    pub stall_count: u64,
    /// Processor time of the process, in seconds.
    pub cpu_seconds: f64,
    /// Most resident memory of the process at any time, in bytes.
    pub rss_bytes_max: u64,
    /// DRAM of the indexes at the end, in bytes.
    pub dram_index_bytes: u64,
    /// Where point reads found their keys.
    pub hits: HitCounts,
    /// Whether the run was ended early.
    pub interrupted: bool,
    /// Whether the numbers can be trusted, and everything was true that must be.
    pub valid: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid_reason: Option<String>,
}

impl OltpReport {
    fn rows(&self) -> Vec<(String, String)> {
        let mut rows: Vec<(String, String)> = Vec::new();
        let mut row = |name: &str, text| rows.push((name.to_string(), text));
        row(
            "loaded",
            format!(
                "{} rows in {:.1} s",
                grouped(self.loaded_rows),
                self.load_seconds
            ),
        );
        row(
            "transactions",
            format!("{} in {:.3} s", grouped(self.ops), self.seconds),
        );
        row("per second", grouped(whole(self.ops_per_sec)));
        if let Some(rate) = self.new_orders_per_minute {
            row("new orders a minute", grouped(whole(rate)));
        }
        for (name, kind) in &self.kinds {
            row(&name.replace('_', "-"), kind.to_string());
        }
        for (name, count) in &self.counts {
            row(&name.replace('_', " "), grouped(*count));
        }
        let seconds: Vec<_> = self.ops_by_second.iter().map(u64::to_string).collect();
        row("in each second", seconds.join(" "));
        let hits = &self.hits;
        row(
            "point reads found in",
            format!(
                "memtables {}, global index {}, PM tables {}, block cache {}, SSD {}",
                grouped(hits.memtable),
                grouped(hits.global_index),
                grouped(hits.pm_table),
                grouped(hits.block_cache),
                grouped(hits.ssd)
            ),
        );
        row(
            "written",
            format!(
                "{} of keys and values, {} to persistent memory, {} to the SSD ({:.2} for each byte)",
                format_size(self.user_bytes_written),
                format_size(self.pm_bytes_written),
                format_size(self.ssd_bytes_written),
                self.write_amplification_ssd
            ),
        );
        if self.stall_count > 0 {
            let count = grouped(self.stall_count);
            row(
                "writers held back",
                format!("{count} times, {:.1} ms in all", self.stall_ms),
            );
        }
        rows
    }

    /// What is to be believed of it.
    fn verdict_rows(&self) -> Vec<(String, String)> {
        let mut rows: Vec<(String, String)> = Vec::new();
        let mut row = |name: &str, text| rows.push((name.to_string(), text));
        for check in &self.checks {
            let answer = match &check.first {
                None => format!("yes, of {}", grouped(check.checked)),
                Some(first) => format!("NO, {} of {}: {first}", check.faults, check.checked),
            };
            row(check.name, answer);
        }
        if self.interrupted {
            row("interrupted", "the run was ended early".into());
        }
        if let Some(reason) = &self.invalid_reason {
            row("INVALID", reason.clone());
        }
        rows
    }
}

impl std::fmt::Display for KindReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let l = &self.latency_us;
        write!(
            f,
            "{}   µs: p50 {}   p95 {}   p99 {}   max {}",
            grouped(self.committed),
            brief(l.p50),
            brief(l.p95),
            brief(l.p99),
            brief(l.max)
        )?;
        if self.rolled_back > 0 {
            write!(f, "   rolled back {}", grouped(self.rolled_back))?;
        }
        let a = &self.aborts;
        for (what, count) in [
            ("conflicts", a.conflict),
            ("deadlocks", a.deadlock),
            ("lock timeouts", a.lock_timeout),
            ("retries", a.retries),
        ] {
            if count > 0 {
                write!(f, "   {what} {}", grouped(count))?;
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for OltpReport {
    /// A table for people.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = format!(
            "{}: {}, preset {}, {} thread{}, {}, {}, {}, region of kind {}\n",
            self.workload,
            self.settings,
            self.preset,
            self.threads,
            if self.threads == 1 { "" } else { "s" },
            self.durability,
            self.locking,
            self.isolation,
            self.region_kind
        );
        for (name, value) in [self.rows(), self.verdict_rows()].concat() {
            writeln!(text, "  {name:<21} {value}")?;
        }
        f.write_str(text.trim_end())
    }
}
