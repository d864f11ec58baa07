//! The fifth chapter: a process that writes is killed, and what it had acknowledged must be there.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use thermocline::{Db, Options};
use thermocline_bench::clock::now;

use crate::args::TourWriterArgs;
use crate::fail::{Failure, Outcome};
use crate::interrupt;
use crate::store::Access;

/// A writer that nobody kills stops here.
const RECORDS_MAX: u64 = 5_000_000;

/// A round lasts at least this long, so that a fast region has something to lose, and at most so
/// long, so that a slow disk is not waited for.
const ROUND_MIN: Duration = Duration::from_millis(250);
const ROUND_MAX: Duration = Duration::from_secs(4);

/// What one round showed.
#[derive(Debug)]
pub(crate) struct Round {
    /// The last number that the writer acknowledged.
    pub acknowledged: u64,
    /// Records that are there after the reopening.
    pub present: u64,
    /// Durable writes a second of the writer.
    pub per_second: f64,
    /// Time that the reopening took.
    pub reopen_ms: f64,
    /// Records that the reopening indexed.
    pub recovered: u64,
    /// Unfinished records that the reopening cut off.
    pub cut: u64,
}

fn prefix(round: u64) -> String {
    format!("crash/{round}/")
}

fn key(round: u64, number: u64) -> String {
    format!("{}{number:010}", prefix(round))
}

fn value(round: u64, number: u64) -> String {
    format!("record {number} of round {round}, acknowledged when it was durable")
}

/// The child: writes numbered records and reports each number once it is durable.
pub(crate) fn write_until_killed(args: &TourWriterArgs) -> Outcome {
    let db = args.store.open(&args.db, Access::Write)?;
    let mut out = std::io::stdout().lock();
    for number in 1..=RECORDS_MAX {
        db.put(key(args.round, number), value(args.round, number))?;
        let told = out
            .write_all(format!("{number}\n").as_bytes())
            .and_then(|()| out.flush());
        if told.is_err() {
            // The parent is gone: there is nobody to write for.
            break;
        }
    }
    Ok(db.close()?)
}

/// Lets a child write to the closed database at `path` until it has acknowledged about `target`
/// records, kills it, reopens the database and counts.
pub(crate) fn round(path: &Path, options: &Options, round: u64, target: u64) -> Outcome<Round> {
    let (acknowledged, per_second) = write_and_kill(path, options, round, target)?;
    let begun = now();
    let db = Db::open(path, options.clone())?;
    let reopen_ms = (now() - begun).as_secs_f64() * 1000.0;
    let present = count(&db, round)?;
    let recovery = db.metrics().recovery;
    db.close()?;
    if present < acknowledged {
        return Err(Failure::Failed(format!(
            "the tour lost data: the writer had acknowledged {acknowledged} records, {present} are \
             there"
        )));
    }
    if present > acknowledged + 1 {
        return Err(Failure::Failed(format!(
            "the tour found records that nobody wrote: the writer had acknowledged {acknowledged} \
             records and was writing one, {present} are there"
        )));
    }
    Ok(Round {
        acknowledged,
        present,
        per_second,
        reopen_ms,
        recovered: recovery.records,
        cut: recovery.cut_records,
    })
}

fn write_and_kill(path: &Path, options: &Options, round: u64, target: u64) -> Outcome<(u64, f64)> {
    let failed = |e: std::io::Error| Failure::Failed(format!("cannot run the writing child: {e}"));
    let program = std::env::current_exe().map_err(failed)?;
    let mut child = Command::new(program)
        .args(arguments(path, options, round))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let answer = listen_and_kill(&mut child, target);
    // After any error the child must not go on writing to a store that is about to be removed.
    let _ = child.kill();
    child.wait().map_err(failed)?;
    answer.map_err(failed)?
}

/// The child's command line. The names of folders may begin as options do.
fn arguments(path: &Path, options: &Options, round: u64) -> Vec<OsString> {
    let mut all = vec![OsString::from("tour-writer")];
    if let Some(pm_path) = &options.pm_path {
        let mut option = OsString::from("--pm-path=");
        option.push(pm_path);
        all.push(option);
    }
    all.push(OsString::from("--"));
    all.push(path.as_os_str().to_owned());
    all.push(OsString::from(round.to_string()));
    all
}

fn listen_and_kill(child: &mut Child, target: u64) -> std::io::Result<Outcome<(u64, f64)>> {
    let Some(pipe) = child.stdout.take() else {
        return Err(std::io::Error::other("it has no output"));
    };
    let mut lines = BufReader::new(pipe);
    let mut line = String::new();
    let mut acknowledged = 0;
    let mut killed = false;
    let mut begun = now();
    let mut per_second = 0.0;
    loop {
        line.clear();
        lines.read_line(&mut line)?;
        // A number without its line's end may be cut short, so it does not count.
        let Some(number) = line.strip_suffix('\n').and_then(|n| n.parse::<u64>().ok()) else {
            break;
        };
        if number != acknowledged + 1 {
            return Err(std::io::Error::other("it acknowledged out of order"));
        }
        acknowledged = number;
        if acknowledged == 1 {
            begun = now();
        }
        let time = now() - begun;
        let enough = acknowledged >= target && time > ROUND_MIN;
        if !killed && (enough || time > ROUND_MAX) {
            // On Unix this is SIGKILL, which no process can catch or tidy up after.
            child.kill()?;
            killed = true;
            per_second = acknowledged as f64 / time.as_secs_f64().max(1e-9);
        }
    }
    if killed {
        return Ok(Ok((acknowledged, per_second)));
    }
    let why = if interrupt::asked() {
        "interrupted"
    } else {
        "the writing child ended before it was killed"
    };
    Ok(Err(Failure::Failed(why.to_string())))
}

/// Counts the records of a round, which must be numbered from 1 without a gap and hold what was
/// written.
fn count(db: &Db, round: u64) -> Outcome<u64> {
    let mut present = 0;
    for entry in db.prefix(prefix(round)) {
        let (found_key, found_value) = entry?;
        let number = present + 1;
        if found_key != key(round, number).as_bytes() {
            return Err(Failure::Failed(format!(
                "the tour found a gap: record {number} of round {round} is missing"
            )));
        }
        if *found_value != *value(round, number).as_bytes() {
            return Err(Failure::Failed(format!(
                "the tour found a wrong value in record {number} of round {round}"
            )));
        }
        present = number;
    }
    Ok(present)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args;

    #[test]
    fn folders_whose_names_begin_as_options_do_are_the_childs_too() {
        let options = Options {
            pm_path: Some("-pm".into()),
            ..Options::default()
        };
        let typed = [OsString::from("thermocline")].into_iter();
        let typed = typed.chain(arguments(Path::new("-db"), &options, 2));
        let cli = args::Cli::try_parse_from(typed).unwrap();
        let args::Command::TourWriter(args) = cli.command else {
            panic!("another command");
        };
        assert_eq!((args.db.as_path(), args.round), (Path::new("-db"), 2));
        assert_eq!(args.store.pm_path, options.pm_path);
    }
}
