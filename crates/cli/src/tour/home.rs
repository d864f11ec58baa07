//! Where the tour's database lies, and whether it goes.

use std::path::PathBuf;

use thermocline_bench::page::quoted;
use thermocline_bench::scratch::{self, Scratch};

use crate::args::TourArgs;
use crate::fail::{Failure, Outcome};
use crate::interrupt;
use crate::tour::story::Story;

/// Where the tour's database lies, and whether it goes.
pub(super) enum Home {
    Scratch(Scratch),
    Named { path: PathBuf, made: bool },
}

impl Home {
    pub(super) fn new(args: &TourArgs) -> Outcome<Home> {
        let Some(path) = &args.db else {
            return Ok(Home::Scratch(Scratch::new("thermocline-tour")?));
        };
        match path.read_dir().map(Iterator::count) {
            Ok(1..) => Err(Failure::Failed(format!(
                "{} is not empty; give the tour a new folder",
                path.display()
            ))),
            Ok(0) => Ok(Home::Named {
                path: path.clone(),
                made: false,
            }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Home::Named {
                path: path.clone(),
                made: true,
            }),
            Err(e) => Err(Failure::Failed(format!(
                "cannot use {}: {e}",
                path.display()
            ))),
        }
    }

    pub(super) fn database(&self) -> PathBuf {
        match self {
            Home::Scratch(scratch) => scratch.path().join("cities.db"),
            Home::Named { path, .. } => path.clone(),
        }
    }

    /// Leaves the database where it is, or removes it; with its folder what it has `beside` that.
    pub(super) fn leave(
        self,
        args: &TourArgs,
        beside: &[PathBuf],
        story: &mut Story<'_>,
    ) -> Outcome {
        let path = self.database();
        if args.keep {
            if let Home::Scratch(mut scratch) = self {
                scratch.keep();
            }
            let mut path = quoted(&path.to_string_lossy());
            if let Some(pm_path) = &args.store.pm_path {
                path = format!("{path} --pm-path {}", quoted(&pm_path.to_string_lossy()));
            }
            story.output.note("")?;
            story.say("The database stays. Try:")?;
            story.show(&format!("thermocline scan {path} --prefix name/IS/"))?;
            story.show(&format!("thermocline get {path} name/FR/Paris/00"))?;
            return story.show(&format!("thermocline stat {path}"));
        }
        self.clear(beside)?;
        story.output.note("")?;
        story.say("Everything that the tour wrote is deleted again (--keep would leave it).")
    }

    /// What becomes of it where the tour does not come to its end, with what it has `beside`. If somebody has ended it, it goes, unless it
    /// is to be kept. If something is wrong, a folder that the user has named stays as it is, to be looked at. What is kept is told.
    pub(super) fn give_up(self, keep: bool, beside: &[PathBuf], failure: Failure) -> Failure {
        let is_interrupted = interrupt::asked();
        let is_ended = is_interrupted || matches!(failure, Failure::NoReader);
        let removed = || "what it wrote was removed".to_string();
        let stays = format!("what it wrote is in {}", self.database().display());
        let left = match self {
            home if is_ended && !keep => home.clear(beside).map(|()| removed()),
            Home::Scratch(mut scratch) if keep => {
                scratch.keep();
                Ok(stays)
            }
            Home::Scratch(_) => Ok(removed()),
            Home::Named { .. } => Ok(stays),
        };
        match failure {
            Failure::Failed(text) if is_interrupted || keep => Failure::Failed(match left {
                Ok(left) => format!("{text}; {left}"),
                Err(error) => format!("{text}; {error}"),
            }),
            other => other,
        }
    }

    /// Removes it with what it has `beside`, as far as it can be. A folder that was there before is empty again, and else what it was: a
    /// link may lead to it, something be mounted there, or its owner have given it rights.
    fn clear(self, beside: &[PathBuf]) -> thermocline::Result<()> {
        match self {
            Home::Scratch(scratch) => scratch.remove(),
            Home::Named { path, made } => {
                let mut cleared = match made {
                    true => scratch::remove(&path),
                    false => scratch::empty(&path),
                };
                for path in beside {
                    cleared = cleared.and(scratch::remove(path));
                }
                cleared
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Who keeps a tour that finds something wrong wants to look at what it wrote.
    #[test]
    fn a_temporary_folder_that_is_kept_is_named_if_something_is_wrong() {
        let scratch = Scratch::new("tour-test").unwrap();
        let path = scratch.path().to_path_buf();
        let failure = || Failure::Failed("the tour lost data".to_string());
        let told = Home::Scratch(scratch).give_up(true, &[], failure());
        let says = format!("what it wrote is in {}", path.display());
        assert!(matches!(told, Failure::Failed(text) if text.contains(&says)));
        assert!(path.is_dir());
        scratch::remove(&path).unwrap();
        // It is gone if it is not to be kept, and nothing is said of it.
        let scratch = Scratch::new("tour-test").unwrap();
        let path = scratch.path().to_path_buf();
        let told = Home::Scratch(scratch).give_up(false, &[], failure());
        assert!(matches!(told, Failure::Failed(text) if text == "the tour lost data"));
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_that_was_there_is_emptied_and_stays_what_it_is() {
        let scratch = Scratch::new("tour-test").unwrap();
        let [folder, link, region] =
            ["folder", "link", "region"].map(|name| scratch.path().join(name));
        let make = |path: &Path| std::fs::DirBuilder::new().create(path).unwrap();
        make(&folder);
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        make(&link.join("of the tour"));
        make(&region);
        let home = Home::Named {
            path: link.clone(),
            made: false,
        };
        home.clear(std::slice::from_ref(&region)).unwrap();
        assert!(link.is_symlink());
        assert_eq!(folder.read_dir().unwrap().count(), 0);
        assert!(!region.exists());
    }
}
