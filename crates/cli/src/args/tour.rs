//! Arguments of the tour.

use std::path::PathBuf;

use clap::Args;

use crate::args::store::StoreArgs;

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
the SSD. Then it cleans up, and so it does if Ctrl-C ends it. It exits 1 if anything is not as it should be.")]
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
