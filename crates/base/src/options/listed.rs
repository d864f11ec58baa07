//! All options as a list to read.

use crate::options::all::Options;
use crate::options::ungrouped::UNGROUPED;

/// An option with its value and its meaning, as `thermocline options` shows it.
///
/// ```
/// # use thermocline_base as thermocline;
/// use thermocline::options::{ListedOption, Options, Preset};
/// let all = ListedOption::all(&Options::preset(Preset::GlobalIndex));
/// let option = all.iter().find(|one| one.name == "level0.merge_percent").unwrap();
/// assert_eq!(option.value.as_deref(), Some("0"));
/// assert_eq!(option.takes, "0 to 100000");
/// assert!(option.doc.starts_with("Indexes are merged when"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedOption {
    /// The name that [`Options::set`] takes.
    pub name: &'static str,
    /// The value as [`Options::effective`] has it; `None` if that leaves the option out.
    pub value: Option<String>,
    /// What values it takes: a range with its unit, or words.
    pub takes: String,
    /// Its meaning, without line breaks. The first sentence is the summary.
    pub doc: &'static str,
}

impl ListedOption {
    /// Every option that [`Options::set`] knows, with its value in `options`: first those that are in no group, then
    /// group by group.
    pub fn all(options: &Options) -> Vec<ListedOption> {
        let values = options.effective();
        let value = |name: &str| {
            let found = values.iter().find(|(of, _)| *of == name);
            found.map(|(_, value)| value.clone())
        };
        let ungrouped = UNGROUPED.iter().map(|one| ListedOption {
            name: one.name,
            value: value(one.name),
            takes: one.takes.to_string(),
            doc: one.doc,
        });
        let grouped = Options::rows().map(|row| ListedOption {
            name: row.name,
            value: value(row.name),
            takes: row.takes(),
            doc: row.doc,
        });
        ungrouped.chain(grouped).collect()
    }
}
