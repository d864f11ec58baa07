//! A progress bar on standard error, for people, for what takes over a second.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use thermocline_bench::clock::{Instant, now};

use crate::fail::tell_aside;
use crate::output::Output;

/// How long something may take before a bar appears.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is known of how far something has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// Nothing.
    Nothing,
    /// So many bytes are written, of nobody knows how many.
    Written(u64),
    /// So many bytes are read, of nobody knows how many.
    Read(u64),
    /// So many bytes are done, of so many.
    Share(u64, u64),
}

impl Known {
    /// What is known of an input of which `done` bytes are read. A pipe does not say how many it will have: it has no `length`.
    pub fn of_input(done: u64, length: u64) -> Known {
        match length {
            0 => Known::Read(done),
            length => Known::Share(done, length),
        }
    }
}

/// A bar that shows itself late or never.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// What it looks like.
    form: String,
    begun: Instant,
    allowed: bool,
    shown: bool,
}

impl Progress {
    /// A bar up to `total` of `unit`; bytes if the unit is empty.
    pub fn new(output: &Output, total: u64, unit: &str) -> Progress {
        let mut progress = Progress {
            bar: ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden()),
            form: String::new(),
            begun: now(),
            allowed: is_wanted(std::io::stderr().is_terminal(), output),
            shown: false,
        };
        progress.set_form(counting(unit));
        progress
    }

    /// Whether it may show itself at all.
    pub fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Whether so much time has passed that it shows itself with what it is told next.
    pub fn is_due(&self) -> bool {
        self.allowed && (self.shown || now() - self.begun > PATIENCE)
    }

    /// Moves the bar to `done` of what is called `name`.
    pub fn set(&mut self, name: &'static str, done: u64) {
        if !self.allowed {
            return;
        }
        if !self.shown && self.is_due() {
            self.shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        if self.bar.message() != name {
            self.bar.set_message(name);
        }
        self.bar.set_position(done);
    }

    /// Shows what is known of what is called `name`: a bar if that is a share, else the seconds so far.
    pub fn show(&mut self, name: &'static str, known: Known) {
        let (form, done) = match known {
            Known::Nothing => ("  {msg}, {elapsed}".to_string(), 0),
            Known::Written(done) => ("  {msg}: {bytes} written, {elapsed}".to_string(), done),
            Known::Read(done) => ("  {msg}: {bytes} read, {elapsed}".to_string(), done),
            Known::Share(done, _) => (counting(""), done),
        };
        if self.form != form {
            self.set_form(form);
            self.bar.reset_eta();
        }
        if let Known::Share(_, total) = known
            && self.bar.length() != Some(total)
        {
            self.bar.set_length(total);
        }
        self.set(name, done);
    }

    fn set_form(&mut self, form: String) {
        if let Ok(style) = ProgressStyle::with_template(&form) {
            self.bar.set_style(style.progress_chars("=> "));
        }
        self.form = form;
    }

    /// What writes lines above the bar.
    pub fn aside(&self, output: &Output) -> Aside {
        Aside {
            bar: self.bar.clone(),
            quiet: output.quiet,
        }
    }

    /// Changes what the bar counts up to.
    pub fn set_total(&mut self, total: u64) {
        self.bar.set_length(total);
    }

    /// Takes the bar away for good.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// Whether anybody wants to see a bar: a person who has not asked for less.
fn is_wanted(is_terminal: bool, output: &Output) -> bool {
    is_terminal && !output.quiet && !output.json
}

/// A bar with a count of `unit`; of bytes if the unit is empty.
fn counting(unit: &str) -> String {
    let counts = match unit {
        "" => "{bytes} of {total_bytes}".to_string(),
        unit => format!("{{human_pos}} of {{human_len}} {unit}"),
    };
    format!("  {{msg}} [{{bar:30}}] {counts}, {{eta}} left")
}

/// Lines on standard error beside a bar, whether that shows itself or not.
pub(crate) struct Aside {
    bar: ProgressBar,
    quiet: bool,
}

impl Aside {
    /// Writes a line, unless as little as possible is to be said.
    pub fn tell(&self, text: &str) {
        if !self.quiet {
            self.bar.suspend(|| tell_aside(text));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_for_a_terminal_and_not_for_who_wants_json_or_little() {
        for (json, quiet, is_terminal, wanted) in [
            (false, false, true, true),
            (false, false, false, false),
            (true, false, true, false),
            (false, true, true, false),
        ] {
            let output = Output::new(json, quiet);
            let case = format!("json {json}, quiet {quiet}, terminal {is_terminal}");
            assert_eq!(is_wanted(is_terminal, &output), wanted, "{case}");
        }
    }

    /// Each of the forms is one that can be drawn: else the bar would look like none of them.
    #[test]
    fn every_form_is_understood() {
        let mut progress = Progress::new(&Output::new(false, true), 0, "entries");
        for known in [
            Known::Nothing,
            Known::Written(7),
            Known::of_input(7, 0),
            Known::of_input(7, 9),
        ] {
            progress.show("working", known);
            let style = ProgressStyle::with_template(&progress.form);
            assert!(style.is_ok(), "{}", progress.form);
        }
        assert_eq!(progress.bar.length(), Some(9));
        assert!(!progress.is_allowed() && !progress.is_due());
    }

    /// A bar would be full from the beginning, with nothing left to do.
    #[test]
    fn of_a_pipe_is_shown_how_much_was_read() {
        assert_eq!(Known::of_input(0, 0), Known::Read(0));
        assert_eq!(Known::of_input(7, 0), Known::Read(7));
        assert_eq!(Known::of_input(0, 9), Known::Share(0, 9));
        let mut progress = Progress::new(&Output::new(false, true), 0, "");
        progress.show("loading", Known::of_input(7, 0));
        assert_eq!(progress.form, "  {msg}: {bytes} read, {elapsed}");
    }
}
