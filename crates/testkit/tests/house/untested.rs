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

/// What stands behind the backquotes of a line of documentation that begins or ends a block.
fn fence(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let doc = line
        .strip_prefix("///")
        .or_else(|| line.strip_prefix("//!"))?;
    doc.trim().strip_prefix("```")
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
            let Some(language) = fence(line) else {
                return;
            };
            is_within = !is_within;
            let is_example = is_within && language != "text";
            assert!(
                !no_examples || !is_example,
                "{place}: nobody runs this example"
            );
        });
    }
    assert!(silent > 0, "none says so");
}
