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
//! Write a module beside those of its paper with a type that measures: it makes an [`Outcome`] of a [`Setting`].
//! Name it in [`EXPERIMENTS`]. With [`Setting::quick`] it takes a second, so that a test can run it.
#![deny(unsafe_code)]

mod beside;
mod experiment;
mod flat_lsm;
mod outcome;
mod page;
mod pm_blade;
mod setting;
mod trial;
mod trident;

use thermocline_base::{Error, Result};

pub use experiment::Experiment;
pub use outcome::{Chart, Check, Outcome, Series, Table};
pub use page::page;
pub use setting::{Setting, Tell};

/// All experiments.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        paper: "pm-blade",
        name: "fig-6",
        title: "PM table beside arrays and SSTables",
        claim: "Writing takes 40 % less time than an array without compression and 70 % less than an SSTable; reads are not \
            slower than the array's, and up to 89 % faster than an SSTable's (§VI-B).",
        measure: &pm_blade::tables::Tables,
    },
    Experiment {
        paper: "pm-blade",
        name: "table-4",
        title: "Persistent memory that an internal compaction releases",
        claim: "After 20 GB of updates an internal compaction releases 11.6 GB if they are uniform, and more the more they are \
            skewed: at skew 1.0 16.2 GB, about 80 % of what was used (§VI-B).",
        measure: &pm_blade::internal::Released,
    },
    Experiment {
        paper: "pm-blade",
        name: "table-5",
        title: "Duration of an internal compaction",
        claim: "To merge 1 GB in level 0 takes half as long in persistent memory as on the SSD: 1.4 to 2.1 s against 2.8 to \
            4 s, the less the larger values are (§VI-B).",
        measure: &pm_blade::internal::Duration,
    },
    Experiment {
        paper: "pm-blade",
        name: "fig-7a",
        title: "Latency of reads with and without internal compaction",
        claim: "While as many writes come, reads of level 0 stay as fast as they were with internal compaction, and become slower \
            and slower without: up to 82 % less latency (§VI-B).",
        measure: &pm_blade::merging::Reads,
    },
    Experiment {
        paper: "pm-blade",
        name: "fig-7b",
        title: "Latency of reads during an internal compaction",
        claim: "Reads take 1.7 times as long on average while level 0 is merged in persistent memory, and 5.3 times at the \
            99.9th percentile; that is 23 % and 21 % of what they take during a compaction on the SSD (§VI-B).",
        measure: &pm_blade::internal::Reading,
    },
    Experiment {
        paper: "pm-blade",
        name: "fig-8a",
        title: "Bytes that updates write to SSD and persistent memory",
        claim: "With internal compaction and the cost models all bytes written are 43 % of those without, and 14 % of \
            RocksDB's (§VI-B).",
        measure: &pm_blade::merging::Amplification,
    },
    Experiment {
        paper: "pm-blade",
        name: "fig-8b",
        title: "Share of reads that persistent memory answers",
        claim: "Where keys are read and written alike, persistent memory answers 34 % more reads with the cost models than when \
            all of level 0 goes at once; the more skew, the more (§VI-B).",
        measure: &pm_blade::merging::Hits,
    },
    Experiment {
        paper: "pm-blade",
        name: "fig-9",
        title: "Compaction by threads, coroutines, and coroutines with stages of their own",
        claim: "With a flush coroutine a compaction takes 71 % of the time that threads take, and 80 % of that of coroutines \
            alone; it uses the processors by 23 % and the SSD by 35 % more than threads, and I/O takes 66 % as long (§VI-C).",
        measure: &pm_blade::internal::Scheduling,
    },
    Experiment {
        paper: "pm-blade",
        name: "fig-12",
        title: "YCSB A and E",
        claim: "Under YCSB A it does 1.5 times as many operations a second as RocksDB, under E 2.0 times (§VI-E).",
        measure: &pm_blade::ycsb::Ycsb,
    },
    Experiment {
        paper: "pm-blade",
        name: "space",
        title: "Live data in persistent memory before anything is written to the SSD (our claim, not the paper's)",
        claim: "The paper has no such figure. We claim of its PM tables and internal compaction (§IV), as shape tiered has \
            them: of skewed updates 2.5 times as much live data stays in the same persistent memory as with global-index.",
        measure: &pm_blade::space::Space,
    },
    Experiment {
        paper: "pm-blade",
        name: "loading",
        title: "Loads that gain nothing from tables in persistent memory (our claim, not the paper's)",
        claim: "The paper has no such figure. We claim that tables in persistent memory (§IV), as shape tiered has them, \
            cost a load of every key once no more than a tenth of its rate, and no more than a tenth more bytes on the SSD.",
        measure: &pm_blade::loading::Loading,
    },
    Experiment {
        paper: "flat-lsm",
        name: "fig-20",
        title: "Random writes over time, and their latency (figures 20 and 21, table 1)",
        claim: "Random writes of 80 GB take 3.8 % of RocksDB's time, with few troughs; at the 99.9th percentile a write takes \
            540 µs for 4,453 (§5.2.3, §5.3.2). Writers are held back for 8.6 % of the time (§5.3.3).",
        measure: &flat_lsm::Writing,
    },
    Experiment {
        paper: "flat-lsm",
        name: "space",
        title: "Room on the SSD while values are overwritten at random (our claim, not the paper's)",
        claim: "The paper has no such figure. We claim that with values apart from their keys (§4.4) tables, blob files and manifest \
            never have more bytes than blob.space_percent_max allows of what lives, while five times as much is overwritten.",
        measure: &flat_lsm::Room,
    },
    Experiment {
        paper: "flat-lsm",
        name: "fig-9",
        title: "Random writes by the length of values, and bytes on the SSD with values apart and in tables",
        claim: "With values of 512 bytes to 64 KiB random writes come to 1.61 to 12.67 times the throughput of those with 256 \
            bytes (§5.2.1). The paper does not show what the SSD has to write. We claim that with values apart from their \
            keys (§4.4) that is no more at any length, whether keys are new or are overwritten.",
        measure: &flat_lsm::Lengths,
    },
    Experiment {
        paper: "trident",
        name: "fig-21",
        title: "Rates of reads around a drop of partitions",
        claim: "When partitions are dropped reads stay as fast as they were, or become faster since there is less data; where \
            every key is marked as deleted instead, they become clearly slower (§4.5). Here that contrast need not show: range \
            deletes and many point deletes recover by themselves (decisions 152 and 162).",
        measure: &trident::Fluctuation,
    },
    Experiment {
        paper: "trident",
        name: "fig-22",
        title: "Space amplification after a drop of partitions",
        claim: "Partitions that are dropped leave no space amplification, however many they are; marks of deletes leave the more \
            of it the more is deleted (§4.5). Here that contrast need not last: range deletes and many point deletes recover by \
            themselves (decisions 152 and 162).",
        measure: &trident::Space,
    },
    Experiment {
        paper: "trident",
        name: "fig-23",
        title: "Memory by the number of partitions",
        claim: "With more partitions memory grows to about 6 % of what there is and then no more, since it is bounded; with a column \
            family for each of them it grows much (§4.5).",
        measure: &trident::Memory,
    },
    Experiment {
        paper: "trident",
        name: "async-reads",
        title: "Reads that are awaited beside threads that wait, and the device alone (our claim, not the paper's)",
        claim: "The paper has no such figure. We claim of its asynchronous reads (§3.4) that one thread with 32 of them under way \
            makes 4 times the reads of one that waits and as many as the device by itself, within 15 %, with less processor \
            time a read than 16 threads.",
        measure: &trident::Awaited,
    },
    Experiment {
        paper: "trident",
        name: "fig-19",
        title: "Writes while indexes are trained, and reads behind them (figures 19 and 20)",
        claim: "Where flushes train beside fewer than 8 writers only, writes are as fast as without learned indexes or faster, by any \
            number of threads, and what they have written is read faster; where every flush trains, more than 8 writers become \
            much slower (§4.3).",
        measure: &trident::Training,
    },
];

/// Figures and tables that an experiment of another name shows, too: the paper, this one, and that name.
const SHOWN_BESIDE: [(&str, &str, &str); 3] = [
    ("flat-lsm", "fig-21", "fig-20"),
    ("flat-lsm", "table-1", "fig-20"),
    ("trident", "fig-20", "fig-19"),
];

/// Whether an experiment is called so: by its own name, by the figure of which it is a part (`fig-8` of `fig-8a`), or by what it shows
/// beside.
fn is_called(experiment: &Experiment, name: &str) -> bool {
    let part = experiment.name.strip_prefix(name);
    let is_letter = part.is_some_and(|part| matches!(part.as_bytes(), [b'a'..=b'z']));
    let is_part = is_letter && name.ends_with(|last: char| last.is_ascii_digit());
    let is_beside = SHOWN_BESIDE.contains(&(experiment.paper, name, experiment.name));
    experiment.name == name || is_part || is_beside
}

/// Those of a paper, or those that are called so.
///
/// # Errors
/// [`Error::InvalidArgument`] if there is none, naming those that there are.
pub fn find(paper: &str, name: Option<&str>) -> Result<Vec<&'static Experiment>> {
    let of_paper: Vec<&Experiment> = EXPERIMENTS.iter().filter(|e| e.paper == paper).collect();
    let found: Vec<&Experiment> = of_paper
        .iter()
        .filter(|e| name.is_none_or(|name| is_called(e, name)))
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
    use thermocline_testkit::explore::is_tried;

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

    /// Scripts may name what the paper names.
    #[test]
    fn a_figure_is_found_by_its_parts_and_by_what_is_shown_beside_it() {
        let names = |paper: &str, name: &str| -> Vec<&'static str> {
            let found = find(paper, Some(name)).unwrap();
            found.iter().map(|experiment| experiment.name).collect()
        };
        assert_eq!(names("pm-blade", "fig-8"), ["fig-8a", "fig-8b"]);
        assert_eq!(names("pm-blade", "fig-8a"), ["fig-8a"]);
        for (paper, beside, name) in SHOWN_BESIDE {
            assert_eq!(names(paper, beside), [name]);
        }
        for no_name in ["fig-", "spac", "fig-1", ""] {
            assert!(find("pm-blade", Some(no_name)).is_err(), "{no_name}");
        }
    }

    #[test]
    fn every_experiment_runs_and_is_drawn() {
        let folder = setting::folder();
        let setting = Setting::quick(folder.path());
        let mut outcomes = Vec::new();
        // In a plain run every second one.
        let some = EXPERIMENTS.iter().enumerate();
        for (_, experiment) in some.filter(|(nth, _)| is_tried(*nth, 2)) {
            let mut told = 0;
            let outcome = experiment.run(&setting, &mut |_| told += 1).unwrap();
            assert!(told > 0 && !outcome.tables.is_empty());
            // One speaks of the device alone, and tests may have none.
            let needs_device = experiment.id() == "trident async-reads";
            assert!(needs_device || !outcome.checks.is_empty());
            for table in &outcome.tables {
                assert!(
                    table
                        .rows
                        .iter()
                        .all(|row| row.len() == table.columns.len())
                );
            }
            let text = outcome.to_string();
            assert!(outcome.checks.iter().all(|c| text.contains(&c.what)));
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
