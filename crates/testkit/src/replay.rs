//! How a failure says with which seed to repeat it, and a test that stands still, too.

use std::io::{Write, stderr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// No run of one seed takes nearly so long: behind it the run has stopped for good.
const STANDS_STILL: Duration = Duration::from_secs(600);

/// Tells on standard error how to repeat the run of a seed: if the test panics while this lives, and if this lives
/// for ten minutes. In the second case the program ends, since something in it waits or turns for ever, and a
/// test that is only killed would not say with which seed.
#[derive(Debug)]
pub struct Replay {
    how: String,
    /// The watching thread waits for its end.
    _lives: Sender<()>,
}

impl Replay {
    /// Of the test that `arguments` of `cargo test` choose, with `seed`.
    pub fn new(arguments: &str, seed: u64) -> Replay {
        let how = format!("THERMOCLINE_SEED={seed} cargo test {arguments}");
        let (lives, ended) = channel();
        let still = how.clone();
        thread::spawn(move || {
            if ended.recv_timeout(STANDS_STILL) == Err(RecvTimeoutError::Timeout) {
                // Not by `eprintln`: what that prints in a test is kept until the test ends.
                let _ = writeln!(stderr(), "this has gone on for {STANDS_STILL:?}:\n{still}");
                std::process::abort();
            }
        });
        Replay { how, _lives: lives }
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.how);
        }
    }
}
