//! Arguments of commands that read and write entries.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::store::StoreArgs;

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
{\"entries\":[{\"key\":…,\"value\":…}],\"count\":N}; what is not UTF-8 stands there as key_hex, value_hex. After an
error the document ends with the entries before it and a member error, and the command exits 1.
In a column family whose keys descend, --from is above --to, and --reverse begins at the lowest key. A range
that ends before it begins is an error.")]
pub(crate) struct ScanArgs {
    /// The database's folder
    pub db: PathBuf,
    /// Begin at this key
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    pub from: Option<String>,
    /// End before this key, in the family's order
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    pub to: Option<String>,
    /// Only keys that begin like this
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
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

/// Arguments of `changes`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thermocline changes orders.db
  thermocline changes orders.db --since 1042 --json

Each line is a change: its sequence number, column family, kind (put, delete, delete_range, merge, metadata), key and
value, or where a range begins and ends. The last number, or `position` with --json, is what to ask for
next time. Changes are there until they are flushed from persistent memory, or as long as
--set feed.retain_bytes=SIZE says; what is gone is an error, which tells the first number that is not.
A copy, or a database that was restored, gives out the numbers of its original again. So who follows one compares what
--json calls database with that of the last time, and begins anew where it is another. After an error the
document of --json ends with the changes before it and a member error, and the command exits 1.")]
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
that is never closed, or takes more along than a value has room for, with --skip-bad, too. Ctrl-C, SIGTERM and
SIGHUP end the load after the rows that are under way, also while it waits for more of a pipe. It says how many rows are
loaded then, and exits 1.")]
pub(crate) struct LoadArgs {
    /// The database's folder; made if there is none
    pub db: PathBuf,
    /// The file; the first line of CSV and TSV names the columns
    pub file: PathBuf,
    /// The column that is the key; several are joined by '/', which only the last of them may have
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
