//! How fast compactions may be: a limit on the bytes that they read and write in a second, all jobs together
//! (`compaction.rate_bytes`), and how far they give way to clients (`compaction.rate_adapts`).
//!
//! A job keeps to the limit first. Where jobs give way it then rests for as long as `policy::pace` says of the time that it has
//! worked, waiting for the limit included. So it has its share of what it would do at full speed up to the limit. While it rests it
//! looks again from time to time, and goes on at once when clients are idle, writers would be delayed, or somebody waits for running
//! jobs to end ([`Hurry`]).
//!
//! Clients are seen where jobs look: how many reads of readers are under way then, on average over the last moments. So a read costs
//! nothing more. They are those of all stores of a runtime.

mod clients;

use thermocline_base::Result;
use thermocline_env::Clock;
use thermocline_exec::BatchReader;
use thermocline_policy::pace::{percent, rest_ns, share};
use thermocline_policy::tuning::{JOB_LOOK_NS, JOB_NAP_MS, JOB_WORK_NS_MAX, JOB_WORK_NS_MIN};

use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock};
use clients::Clients;

const NANOS: u64 = 1_000_000_000;

const NANOS_A_MS: u64 = 1_000_000;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Pace {
    /// Bytes in a second; 0 is no limit.
    rate: u64,
    clock: Arc<dyn Clock>,
    /// Up to when, by the clock, what was read and written has used the rate up.
    used_up_to: Mutex<u64>,
    /// Whether jobs give way to clients.
    gives_way: bool,
    /// The bits of how much what waits needs jobs, 0 to 1. Relaxed: it guards nothing.
    need: AtomicU64,
    clients: Clients,
    /// When a job has last begun to rest, by the clock. Relaxed: it guards nothing.
    rested_at: AtomicU64,
    /// How many wait for running jobs. Relaxed: it guards nothing.
    awaited: AtomicU64,
}

/// Somebody waits for running jobs: as long as this is held none of them rests.
#[derive(Debug)]
#[must_use = "jobs rest again when it is dropped"]
pub(crate) struct Hurry<'a>(&'a AtomicU64);

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A job that keeps to the pace.
#[derive(Debug)]
pub(crate) struct Paced<'a> {
    pace: &'a Pace,
    /// Counts reads of clients, to which it gives way; `None` if it does not.
    reader: Option<&'a BatchReader>,
    /// Since when it has worked, by the clock; 0 if it does not give way.
    since: u64,
    /// Nanoseconds that it was to rest and has not, since they were too few for a sleep.
    owed_ns: u64,
}

impl Pace {
    pub fn new(rate: u64, clock: Arc<dyn Clock>) -> Pace {
        Pace {
            rate,
            clock,
            used_up_to: Mutex::new(0),
            gives_way: false,
            need: AtomicU64::new(0),
            clients: Clients::default(),
            rested_at: AtomicU64::new(0),
            awaited: AtomicU64::new(0),
        }
    }

    /// The same for jobs that give way to clients, or do not.
    pub fn giving_way(self, gives_way: bool) -> Pace {
        Pace { gives_way, ..self }
    }

    /// Whether jobs give way to clients.
    pub fn gives_way(&self) -> bool {
        self.gives_way
    }

    /// Whether a job that has begun then, by the clock, may have waited so as to be slow enough.
    pub fn has_held_since(&self, begun: u64) -> bool {
        let rested_at = self.rested_at.load(Ordering::Relaxed);
        self.rate > 0 || self.gives_way && rested_at > begun
    }

    /// What waits needs jobs so much.
    pub fn needs(&self, need: f64) {
        self.need.store(need.to_bits(), Ordering::Relaxed);
    }

    /// Somebody begins to wait for running jobs.
    pub fn hurry(&self) -> Hurry<'_> {
        self.awaited.fetch_add(1, Ordering::Relaxed);
        Hurry(&self.awaited)
    }

    /// How many do.
    #[cfg(test)]
    pub fn awaited(&self) -> u64 {
        self.awaited.load(Ordering::Relaxed)
    }

    /// A job begins; `reader` counts the reads of clients, to which it gives way where jobs do.
    pub fn begin<'a>(&'a self, reader: Option<&'a BatchReader>) -> Paced<'a> {
        let reader = reader.filter(|_| self.gives_way);
        Paced {
            pace: self,
            reader,
            since: reader.map_or(0, |_| self.clock.now_ns()),
            owed_ns: 0,
        }
    }

    /// Percent of their time that jobs work now; `None` if they do not give way.
    pub fn percent(&self, reader: &BatchReader) -> Option<u64> {
        let now = || percent(self.share(self.clock.now_ns(), reader));
        self.gives_way.then(now)
    }

    /// The part of their time that jobs work.
    fn share(&self, now_ns: u64, reader: &BatchReader) -> f64 {
        let need = match self.awaited.load(Ordering::Relaxed) {
            0 => f64::from_bits(self.need.load(Ordering::Relaxed)),
            _ => 1.0,
        };
        share(self.clients.see(reader.under_way(), now_ns), need)
    }

    /// `bytes` more were read or written: waits until that is no more than the rate allows. Before each
    /// nap `go_on` is asked.
    ///
    /// # Errors
    /// Those of `go_on`.
    fn spent(&self, bytes: u64, go_on: &dyn Fn() -> Result<()>) -> Result<()> {
        if self.rate == 0 || bytes == 0 {
            return Ok(());
        }
        let cost = u128::from(bytes) * u128::from(NANOS) / u128::from(self.rate);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        let until = {
            let mut used = lock(&self.used_up_to);
            // What was not used is not saved up.
            *used = (*used).max(self.clock.now_ns()).saturating_add(cost);
            *used
        };
        loop {
            let left_ms = until.saturating_sub(self.clock.now_ns()) / NANOS_A_MS;
            if left_ms == 0 {
                return Ok(());
            }
            go_on()?;
            self.clock.sleep_ms(left_ms.min(JOB_NAP_MS));
        }
    }
}

impl Paced<'_> {
    /// `bytes` more were read or written: waits until the job may go on. Before each nap `go_on` is asked.
    ///
    /// # Errors
    /// Those of `go_on`.
    pub fn spent(&mut self, bytes: u64, go_on: &dyn Fn() -> Result<()>) -> Result<()> {
        self.pace.spent(bytes, go_on)?;
        match self.reader {
            Some(reader) => self.rest(reader, go_on),
            None => Ok(()),
        }
    }

    /// Rests from what it has worked, as long as it is to. What is too short for a sleep adds up: else whoever looks often would not
    /// rest at all where a share is large.
    fn rest(&mut self, reader: &BatchReader, go_on: &dyn Fn() -> Result<()>) -> Result<()> {
        let pace = self.pace;
        let clock = &pace.clock;
        let begun = clock.now_ns();
        let worked = begun.saturating_sub(self.since);
        if worked < JOB_WORK_NS_MIN {
            return Ok(());
        }
        let worked = worked.min(JOB_WORK_NS_MAX);
        let mut now = begun;
        loop {
            let due = rest_ns(worked, pace.share(now, reader)) + self.owed_ns;
            let left = due.saturating_sub(now.saturating_sub(begun));
            let left_ms = left / NANOS_A_MS;
            if left_ms == 0 {
                self.owed_ns = left;
                break;
            }
            pace.rested_at.fetch_max(begun, Ordering::Relaxed);
            go_on()?;
            clock.sleep_ms(left_ms.min(JOB_LOOK_NS / NANOS_A_MS));
            now = clock.now_ns();
        }
        self.since = now;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
