//! The plan of the house, measured: how large the circles between modules are, over how many files the methods of a
//! type spread, how often a lock is taken outside its room, how long files and functions are. What is within the law stays there: no circle, no type with methods in
//! more than four files, no file over 500 lines, no function over 70. No other figure may rise, and one that has fallen
//! is written down:
//!
//! ```text
//! THERMOCLINE_HOUSE=write cargo test -p thermocline-testkit --test house
//! ```
//!
//! Counted is what is in a crate's `src` but for tests. A *module* is a file. It uses another one if a path in it leads
//! there, through re-exports to where the thing is; to re-export is not to use. A *circle* is a set of modules each of
//! which uses all others, directly or by way of each other. A *method* of a type is a function of its `impl` blocks,
//! of traits too, or a function whose first argument is that type, a reference to it or a wrapper of it.
#![expect(
    clippy::disallowed_methods,
    reason = "the test reads the sources that it measures"
)]

mod circles;
mod locks;
mod paths;
mod source;
mod types;
mod untested;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use source::Source;

/// Lines that a file, and a function, may have.
const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 70;

/// Files over which the methods of a type may spread.
const TYPE_FILES: usize = 4;

/// What is written down of each crate. Lines are for the reader.
const COLUMNS: [&str; 10] = [
    "crate",
    "modules",
    "in circles",
    "largest circle",
    "long files",
    "long functions",
    "files of a type",
    "locks taken by others",
    "methods of that type",
    "the type",
];

/// The figures that must not rise, unless they stay within the law: all but the name, the number of modules, how many
/// methods the type has, and what it is.
const BOUND: std::ops::Range<usize> = 2..8;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The row of a crate.
fn measure(name: &str, src: &Path) -> Vec<String> {
    let source = Source::read(src);
    let modules = source.modules.len();
    let circles = circles::circles(&paths::uses(&source));
    let tell = std::env::var_os("THERMOCLINE_HOUSE").is_some_and(|what| what == "tell");
    let largest = circles.iter().map(Vec::len).max().unwrap_or(0);
    let in_circles: usize = circles.iter().map(Vec::len).sum();
    let long_files = source.modules.iter().filter(|m| m.lines > FILE_LINES);
    let functions: Vec<_> = source.functions().collect();
    let long_functions = functions.iter().filter(|f| f.lines > FUNCTION_LINES);
    let types = types::types(&source);
    let widest = types
        .iter()
        .max_by_key(|(name, t)| (t.files.len(), t.methods, *name));
    let foreign = locks::taken_by_others(&source);
    if tell {
        for (module, lock) in &foreign {
            let module = &source.modules[*module].name;
            println!("{name}: {module} takes another room's lock, {lock}");
        }
        for circle in &circles {
            let names = circle.iter().map(|m| source.modules[*m].name.as_str());
            println!(
                "{name}: a circle of {}",
                names.collect::<Vec<_>>().join(", ")
            );
        }
        long_functions
            .clone()
            .for_each(|f| println!("{name}: {} has {} lines", f.name, f.lines));
        for (of, t) in types.iter().filter(|(_, t)| t.files.len() > TYPE_FILES) {
            println!(
                "{name}: {of} has {} methods in {} files",
                t.methods,
                t.files.len()
            );
        }
    }
    let (of, files, methods) = widest.map_or(("-", 0, 0), |(name, t)| {
        (name.as_str(), t.files.len(), t.methods)
    });
    let numbers = [
        modules,
        in_circles,
        largest,
        long_files.count(),
        long_functions.count(),
        files,
        foreign.len(),
        methods,
    ];
    let mut row = vec![name.to_string()];
    row.extend(numbers.map(|n| n.to_string()));
    row.push(of.to_string());
    row
}

fn measure_all() -> Vec<Vec<String>> {
    let crates = root().join("crates");
    let mut names: Vec<String> = std::fs::read_dir(&crates)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| crates.join(name).join("src").is_dir())
        .collect();
    names.sort();
    let row = |name: &String| measure(name, &crates.join(name).join("src"));
    names.iter().map(row).collect()
}

fn table(rows: &[Vec<String>]) -> String {
    let mut text = COLUMNS.join(",") + "\n";
    for row in rows {
        writeln!(text, "{}", row.join(",")).unwrap();
    }
    text
}

#[test]
fn no_figure_of_the_house_rises() {
    let path = root().join("crates/testkit/tests/house/figures.csv");
    let rows = measure_all();
    let written = std::fs::read_to_string(&path).unwrap();
    let before: BTreeMap<&str, Vec<&str>> = written
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect::<Vec<_>>())
        .map(|row| (row[0], row))
        .collect();
    let (mut changed, mut rose) = (String::new(), false);
    for row in &rows {
        for column in BOUND {
            let (name, what) = (&row[0], COLUMNS[column]);
            // Of each figure so many are within the law. A crate that is within it stays there, and nothing need be
            // written down of what changes there.
            let allowed = if what == "files of a type" {
                TYPE_FILES
            } else {
                0
            };
            let figure = |row: &str| row.parse::<usize>().unwrap().max(allowed);
            let now = figure(&row[column]);
            let was = before.get(name.as_str()).map(|row| figure(row[column]));
            match was {
                None if now == allowed => {}
                None => {
                    rose = true;
                    writeln!(changed, "{name}, which is new: {what} {now}").unwrap();
                }
                Some(was) if now > was => {
                    rose = true;
                    writeln!(changed, "{name}: {what} rose from {was} to {now}").unwrap();
                }
                Some(was) if now < was => {
                    writeln!(
                        changed,
                        "{name}: {what} fell from {was} to {now}: write it down"
                    )
                    .unwrap();
                }
                Some(_) => {}
            }
        }
    }
    // What rose is mended, and not written down.
    if !rose && std::env::var_os("THERMOCLINE_HOUSE").is_some_and(|what| what == "write") {
        std::fs::write(&path, table(&rows)).unwrap();
        return;
    }
    assert!(
        changed.is_empty(),
        "{changed}what is meant: THERMOCLINE_HOUSE=tell; to write down what fell: THERMOCLINE_HOUSE=write, both with \
         cargo test -p thermocline-testkit --test house -- --nocapture"
    );
}
