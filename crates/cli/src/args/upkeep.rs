//! Arguments of commands about where data lies.

use std::path::PathBuf;

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
