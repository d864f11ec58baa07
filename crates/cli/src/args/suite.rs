//! Arguments of the suite of benchmarks.

use clap::Args;

/// Options of `bench suite`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of suite")]
pub(crate) struct SuiteArgs {
    /// suite: how often each preset runs each cell, in turn; 5 unless given
    #[arg(long, value_name = "N")]
    pub rounds: Option<usize>,
    /// suite: the cells to run, by name; all of them unless given
    #[arg(long, value_name = "NAME,NAME…", value_delimiter = ',')]
    pub cells: Vec<String>,
    /// suite: YCSB A to F at 0.5, 1, 2.5, 5 and 16 times persistent memory, skewed and uniform, which takes hours
    #[arg(long)]
    pub full: bool,
    /// suite: count bytes, fences, syncs and, where the machine lets them be counted, instructions of an operation,
    /// on small stores without threads, instead of timing; no rivals
    #[arg(long)]
    pub counts: bool,
    /// suite: name the cells, and say what each does
    #[arg(long)]
    pub list: bool,
    /// suite: exit 1 if a cell does not pass
    #[arg(long)]
    pub check: bool,
    /// suite: print the table as Markdown
    #[arg(long)]
    pub markdown: bool,
}

impl SuiteArgs {
    /// The first option that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let all = [
            (self.rounds.is_some(), "--rounds"),
            (!self.cells.is_empty(), "--cells"),
            (self.full, "--full"),
            (self.counts, "--counts"),
            (self.list, "--list"),
            (self.check, "--check"),
            (self.markdown, "--markdown"),
        ];
        let given = all.into_iter().find(|(given, _)| *given);
        given.map(|(_, name)| name)
    }
}
