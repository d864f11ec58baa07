//! How a failure says with which seed to repeat it, and a test that stands still, too.

use std::collections::BTreeMap;
use std::io::{Write, stderr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::Duration;

/// No run of one seed takes nearly so long: behind it the run has stopped for good.
const STANDS_STILL: Duration = Duration::from_secs(600);

/// In that time it is looked so often whether a run stands still.
const LOOKS: u32 = 60;

/// Runs that have begun and not ended, by number: how often each was looked at, and how to repeat it.
type Runs = BTreeMap<u64, (u32, String)>;

static RUNS: Mutex<Runs> = Mutex::new(Runs::new());

static NEXT: AtomicU64 = AtomicU64::new(0);

/// One thread watches all runs: some tests have one for each of thousands of seeds.
static WATCH: Once = Once::new();

fn runs() -> MutexGuard<'static, Runs> {
    RUNS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the program once a run stands still.
fn watch() {
    loop {
        thread::sleep(STANDS_STILL / LOOKS);
        for (looks, how) in runs().values_mut() {
            *looks += 1;
            if *looks > LOOKS {
                // Not by `eprintln`: what that prints in a test is kept until the test ends.
                let _ = writeln!(stderr(), "this has gone on for {STANDS_STILL:?}:\n{how}");
                std::process::abort();
            }
        }
    }
}

/// Tells on standard error how to repeat the run of a seed: if the test panics while this lives, and if this lives
/// for ten minutes. In the second case the program ends, since something in it waits or turns for ever, and a
/// test that is only killed would not say with which seed.
#[derive(Debug)]
pub struct Replay {
    number: u64,
    how: String,
}

impl Replay {
    /// Of the test that `arguments` of `cargo test` choose, with `seed`.
    pub fn new(arguments: &str, seed: u64) -> Replay {
        let how = format!("THERMOCLINE_SEED={seed} cargo test {arguments}");
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        runs().insert(number, (0, how.clone()));
        WATCH.call_once(|| drop(thread::spawn(watch)));
        Replay { number, how }
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        runs().remove(&self.number);
        if thread::panicking() {
            eprintln!("{}", self.how);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_watched_until_it_ends() {
        let run = Replay::new("-p thermocline-testkit", 7);
        let number = run.number;
        let how = runs().get(&number).map(|(_, how)| how.clone());
        let told = "THERMOCLINE_SEED=7 cargo test -p thermocline-testkit";
        assert_eq!(how.as_deref(), Some(told));
        drop(run);
        assert!(!runs().contains_key(&number));
    }
}
