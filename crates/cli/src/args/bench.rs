//! Arguments of benchmarks and experiments.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::oltp::OltpArgs;
use crate::args::store::StoreArgs;
use crate::args::suite::SuiteArgs;

/// When a write counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityArg {
    /// When it survives a crash
    Immediate,
    /// When it is visible
    Buffered,
}

/// Arguments of `bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thermocline bench fillrandom --num 1000000 --value-size 100
  thermocline bench readrandom --num 1000000 --threads 2 --json
  thermocline bench fillrandom --db bench.db && thermocline bench seekrandom --db bench.db --use-existing
  thermocline bench overwrite --duration 10 --distribution zipfian:0.9
  thermocline bench overwrite --preload --num 2097152 --reads 10485760 --value-size 1024 --space
  thermocline bench ycsb-a --num 1000000 --threads 2 --pm-path /dev/shm
  thermocline bench multireadrandom --batch 32
  thermocline bench deviceread --db bench.db --use-existing --reads 100000 --async-depth 32
  thermocline bench readrandom --emulate optane
  thermocline bench ycsb-a --num 1000000 --duration 60 --report ycsb-a.html
  thermocline bench tpcc --warehouses 10 --threads 2 --duration 60 --pm-path /dev/shm
  thermocline bench orders --orders 100000 --cold-percent 5 --preset leveled
  thermocline bench suite --cells put-pm,ycsb-a-5x --markdown

Workloads with the meanings of db_bench:
  fillseq, fillrandom       write --num keys once, in order or not
  overwrite                 writes keys drawn with replacement
  readrandom, readmissing   read keys that are there, or are not
  readseq, readreverse      read entries in key order, or against it
  seekrandom                seeks a key and reads --scan-length entries from there
  multireadrandom           reads --batch keys at once
  updaterandom              reads a key and writes it anew
  deleterandom              deletes keys drawn with replacement
  readwhilewriting          --threads read while one more overwrites; the reads count
  readrandomwriterandom     90 % reads, 10 % writes
and beside them, as something to hold reads against:
  deviceread                reads blocks of the store's files at random, with the store closed: what the device does by itself
and those of YCSB:
  ycsb-load                 writes --num keys once
  ycsb-a, ycsb-b, ycsb-c    50, 95, 100 % reads, the rest updates; zipfian
  ycsb-d                    95 % reads, most of the latest keys, 5 % inserts
  ycsb-e                    95 % scans of 1 to --scan-length entries, 5 % inserts; zipfian
  ycsb-f                    50 % reads, 50 % read-modify-writes; zipfian
and of transactions, for --duration seconds, 30 unless given, or --transactions:
  tpcc                      TPC-C on --warehouses: 45 % new orders, 43 % payments, 4 % each order
                            status, delivery, stock level; checks consistency conditions 1 to 4,
                            and that all is there that committed
  orders                    orders in 10 tables with 3 indexes each are placed, change for a while,
                            and are looked up less and less
  randomtransaction         db_bench's: adds a number to one key of each of --sets sets of --num keys;
                            checks that all sets have the same sum, that of all numbers added
and a table of several of them:
  suite                     12 cells, each a workload at one size, which the default preset and its
                            rivals (global-index, leveled, pm-blade, flat-lsm) run in turn; says how the
                            default stands to the best of them; --list names the cells

All db_bench and YCSB workloads but the fills, overwrite and ycsb-load first load --num keys, which is not counted, unless
--use-existing; overwrite does so with --preload. Writes go through the same write-backs and fences as in earnest. With
--batch the latency is that of one commit or read. Where a workload has several kinds of operations, each kind
has its own latencies.

A page of --report is one file, and needs nothing else: the command with the options that count, the table that is printed, latency
by percentile, and throughput over time. That of suite has the table only, since it makes many runs. It is written also if Ctrl-C ends
the run.")]
pub(crate) struct BenchArgs {
    /// The workload's name
    pub workload: String,
    /// The database's folder; a temporary one unless given
    #[arg(long, value_name = "DIR")]
    pub db: Option<PathBuf>,
    /// Use the database and the keys that are there; inserts add keys behind the last of them
    #[arg(long)]
    pub use_existing: bool,
    /// Distinct keys, and the number of writes
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub num: u64,
    /// The number of operations of a workload that loads keys first, and of no other; --num unless given
    #[arg(long, value_name = "N")]
    pub reads: Option<u64>,
    /// Run for so long instead of a number of operations
    #[arg(long, value_name = "SECONDS")]
    pub duration: Option<f64>,
    /// End after so long, even if operations are left
    #[arg(long, value_name = "SECONDS")]
    pub seconds_max: Option<f64>,
    /// Operations a second, over all threads; as many as can be unless given
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,
    /// Threads that share the operations
    #[arg(long, value_name = "T", default_value_t = 1)]
    pub threads: usize,
    /// Bytes of a key
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    pub key_size: usize,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    pub value_size: usize,
    /// When a write counts as done
    #[arg(long, value_enum, default_value = "immediate")]
    pub durability: DurabilityArg,
    /// Writes committed together; for multireadrandom, keys read together
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub batch: usize,
    /// Reads or scans that one thread keeps in flight: of readrandom, readmissing, seekrandom and deviceread
    #[arg(long, value_name = "D", default_value_t = 1)]
    pub async_depth: usize,
    /// Make those reads and scans futures even with a depth of 1
    #[arg(long)]
    pub awaited: bool,
    /// How keys are chosen: uniform, zipfian[:THETA], latest or sequential; unless given, as the
    /// workload does by itself
    #[arg(long, value_name = "NAME")]
    pub distribution: Option<String>,
    /// The seed of everything random
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub seed: u64,
    /// Entries that a scan of seekrandom or ycsb-e reads, at most: 50 unless given, 100 for ycsb-e
    #[arg(long, value_name = "N")]
    pub scan_length: Option<u64>,
    /// Write every key once before overwrite begins, which is not counted; --reads then says how many overwrites
    #[arg(long)]
    pub preload: bool,
    /// Wait for background work after the keys are loaded, before anything counts
    #[arg(long)]
    pub settle: bool,
    /// Wait for background work at the end, and count it
    #[arg(long)]
    pub drain: bool,
    /// Look every second how much the store takes of the SSD, beside what lives
    #[arg(long)]
    pub space: bool,
    /// Make DRAM as slow as other memory: none, optane or cxl
    #[arg(long, value_name = "NAME", default_value = "none")]
    pub emulate: String,
    /// Write a page with plots of the run, in place of one of that name
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// The part of its size that a value compresses to; 1 is incompressible
    #[arg(long, value_name = "RATIO", default_value_t = 1.0)]
    pub compressible: f64,
    #[command(flatten)]
    pub oltp: OltpArgs,
    #[command(flatten)]
    pub suite: SuiteArgs,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Arguments of `reproduce`.
#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// The paper
    #[arg(required_unless_present = "list")]
    pub paper: Option<String>,
    /// The figure (fig-8 is fig-8a and fig-8b) or table, or the name of a claim of ours about it; all of them unless given
    pub experiment: Option<String>,
    /// Name every experiment, or those of PAPER, and run none
    #[arg(long)]
    pub list: bool,
    /// Write a page with plots of all that ran
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// A folder on the SSD for what experiments write, and remove again; else the system's for temporary files
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// A folder for persistent memory; else that of --dir
    #[arg(long, value_name = "DIR")]
    pub pm_path: Option<PathBuf>,
    /// Make DRAM as slow as other memory: none, optane or cxl
    #[arg(long, value_name = "NAME", default_value = "none")]
    pub emulate: String,
    /// The folder in which results are saved; it is made if it is not there
    #[arg(long, value_name = "DIR", default_value = "reproduced")]
    pub out: PathBuf,
    /// So small that numbers mean nothing: to see that it runs
    #[arg(long)]
    pub quick: bool,
}
