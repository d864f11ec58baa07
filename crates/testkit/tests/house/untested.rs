//! Crates whose manifest says that they have no tests, or no examples: cargo builds nothing for these then, and looks for none.

use std::path::Path;

use super::root;

/// Shows all lines of the sources below a folder.
fn lines(dir: &Path, each: &mut dyn FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            lines(&path, each);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            text.lines().for_each(|line| each(&path, line));
        }
    }
}

/// A line of documentation, behind what makes it one.
fn documentation(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///")
        .or_else(|| line.strip_prefix("//!"))
}

/// What stands behind the backquotes of one that begins or ends a block.
fn fence(doc: &str) -> Option<&str> {
    doc.trim().strip_prefix("```")
}

/// Whether a line of documentation is, or begins, an example that somebody is to run. `is_within` a block between backquotes.
fn begins_example(doc: &str, is_within: &mut bool) -> bool {
    let Some(language) = fence(doc) else {
        // Four spaces behind the usual one make a block, too.
        return !*is_within && doc.starts_with("     ");
    };
    *is_within = !*is_within;
    *is_within && language != "text"
}

#[test]
fn an_example_is_known_by_its_backquotes_or_its_spaces() {
    let examples = |lines: &[&str]| {
        let mut is_within = false;
        let docs = lines.iter().filter_map(|line| documentation(line));
        let found = docs.filter(|doc| begins_example(doc, &mut is_within));
        found.count()
    };
    assert_eq!(
        examples(&["//! ```text", "//!      a picture", "//! ```"]),
        0
    );
    assert_eq!(examples(&["/// ```", "///     run();", "/// ```"]), 1);
    assert_eq!(
        examples(&["    /// Text.", "    ///", "    ///     run();"]),
        1
    );
    assert_eq!(
        examples(&["/// 1. One", "///    of a list.", "     code();"]),
        0
    );
}

#[test]
fn crates_that_say_that_they_have_no_tests_have_none() {
    let mut silent = 0;
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let dir = entry.unwrap().path();
        let manifest = std::fs::read_to_string(dir.join("Cargo.toml")).unwrap();
        let says = |what: &str| manifest.lines().any(|line| line == what);
        let (no_tests, no_examples) = (says("test = false"), says("doctest = false"));
        silent += u32::from(no_tests) + u32::from(no_examples);
        let mut is_within = false;
        lines(&dir.join("src"), &mut |path, line| {
            let place = path.display();
            let is_test = line.contains("#[test]");
            assert!(!no_tests || !is_test, "{place}: nobody runs this test");
            let doc = documentation(line);
            let is_example = doc.is_some_and(|doc| begins_example(doc, &mut is_within));
            assert!(
                !no_examples || !is_example,
                "{place}: nobody runs this example"
            );
        });
    }
    assert!(silent > 0, "none says so");
}
