//! After a failed persist nobody knows what is durable: reads go on, writes end.

use std::sync::{Arc, OnceLock};

use thermocline_base::{Error, Result};

use crate::event::Event;
use crate::events::Events;

/// Whether it failed in a sync, so that nobody knows what is durable. What has failed before a sync, for want of room or
/// of a descriptor, has left all as it was.
pub fn is_sync(error: &Error) -> bool {
    // Poisoned: as an index, or a log, of which a sync has failed before.
    error.is_failed_sync() || matches!(error, Error::Poisoned(_))
}

/// Whether a persist has failed, and which.
#[derive(Debug, Default)]
pub struct Poison {
    cause: OnceLock<String>,
    /// Whom to tell.
    events: Option<Arc<Events>>,
}

impl Poison {
    /// One that tells `events` when it is no longer clean.
    pub fn telling(events: Arc<Events>) -> Poison {
        Poison {
            cause: OnceLock::new(),
            events: Some(events),
        }
    }

    /// Whether writing is still allowed.
    pub fn check(&self) -> Result<()> {
        match self.cause.get() {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned(cause.clone())),
        }
    }

    /// As [`Poison::poison`], if what failed is a sync. Else nothing has happened that the caller has not undone.
    #[cold]
    pub fn poison_if_sync(&self, error: Error) -> Error {
        match is_sync(&error) {
            true => self.poison(error),
            false => error,
        }
    }

    /// As [`Poison::poison`], unless there was no room, or the store is being closed: that is no reason to stop; a failed persist
    /// is.
    pub fn poison_unless_full(&self, error: Error) -> Error {
        match error {
            Error::OutOfSpace(_) | Error::Closed => error,
            other => self.poison(other),
        }
    }

    /// Notes the first cause and gives the error back.
    #[cold]
    pub fn poison(&self, cause: Error) -> Error {
        if self.cause.set(cause.to_string()).is_ok()
            && let Some(events) = &self.events
        {
            let cause = cause.to_string();
            events.emit(Event::Poisoned { cause });
        }
        cause
    }
}
