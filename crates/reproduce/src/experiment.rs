//! What an experiment is.

use thermocline_base::Result;

use crate::outcome::Outcome;
use crate::setting::{Setting, Tell};

/// What measures here what a paper measured there.
pub(crate) trait Measure: std::fmt::Debug + Sync {
    /// Does so, and says meanwhile how far it is.
    ///
    /// # Errors
    /// Those of the file system, and of what is measured.
    fn measure(&self, setting: &Setting, tell: Tell<'_>) -> Result<Outcome>;
}

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
    pub(crate) measure: &'static dyn Measure,
}

impl Experiment {
    /// Runs it.
    ///
    /// # Errors
    /// Those of the file system, and of what is measured.
    pub fn run(&self, setting: &Setting, tell: Tell<'_>) -> Result<Outcome> {
        self.measure.measure(setting, tell)
    }

    /// `pm-blade fig-6`.
    pub fn id(&self) -> String {
        format!("{} {}", self.paper, self.name)
    }
}
