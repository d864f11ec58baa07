//! Scans that nobody waits for: batches of entries, collected on threads that read for futures, one ahead of who takes them.
//!
//! # Why it answers as a scan does
//! 1. *It is the scan.* The same iterator makes the entries, in the same order and at the same moment. It is in one place: here, or
//!    with the thread that collects a batch, which gives it back with that.
//! 2. *An error ends it*, behind the entries that were found before, and is the last item. Of a batch that is given up because the
//!    thread has panicked nothing is given but that.
//! 3. *Whoever drops it* gives up the batch that is being collected: the iterator goes with it, on the thread that has it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::mem::replace;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::vec;

use thermocline_engine::{Elsewhere, PendingRead};

use crate::{Result, Scan, Value};

/// Bytes of entries of the first batch: a short scan takes no more.
const BATCH_BYTES_FIRST: usize = 8 << 10;

/// And of the largest. Each has twice as many as the one before.
const BATCH_BYTES_MAX: usize = 256 << 10;

type Entry = Result<(Vec<u8>, Value)>;

/// A [`Scan`] as a stream, of any executor: a task that awaits entries waits, and no thread does. See [`Scan::into_async`].
///
/// Nothing is read before the first entry is asked for. It ends after an error. As long as it is there it holds its moment, as a
/// [`Scan`] does, and up to two batches of entries, 512 KiB and one entry each at most.
#[must_use = "entries are collected when they are asked for"]
pub struct AsyncScan {
    /// Entries that are still to be given.
    ready: vec::IntoIter<Entry>,
    /// As soon as so few are left the next batch begins.
    low: usize,
    bytes: usize,
    from_back: bool,
    state: State,
}

enum State {
    Idle(Box<Scan>, Elsewhere),
    Reading(PendingRead<Batch>, Elsewhere),
    Ended,
}

/// What one piece of work has collected.
struct Batch {
    entries: Vec<Entry>,
    /// `None` if the scan has ended.
    scan: Option<Box<Scan>>,
}

impl Scan {
    /// The same entries for a task that awaits them, from the front end; see [`AsyncScan`]. Entries are collected on other threads,
    /// some KiB at first and up to 256 KiB at a time, and while some are taken the next are collected.
    ///
    /// ```
    /// # use std::{pin::pin, sync::Arc, task::{Context, Poll, Wake, Waker}, thread::{self, Thread}};
    /// # struct Unpark(Thread);
    /// # impl Wake for Unpark { fn wake(self: Arc<Self>) { self.0.unpark() } }
    /// # fn block_on<T>(future: impl Future<Output = T>) -> T {
    /// #     let waker = Waker::from(Arc::new(Unpark(thread::current())));
    /// #     let mut future = pin!(future);
    /// #     loop {
    /// #         match future.as_mut().poll(&mut Context::from_waker(&waker)) {
    /// #             Poll::Ready(answer) => return answer,
    /// #             Poll::Pending => thread::park(),
    /// #         }
    /// #     }
    /// # }
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = thermocline::Db::open(folder.path().join("db"), thermocline::Options::default())?;
    /// for day in ["2026-01-01", "2026-01-02", "2026-02-01"] {
    ///     db.put(day, "")?;
    /// }
    /// let mut january = db.prefix("2026-01").into_async();
    /// block_on(async {
    ///     while let Some(entry) = january.next().await {
    ///         let (day, _) = entry?;
    ///         assert!(day.starts_with(b"2026-01"));
    ///     }
    ///     Ok::<(), thermocline::Error>(())
    /// })?;
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    pub fn into_async(self) -> AsyncScan {
        AsyncScan::new(self, false)
    }

    /// As [`Scan::into_async`], from the back end: in descending order, or ascending in a family whose keys descend.
    pub fn into_async_rev(self) -> AsyncScan {
        AsyncScan::new(self, true)
    }
}

impl AsyncScan {
    fn new(mut scan: Scan, from_back: bool) -> AsyncScan {
        let (ready, state) = match scan.elsewhere() {
            Some(elsewhere) => (Vec::new(), State::Idle(Box::new(scan), elsewhere)),
            None => (Vec::from_iter(scan.next()), State::Ended),
        };
        AsyncScan {
            ready: ready.into_iter(),
            low: 0,
            bytes: BATCH_BYTES_FIRST,
            from_back,
            state,
        }
    }

    /// The next entry; `None` once there is none any more. A future that is dropped before it has answered has taken nothing.
    ///
    /// # Errors
    /// As a [`Scan`]: the last item is the error then.
    #[expect(
        clippy::should_implement_trait,
        reason = "this one is awaited, and an iterator's is not"
    )]
    pub fn next(&mut self) -> impl Future<Output = Option<Entry>> + Send + Unpin + '_ {
        poll_fn(|context| self.poll_next(context))
    }

    /// The next entry, for who polls by himself: `poll_fn(|context| scan.poll_next(context))` of the crate `futures`
    /// makes a `Stream` of it.
    ///
    /// # Errors
    /// As [`AsyncScan::next`].
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Entry>> {
        loop {
            if self.ready.len() <= self.low {
                self.begin();
            }
            if let Some(entry) = self.ready.next() {
                return Poll::Ready(Some(entry));
            }
            match &mut self.state {
                State::Reading(reading, _) => {
                    let batch = ready!(Pin::new(reading).poll(context));
                    self.take(batch);
                }
                // `begin` leaves no other.
                State::Idle(..) | State::Ended => return Poll::Ready(None),
            }
        }
    }

    /// Has a batch collected, if none is and there may be one.
    fn begin(&mut self) {
        if !matches!(self.state, State::Idle(..)) {
            return;
        }
        if let State::Idle(scan, elsewhere) = replace(&mut self.state, State::Ended) {
            let (bytes, from_back) = (self.bytes, self.from_back);
            self.bytes = (2 * bytes).min(BATCH_BYTES_MAX);
            let reading = elsewhere.run(move || Ok(collect(scan, bytes, from_back)));
            self.state = State::Reading(reading, elsewhere);
        }
    }

    /// What was collected comes behind what was given.
    fn take(&mut self, batch: Result<Batch>) {
        let (entries, scan) = match batch {
            Ok(batch) => (batch.entries, batch.scan),
            Err(error) => (vec![Err(error)], None),
        };
        self.low = entries.len().div_ceil(2);
        self.ready = entries.into_iter();
        self.state = match (replace(&mut self.state, State::Ended), scan) {
            (State::Reading(_, elsewhere), Some(scan)) => State::Idle(scan, elsewhere),
            _ => State::Ended,
        };
    }
}

/// A batch of about so many bytes.
fn collect(mut scan: Box<Scan>, bytes: usize, from_back: bool) -> Batch {
    let (mut entries, mut collected) = (Vec::new(), 0);
    while collected < bytes {
        let entry = match from_back {
            true => scan.next_back(),
            false => scan.next(),
        };
        let Some(entry) = entry else {
            return Batch {
                entries,
                scan: None,
            };
        };
        if let Ok((key, value)) = &entry {
            collected += size_of::<Entry>() + key.len() + value.len();
        }
        entries.push(entry);
    }
    Batch {
        entries,
        scan: Some(scan),
    }
}

impl fmt::Debug for AsyncScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_ended = matches!(self.state, State::Ended);
        f.debug_struct("AsyncScan")
            .field("ready", &self.ready.len())
            .field("has_ended", &has_ended)
            .finish_non_exhaustive()
    }
}
