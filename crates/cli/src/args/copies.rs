//! Arguments of commands about copies and tables.

use std::path::PathBuf;

use clap::Args;

use crate::args::store::StoreArgs;

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
keeps what others need. If one of several is not there, none is deleted. After the newest was deleted the
next backup gets its number again.")]
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

The database's folder must be new or empty. Its persistent memory is made when it is first written to.")]
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

The file must not exist. It is called FILE.part until it is whole; if Ctrl-C ends the command that stays, and is to be
removed. Metadata is not exported, and a value over 1 MiB is an error. In a column family whose keys descend, --from is
above --to.")]
pub(crate) struct ExportArgs {
    /// The database's folder
    pub db: PathBuf,
    /// The file to write
    pub file: PathBuf,
    /// Begin at this key
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    pub from: Option<String>,
    /// End before this key, in the family's order
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
