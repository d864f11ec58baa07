//! Ctrl-C in commands that run for long, and the signals by which a service manager or a closed terminal end a
//! process (SIGTERM, SIGHUP): the first one asks for an orderly end, the second one ends the process where it
//! stands. Either is safe for the data. A command without an orderly end ends by the first one: when its bar is taken away
//! (`commands::waiting`), or, where it shows none any more, at once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static SIGNALS: Signals = Signals::new();

/// Whether one has come, and whether anybody looks for the first one.
#[derive(Debug)]
struct Signals {
    asked: AtomicBool,
    looked_for: AtomicBool,
}

impl Signals {
    const fn new() -> Signals {
        Signals {
            asked: AtomicBool::new(false),
            looked_for: AtomicBool::new(false),
        }
    }

    /// Somebody looks for the first one from now on, or nobody. Returns which of these it was before.
    fn look(&self, looked_for: bool) -> bool {
        self.looked_for.swap(looked_for, Ordering::SeqCst)
    }

    /// One has come. Returns whether it ends the process where it stands.
    fn come(&self) -> bool {
        let again = self.asked.swap(true, Ordering::SeqCst);
        again || !self.looked_for.load(Ordering::SeqCst)
    }
}

/// Begins to catch them, for who looks for them until the process ends.
pub(crate) fn catch() {
    SIGNALS.look(true);
    begin();
}

/// Catches them until what is returned goes. From then on they do what they did before.
pub(crate) fn catch_meanwhile() -> Meanwhile {
    let before = SIGNALS.look(true);
    begin();
    Meanwhile { before }
}

fn begin() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        // Without a handler each of them ends the process at once, which is safe as well.
        let _ = ctrlc::set_handler(|| {
            if SIGNALS.come() {
                std::process::exit(1);
            }
        });
    });
}

/// Somebody looks for them who will not later.
#[derive(Debug)]
pub(crate) struct Meanwhile {
    before: bool,
}

impl Drop for Meanwhile {
    fn drop(&mut self) {
        SIGNALS.look(self.before);
    }
}

/// Whether one has come.
pub(crate) fn asked() -> bool {
    SIGNALS.asked.load(Ordering::SeqCst)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_one_ends_what_nobody_would_end_in_order() {
        let signals = Signals::new();
        // While a bar shows.
        assert!(!signals.look(true));
        assert!(signals.look(false));
        assert!(signals.come(), "nobody looks for it any more");
    }

    #[test]
    fn the_second_one_ends_what_does_not_come_to_its_end() {
        let signals = Signals::new();
        signals.look(true);
        // A bar within shows, and is gone.
        let before = signals.look(true);
        signals.look(before);
        assert!(!signals.come());
        assert!(signals.asked.load(Ordering::SeqCst));
        assert!(signals.come());
    }
}
