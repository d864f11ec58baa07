//! Ctrl-C in commands that run for long, and the signals by which a service manager or a closed terminal end a
//! process (SIGTERM, SIGHUP): the first one asks for an orderly end, the second one ends the process where it
//! stands. Either is safe for the data. A command without an orderly end ends by the first one, when its bar is taken away
//! (`commands::waiting`).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Begins to catch them.
pub(crate) fn catch() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        // Without a handler each of them ends the process at once, which is safe as well.
        let _ = ctrlc::set_handler(|| {
            if ASKED.swap(true, Ordering::SeqCst) {
                std::process::exit(1);
            }
        });
    });
}

/// Whether one has come.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}
