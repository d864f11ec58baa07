//! What a person sees while the library works on something that may take long: how far it has come, as far as that is known.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thermocline_bench::clock::{Instant, now};

use crate::commands::measured::beside;
use crate::fail::tell_aside;
use crate::interrupt::{self, Meanwhile};
use crate::output::Output;
use crate::progress::{Known, Progress};

/// How often it is asked how far the work has come.
const ASKED_EVERY: Duration = Duration::from_millis(250);

/// Does `work` here, which is called `name`. Where somebody looks on, another thread shows meanwhile how far it has come, by
/// `known`. As long as that shows Ctrl-C takes it away before it ends the process where it stands; of a line as wide as the terminal the
/// echo of Ctrl-C leaves what was drawn last.
pub(super) fn waited<T>(
    name: &'static str,
    output: &Output,
    known: impl Fn() -> Known + Send,
    work: impl FnOnce() -> T,
) -> T {
    let mut progress = Progress::new(output, 0, "");
    if !progress.is_allowed() {
        return work();
    }
    let (mut asked, mut caught): (Option<Instant>, Option<Meanwhile>) = (None, None);
    let look = move || {
        if !progress.is_due() {
            return;
        }
        if caught.is_none() {
            caught = Some(interrupt::catch_meanwhile());
        }
        if interrupt::asked() {
            progress.clear();
            tell_aside(&format!("interrupted while {name}"));
            std::process::exit(1);
        }
        if asked.is_none_or(|at| now() - at >= ASKED_EVERY) {
            asked = Some(now());
            progress.show(name, known());
        }
    };
    beside(look, work)
}

/// What the library tells of a call, for the thread that shows it.
#[derive(Debug, Default)]
pub(super) struct Told {
    done: AtomicU64,
    /// 0 before anything is told.
    total: AtomicU64,
}

impl Told {
    /// Takes note of it.
    pub fn note(&self, progress: thermocline::Progress) {
        self.total.store(progress.total, Ordering::Relaxed);
        self.done.store(progress.done, Ordering::Relaxed);
    }

    /// What is known by that.
    pub fn known(&self) -> Known {
        match self.total.load(Ordering::Relaxed) {
            0 => Known::Nothing,
            total => Known::Share(self.done.load(Ordering::Relaxed), total),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_nobody_looks_at_is_done_and_nobody_is_asked_about_it() {
        let output = Output::new(false, true);
        assert_eq!(waited("working", &output, || panic!("asked"), || 7), 7);
    }

    #[test]
    fn nothing_is_known_before_the_library_tells_how_much_there_is() {
        let told = Told::default();
        assert_eq!(told.known(), Known::Nothing);
        told.note(thermocline::Progress { done: 0, total: 9 });
        assert_eq!(told.known(), Known::Share(0, 9));
        told.note(thermocline::Progress { done: 9, total: 9 });
        assert_eq!(told.known(), Known::Share(9, 9));
    }
}
