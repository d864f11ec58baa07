//! What `cargo test` explores a part of, `.ci/explore` explores as a whole.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::root;

/// The files here, or below this folder, that ask how far to explore.
fn asking(path: &Path) -> Vec<PathBuf> {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).unwrap();
        return entries
            .into_iter()
            .flat_map(|entry| asking(&entry.unwrap().path()))
            .collect();
    }
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let asks = ["testkit::explore", "testkit::loom"]
        .iter()
        .any(|name| text.contains(&format!("thermocline_{name}")));
    asks.then(|| path.to_path_buf()).into_iter().collect()
}

/// The test, or the beginning of its name, that the script runs of a file with tests of units.
fn is_run(file: &Path, units: &[&str]) -> bool {
    let text = std::fs::read_to_string(file).unwrap();
    units
        .iter()
        .any(|name| text.contains(&format!("fn {name}")))
}

#[test]
fn what_explores_a_part_explores_the_whole_elsewhere() {
    let script = std::fs::read_to_string(root().join(".ci/explore")).unwrap();
    let named: BTreeSet<&str> = script
        .split("--test ")
        .skip(1)
        .filter_map(|rest| rest.split_whitespace().next())
        .collect();
    let units = script.split("--lib --").nth(1).unwrap_or_default();
    let units: Vec<&str> = units
        .split_whitespace()
        .filter(|word| *word != "\\")
        .collect();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let crate_path = entry.unwrap().path();
        for file in asking(&crate_path.join("src")) {
            assert!(
                is_run(&file, &units) || crate_path.ends_with("testkit"),
                "{}: its unit tests are not in .ci/explore",
                file.display()
            );
        }
        let Ok(programs) = std::fs::read_dir(crate_path.join("tests")) else {
            continue;
        };
        for program in programs {
            let program = program.unwrap().path();
            let name = program.file_stem().unwrap().to_str().unwrap();
            assert!(
                asking(&program).is_empty() || named.contains(name) || name == "house",
                "{}: not in .ci/explore",
                program.display()
            );
        }
    }
}
