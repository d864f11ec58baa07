//! The command line of Thermocline.
//!
//! `args` says what can be typed, `commands` and `tour` do it, `output` writes to standard output
//! and `fail` says how a run ends. Standard output carries results only; everything else goes to
//! standard error.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod fail;
mod files;
mod interrupt;
mod output;
mod progress;
mod store;
mod text;
mod tour;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::fail::Outcome;
use crate::output::Output;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return fail::not_taken(error),
    };
    let mut output = Output::new(cli.json, cli.quiet);
    let outcome = dispatch(cli.command, &mut output).and_then(|()| output.finish());
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn dispatch(command: Command, output: &mut Output) -> Outcome {
    match command {
        Command::Put(args) => commands::put(&args, output),
        Command::Get(args) => commands::get(&args, output),
        Command::Delete(args) => commands::delete(&args, output),
        Command::Scan(args) => commands::scan(&args, output),
        Command::Changes(args) => commands::changes(&args, output),
        Command::Load(args) => commands::load(&args, output),
        Command::Families(args) => commands::families::families(&args, output),
        Command::CreateFamily(args) => commands::families::create(&args, output),
        Command::DropFamily(args) => commands::families::drop(&args, output),
        Command::Prepared(args) => commands::prepared(&args, output),
        Command::Stat(args) => commands::stat(&args, output),
        Command::Verify(args) => commands::verify(&args, output),
        Command::Options(args) => commands::options(&args, output),
        Command::Plan(args) => commands::plan(&args, output),
        Command::Bench(args) => commands::bench(args, output),
        Command::Tour(args) => tour::run(&args, output),
        Command::TourWriter(args) => tour::write_until_killed(&args),
        Command::Explain(args) => commands::explain(&args, output),
        Command::Compact(args) => commands::compact(&args, output),
        Command::DropPartition(args) => commands::drop_partition(&args, output),
        Command::DeleteRange(args) => commands::delete_range(&args, output),
        Command::Backup(args) => commands::copies::backup(&args, output),
        Command::Backups(args) => commands::copies::backups(&args, output),
        Command::Restore(args) => commands::copies::restore(&args, output),
        Command::Checkpoint(args) => commands::copies::checkpoint(&args, output),
        Command::Destroy(args) => commands::destroy(&args, output),
        Command::Ingest(args) => commands::tables::ingest(&args, output),
        Command::Export(args) => commands::tables::export(&args, output),
        Command::Reproduce(args) => commands::reproduce(&args, output),
    }
}
