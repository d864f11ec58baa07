//! Options of every command that opens a store.

use std::path::PathBuf;

use clap::Args;
use thermocline::size::parse_size;

pub(super) fn size(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|e| match e {
        thermocline::Error::InvalidArgument(text) => text,
        other => other.to_string(),
    })
}

pub(super) fn setting(text: &str) -> Result<(String, String), String> {
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
