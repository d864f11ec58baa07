//! Which threads are in calls of the user's.

use std::cell::RefCell;

use thermocline_base::sync::thread;

thread_local! {
    /// This thread, once for each call of the user's that it is in. By name, since under a scheduler
    /// that takes over several threads are one of the system's.
    static CALLING: RefCell<Vec<thread::ThreadId>> = const { RefCell::new(Vec::new()) };
}

/// Whether this thread is in a call of the user's, of whatever store: then it must wait for no other.
pub fn is_calling() -> bool {
    let me = thread::current().id();
    // A thread that ends has left all calls.
    CALLING
        .try_with(|calls| calls.borrow().contains(&me))
        .unwrap_or(false)
}

/// A call of the user's on this thread, until it is dropped.
pub(crate) struct Calling;

impl Calling {
    pub fn begin() -> Calling {
        let me = thread::current().id();
        let _ = CALLING.try_with(|calls| calls.borrow_mut().push(me));
        Calling
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        let me = thread::current().id();
        let _ = CALLING.try_with(|calls| {
            let mut calls = calls.borrow_mut();
            if let Some(at) = calls.iter().rposition(|call| *call == me) {
                calls.remove(at);
            }
        });
    }
}
