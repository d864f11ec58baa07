//! The table: for people, and for notes.

use std::fmt;

use thermocline::size::format_size;

use super::found::{CellFound, Found, Side};
use super::{PRESETS, ROUNDS_MAX};
use crate::columns::{aligned, markdown};
use crate::numbers::grouped;
use crate::report::whole;

/// Columns behind those of the presets.
const COLUMNS: [&str; 5] = [
    "of the best rival",
    "95 % interval",
    "SSD bytes a byte",
    "longest delay, ms",
    "passes",
];

impl Found {
    /// What all cells have in common, in one sentence.
    fn heading(&self) -> String {
        let mut kinds: Vec<&str> = self.cells.iter().map(|cell| cell.region_kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let rounds = match self.rounds {
            1 => "one round".to_string(),
            n => format!("medians of {n} rounds in turn, which have somewhat more or fewer keys"),
        };
        format!(
            "Operations a second, {rounds}; most cells with {} of persistent memory and {} of DRAM, keys of 16 bytes, values of 1 \
             KiB; region of kind {}{}; SSD bytes and delay are those of thermocline; background work that is left at the end \
             counts only for loads of more than persistent memory holds.",
            format_size(self.pm),
            format_size(self.dram),
            match kinds.is_empty() {
                true => "unknown".to_string(),
                false => kinds.join(", "),
            },
            match self.emulate.as_str() {
                "none" => String::new(),
                profile => format!(", slowed down as {profile} but for leveled, which has none"),
            }
        )
    }

    /// What it comes to, in one sentence.
    fn summary(&self) -> String {
        let mut text = format!(
            "{} of {} cells pass: their interval reaches {:.2}.",
            self.passed(),
            self.cells.len(),
            self.bar
        );
        if let Some(worst) = self.worst() {
            text += &format!(" The worst is {} ({:.2}).", worst.cell, worst.ratio.mean);
        }
        if self.rounds < 5 {
            text += &format!(
                " So few rounds say little: a verdict takes 5 or more, up to {ROUNDS_MAX}."
            );
        }
        if self.interrupted {
            text += " It was ended early, so that cells are missing.";
        }
        if let Some(why) = &self.failure {
            text += &format!(" A run failed, so that cells are missing: {why}.");
        }
        if let Some(reason) = &self.invalid_reason {
            text += &format!(" INVALID: {reason}.");
        }
        text
    }

    /// A table in Markdown, the worst cell in bold, with the command of each cell below.
    pub fn markdown(&self) -> String {
        let mut text = format!("{}\n\n", self.heading());
        text += &markdown(&header(), &self.rows());
        text += &format!("\n{}\n", self.summary());
        for cell in &self.cells {
            text += &format!("\n- {}: `{}`", cell.cell, cell.command);
        }
        text
    }

    /// The table's rows, and whether each is of the worst cell.
    fn rows(&self) -> Vec<(Vec<String>, bool)> {
        let worst = self.worst().map(|cell| &cell.cell);
        let row = |cell: &CellFound| (cell.row(), Some(&cell.cell) == worst);
        self.cells.iter().map(row).collect()
    }
}

fn header() -> Vec<String> {
    let presets = PRESETS.map(|preset| preset.name());
    let all = ["cell"].into_iter().chain(presets).chain(COLUMNS);
    all.map(String::from).collect()
}

impl CellFound {
    /// The medians of all presets, in one line, for whoever waits for the rest.
    pub fn in_a_line(&self) -> String {
        let sides = [&self.ours].into_iter().chain(&self.rivals);
        let medians = sides.map(|side| {
            let rate = grouped(whole(side.ops_per_sec_median));
            format!("{} {rate}", side.preset)
        });
        let medians: Vec<String> = medians.collect();
        format!("{}: {} operations/s", self.cell, medians.join(", "))
    }

    fn row(&self) -> Vec<String> {
        let rate = |side: &Side| grouped(whole(side.ops_per_sec_median));
        let mut row = vec![self.cell.clone(), rate(&self.ours)];
        row.extend(self.rivals.iter().map(rate));
        let none = || "–".to_string();
        row.push(format!("{:.2} {}", self.ratio.mean, self.best_rival));
        row.push(match self.ratio.interval {
            Some((low, high)) => format!("{low:.2} to {high:.2}"),
            None => none(),
        });
        let ssd = self.ours.ssd_bytes_a_byte;
        row.push(ssd.map_or_else(none, |bytes| format!("{bytes:.2}")));
        row.push(format!("{:.1}", self.ours.stall_ms_max));
        row.push(if self.passes { "yes" } else { "NO" }.to_string());
        row
    }
}

impl fmt::Display for Found {
    /// A table with columns of their widths, the worst cell marked by `>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = aligned(&header(), &self.rows());
        write!(f, "{}\n{table}{}", self.heading(), self.summary())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{Setting, named};

    fn side(preset: &'static str, rates: [f64; 3]) -> Side {
        Side {
            preset,
            ops_per_sec: rates.to_vec(),
            ops_per_sec_median: rates[1],
            ssd_bytes_a_byte: (preset == "thermocline").then_some(1.254),
            stall_ms_max: 3.21,
        }
    }

    /// Two cells: the first one is twice as fast as its best rival, the second one is a tenth slower.
    fn found() -> Found {
        let setting = Setting {
            rounds: 3,
            ..Setting::default()
        };
        let mut found = Found::new(&setting);
        for (cell, ours) in named().iter().zip([2000.0, 900.0]) {
            let ours = side("thermocline", [ours, ours + 1.0, ours + 2.0]);
            let rivals = vec![
                side("global-index", [1000.0, 1001.0, 1002.0]),
                side("leveled", [10.0, 10.0, 10.0]),
                side("pm-blade", [500.0, 500.0, 500.0]),
                side("flat-lsm", [400.0, 400.0, 400.0]),
            ];
            let command = cell.command(&setting);
            found
                .cells
                .push(CellFound::compared(cell, command, "shm", ours, rivals));
        }
        found
    }

    #[test]
    fn the_best_rival_is_the_one_that_counts() {
        let found = found();
        let [good, bad] = &found.cells[..] else {
            panic!("two cells")
        };
        assert!(good.passes && !bad.passes);
        assert_eq!(bad.best_rival, "global-index");
        assert!((bad.ratio.mean - 0.9).abs() < 0.001);
        assert_eq!(found.worst().unwrap().cell, bad.cell);
        assert_eq!(found.passed(), 1);
    }

    #[test]
    fn it_is_said_whom_an_emulation_does_not_slow_down() {
        let mut found = found();
        assert!(!found.to_string().contains("slowed down"));
        found.emulate = "optane".into();
        let text = found.markdown();
        assert!(text.contains("slowed down as optane but for leveled"));
    }

    #[test]
    fn a_line_has_all_medians() {
        assert_eq!(
            found().cells[1].in_a_line(),
            "load-5x: thermocline 901, global-index 1,001, leveled 10, pm-blade 500, flat-lsm 400 operations/s"
        );
    }

    #[test]
    fn tables_mark_the_worst_cell() {
        let found = found();
        let text = found.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[0].contains("3 rounds") && lines[0].contains("64 MiB"));
        assert!(lines[1].trim_start().starts_with("cell  "), "{text}");
        let widths: Vec<usize> = lines[1..4].iter().map(|l| l.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
        assert!(lines[2].starts_with("  put-pm") && lines[2].ends_with("yes"));
        assert!(lines[3].starts_with("> load-5x") && lines[3].ends_with("NO"));
        assert!(lines[2].contains("2,001") && lines[2].contains("2.00 global-index"));
        assert!(lines[4].starts_with("1 of 2 cells pass") && lines[4].contains("load-5x (0.90)"));
        assert!(lines[4].contains("5 or more"));
        let markdown = found.markdown();
        let rows: Vec<&str> = markdown.lines().filter(|l| l.starts_with('|')).collect();
        assert_eq!(rows.len(), 4);
        assert!(rows.iter().all(|row| row.matches('|').count() == 12));
        assert!(rows[2].starts_with("| put-pm | 2,001 |"), "{}", rows[2]);
        assert!(rows[3].starts_with("| **load-5x** | **901** |"));
        assert!(
            rows[3].contains("**1.25** | **3.2** | **NO**"),
            "{}",
            rows[3]
        );
        assert!(markdown.contains("- load-5x: `thermocline bench fillrandom --num "));
    }
}
