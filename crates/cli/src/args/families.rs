//! Arguments of commands about column families.

use std::path::PathBuf;

use clap::Args;

use crate::args::store::StoreArgs;

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
