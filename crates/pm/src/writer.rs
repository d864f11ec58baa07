//! Whose flush and whose fence it is, for the models of persistent memory (`sim`, `shadow`).
//!
//! On hardware that is the thread. A test that explores crashes runs on one thread but wants several
//! writers in flight, each with flushes and fences of its own: there the thread *acts* as one or
//! another of them.

use std::cell::Cell;
use std::marker::PhantomData;

use thermocline_base::counter::thread_number;

/// One domain of flushes and fences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Writer {
    /// A thread as itself.
    Thread(usize),
    /// A thread that acts as this writer.
    Acting(u64),
}

thread_local! {
    static ACTING: Cell<Option<u64>> = const { Cell::new(None) };
}

impl Writer {
    /// The one that this thread is now.
    pub fn current() -> Writer {
        match ACTING.get() {
            Some(number) => Writer::Acting(number),
            None => Writer::Thread(thread_number()),
        }
    }
}

/// Keeps this thread acting as a writer; see [`crate::SimPm::as_writer`].
#[derive(Debug)]
pub struct ActingWriter {
    before: Option<u64>,
    /// It restores a variable of its own thread, so it stays there.
    _thread: PhantomData<*const ()>,
}

impl ActingWriter {
    pub(crate) fn new(number: u64) -> ActingWriter {
        ActingWriter {
            before: ACTING.replace(Some(number)),
            _thread: PhantomData,
        }
    }
}

impl Drop for ActingWriter {
    fn drop(&mut self) {
        ACTING.set(self.before);
    }
}
