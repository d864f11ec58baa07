//! Arguments of commands about where data lies.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::args::store::StoreArgs;

/// Arguments of `stat`.
#[derive(Debug, Args)]
pub(crate) struct StatArgs {
    /// The database's folder
    pub db: PathBuf,
    /// Show the last flushes and compactions instead: what each took and wrote, why, and what its time went into
    #[arg(long)]
    pub events: bool,
    /// Show it again and again, every so many seconds, until Ctrl-C; a process that writes to it is not held up
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1",
        value_parser = watch_seconds
    )]
    pub watch: Option<Duration>,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Seconds between two looks, from a tenth of one to a day.
fn watch_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok();
    let allowed = seconds.filter(|seconds| (0.1..=86_400.0).contains(seconds));
    allowed
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "give seconds from 0.1 to 86400, like --watch=5".to_string())
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The database's folder
    pub db: PathBuf,
    /// Write a page instead, in one file that needs no other; what was there is replaced, and its folder made if there is none
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
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    pub from: Option<String>,
    /// End before this key
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
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
    /// The partition's prefix, or its first key
    #[arg(allow_negative_numbers = true)]
    pub prefix: String,
    /// PREFIX is hexadecimal digits
    #[arg(long)]
    pub hex: bool,
    /// The column family
    #[arg(long, value_name = "NAME")]
    pub cf: Option<String>,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Arguments of `destroy`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thermocline destroy orders.db --yes
  thermocline destroy orders.db --yes --pm-path /mnt/pmem/orders.pm

Tables, blob files, logs and persistent memory of the database go; other files stay, and so do the folder and
the file LOCK in it. Persistent memory outside of the folder goes only if --pm-path says where it is, since a
copy of the folder may have it, too; without that the command says where it is and removes nothing. Logs outside
of the folder go with it from where they were last, and from --wal-path if they were moved since. If the command is
cut short, run it again with the same options.")]
pub(crate) struct DestroyArgs {
    /// The database's folder
    pub db: PathBuf,
    /// Do it: nothing brings the database back
    #[arg(long)]
    pub yes: bool,
    /// Where persistent memory lies, if that is outside of the folder: the file, or the folder that it was made in
    #[arg(long, value_name = "PATH")]
    pub pm_path: Option<PathBuf>,
    /// Look for logs in this folder, too: where they lie, if their folder was moved
    #[arg(long, value_name = "PATH")]
    pub wal_path: Option<PathBuf>,
}
