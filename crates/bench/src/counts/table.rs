//! The table, for people, for notes, and as it is kept.

use std::fmt;

use super::count::{Counts, Figures};
use crate::columns::{aligned, markdown};
use crate::numbers::grouped;
use crate::report::whole;

/// Columns that are the same on every machine, behind the name and the number of operations.
const COLUMNS: [&str; 7] = [
    "user bytes",
    "PM bytes",
    "PM lines",
    "fences",
    "SSD written",
    "SSD read",
    "syncs",
];

impl Figures {
    /// In the order of [`COLUMNS`].
    pub(super) fn kept(&self) -> [f64; COLUMNS.len()] {
        [
            self.user_bytes,
            self.pm_bytes,
            self.pm_lines,
            self.pm_fences,
            self.ssd_bytes_written,
            self.ssd_bytes_read,
            self.syncs,
        ]
    }

    fn row(&self) -> Vec<String> {
        let mut row = vec![self.cell.to_string(), grouped(self.ops)];
        row.extend(self.kept().map(brief));
        row.extend(self.instructions.map(|count| grouped(whole(count))));
        row
    }
}

/// Digits that tell figures apart.
fn brief(figure: f64) -> String {
    match figure {
        0.0 => "0".to_string(),
        _ if figure < 10.0 => format!("{figure:.4}"),
        _ => format!("{figure:.1}"),
    }
}

impl Counts {
    fn header(&self) -> Vec<String> {
        let mut header: Vec<String> = ["cell", "operations"].map(String::from).into();
        header.extend(COLUMNS.map(String::from));
        let counted = self.cells.iter().any(|cell| cell.instructions.is_some());
        header.extend(counted.then(|| "instructions".to_string()));
        header
    }

    fn rows(&self) -> Vec<(Vec<String>, bool)> {
        let header = self.header().len();
        let row = |cell: &Figures| {
            let mut row = cell.row();
            row.resize(header, "–".to_string());
            (row, false)
        };
        self.cells.iter().map(row).collect()
    }

    fn heading(&self) -> String {
        let mut text = "Of each operation, on a store of 8 MiB of persistent memory without threads, simulated"
            .to_string();
        text += match &self.uncounted {
            Some(_) => ".",
            None => "; instructions on this machine, in user mode.",
        };
        text
    }

    /// A table in Markdown.
    pub fn markdown(&self) -> String {
        let table = markdown(&self.header(), &self.rows());
        format!("{}\n\n{table}{}", self.heading(), self.note())
    }

    fn note(&self) -> String {
        let why = self.uncounted.as_ref();
        why.map_or_else(String::new, |why| {
            format!("\nInstructions are left out: {why}.")
        })
    }
}

impl fmt::Display for Counts {
    /// A table with columns of their widths.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = aligned(&self.header(), &self.rows());
        let text = format!("{}\n{table}{}", self.heading(), self.note());
        f.write_str(text.trim_end())
    }
}

/// The header of the file in which figures are kept, and its rows.
#[cfg(test)]
pub(super) fn as_csv(counts: &[Figures]) -> String {
    let mut text = format!("cell,{}\n", COLUMNS.join(","));
    for cell in counts {
        let figures = cell.kept().map(|figure| format!("{figure:.5}"));
        text += &format!("{},{}\n", cell.cell, figures.join(","));
    }
    text
}
