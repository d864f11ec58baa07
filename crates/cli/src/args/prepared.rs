//! Arguments of the command about prepared transactions.

use std::path::PathBuf;

use clap::Args;

use crate::args::store::StoreArgs;

/// Arguments of `prepared`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thermocline prepared orders.db
  thermocline prepared orders.db --commit 'transfer 42'
  thermocline prepared orders.db --rollback 'transfer 43' --rollback 'transfer 44'

Each line is a transaction between the two halves of its commit: its name, changes, keys and ranges that
nobody else may change meanwhile, bytes, column families. Whether it is to be committed only whoever
prepared it knows. If one of several names is not there, none is ended.")]
pub(crate) struct PreparedArgs {
    /// The database's folder
    pub db: PathBuf,
    /// Commit the transaction of this name; may be repeated
    #[arg(long, value_name = "NAME")]
    pub commit: Vec<String>,
    /// Roll the transaction of this name back; may be repeated
    #[arg(long, value_name = "NAME")]
    pub rollback: Vec<String>,
    /// Names are hexadecimal digits
    #[arg(long)]
    pub hex: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}
