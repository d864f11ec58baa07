//! The papers' experiments, each as a small named description: `thermocline reproduce PAPER NAME`.
//!
//! An [`Experiment`] says what the paper claims, and has a function that measures here what was measured there, at a
//! scale at which it takes a minute or two. What comes out ([`Outcome`]) is tables, charts, and *checks*: each a claim of
//! the paper as a number, ours beside it, and whether its **shape** holds. Absolute figures are those of the machine, so
//! a check is a ratio of two things that were measured in the same run.
//!
//! What holds is said by the numbers alone: a claim that does not hold here is printed as that.
//!
//! # To add one
//! Write a module beside those of its paper with a function from [`Setting`] and [`Tell`] to an [`Outcome`], and
//! name it in [`EXPERIMENTS`]. With [`Setting::quick`] it takes a second, so that a test can run it.
#![deny(unsafe_code)]

mod outcome;
mod page;
mod pm_blade;
mod trial;

use std::path::PathBuf;

use thermocline_base::options::Emulation;
use thermocline_base::{Error, Result};

pub use outcome::{Chart, Check, Outcome, Series, Table};
pub use page::page;

/// Of a paper, a figure or a table; or a claim of ours about what it proposes, which says so.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// The paper, as in `PAPERS.md`.
    pub paper: &'static str,
    /// The figure or table, or a word for what is ours.
    pub name: &'static str,
    /// What it is about.
    pub title: &'static str,
    /// What the paper found, with its section; or what we claim.
    pub claim: &'static str,
    run: fn(&Setting, Tell<'_>) -> Result<Outcome>,
}

/// Where an experiment says how far it is.
pub type Tell<'a> = &'a mut dyn FnMut(&str);

/// Where and how experiments run.
#[derive(Debug, Clone)]
pub struct Setting {
    /// A folder on the SSD for what they write; they leave nothing there.
    pub dir: PathBuf,
    /// A folder for persistent memory; `None` for the same.
    pub pm_dir: Option<PathBuf>,
    /// How persistent memory is slowed down.
    pub emulate: Emulation,
    /// So small that numbers mean nothing: for tests.
    pub quick: bool,
}

#[cfg(test)]
impl Setting {
    /// For tests, in this folder.
    fn quick(dir: &std::path::Path) -> Setting {
        Setting {
            dir: dir.to_path_buf(),
            pm_dir: None,
            emulate: Emulation::None,
            quick: true,
        }
    }
}

/// A folder for tests: on tmpfs where there is one, since what is measured means nothing there.
#[cfg(test)]
fn folder() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    let folder = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    folder.expect("a temporary folder")
}

/// All experiments.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        paper: "pm-blade",
        name: "fig-6",
        title: "PM table beside arrays and SSTables",
        claim: "Writing takes 40 % less time than an array without compression and 70 % less than an SSTable; reads are not \
            slower than the array's, and up to 89 % faster than an SSTable's (§VI-B).",
        run: pm_blade::tables::run,
    },
    Experiment {
        paper: "pm-blade",
        name: "table-4",
        title: "Persistent memory that an internal compaction releases",
        claim: "After 20 GB of updates an internal compaction releases 11.6 GB if they are uniform, and more the more they are \
            skewed: at skew 1.0 16.2 GB, about 80 % of what was used (§VI-B).",
        run: pm_blade::internal::released,
    },
    Experiment {
        paper: "pm-blade",
        name: "table-5",
        title: "Duration of an internal compaction",
        claim: "To merge 1 GB in level 0 takes half as long in persistent memory as on the SSD: 1.4 to 2.1 s against 2.8 to \
            4 s, the less the larger values are (§VI-B).",
        run: pm_blade::internal::duration,
    },
    Experiment {
        paper: "pm-blade",
        name: "fig-7a",
        title: "Latency of reads with and without internal compaction",
        claim: "While as many writes come, reads of level 0 stay as fast as they were with internal compaction, and become slower \
            and slower without: up to 82 % less latency (§VI-B).",
        run: pm_blade::merging::reads,
    },
    Experiment {
        paper: "pm-blade",
        name: "fig-7b",
        title: "Latency of reads during an internal compaction",
        claim: "Reads take 1.7 times as long on average while level 0 is merged in persistent memory, and 5.3 times at the \
            99.9th percentile; that is 23 % and 21 % of what they take during a compaction on the SSD (§VI-B).",
        run: pm_blade::internal::reading,
    },
    Experiment {
        paper: "pm-blade",
        name: "fig-8a",
        title: "Bytes that updates write to SSD and persistent memory",
        claim: "With internal compaction and the cost models all bytes written are 43 % of those without, and 14 % of \
            RocksDB's (§VI-B).",
        run: pm_blade::merging::amplification,
    },
    Experiment {
        paper: "pm-blade",
        name: "fig-8b",
        title: "Share of reads that persistent memory answers",
        claim: "Where keys are read and written alike, persistent memory answers 34 % more reads with the cost models than when \
            all of level 0 goes at once; the more skew, the more (§VI-B).",
        run: pm_blade::merging::hits,
    },
    Experiment {
        paper: "pm-blade",
        name: "fig-12",
        title: "YCSB A and E",
        claim: "Under YCSB A it does 1.5 times as many operations a second as RocksDB, under E 2.0 times (§VI-E).",
        run: pm_blade::ycsb::ycsb,
    },
    Experiment {
        paper: "pm-blade",
        name: "space",
        title: "Live data in persistent memory before anything is written to the SSD (our claim, not the paper's)",
        claim: "The paper has no such figure. We claim of its PM tables and internal compaction (§IV), as shape tiered has \
            them: of skewed updates 2.5 times as much live data stays in the same persistent memory as with global-index.",
        run: pm_blade::space::space,
    },
    Experiment {
        paper: "pm-blade",
        name: "loading",
        title: "Loads that gain nothing from tables in persistent memory (our claim, not the paper's)",
        claim: "The paper has no such figure. We claim that tables in persistent memory (§IV), as shape tiered has them, \
            cost a load of every key once no more than a tenth of its rate, and no more than a tenth more bytes on the SSD.",
        run: pm_blade::loading::loading,
    },
];

impl Experiment {
    /// Runs it.
    ///
    /// # Errors
    /// Those of the file system, and of what is measured.
    pub fn run(&self, setting: &Setting, tell: Tell<'_>) -> Result<Outcome> {
        (self.run)(setting, tell)
    }

    /// `pm-blade fig-6`.
    pub fn id(&self) -> String {
        format!("{} {}", self.paper, self.name)
    }
}

/// Those of a paper, or the one of this name.
///
/// # Errors
/// [`Error::InvalidArgument`] if there is none, naming those that there are.
pub fn find(paper: &str, name: Option<&str>) -> Result<Vec<&'static Experiment>> {
    let of_paper: Vec<&Experiment> = EXPERIMENTS.iter().filter(|e| e.paper == paper).collect();
    let found: Vec<&Experiment> = of_paper
        .iter()
        .filter(|e| name.is_none_or(|name| e.name == name))
        .copied()
        .collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let list = |names: Vec<&str>| names.join(", ");
    Err(Error::InvalidArgument(match (of_paper.is_empty(), name) {
        (false, Some(name)) => format!(
            "there is no experiment '{name}' of {paper}; there are {}",
            list(of_paper.iter().map(|e| e.name).collect())
        ),
        _ => {
            let mut papers: Vec<&str> = EXPERIMENTS.iter().map(|e| e.paper).collect();
            papers.dedup();
            format!(
                "there are no experiments of a paper '{paper}'; there are some of {}",
                list(papers)
            )
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_are_found_by_their_names() {
        for experiment in EXPERIMENTS {
            let found = find(experiment.paper, Some(experiment.name)).unwrap();
            assert_eq!(found.len(), 1, "{} is there twice", experiment.id());
            assert!(experiment.claim.contains('§'), "{}", experiment.id());
        }
        assert!(!find("pm-blade", None).unwrap().is_empty());
        let error = find("pm-blade", Some("fig-99")).unwrap_err().to_string();
        assert!(
            error.contains("'fig-99'") && error.contains("fig-6"),
            "{error}"
        );
        let error = find("nobody", None).unwrap_err().to_string();
        assert!(
            error.contains("'nobody'") && error.contains("pm-blade"),
            "{error}"
        );
    }

    #[test]
    fn every_experiment_runs_and_is_drawn() {
        let folder = folder();
        let setting = Setting::quick(folder.path());
        let mut outcomes = Vec::new();
        for experiment in EXPERIMENTS {
            let mut told = 0;
            let outcome = experiment.run(&setting, &mut |_| told += 1).unwrap();
            assert!(told > 0 && !outcome.tables.is_empty() && !outcome.checks.is_empty());
            for table in &outcome.tables {
                assert!(
                    table
                        .rows
                        .iter()
                        .all(|row| row.len() == table.columns.len())
                );
            }
            assert!(outcome.to_string().contains(&outcome.checks[0].what));
            outcomes.push((experiment, outcome));
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        let page = page(&outcomes).unwrap();
        assert!(page.contains("<svg") && page.contains("PM table beside"));
        assert!(
            !page.contains("http:")
                || page.matches("http:").count() == page.matches("http://www.w3.org").count()
        );
    }
}
