//! `load`: the rows of a file, in batches.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use thermocline::{Batch, ColumnFamily, Durability, limits};
use thermocline_bench::clock::now;

use crate::args::{Format, LoadArgs};
use crate::commands::piped::Piped;
use crate::commands::rows::{BadRow, Row, Rows};
use crate::fail::{Failure, Outcome, tell_aside};
use crate::output::Output;
use crate::progress::{Known, Progress};
use crate::store::{Access, check_name, family};
use crate::text::count;
use crate::{files, interrupt};

/// Rows and bytes of a batch, at most. After so many rows, bad ones included, it is asked whether to end.
const BATCH_ROWS: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;

/// Bad rows that are named one by one with `--skip-bad`.
const NAMED_MAX: u64 = 10;

/// Writes the rows of a file.
pub(crate) fn load(args: &LoadArgs, output: &mut Output) -> Outcome {
    let name = args.file.display().to_string();
    let format = match args.format {
        Some(format) => format,
        None => guess(&args.file)?,
    };
    let (file, bytes) = files::open(&args.file)?;
    let read = Arc::new(AtomicU64::new(0));
    let counted = Counted {
        inner: awaited(file, &name)?,
        read: read.clone(),
    };
    let mut rows = Rows::new(counted, &name, format, &args.key)?;
    args.cf.as_deref().map_or(Ok(()), check_name)?;
    // If it ends with its first row, no database is made.
    let first = rows.next_row()?.map(|row| row.and_then(checked));
    if let Some(Err(bad)) = &first
        && (bad.takes_all || !args.skip_bad)
    {
        return Err(ended_at(bad, &name, 0));
    }
    let cf = args.cf.as_deref();
    let db = args.store.open_making(&args.db, Access::Create, cf)?;
    let family = family(&db, &args.db, cf, Access::Create)?;
    interrupt::catch();
    let begun = now();
    let mut progress = Progress::new(output, bytes, "");
    let mut loader = Loader {
        name: &name,
        family,
        batch: db.batch(),
        batch_bytes: 0,
        loaded: 0,
        skipped: 0,
        skip_bad: args.skip_bad,
        asked: interrupt::asked,
    };
    let outcome = loader.run(first, &mut rows, || {
        let done = read.load(Ordering::Relaxed);
        progress.show("loading", Known::of_input(done, bytes));
    });
    drop(progress);
    let (loaded, skipped) = (loader.loaded, loader.skipped);
    drop(loader);
    let seconds = (now() - begun).as_secs_f64();
    outcome?;
    db.close()?;
    if output.json {
        return output.document(&json!({
            "loaded": loaded,
            "skipped": skipped,
            "seconds": seconds,
        }));
    }
    let left_out = match skipped {
        0 => String::new(),
        n => format!(", {} left out", count(n, "bad one")),
    };
    output.note(&format!(
        "{} loaded in {seconds:.2} s{left_out}",
        count(loaded, "row")
    ))
}

/// A file, which is read by another thread if it may have to be waited for.
fn awaited(file: File, name: &str) -> Outcome<Box<dyn Read>> {
    let failed = |e| Failure::Failed(format!("cannot read {name}: {e}"));
    match file.metadata().map_err(failed)?.is_file() {
        true => Ok(Box::new(file)),
        false => Ok(Box::new(
            Piped::new(file, interrupt::asked).map_err(failed)?,
        )),
    }
}

fn guess(path: &Path) -> Outcome<Format> {
    let extension = path
        .extension()
        .map(|e| e.to_string_lossy().to_ascii_lowercase());
    match extension.as_deref() {
        Some("csv") => Ok(Format::Csv),
        Some("tsv" | "tab") => Ok(Format::Tsv),
        Some("jsonl" | "ndjson") => Ok(Format::Jsonl),
        _ => Err(Failure::Usage(format!(
            "cannot tell the format of {} from its name; add --format csv, tsv or jsonl",
            path.display()
        ))),
    }
}

struct Loader<'a> {
    name: &'a str,
    family: ColumnFamily,
    batch: Batch,
    batch_bytes: usize,
    loaded: u64,
    skipped: u64,
    skip_bad: bool,
    /// Whether somebody wants an end.
    asked: fn() -> bool,
}

impl Loader<'_> {
    fn run<R: Read>(
        &mut self,
        first: Option<Result<Row, BadRow>>,
        rows: &mut Rows<R>,
        mut tick: impl FnMut(),
    ) -> Outcome {
        let (mut next, mut seen) = (first, 0);
        while let Some(row) = next {
            seen += 1;
            match row.and_then(checked) {
                Ok(row) => self.add(row)?,
                Err(bad) if self.skip_bad && !bad.takes_all => self.skip(&bad),
                Err(bad) => return self.end_at(&bad),
            }
            if seen >= BATCH_ROWS || self.batch_bytes >= BATCH_BYTES {
                seen = 0;
                self.commit()?;
                tick();
                self.go_on()?;
            }
            next = match rows.next_row() {
                Ok(next) => next,
                Err(failure) => return self.end_by(failure),
            };
        }
        self.commit()?;
        // Who writes to a pipe may have been ended by the same Ctrl-C: then this is not the end of what was to be loaded.
        self.go_on()
    }

    /// Ends the load if somebody wants that. All rows that were read are loaded.
    fn go_on(&self) -> Outcome {
        match (self.asked)() {
            true => Err(Failure::Failed(format!(
                "interrupted; loaded so far: {} of {}",
                count(self.loaded, "row"),
                self.name
            ))),
            false => Ok(()),
        }
    }

    fn add(&mut self, row: Row) -> Outcome {
        self.batch_bytes += row.key.len() + row.value.len();
        self.batch.put_cf(&self.family, &row.key, &row.value);
        Ok(())
    }

    fn commit(&mut self) -> Outcome {
        let rows = self.batch.len() as u64;
        if rows == 0 {
            return Ok(());
        }
        let done = self.batch.commit(Durability::Immediate);
        done.map_err(|e| self.told(&e.to_string()))?;
        self.batch_bytes = 0;
        self.loaded += rows;
        Ok(())
    }

    fn skip(&mut self, bad: &BadRow) {
        self.skipped += 1;
        if self.skipped <= NAMED_MAX {
            tell_aside(&format!(
                "{} line {}: {}; left out",
                self.name, bad.line, bad.what
            ));
        }
        if self.skipped == NAMED_MAX {
            tell_aside("further bad rows are only counted");
        }
    }

    fn end_at(&mut self, bad: &BadRow) -> Outcome {
        self.commit()?;
        Err(ended_at(bad, self.name, self.loaded))
    }

    /// The file cannot be read any further, or is not to be.
    fn end_by(&mut self, failure: Failure) -> Outcome {
        self.commit()?;
        self.go_on()?;
        Err(match failure {
            Failure::Failed(what) => self.told(&what),
            other => other,
        })
    }

    /// What went wrong, and how many rows were loaded.
    fn told(&self, what: &str) -> Failure {
        Failure::Failed(format!(
            "{what}; loaded before that: {} of {}",
            count(self.loaded, "row"),
            self.name
        ))
    }
}

/// What ends a load: a row, before which so many were loaded.
fn ended_at(bad: &BadRow, name: &str, loaded: u64) -> Failure {
    let remedy = match bad.takes_all {
        true => "mend the line",
        false => "mend the line, or add --skip-bad",
    };
    Failure::Failed(format!(
        "{name} line {}: {}; {} before it loaded, nothing after it; {remedy}",
        bad.line,
        bad.what,
        count(loaded, "row")
    ))
}

/// A row within the limits of the store.
fn checked(row: Row) -> Result<Row, BadRow> {
    let too_long = |what: &str, length: usize, limit: usize| BadRow {
        line: row.line,
        what: format!("the {what} has {length} bytes, but the limit is {limit}"),
        takes_all: false,
    };
    if row.key.len() > limits::KEY_LEN_MAX {
        return Err(too_long("key", row.key.len(), limits::KEY_LEN_MAX));
    }
    if row.value.len() > limits::VALUE_LEN_MAX {
        return Err(too_long("row", row.value.len(), limits::VALUE_LEN_MAX));
    }
    Ok(row)
}

/// Counts what was read, for the progress bar.
struct Counted<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use thermocline::{Db, Options};

    use super::*;

    /// A file that cannot be read to its end.
    struct Broken(&'static [u8]);

    impl Read for Broken {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            match self.0.is_empty() {
                true => Err(std::io::Error::other("the disk is gone")),
                false => self.0.read(buffer),
            }
        }
    }

    fn options() -> Options {
        Options {
            pm: 16 << 20,
            ..Options::default()
        }
    }

    #[test]
    fn a_load_that_is_to_end_says_so_at_the_end_of_its_input_too() {
        let folder = tempfile::tempdir().unwrap();
        let db = Db::open(folder.path().join("db"), options()).unwrap();
        let keys = ["id".to_string()];
        let text = &b"id,name\n1,a\n2,b\n"[..];
        let mut rows = Rows::new(text, "input", Format::Csv, &keys).unwrap();
        let mut loader = Loader {
            name: "input",
            family: family(&db, folder.path(), None, Access::Write).unwrap(),
            batch: db.batch(),
            batch_bytes: 0,
            loaded: 0,
            skipped: 0,
            skip_bad: false,
            asked: || true,
        };
        let first = rows.next_row().unwrap();
        let text = match loader.run(first, &mut rows, || {}).unwrap_err() {
            Failure::Failed(text) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(text, "interrupted; loaded so far: 2 rows of input");
        let keys = db.iter().map(|entry| entry.unwrap().0);
        assert_eq!(keys.collect::<Vec<_>>().concat(), b"12");
    }

    #[test]
    fn the_rows_before_a_place_that_cannot_be_read_are_loaded_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let db = Db::open(folder.path().join("db"), options()).unwrap();
        for (format, text) in [
            (Format::Csv, "id,name\n1,a\n2,b\n"),
            (Format::Jsonl, "{\"id\":3}\n{\"id\":4}\n"),
        ] {
            let input = Broken(text.as_bytes());
            let mut rows = Rows::new(input, "input", format, &["id".to_string()]).unwrap();
            let mut loader = Loader {
                name: "input",
                family: family(&db, folder.path(), None, Access::Write).unwrap(),
                batch: db.batch(),
                batch_bytes: 0,
                loaded: 0,
                skipped: 0,
                skip_bad: true,
                asked: || false,
            };
            let first = rows.next_row().unwrap();
            let failure = loader.run(first, &mut rows, || {}).unwrap_err();
            let text = match failure {
                Failure::Failed(text) => text,
                other => panic!("{other:?}"),
            };
            for says in ["the disk is gone", "loaded before that: 2 rows of input"] {
                assert!(text.contains(says), "{text}");
            }
        }
        let keys = db.iter().map(|entry| entry.unwrap().0);
        assert_eq!(keys.collect::<Vec<_>>().concat(), b"1234");
    }
}
