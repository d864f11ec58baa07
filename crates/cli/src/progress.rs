//! A progress bar on standard error, for people, for what takes over a second.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use thermocline_bench::clock::{Instant, now};

use crate::fail::tell_aside;
use crate::output::Output;

/// How long something may take before a bar appears.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar that shows itself late or never.
pub(crate) struct Progress {
    bar: ProgressBar,
    begun: Instant,
    allowed: bool,
    shown: bool,
}

impl Progress {
    /// A bar up to `total` of `unit`; bytes if the unit is empty.
    pub fn new(output: &Output, total: u64, unit: &str) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let counts = if unit.is_empty() {
            "{bytes} of {total_bytes}".to_string()
        } else {
            format!("{{human_pos}} of {{human_len}} {unit}")
        };
        let form = format!("  {{msg}} [{{bar:30}}] {counts}, {{eta}} left");
        if let Ok(style) = ProgressStyle::with_template(&form) {
            bar.set_style(style.progress_chars("=> "));
        }
        Progress {
            bar,
            begun: now(),
            allowed: !output.quiet && std::io::stderr().is_terminal(),
            shown: false,
        }
    }

    /// Moves the bar to `done` of what is called `name`.
    pub fn set(&mut self, name: &'static str, done: u64) {
        if !self.allowed {
            return;
        }
        if !self.shown && now() - self.begun > PATIENCE {
            self.shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        if self.bar.message() != name {
            self.bar.set_message(name);
        }
        self.bar.set_position(done);
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
        self.bar.finish_and_clear();
    }
}
