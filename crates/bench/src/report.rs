//! What a run found: the fields that scripts rely on, in their order, and a table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hdrhistogram::Histogram;
use serde::Serialize;
use thermocline::size::format_size;

use crate::curve::Curve;
use crate::device_read::DeviceReads;
use crate::held_back::Stall;
use crate::numbers::{counted, grouped};
use crate::space::Space;
use crate::threads::Tally;
use crate::workload::Operation;

/// The result of one run. All counters count the measured part only.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The workload's name.
    pub workload: &'static str,
    /// The preset of the store.
    pub preset: String,
    /// `immediate` or `buffered`.
    pub durability: &'static str,
    /// Threads.
    pub threads: usize,
    /// Distinct keys.
    pub num: u64,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value.
    pub value_size: usize,
    /// How keys were chosen.
    pub distribution: String,
    /// The kind of the region.
    pub region_kind: &'static str,
    /// The emulation profile.
    pub emulate: String,
    /// The seed.
    pub seed: u64,
    /// Writes committed together.
    pub batch: usize,
    /// Operations done: writes, point reads, scans, or entries of a sequential read.
    pub ops: u64,
    /// Time of the measured part, in seconds.
    pub seconds: f64,
    /// Operations a second, over all threads.
    pub ops_per_sec: f64,
    /// Latencies in microseconds; of one commit, or one read of several keys, where there are
    /// batches.
    pub latency_us: Latencies,
    /// The same by percentile, for each kind: to be drawn, so JSON does not have it.
    #[serde(skip)]
    pub latency_curves: Vec<Curve>,
    /// How many operations of each kind, where there are several kinds. They add up to `ops`, but
    /// for `readwhilewriting`, where only the reads count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ops_by_kind: Option<BTreeMap<Operation, u64>>,
    /// Operations that were timed together and count with their mean.
    pub latency_group: u64,
    /// For workloads that read: how many keys were found.
    pub found: Option<u64>,
    /// For scans: how many entries were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// Bytes of keys and values written.
    pub user_bytes_written: u64,
    /// Bytes stored in persistent memory.
    pub pm_bytes_written: u64,
    /// Bytes written to logs, with preset `leveled`. They are among `ssd_bytes_written`, unless logs lie on
    /// tmpfs.
    pub wal_bytes_written: u64,
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
    /// SSD bytes for each user byte; 0 where nothing was written.
    pub write_amplification_ssd: f64,
    /// Persistent-memory bytes for each user byte; 0 where nothing was written.
    pub write_amplification_pm: f64,
    /// Background work at the end.
    pub drained: Drained,
    /// Delay that the engine put on writers, in milliseconds.
    pub stall_ms: f64,
    /// The longest single delay, in milliseconds.
    pub stall_ms_max: f64,
    /// How many writes were delayed.
    pub stall_count: u64,
    /// The same by cause, the one with the longest delay first; only those that delayed somebody.
    pub stalls: Vec<Stall>,
    /// Processor time of the process, in seconds.
    pub cpu_seconds: f64,
    /// Most resident memory of the process at any time, in bytes.
    pub rss_bytes_max: u64,
    /// DRAM of the indexes at the end, in bytes.
    pub dram_index_bytes: u64,
    /// Where point reads found their keys.
    pub hits: HitCounts,
    /// Room on the SSD over time, if the plan asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space: Option<Space>,
    /// What was read of the device itself, by `deviceread`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceReads>,
    /// Whether the run was ended early.
    pub interrupted: bool,
    /// Whether the numbers can be trusted.
    pub valid: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid_reason: Option<String>,
}

/// Latencies in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// The mean.
    pub avg: f64,
    /// The median.
    pub p50: f64,
    /// Nine of ten are not above this.
    pub p90: f64,
    /// 19 of 20 are not above this.
    pub p95: f64,
    /// 99 of 100 are not above this.
    pub p99: f64,
    /// 999 of 1000 are not above this.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

impl std::fmt::Display for Latency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "mean {}   p50 {}   p90 {}   p99 {}   p99.9 {}   max {}",
            brief(self.avg),
            brief(self.p50),
            brief(self.p90),
            brief(self.p99),
            brief(self.p999),
            brief(self.max)
        )
    }
}

impl Latency {
    pub(crate) fn of(nanos: &Histogram<u64>) -> Latency {
        let at = |quantile: f64| nanos.value_at_quantile(quantile) as f64 / 1000.0;
        Latency {
            avg: nanos.mean() / 1000.0,
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: nanos.max() as f64 / 1000.0,
        }
    }
}

/// The latencies of a run: of its operations, or of each kind where there are several.
///
/// As JSON it is the object of the one, or an object with one such object for each kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Latencies {
    /// All operations are of one kind.
    One(Latency),
    /// By kind; zeros for one that no operation was of.
    Each(BTreeMap<Operation, Latency>),
}

impl Latencies {
    pub(crate) fn of(tally: &Tally) -> Latencies {
        let mut each: BTreeMap<Operation, Latency> = tally
            .kinds()
            .map(|(operation, done)| (operation, Latency::of(&done.latency_ns)))
            .collect();
        match each.pop_first() {
            Some((_, one)) if each.is_empty() => Latencies::One(one),
            Some((operation, latency)) => {
                each.insert(operation, latency);
                Latencies::Each(each)
            }
            None => Latencies::Each(each),
        }
    }

    /// Each kind's name, empty if there is only one, and its latencies.
    pub fn rows(&self) -> Vec<(&'static str, Latency)> {
        match self {
            Latencies::One(latency) => vec![("", *latency)],
            Latencies::Each(each) => each.iter().map(|(kind, l)| (kind.name(), *l)).collect(),
        }
    }
}

impl Report {
    pub(crate) fn ops_by_kind(tally: &Tally) -> Option<BTreeMap<Operation, u64>> {
        let kinds: BTreeMap<Operation, u64> =
            tally.kinds().map(|(kind, done)| (kind, done.ops)).collect();
        (kinds.len() > 1).then_some(kinds)
    }

    pub(crate) fn curves(tally: &Tally) -> Vec<Curve> {
        Curve::all(
            tally
                .kinds()
                .map(|(kind, done)| (kind.name(), &done.latency_ns)),
        )
    }
}

/// For people: `flush 3 times, 12.0 ms at most`, and so on.
fn by_cause(stalls: &[Stall]) -> String {
    let one = |stall: &Stall| {
        let (times, most) = (grouped(stall.count), stall.ms_max);
        format!("{} {times} times, {most:.1} ms at most", stall.cause)
    };
    let all: Vec<String> = stalls.iter().map(one).collect();
    all.join("; ")
}

/// Background work at the end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Drained {
    /// Whether it was waited for.
    pub waited: bool,
    /// Bytes above level 1 at the end: records in persistent memory, and tables of level 0, on the SSD and in persistent
    /// memory. What is flushed or compacted already, and only held by readers, does not count.
    pub level0_bytes: u64,
}

/// Where point reads found their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct HitCounts {
    /// In a memtable.
    pub memtable: u64,
    /// Through the global index.
    pub global_index: u64,
    /// In a table in persistent memory.
    pub pm_table: u64,
    /// In a block that was in DRAM.
    pub block_cache: u64,
    /// In a block that was read from the SSD.
    pub ssd: u64,
}

impl Report {
    /// What was done, and how long it took.
    fn work_rows(&self) -> Vec<(String, String)> {
        let mut rows: Vec<(String, String)> = Vec::new();
        let mut row = |name: &str, text| rows.push((name.to_string(), text));
        row(
            "operations",
            format!("{} in {:.3} s", grouped(self.ops), self.seconds),
        );
        row("per second", grouped(whole(self.ops_per_sec)));
        if let Some(found) = self.found {
            row("found", grouped(found));
        }
        if let Some(entries) = self.entries {
            row("entries read", grouped(entries));
        }
        for (kind, count) in self.ops_by_kind.iter().flatten() {
            row(&in_words(kind.name()), grouped(*count));
        }
        for (kind, l) in self.latency_us.rows() {
            let name = if kind.is_empty() { "latency" } else { kind };
            row(&format!("{}, µs", in_words(name)), l.to_string());
        }
        rows
    }

    /// What was written and read.
    fn bytes_rows(&self) -> Vec<(String, String)> {
        let mut rows: Vec<(String, String)> = Vec::new();
        let mut row = |name: &str, text| rows.push((name.to_string(), text));
        if self.user_bytes_written > 0 {
            row("keys and values", format_size(self.user_bytes_written));
            row(
                "persistent memory",
                format!(
                    "{} stored ({:.2} for each byte), {} written back, {}",
                    format_size(self.pm_bytes_written),
                    self.write_amplification_pm,
                    counted(self.pm_lines_written_back, "line"),
                    counted(self.pm_fences, "fence")
                ),
            );
        }
        if self.wal_bytes_written > 0 {
            row(
                "logs",
                format!("{} written", format_size(self.wal_bytes_written)),
            );
        }
        if self.ssd_bytes_written + self.ssd_bytes_read > 0 {
            row(
                "SSD",
                format!(
                    "{} written ({:.2} for each byte), {} read",
                    format_size(self.ssd_bytes_written),
                    self.write_amplification_ssd,
                    format_size(self.ssd_bytes_read)
                ),
            );
        }
        rows
    }

    /// What held the run back, and what the process took.
    fn process_rows(&self) -> Vec<(String, String)> {
        let mut rows: Vec<(String, String)> = Vec::new();
        let mut row = |name: &str, text| rows.push((name.to_string(), text));
        if self.stall_count > 0 {
            row(
                "writers held back",
                format!(
                    "{} times, {:.1} ms in all, {:.1} ms at most",
                    grouped(self.stall_count),
                    self.stall_ms,
                    self.stall_ms_max
                ),
            );
            row("by cause", by_cause(&self.stalls));
        }
        row(
            "this process",
            format!(
                "{:.2} s of processor time, {} of memory at most, {} of it index",
                self.cpu_seconds,
                format_size(self.rss_bytes_max),
                format_size(self.dram_index_bytes)
            ),
        );
        if self.interrupted {
            row("interrupted", "the run was ended early".to_string());
        }
        if let Some(reason) = &self.invalid_reason {
            row("INVALID", reason.clone());
        }
        rows
    }
}

impl std::fmt::Display for Report {
    /// A short table for people.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = format!(
            "{}: {} keys of {} bytes, values of {} bytes, {}, {} thread{}, {}, region of kind {}\n",
            self.workload,
            grouped(self.num),
            self.key_size,
            self.value_size,
            self.distribution,
            self.threads,
            if self.threads == 1 { "" } else { "s" },
            self.durability,
            self.region_kind
        );
        let rows = [
            self.work_rows(),
            self.bytes_rows(),
            self.space.as_ref().map(Space::rows).unwrap_or_default(),
            self.device
                .as_ref()
                .map(DeviceReads::rows)
                .unwrap_or_default(),
            self.process_rows(),
        ];
        for (name, value) in rows.concat() {
            writeln!(text, "  {name:<21} {value}")?;
        }
        f.write_str(text.trim_end())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a rate for people, rounded; a float beyond the range saturates"
)]
pub(crate) fn whole(x: f64) -> u64 {
    x.round() as u64
}

fn in_words(name: &str) -> String {
    name.replace('_', "-")
}

pub(crate) fn brief(micros: f64) -> String {
    if micros < 10.0 {
        format!("{micros:.2}")
    } else if micros < 100.0 {
        format!("{micros:.1}")
    } else {
        grouped(whole(micros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_told_by_cause() {
        let of = |cause, count, ms_max| Stall {
            cause,
            count,
            ms: 0.0,
            ms_max,
        };
        assert_eq!(
            by_cause(&[of("pm_fill", 1000, 30.0), of("flush", 3, 12.04)]),
            "pm_fill 1,000 times, 30.0 ms at most; flush 3 times, 12.0 ms at most"
        );
        assert_eq!(by_cause(&[]), "");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [0, 999, 1000, 1_000_000].map(grouped),
            ["0", "999", "1,000", "1,000,000"]
        );
        assert_eq!([0.123, 12.34, 1234.5].map(brief), ["0.12", "12.3", "1,235"]);
    }
}
