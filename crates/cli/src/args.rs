//! What can be typed. The names are the contract of `interface.md`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use thermocline::size::parse_size;

/// An ordered key-value store over DRAM, persistent memory and SSD.
#[derive(Debug, Parser)]
#[command(name = "thermocline", version, after_help = MAIN_EXAMPLES)]
pub(crate) struct Cli {
    /// Print one JSON document on standard output, and nothing else
    #[arg(long, global = true)]
    pub json: bool,
    /// Print results only: no confirmations, no progress
    #[arg(long, global = true)]
    pub quiet: bool,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

const MAIN_EXAMPLES: &str = "\
Examples:
  thermocline tour                              see it at work on real data
  thermocline put orders.db order:42 paid
  thermocline get orders.db order:42
  thermocline scan orders.db --prefix order:
  thermocline load cities.db cities.csv --key country --key name
  thermocline bench fillrandom --num 1000000

Exit codes: 0 success, 1 a failure you can act on, 2 wrong usage.";

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Set a key to a value, durably
    Put(PutArgs),
    /// Print the value of a key; exit 1 with `not found` if there is none
    Get(KeyArgs),
    /// Remove a key, durably; an absent key is no error
    #[command(after_help = "\
Examples:
  thermocline delete orders.db order:42
  thermocline delete orders.db --hex 00ff2a")]
    Delete(KeyArgs),
    /// Print the entries of a range in key order, one line each
    Scan(ScanArgs),
    /// Print what was committed after a sequence number, in its order, one change a line
    Changes(ChangesArgs),
    /// Write the rows of a CSV, TSV or JSON-lines file, each as a JSON object under its key
    Load(LoadArgs),
    /// List the column families, one line each: name, order, metadata
    #[command(after_help = "\
Examples:
  thermocline families orders.db
  thermocline families orders.db --json")]
    Families(DbArgs),
    /// Make a column family, unless it is there
    CreateFamily(CreateFamilyArgs),
    /// Drop a column family with everything in it, durably
    #[command(after_help = "\
Examples:
  thermocline drop-family orders.db archive

The name is free afterwards. The default column family stays. Its space is given
back by and by; `compact` does that at once.")]
    DropFamily(FamilyArgs),
    /// Show what lies where: tiers, generations, bytes, region, options
    #[command(after_help = "\
Examples:
  thermocline stat orders.db
  thermocline stat orders.db --json")]
    Stat(DbArgs),
    /// Check every checksum and structural rule; exit 1 and list every fault if there is one
    #[command(after_help = "\
Examples:
  thermocline verify orders.db
  thermocline verify orders.db --json")]
    Verify(DbArgs),
    /// Run a workload and measure it
    Bench(Box<BenchArgs>),
    /// See the store at work on real data, in about a minute
    Tour(TourArgs),
    /// Write numbered records until killed (a part of the tour)
    #[command(hide = true)]
    TourWriter(TourWriterArgs),
    /// Draw what lies in DRAM, persistent memory and SSD, and say what background work comes next
    #[command(after_help = "\
Examples:
  thermocline explain orders.db
  thermocline explain orders.db -o orders.html          a page, with partitions as columns
  thermocline explain orders.db --json")]
    Explain(ExplainArgs),
    /// Compact a database, or a range of keys: what was deleted or overwritten takes no more space
    #[command(after_help = "\
Examples:
  thermocline compact orders.db
  thermocline compact orders.db --from order:1 --to order:2
  thermocline compact events.db --cf log

Without --cf, --from and --to all column families are compacted; with --from or --to and without --cf
the default one.")]
    Compact(CompactArgs),
    /// Drop the partition of a prefix at once (not in this version)
    #[command(
        hide = true,
        after_help = "\
Examples:
  thermocline drop-partition events.db 2024-01-"
    )]
    DropPartition(PrefixArgs),
    /// Delete all keys from FROM up to, not including, TO, durably, as one write
    #[command(after_help = "\
Examples:
  thermocline delete-range orders.db order:1 order:2
  thermocline delete-range orders.db --hex 00 80 --cf blobs

FROM and TO are in the order of the column family: where keys descend, FROM is the greater one. Where they are
equal nothing is deleted; where TO comes before FROM that is an error.")]
    DeleteRange(RangeArgs),
    /// Add a backup of a database to a folder of backups; only what is new is copied
    #[command(after_help = "\
Examples:
  thermocline backup orders.db /mnt/disk/backups
  thermocline backups /mnt/disk/backups                    what is there
  thermocline restore /mnt/disk/backups orders.db

The folder keeps several backups, of several databases if you like, and has nothing else in it. Tables
that backups have in common are stored once.")]
    Backup(DbDirArgs),
    /// List the backups in a folder, check them, or delete some
    Backups(BackupsArgs),
    /// Make a database of a backup, checking every byte
    Restore(RestoreArgs),
    /// Make a folder a database of its own with what this one has now
    #[command(after_help = "\
Examples:
  thermocline checkpoint orders.db orders-monday

On one file system tables are hard links, so this costs little. The folder must not exist. The copy
makes its own persistent memory when it is first written to: in the folder, unless --pm-path says
otherwise then.")]
    Checkpoint(DbDirArgs),
    /// Add the entries of tables to a database, all at one moment
    Ingest(IngestArgs),
    /// Write the entries of a column family, or a range of them, into one table
    Export(ExportArgs),
    /// Repeat experiments of a paper: what it claims, what is found here, and whether the shape holds
    #[command(after_help = "\
Examples:
  thermocline reproduce --list
  thermocline reproduce pm-blade fig-6
  thermocline reproduce pm-blade --pm-path /dev/shm --report pm-blade.html

Each result is saved as a file in --out, too. An experiment takes a minute or two, and shapes hold or not
by what was measured: let nothing else run meanwhile.")]
    Reproduce(ReproduceArgs),
}

fn size(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|e| match e {
        thermocline::Error::InvalidArgument(text) => text,
        other => other.to_string(),
    })
}

fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_string(), value.to_string())),
        _ => Err("write it as group.option=value, like memtable.bytes_max=64MiB".to_string()),
    }
}

/// Options of every command that opens a store. What is not given stays as the database was last
/// opened with.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of the store")]
pub(crate) struct StoreArgs {
    /// The named set of options to start from
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Most DRAM to use, like 512MiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub dram: Option<u64>,
    /// Where persistent memory lies: a file, or a folder to make it in
    #[arg(long, value_name = "PATH")]
    pub pm_path: Option<PathBuf>,
    /// With preset leveled: the folder for logs, on any file system
    #[arg(long, value_name = "PATH")]
    pub wal_path: Option<PathBuf>,
    /// Most persistent memory to use, like 4GiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub pm: Option<u64>,
    /// Set one option, like memtable.bytes_max=64MiB; may be repeated
    #[arg(long, value_name = "GROUP.OPTION=VALUE", value_parser = setting)]
    pub set: Vec<(String, String)>,
}

/// A database.
#[derive(Debug, Args)]
pub(crate) struct DbArgs {
    /// The database's folder
    pub db: PathBuf,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Arguments of `changes`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thermocline changes orders.db
  thermocline changes orders.db --since 1042 --json

Each line is a change: its sequence number, column family, kind (put, delete, delete_range, metadata), key and
value, or where a range begins and ends. The last number, or `position` with --json, is what to ask for
next time. Changes are there until they are flushed from persistent memory, or as long as
--set feed.retain_bytes=SIZE says; what is gone is an error, which tells the first number that is not.")]
pub(crate) struct ChangesArgs {
    /// The database's folder
    pub db: PathBuf,
    /// The last sequence number that is known already
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub since: u64,
    /// End when there are so many changes, and what was committed together with the last is complete
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Print keys and values as hexadecimal digits
    #[arg(long)]
    pub hex: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Arguments of `create-family`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thermocline create-family events.db by-source
  thermocline create-family events.db log --reverse        scans begin at the last key

The order of the keys is fixed when a family is made: making it again with --reverse is an error if
its keys ascend.")]
pub(crate) struct CreateFamilyArgs {
    /// The database's folder; made if there is none
    pub db: PathBuf,
    /// The column family
    pub name: String,
    /// Keys order bytewise descending
    #[arg(long)]
    pub reverse: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Arguments of `drop-family`.
#[derive(Debug, Args)]
pub(crate) struct FamilyArgs {
    /// The database's folder
    pub db: PathBuf,
    /// The column family
    pub name: String,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Arguments of `put`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thermocline put orders.db order:42 paid
  thermocline put orders.db order:42 paid --cf archive     makes the column family
  thermocline put orders.db --hex 00ff 2a2b                bytes
  thermocline put photos.db cat.jpg --file cat.jpg         the bytes of a file, up to 256 MiB
  thermocline put orders.db -- -key -value                 after -- nothing is an option")]
pub(crate) struct PutArgs {
    /// The database's folder; made if there is none
    pub db: PathBuf,
    /// The key
    #[arg(allow_negative_numbers = true)]
    pub key: String,
    /// The value
    #[arg(allow_negative_numbers = true, required_unless_present = "file")]
    pub value: Option<String>,
    /// Take the value from this file, as it is, instead
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    pub file: Option<PathBuf>,
    /// Keys and values are hexadecimal digits
    #[arg(long)]
    pub hex: bool,
    /// The column family; made if there is none
    #[arg(long, value_name = "NAME")]
    pub cf: Option<String>,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Arguments of `get` and `delete`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thermocline get orders.db order:42
  thermocline get orders.db order:42 --cf archive
  thermocline get orders.db --hex 00ff2a                   prints digits too")]
pub(crate) struct KeyArgs {
    /// The database's folder
    pub db: PathBuf,
    /// The key
    #[arg(allow_negative_numbers = true)]
    pub key: String,
    /// Keys and values are hexadecimal digits
    #[arg(long)]
    pub hex: bool,
    /// The column family
    #[arg(long, value_name = "NAME")]
    pub cf: Option<String>,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Arguments of `scan`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thermocline scan orders.db
  thermocline scan orders.db --prefix order: --limit 10
  thermocline scan orders.db --from order:1 --to order:2 --reverse
  thermocline scan orders.db --keys-only | wc -l

Each line is KEY<TAB>VALUE. In both, a tab is \\t, a line's end \\n, a backslash \\\\, and each byte
that is not part of printable UTF-8 \\xNN. --hex prints digits instead. --json prints
{\"entries\":[{\"key\":…,\"value\":…}],\"count\":N}; what is not UTF-8 stands there as key_hex, value_hex.
In a column family whose keys descend, --from is above --to, and --reverse begins at the lowest key. A range
that ends before it begins is an error.")]
pub(crate) struct ScanArgs {
    /// The database's folder
    pub db: PathBuf,
    /// Begin at this key
    #[arg(long, value_name = "KEY")]
    pub from: Option<String>,
    /// End before this key, in the family's order
    #[arg(long, value_name = "KEY")]
    pub to: Option<String>,
    /// Only keys that begin like this
    #[arg(long, value_name = "KEY")]
    pub prefix: Option<String>,
    /// Print at most so many entries
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// From the last key to the first
    #[arg(long)]
    pub reverse: bool,
    /// Leave the values out
    #[arg(long)]
    pub keys_only: bool,
    /// Keys and values are hexadecimal digits
    #[arg(long)]
    pub hex: bool,
    /// The column family
    #[arg(long, value_name = "NAME")]
    pub cf: Option<String>,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Arguments of `load`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thermocline load cities.db cities.csv --key name
  thermocline load cities.db cities.csv --key country --key name     keys like CH/Zurich
  thermocline load events.db events.log --format jsonl --key id --skip-bad

The value of a row is the row as a JSON object: the columns of CSV and TSV in their order, as
strings; a line of JSON as it is. Rows with the same key overwrite each other; the last one stays.
A bad row ends the load with its line number; the rows before it are loaded, none after it. So does a quote
that is never closed, with --skip-bad, too. Ctrl-C, SIGTERM and SIGHUP end the load after the rows that are
under way.")]
pub(crate) struct LoadArgs {
    /// The database's folder; made if there is none
    pub db: PathBuf,
    /// The file; the first line of CSV and TSV names the columns
    pub file: PathBuf,
    /// The column that is the key; several are joined by '/'
    #[arg(long, value_name = "COLUMN", required = true)]
    pub key: Vec<String>,
    /// The file's format; guessed from its name unless given
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// The column family; made if there is none
    #[arg(long, value_name = "NAME")]
    pub cf: Option<String>,
    /// Leave bad rows out instead of ending at the first
    #[arg(long)]
    pub skip_bad: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Formats of input files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Comma-separated, quoted as in RFC 4180
    Csv,
    /// Tab-separated, nothing quoted
    Tsv,
    /// One JSON object on each line
    Jsonl,
}

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
  thermocline bench ycsb-a --num 1000000 --threads 2 --pm-path /dev/shm
  thermocline bench multireadrandom --batch 32
  thermocline bench readrandom --emulate optane

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
and those of YCSB:
  ycsb-load                 writes --num keys once
  ycsb-a, ycsb-b, ycsb-c    50, 95, 100 % reads, the rest updates; zipfian
  ycsb-d                    95 % reads, most of the latest keys, 5 % inserts
  ycsb-e                    95 % scans of 1 to --scan-length entries, 5 % inserts; zipfian
  ycsb-f                    50 % reads, 50 % read-modify-writes; zipfian

All but the fills, overwrite and ycsb-load first load --num keys, which is not counted, unless
--use-existing. Writes go through the same write-backs and fences as in earnest. With --batch the
latency is that of one commit or read. Where a workload has several kinds of operations, each kind
has its own latencies.")]
pub(crate) struct BenchArgs {
    /// The workload's name
    pub workload: String,
    /// The database's folder; a temporary one unless given
    #[arg(long, value_name = "DIR")]
    pub db: Option<PathBuf>,
    /// Use the database and the keys that are there
    #[arg(long)]
    pub use_existing: bool,
    /// Distinct keys, and the number of writes
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub num: u64,
    /// The number of operations of a workload that loads keys first; --num unless given
    #[arg(long, value_name = "N")]
    pub reads: Option<u64>,
    /// Run for so long instead of a number of operations
    #[arg(long, value_name = "SECONDS")]
    pub duration: Option<f64>,
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
    /// Reads that one thread keeps in flight
    #[arg(long, value_name = "D", default_value_t = 1)]
    pub async_depth: usize,
    /// How keys are chosen: uniform, zipfian[:THETA], latest or sequential; unless given, as the
    /// workload does by itself
    #[arg(long, value_name = "NAME")]
    pub distribution: Option<String>,
    /// The seed of everything random
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub seed: u64,
    /// Entries that a scan reads, at most: 50 unless given, 100 for ycsb-e
    #[arg(long, value_name = "N")]
    pub scan_length: Option<u64>,
    /// Wait for background work at the end, and count it
    #[arg(long)]
    pub drain: bool,
    /// Make DRAM as slow as other memory: none, optane or cxl
    #[arg(long, value_name = "NAME", default_value = "none")]
    pub emulate: String,
    /// Write a page with plots (not in this version)
    #[arg(long, value_name = "FILE.html", hide = true)]
    pub report: Option<PathBuf>,
    /// The part of its size that a value compresses to; 1 is incompressible
    #[arg(long, value_name = "RATIO", default_value_t = 1.0)]
    pub compressible: f64,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Arguments of `tour`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thermocline tour
  thermocline tour --keep --db cities       leaves a database to play with
  thermocline tour --pm-path /dev/shm       persistent memory in a folder of your choice

The tour opens a new store, loads 144,563 cities, reads and scans them, kills a writing process
three times and counts what survived, and verifies every checksum. A second store, with 4 MiB of
persistent memory, takes more data than that and shows what lies in DRAM, persistent memory and on
the SSD. Then it cleans up. It exits 1 if anything is not as it should be.")]
pub(crate) struct TourArgs {
    /// Leave the database where it is
    #[arg(long)]
    pub keep: bool,
    /// A new or empty folder for the database; a temporary one unless given
    #[arg(long, value_name = "DIR")]
    pub db: Option<PathBuf>,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Arguments of the hidden `tour-writer`.
#[derive(Debug, Args)]
pub(crate) struct TourWriterArgs {
    /// The database's folder
    pub db: PathBuf,
    /// Which round this is
    pub round: u64,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The database's folder
    pub db: PathBuf,
    /// Write a page instead, in one file that needs no other; what was there is replaced
    #[arg(short, long, value_name = "FILE.html")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Arguments of `compact`.
#[derive(Debug, Args)]
pub(crate) struct CompactArgs {
    /// The database's folder
    pub db: PathBuf,
    /// Begin at this key
    #[arg(long, value_name = "KEY")]
    pub from: Option<String>,
    /// End before this key
    #[arg(long, value_name = "KEY")]
    pub to: Option<String>,
    /// Keys are hexadecimal digits
    #[arg(long)]
    pub hex: bool,
    /// The column family
    #[arg(long, value_name = "NAME")]
    pub cf: Option<String>,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Arguments of `drop-partition`.
#[derive(Debug, Args)]
pub(crate) struct PrefixArgs {
    /// The database's folder
    pub db: PathBuf,
    /// The partition's prefix
    pub prefix: String,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Arguments of `delete-range`.
#[derive(Debug, Args)]
pub(crate) struct RangeArgs {
    /// The database's folder
    pub db: PathBuf,
    /// The first key to go
    #[arg(allow_negative_numbers = true)]
    pub from: String,
    /// The first key to stay
    #[arg(allow_negative_numbers = true)]
    pub to: String,
    /// FROM and TO are hexadecimal digits
    #[arg(long)]
    pub hex: bool,
    /// The column family
    #[arg(long, value_name = "NAME")]
    pub cf: Option<String>,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Arguments of `backup` and `checkpoint`.
#[derive(Debug, Args)]
pub(crate) struct DbDirArgs {
    /// The database's folder
    pub db: PathBuf,
    /// The folder to write to
    pub dir: PathBuf,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Arguments of `backups`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thermocline backups /mnt/disk/backups
  thermocline backups /mnt/disk/backups --verify
  thermocline backups /mnt/disk/backups --delete 1 --delete 2

Each line is a backup: its number, the database, the sequence number up to which it has everything,
tables, bytes. --verify reads everything and exits 1 with every fault if there is one. Deleting a backup
keeps what others need.")]
pub(crate) struct BackupsArgs {
    /// The folder of backups
    pub dir: PathBuf,
    /// Check every byte
    #[arg(long, conflicts_with = "delete")]
    pub verify: bool,
    /// Delete the backup of this number; may be repeated
    #[arg(long, value_name = "ID")]
    pub delete: Vec<u64>,
}

/// Arguments of `restore`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thermocline restore /mnt/disk/backups orders.db
  thermocline restore /mnt/disk/backups orders.db --backup 3

The database's folder must not exist. Its persistent memory is made when it is first written to.")]
pub(crate) struct RestoreArgs {
    /// The folder of backups
    pub dir: PathBuf,
    /// The database's folder
    pub db: PathBuf,
    /// The number of the backup; the newest one unless given
    #[arg(long, value_name = "ID")]
    pub backup: Option<u64>,
}

/// Arguments of `ingest`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thermocline export orders.db orders.sst
  thermocline ingest archive.db orders.sst
  thermocline ingest orders.db one.sst two.sst --cf archive

All entries of all tables show at one moment, above what was written before. Tables of one call must not
overlap in keys. The files stay where they are. The column family must exist.")]
pub(crate) struct IngestArgs {
    /// The database's folder; made if there is none
    pub db: PathBuf,
    /// The tables
    #[arg(required = true)]
    pub table: Vec<PathBuf>,
    /// The column family
    #[arg(long, value_name = "NAME")]
    pub cf: Option<String>,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Arguments of `export`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thermocline export orders.db orders.sst
  thermocline export orders.db may.sst --from 2026-05 --to 2026-06 --cf archive

The file must not exist. Metadata is not exported. In a column family whose keys descend, --from is
above --to.")]
pub(crate) struct ExportArgs {
    /// The database's folder
    pub db: PathBuf,
    /// The file to write
    pub file: PathBuf,
    /// Begin at this key
    #[arg(long, value_name = "KEY")]
    pub from: Option<String>,
    /// End before this key, in the family's order
    #[arg(long, value_name = "KEY")]
    pub to: Option<String>,
    /// Keys are hexadecimal digits
    #[arg(long)]
    pub hex: bool,
    /// The column family
    #[arg(long, value_name = "NAME")]
    pub cf: Option<String>,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Arguments of `reproduce`.
#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// The paper
    #[arg(required_unless_present = "list")]
    pub paper: Option<String>,
    /// The figure or table, or the name of a claim of ours about it; all of them unless given
    pub experiment: Option<String>,
    /// Name every experiment
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// Every word of help that looks like a command is one that is there.
    #[test]
    fn help_names_commands_that_exist_and_nothing_that_does_not_work() {
        let mut command = Cli::command();
        command.build();
        let shown = |sub: &&clap::Command| !sub.is_hide_set();
        let names: Vec<String> = command
            .get_subcommands()
            .filter(shown)
            .map(|sub| sub.get_name().to_string())
            .collect();
        let mut texts = vec![command.render_long_help().to_string()];
        let subs = command.get_subcommands().filter(shown);
        let mut subs: Vec<clap::Command> = subs.cloned().collect();
        texts.extend(
            subs.iter_mut()
                .map(|sub| sub.render_long_help().to_string()),
        );
        let mut named = 0;
        for text in &texts {
            assert!(!text.contains("not in this version"), "{text}");
            let words: Vec<&str> = text.split_whitespace().collect();
            for pair in words.windows(2).filter(|pair| pair[0] == "thermocline") {
                let word = pair[1].trim_matches(['`', ',', '.', ')']);
                let is_usage = word.starts_with(['[', '<', '-']);
                assert!(
                    is_usage || names.iter().any(|name| name == word),
                    "{pair:?} in {text}"
                );
                named += 1;
            }
            // Words in backticks are commands, options, or answers.
            for word in text.split('`').skip(1).step_by(2) {
                let answers = ["not found", "position"];
                let known = names.iter().any(|name| name == word) || answers.contains(&word);
                assert!(known || word.starts_with('-'), "`{word}` in {text}");
            }
        }
        assert!(named > 60, "{named}");
        let hidden: Vec<String> = command
            .get_subcommands()
            .filter(|sub| sub.is_hide_set())
            .map(|sub| sub.get_name().to_string())
            .collect();
        assert_eq!(hidden, ["tour-writer", "drop-partition"]);
    }

    #[test]
    fn the_command_line_is_consistent_and_every_command_has_examples() {
        let command = Cli::command();
        command.clone().debug_assert();
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let help = sub
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(
                help.contains("Examples:"),
                "{} has no examples",
                sub.get_name()
            );
        }
    }
}
