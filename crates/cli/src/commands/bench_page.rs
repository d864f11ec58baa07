//! `bench --report`: a run as one page, with plots.

use std::path::{Path, PathBuf};

use serde_json::Value;
use thermocline::Result;
use thermocline::options::Options;
use thermocline::size::format_size;
use thermocline_bench::page::{END, begin, quoted, table, text};
use thermocline_bench::{Curve, Timeline, plot};

use crate::fail::{Failure, Outcome, even_unread};
use crate::files;
use crate::output::Output;
use crate::text::path_shown;

/// Names with values.
pub(super) type Rows = Vec<(&'static str, String)>;

/// What a page says of a run.
pub(super) struct Page<'a> {
    /// The workload.
    pub name: &'a str,
    /// The options that count for it, given or not.
    pub options: Rows,
    /// Those of its store; `None` if there are several stores.
    pub store: Option<&'a Options>,
    /// What is known of the machine; nothing where the numbers are the same on any.
    pub machine: Rows,
    /// The table for people.
    pub results: &'a str,
    /// All numbers, as `--json` has them.
    pub numbers: Option<&'a Value>,
    /// How it went, if that was followed.
    pub course: Option<Course<'a>>,
}

/// How a run went.
pub(super) struct Course<'a> {
    pub curves: &'a [Curve],
    pub timeline: &'a Timeline,
    pub seconds: f64,
    pub ops: u64,
}

/// Looks whether the page that was asked for, if any, can be written, and returns where.
pub(super) fn wanted(report: Option<&Path>) -> Outcome<Option<PathBuf>> {
    report
        .map(|path| files::prepare(path).map(|()| path.to_path_buf()))
        .transpose()
}

impl Page<'_> {
    /// Writes the page, if one is wanted, of a run that was `printed`, be it well or not. What a run comes to that was not well says
    /// more than what became of its page.
    pub fn write(&self, wanted: Option<&Path>, printed: Outcome, output: &mut Output) -> Outcome {
        let Some(path) = wanted else {
            return printed;
        };
        let html = self.html(&command());
        let written = html
            .map_err(Failure::from)
            .and_then(|html| files::write_into(path, html.as_bytes()));
        match (written, even_unread(printed)) {
            (written, Ok(())) => {
                written?;
                output.note(&format!("{} shows all of that", path_shown(path)))
            }
            (Ok(()), failed) => failed,
            (Err(of_page), failed) => {
                // It says so, and the exit code is that of the run.
                let _ = of_page.report();
                failed
            }
        }
    }

    /// All of it.
    fn html(&self, command: &str) -> Result<String> {
        let title = format!("thermocline bench {}", self.name);
        let mut html = begin(&title, &title);
        html += &section("Command", &pre(command));
        let mut options = pairs(["option", "value"], &self.options);
        if let Some(store) = self.store {
            let all = pairs(["option of the store", "value"], &store.effective());
            options += &details("All options of the store", &all);
        }
        html += &section("Options", &options);
        if !self.machine.is_empty() {
            html += &section("Machine", &pairs(["what", "value"], &self.machine));
        }
        let mut results = pre(self.results);
        if let Some(numbers) = self.numbers {
            results += &details("All numbers, as JSON", &pre(&format!("{numbers:#}")));
        }
        html += &section("Results", &results);
        let (latency, throughput) = match &self.course {
            Some(course) => course.plots()?,
            None => (
                paragraph("No plot: the latency of single operations is not kept here."),
                paragraph("No plot: several runs were made, one after the other."),
            ),
        };
        html += &section("Latency by percentile", &latency);
        html += &section("Throughput over time", &throughput);
        html += END;
        Ok(html)
    }
}

impl Course<'_> {
    /// Latency by percentile, and throughput over time.
    fn plots(&self) -> Result<(String, String)> {
        let latency = plot::latency(self.curves)?;
        let latency =
            latency.unwrap_or_else(|| paragraph("No plot: no operation came to its end."));
        let rates = self.timeline.rates(self.seconds, self.ops);
        Ok((latency, plot::throughput(&rates, self.seconds)?))
    }
}

/// What a report knows of the machine that it ran on.
pub(super) fn machine(region_kind: &str, emulate: &str, used: (f64, u64)) -> Rows {
    let (cpu_seconds, rss_bytes_max) = used;
    vec![
        ("kind of the region", region_kind.to_string()),
        ("emulated memory", emulate.to_string()),
        ("processor time of the run", format!("{cpu_seconds:.2} s")),
        ("memory of the process at most", format_size(rss_bytes_max)),
    ]
}

/// Those options without a value that were given.
pub(super) fn given<const N: usize>(
    options: [(&'static str, bool); N],
) -> impl Iterator<Item = (&'static str, String)> {
    let given = options.into_iter().filter(|(_, given)| *given);
    given.map(|(name, _)| (name, "yes".to_string()))
}

/// What was typed, so that a shell takes it.
fn command() -> String {
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| quoted(&word.to_string_lossy()));
    let words: Vec<String> = std::iter::once("thermocline".to_string())
        .chain(words)
        .collect();
    words.join(" ")
}

fn section(title: &str, html: &str) -> String {
    format!("<section><h2>{}</h2>\n{html}</section>\n", text(title))
}

fn details(title: &str, html: &str) -> String {
    let title = text(title);
    format!("<details><summary>{title}</summary>\n{html}</details>\n")
}

fn paragraph(words: &str) -> String {
    format!("<p>{}</p>\n", text(words))
}

fn pre(lines: &str) -> String {
    format!("<pre>{}</pre>\n", text(lines))
}

fn pairs(columns: [&str; 2], rows: &[(&'static str, String)]) -> String {
    let rows = rows
        .iter()
        .map(|(name, value)| vec![name.to_string(), value.clone()]);
    let rows: Vec<Vec<String>> = rows.collect();
    table("pairs", &columns.map(String::from), &rows)
}

#[cfg(test)]
mod tests {
    use thermocline_bench::{Plan, Workload};

    use super::*;

    fn page(results: &str) -> Page<'_> {
        Page {
            name: "fillseq",
            options: vec![("--db", "a<b>".to_string())],
            store: None,
            machine: Vec::new(),
            results,
            numbers: None,
            course: None,
        }
    }

    #[test]
    fn names_are_text_and_what_has_no_plot_says_so() {
        let html = page("1 < 2").html("thermocline bench 'a<b>'").unwrap();
        for said in ["1 &lt; 2", "bench 'a&lt;b&gt;'", "<td>a&lt;b&gt;</td>"] {
            assert!(html.contains(said), "no '{said}' in {html}");
        }
        assert_eq!(html.matches("No plot: ").count(), 2);
        assert!(!html.contains("<b>") && !html.contains("<svg"));
    }

    #[test]
    fn a_run_in_which_nothing_ended_has_no_latencies() {
        let timeline = Timeline::of(&Plan::new(Workload::FillSeq));
        let course = Course {
            curves: &[],
            timeline: &timeline,
            seconds: 0.0,
            ops: 0,
        };
        let (latency, throughput) = course.plots().unwrap();
        assert_eq!(latency, "<p>No plot: no operation came to its end.</p>\n");
        assert!(throughput.starts_with("<svg"), "{throughput}");
    }

    /// Who ends a run of hours by Ctrl-C has the page of what it did.
    #[test]
    fn a_run_that_was_ended_has_its_page_and_has_failed_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pages/page.html");
        let wanted = wanted(Some(path.as_path())).unwrap();
        let mut output = Output::new(false, true);
        let interrupted = Err(Failure::Failed("interrupted".to_string()));
        let page = page("interrupted");
        let come_to = page.write(wanted.as_deref(), interrupted, &mut output);
        assert!(matches!(come_to, Err(Failure::Failed(why)) if why == "interrupted"));
        assert!(path.is_file());
        // Its page cannot be written: what became of the run is told all the same.
        for (printed, says) in [
            (Err(Failure::Failed("invalid".to_string())), "invalid"),
            (Err(Failure::NoReader), "ordinary file"),
            (Ok(()), "ordinary file"),
        ] {
            let come_to = page.write(Some(folder.path()), printed, &mut output);
            assert!(matches!(come_to, Err(Failure::Failed(why)) if why.contains(says)));
        }
    }
}
