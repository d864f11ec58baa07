//! What can be typed. Scripts rely on the names.

mod bench;
mod copies;
mod entries;
mod families;
mod oltp;
mod options;
mod plan;
mod prepared;
mod store;
mod suite;
mod tour;
mod upkeep;

pub(crate) use bench::{BenchArgs, DurabilityArg, ReproduceArgs};
pub(crate) use copies::{BackupsArgs, DbDirArgs, ExportArgs, IngestArgs, RestoreArgs};
pub(crate) use entries::{ChangesArgs, Format, KeyArgs, LoadArgs, PutArgs, RangeArgs, ScanArgs};
pub(crate) use families::{CreateFamilyArgs, FamilyArgs};
pub(crate) use options::OptionsArgs;
pub(crate) use plan::{PlanArgs, SpreadArg};
pub(crate) use prepared::PreparedArgs;
pub(crate) use store::{DbArgs, StoreArgs};
pub(crate) use tour::{TourArgs, TourWriterArgs};
pub(crate) use upkeep::{CompactArgs, DestroyArgs, ExplainArgs, PrefixArgs, StatArgs};

use clap::{Parser, Subcommand};

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

Exit codes:
  0  success
  1  a failure you can act on: no such key or database, damage, no room, a run whose numbers do not count
  2  wrong usage: what was typed is wrong in itself, like an unknown option, a size out of bounds, a key
     that is too long, or a range that ends before it begins

Where a command works for over a second it shows on standard error how far it has come, if that is a terminal
and neither --json nor --quiet is given.";

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
    /// List the transactions that are prepared, commit some, or roll some back
    Prepared(PreparedArgs),
    /// Show what lies where: tiers, memtables, bytes, region, options
    #[command(after_help = "\
Examples:
  thermocline stat orders.db
  thermocline stat orders.db --json
  thermocline stat orders.db --events                   what was flushed and compacted last, and why")]
    Stat(StatArgs),
    /// Check every checksum and structural rule; exit 1 and list every fault if there is one
    #[command(after_help = "\
Examples:
  thermocline verify orders.db
  thermocline verify orders.db --json")]
    Verify(DbArgs),
    /// List the options that --set takes: value under a preset, range or words, meaning
    Options(OptionsArgs),
    /// Say what may be expected of a store: amplification, resident share, delay, and what limits
    Plan(PlanArgs),
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
    /// Delete all keys of a partition, durably, as one write; its tables go at once
    #[command(after_help = "\
Examples:
  thermocline drop-partition events.db 2024-01-
  thermocline drop-partition events.db --hex 00000007 --cf log

Where keys are divided by prefix, PREFIX has the length of those, and one that no key has is no error; where by size or
at given keys, it is the first key of the partition. Where there is no such partition, or keys are not divided at all,
that is an error, and nothing is deleted.")]
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
that backups have in common are stored once.

The database is flushed first, unless another process has it open, or its file system or its permissions let
nothing be written. Beside one that writes to it the backup has what is there when it begins. Without a flush,
what is in no table on the SSD is copied each time.")]
    Backup(DbDirArgs),
    /// List the backups in a folder, check them, or delete some
    Backups(BackupsArgs),
    /// Make a database of a backup, checking every byte
    Restore(RestoreArgs),
    /// Make a folder a database of its own with what this one has now
    #[command(after_help = "\
Examples:
  thermocline checkpoint orders.db orders-monday

On one file system tables are hard links, so this costs little. The folder must be new or empty. The copy
makes its own persistent memory when it is first written to: in the folder, unless --pm-path says
otherwise then. --json tells the sequence number up to which it has everything, from which a follower
that begins with it goes on.")]
    Checkpoint(DbDirArgs),
    /// Remove a database for good: all that it has made, and nothing else
    Destroy(DestroyArgs),
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
by what was measured: let nothing else run meanwhile. Ctrl-C ends one soon; it removes what it wrote, and results
of those before it are shown.")]
    Reproduce(ReproduceArgs),
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
        assert_eq!(hidden, ["tour-writer"]);
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
