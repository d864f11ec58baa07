//! Arguments of the command about options.

use clap::Args;

/// Arguments of `options`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thermocline options
  thermocline options level0.                           those of a group
  thermocline options level0.shape                      one, with all that is to be said of it
  thermocline options --preset leveled --json

Each option has its value under the preset, what it takes, and the first sentence of what it means; - stands for
what is not set. No database is opened; `stat` shows the options of one.")]
pub(crate) struct OptionsArgs {
    /// Show the option of this name or, if there is none, those whose names begin so
    #[arg(value_name = "NAME-OR-PREFIX")]
    pub name: Option<String>,
    /// The named set of options: thermocline, global-index, pm-blade, flat-lsm, leveled or trident
    #[arg(long, value_name = "NAME", default_value = "thermocline")]
    pub preset: String,
}
