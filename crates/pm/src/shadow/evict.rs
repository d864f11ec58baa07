//! The thread that lets lines reach the image although nobody asked for it.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use thermocline_base::sync::{Condvar, Mutex, lock, wait_for};

/// The running thread of one region.
pub(super) struct Evictor {
    stop: Arc<Stop>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Stop {
    asked: Mutex<bool>,
    changed: Condvar,
}

impl Evictor {
    /// Calls `evict` so often, or until it finds nothing to evict.
    pub fn start(
        evict: impl Fn() -> bool + Send + 'static,
        evictions_per_ms: u32,
    ) -> std::io::Result<Evictor> {
        let stop = Arc::new(Stop::default());
        let asked = stop.clone();
        let thread = std::thread::Builder::new()
            .name("thermocline-evictor".into())
            .spawn(move || run(evict, &asked, evictions_per_ms))?;
        Ok(Evictor { stop, thread })
    }

    /// Ends the thread and waits for it.
    pub fn stop(self) {
        *lock(&self.stop.asked) = true;
        self.stop.changed.notify_one();
        // A panic there has been reported by its hook; the region goes all the same.
        let _ = self.thread.join();
    }
}

fn run(evict: impl Fn() -> bool, stop: &Stop, evictions_per_ms: u32) {
    loop {
        let mut asked = lock(&stop.asked);
        if !*asked {
            asked = wait_for(&stop.changed, asked, Duration::from_millis(1));
        }
        if *asked {
            return;
        }
        drop(asked);
        for _ in 0..evictions_per_ms {
            if !evict() {
                break;
            }
        }
    }
}
