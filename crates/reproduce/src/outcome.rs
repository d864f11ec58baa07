//! What an experiment comes to.

use std::fmt;

use serde::Serialize;

pub(crate) use thermocline_bench::suite::median;

/// See the [crate](crate).
#[derive(Debug, Clone, Default, Serialize)]
pub struct Outcome {
    /// How large it was, against the paper's.
    pub scale: String,
    /// What was measured.
    pub tables: Vec<Table>,
    /// Some of it, to be drawn.
    pub charts: Vec<Chart>,
    /// The paper's claims.
    pub checks: Vec<Check>,
}

/// Rows under columns.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// With units.
    pub columns: Vec<String>,
    /// Each has a cell for each column.
    pub rows: Vec<Vec<String>>,
}

/// Groups of bars.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What distinguishes groups.
    pub x: String,
    /// What bars are high by, with its unit.
    pub y: String,
    /// Names of the groups.
    pub groups: Vec<String>,
    /// In each group each has a bar.
    pub series: Vec<Series>,
}

/// One colour's bars.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Series {
    /// What they are of.
    pub name: String,
    /// One for each group.
    pub values: Vec<f64>,
}

/// A claim of the paper as a number, and ours.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// What is compared with what.
    pub what: String,
    /// What the paper found.
    pub paper: String,
    /// What was found here.
    pub ours: String,
    /// Whether the shape is the paper's.
    pub holds: bool,
}

impl Series {
    /// Bars of this name.
    pub fn new(name: &str, values: Vec<f64>) -> Series {
        Series {
            name: name.to_string(),
            values,
        }
    }
}

/// As columns and groups are named.
pub(crate) fn strings<const N: usize>(all: [&str; N]) -> Vec<String> {
    all.map(String::from).into()
}

impl Check {
    /// Whether `ours`, as a part of something else, is at most `most`.
    pub fn at_most(what: &str, paper: &str, ours: f64, most: f64) -> Check {
        Check {
            what: what.to_string(),
            paper: paper.to_string(),
            ours: format!("{ours:.2} times (holds up to {most:.2})"),
            holds: ours <= most,
        }
    }

    /// Whether `ours`, as a multiple of something else, is at least `least`.
    pub fn at_least(what: &str, paper: &str, ours: f64, least: f64) -> Check {
        Check {
            what: what.to_string(),
            paper: paper.to_string(),
            ours: format!("{ours:.2} times (holds from {least:.2} on)"),
            holds: ours >= least,
        }
    }
}

impl fmt::Display for Table {
    /// With columns of their widths, numbers to the right.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |n: usize| {
            let cells = self.rows.iter().chain([&self.columns]);
            cells.map(|row| row[n].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        writeln!(f, "{}", self.title)?;
        for row in [&self.columns].into_iter().chain(&self.rows) {
            for (n, (cell, width)) in row.iter().zip(&widths).enumerate() {
                match n {
                    0 => write!(f, "  {cell:<width$}")?,
                    _ => write!(f, "  {cell:>width$}")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Scale: {}", self.scale)?;
        for table in &self.tables {
            writeln!(f, "\n{table}")?;
        }
        for check in &self.checks {
            let holds = if check.holds {
                "holds"
            } else {
                "DOES NOT HOLD"
            };
            writeln!(f, "{holds}: {}", check.what)?;
            writeln!(f, "  paper: {}", check.paper)?;
            writeln!(f, "  here:  {}", check.ours)?;
        }
        Ok(())
    }
}
