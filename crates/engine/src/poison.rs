//! After a failed persist nobody knows what is durable: reads go on, writes end.

use std::sync::{Arc, OnceLock};

use thermocline_base::{Error, Result};

use crate::events::{Event, Events};

#[derive(Debug, Default)]
pub(crate) struct Poison {
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
