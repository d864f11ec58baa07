//! What `cargo test` explores a part of, `.ci/explore` explores as a whole.

use std::collections::BTreeSet;
use std::path::Path;

use crate::root;

/// The file or folder right below a crate's `tests` in which something asks how far to explore.
fn asks(path: &Path) -> bool {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).unwrap();
        return entries
            .into_iter()
            .any(|entry| asks(&entry.unwrap().path()));
    }
    let text = std::fs::read_to_string(path).unwrap_or_default();
    ["testkit::explore", "testkit::loom"]
        .iter()
        .any(|name| text.contains(&format!("thermocline_{name}")))
}

#[test]
fn what_explores_a_part_explores_the_whole_elsewhere() {
    let script = std::fs::read_to_string(root().join(".ci/explore")).unwrap();
    let named: BTreeSet<&str> = script
        .split("--test ")
        .skip(1)
        .filter_map(|rest| rest.split_whitespace().next())
        .collect();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let crate_path = entry.unwrap().path();
        assert!(
            !asks(&crate_path.join("src")) || crate_path.ends_with("testkit"),
            "{}: unit tests are not in .ci/explore",
            crate_path.display()
        );
        let Ok(programs) = std::fs::read_dir(crate_path.join("tests")) else {
            continue;
        };
        for program in programs {
            let program = program.unwrap().path();
            let name = program.file_stem().unwrap().to_str().unwrap();
            assert!(
                !asks(&program) || named.contains(name) || name == "house",
                "{}: not in .ci/explore",
                program.display()
            );
        }
    }
}
