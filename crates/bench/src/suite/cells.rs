//! Which cells there are.

use std::fmt::Write as _;

use thermocline::{Error, Result};

use super::cell::{Cell, Place};
use crate::distribution::{Distribution, THETA_DEFAULT};
use crate::workload::Workload;

/// A cell, but for what its name says.
struct Named {
    name: &'static str,
    what: &'static str,
    workload: Workload,
    data_percent: u64,
    pm_times: u64,
    ops_per_mib: u64,
    distribution: Option<Distribution>,
    threads: usize,
    place: Place,
}

/// As most cells are.
const PLAIN: Named = Named {
    name: "",
    what: "",
    workload: Workload::FillRandom,
    data_percent: 0,
    pm_times: 1,
    ops_per_mib: 0,
    distribution: None,
    threads: 1,
    place: Place::Pm,
};

/// What a store is used for, once each: writing, reading and scanning where everything lies in persistent memory, a load and the six
/// workloads of YCSB at ratios from half to five times, and writing where there is no persistent memory.
const NAMED: [Named; 12] = [
    Named {
        name: "put-pm",
        what: "durable puts of every key once, which persistent memory takes in: the write path alone",
        data_percent: 45,
        pm_times: 16,
        ..PLAIN
    },
    Named {
        name: "load-5x",
        what: "a load of 5 times persistent memory up to the end of background work: flushes and compactions",
        data_percent: 500,
        ..PLAIN
    },
    Named {
        name: "get-pm",
        what: "point reads, all in persistent memory: the index",
        workload: Workload::ReadRandom,
        data_percent: 25,
        pm_times: 8,
        ops_per_mib: 12_000,
        ..PLAIN
    },
    Named {
        name: "scan-pm",
        what: "scans of 50, all in persistent memory: cursors",
        workload: Workload::SeekRandom,
        data_percent: 25,
        pm_times: 8,
        ops_per_mib: 1_200,
        ..PLAIN
    },
    Named {
        name: "ycsb-a-0.5x",
        what: "YCSB A where data is half of persistent memory: updates that need not see the SSD",
        workload: Workload::YcsbA,
        data_percent: 50,
        pm_times: 4,
        ops_per_mib: 6_000,
        ..PLAIN
    },
    Named {
        name: "ycsb-a-5x",
        what: "YCSB A at 5 times persistent memory: what to keep warm while much is written",
        workload: Workload::YcsbA,
        data_percent: 500,
        ops_per_mib: 2_000,
        ..PLAIN
    },
    Named {
        name: "ycsb-b-2.5x",
        what: "YCSB B at 2.5 times persistent memory: warm reads beside some updates",
        workload: Workload::YcsbB,
        data_percent: 250,
        ops_per_mib: 1_000,
        ..PLAIN
    },
    Named {
        name: "ycsb-c-2.5x",
        what: "YCSB C, uniform, at 2.5 times persistent memory: reads of which most find nothing warm",
        workload: Workload::YcsbC,
        data_percent: 250,
        ops_per_mib: 400,
        distribution: Some(Distribution::Uniform),
        ..PLAIN
    },
    Named {
        name: "ycsb-d-1x",
        what: "YCSB D where data is as large as persistent memory: what is newest is read most",
        workload: Workload::YcsbD,
        data_percent: 100,
        pm_times: 2,
        ops_per_mib: 3_000,
        ..PLAIN
    },
    Named {
        name: "ycsb-e-2.5x",
        what: "YCSB E at 2.5 times persistent memory: scans that merge all tiers",
        workload: Workload::YcsbE,
        data_percent: 250,
        ops_per_mib: 120,
        ..PLAIN
    },
    Named {
        name: "ycsb-f-1x",
        what: "YCSB F where data is as large as persistent memory: keys that are read and written at once",
        workload: Workload::YcsbF,
        data_percent: 100,
        pm_times: 2,
        ops_per_mib: 1_500,
        ..PLAIN
    },
    Named {
        name: "put-file",
        what: "durable puts of four threads with a plain file, and no persistent memory: syncs that writers share",
        data_percent: 30,
        threads: 4,
        place: Place::File,
        ..PLAIN
    },
];

/// The cells that stand for all.
pub fn named() -> Vec<Cell> {
    let cell = |of: &Named| Cell {
        name: of.name.to_string(),
        what: of.what.to_string(),
        workload: of.workload,
        data_percent: of.data_percent,
        pm_times: of.pm_times,
        ops_per_mib: of.ops_per_mib,
        distribution: of.distribution,
        threads: of.threads,
        place: of.place,
    };
    NAMED.iter().map(cell).collect()
}

/// Data by persistent memory, in percent, of the full table.
const RATIOS: [u64; 5] = [50, 100, 250, 500, 1600];

/// The workloads of the full table, with operations for each MiB of persistent memory: where all lies there; where data is larger,
/// skewed; and uniform. About a second each.
const YCSB: [(Workload, [u64; 3]); 6] = [
    (Workload::YcsbA, [6_000, 2_000, 800]),
    (Workload::YcsbB, [8_000, 2_000, 500]),
    (Workload::YcsbC, [8_000, 2_000, 400]),
    (Workload::YcsbD, [8_000, 4_000, 500]),
    (Workload::YcsbE, [400, 100, 60]),
    (Workload::YcsbF, [4_000, 1_500, 500]),
];

/// YCSB A to F, at all ratios, skewed and uniform. The skewed one of D is its own: what is newest is read most.
pub fn full() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (workload, ops) in YCSB {
        for data_percent in RATIOS {
            let skewed = match workload {
                Workload::YcsbD => Distribution::Latest,
                _ => Distribution::Zipfian {
                    theta: THETA_DEFAULT,
                },
            };
            for distribution in [skewed, Distribution::Uniform] {
                let ops_per_mib = match (data_percent > 100, distribution) {
                    (false, _) => ops[0],
                    (true, Distribution::Uniform) => ops[2],
                    (true, _) => ops[1],
                };
                cells.push(of_table(workload, data_percent, distribution, ops_per_mib));
            }
        }
    }
    cells
}

fn of_table(
    workload: Workload,
    data_percent: u64,
    distribution: Distribution,
    ops_per_mib: u64,
) -> Cell {
    let times = times(data_percent);
    Cell {
        name: format!("{}-{times}x-{distribution}", workload.name()),
        what: format!(
            "{} at {times} times persistent memory, {distribution}",
            workload.name()
        ),
        workload,
        data_percent,
        pm_times: 1,
        ops_per_mib,
        distribution: Some(distribution),
        threads: 1,
        place: Place::Pm,
    }
}

/// A percentage as a multiple: `0.5`, `16`.
fn times(percent: u64) -> String {
    let mut text = (percent / 100).to_string();
    if !percent.is_multiple_of(100) {
        // Writing to a string cannot fail.
        let _ = write!(text, ".{:02}", percent % 100);
        text.truncate(text.trim_end_matches('0').len());
    }
    text
}

/// Those of `cells` that are named, in their order; all where no name is given.
///
/// # Errors
/// [`Error::InvalidArgument`] for a name that none of them has.
pub fn choose(cells: Vec<Cell>, names: &[String]) -> Result<Vec<Cell>> {
    if names.is_empty() {
        return Ok(cells);
    }
    if let Some(unknown) = names
        .iter()
        .find(|name| cells.iter().all(|cell| cell.name != **name))
    {
        let known: Vec<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
        return Err(Error::InvalidArgument(format!(
            "there is no cell '{unknown}'; there are {}",
            known.join(", ")
        )));
    }
    let mut cells = cells;
    cells.retain(|cell| names.contains(&cell.name));
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::suite::{PRESETS, Setting};

    #[test]
    fn every_cell_has_a_name_of_its_own_and_runs_that_are_valid() {
        let setting = Setting::default();
        for (cells, count) in [(named(), 12), (full(), 60)] {
            assert_eq!(cells.len(), count);
            let names: BTreeSet<_> = cells.iter().map(|cell| cell.name.clone()).collect();
            assert_eq!(names.len(), count);
            setting.validate(&cells).unwrap();
            for cell in &cells {
                let [ours, ..] = PRESETS.map(|preset| cell.plan(preset, &setting));
                let data = ours.num * 1040 * 100 / ours.options.pm;
                assert!(data.abs_diff(cell.data_percent) <= 1, "{}", cell.name);
                assert_eq!(ours.settle, ours.workload.loads_first(), "{}", cell.name);
                assert_eq!(ours.options.dram * 4, ours.options.pm);
            }
        }
    }

    #[test]
    fn each_ycsb_workload_is_among_the_named_ones_and_one_has_five_times_persistent_memory() {
        let cells = named();
        for (workload, _) in YCSB {
            assert!(cells.iter().any(|cell| cell.workload == workload));
        }
        let large = cells.iter().filter(|cell| cell.data_percent == 500);
        assert!(large.filter(|cell| !cell.workload.mix().is_empty()).count() >= 1);
    }

    #[test]
    fn the_command_of_a_cell_names_the_folder_for_stores() {
        let chosen = Setting {
            dir: Some("/mnt/ssd".into()),
            ..Setting::default()
        };
        for cell in named() {
            let command = cell.command(&Setting::default());
            assert!(!command.contains("--db"), "{command}");
            let there = format!("{command} --db /mnt/ssd/{}", cell.name);
            assert_eq!(cell.command(&chosen), there);
        }
    }

    /// Else a shell would take the rest of the folder's name for another argument.
    #[test]
    fn the_command_of_a_cell_is_one_that_a_shell_takes() {
        let chosen = Setting {
            dir: Some("/mnt/my stores".into()),
            pm_dir: Some("/mnt/it's".into()),
            ..Setting::default()
        };
        let cells = choose(named(), &["load-5x".into()]).unwrap();
        let command = cells[0].command(&chosen);
        let ends = " --pm-path '/mnt/it'\\''s' --db '/mnt/my stores/load-5x'";
        assert!(command.ends_with(ends), "{command}");
    }

    #[test]
    fn cells_are_chosen_by_name() {
        let names = ["ycsb-a-5x", "put-pm"].map(String::from);
        let chosen = choose(named(), &names).unwrap();
        let chosen: Vec<_> = chosen.iter().map(|cell| cell.name.as_str()).collect();
        assert_eq!(chosen, ["put-pm", "ycsb-a-5x"]);
        assert_eq!(choose(named(), &[]).unwrap().len(), 12);
        let error = choose(named(), &["ycsb-a-5x-uniform".into()]).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("'ycsb-a-5x-uniform'") && error.contains("put-file"));
        choose(full(), &["ycsb-a-5x-uniform".into()]).unwrap();
        assert_eq!([50, 100, 250, 1600].map(times), ["0.5", "1", "2.5", "16"]);
    }
}
