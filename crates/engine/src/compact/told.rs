//! What a job says about itself.

use std::time::Duration;

use thermocline_base::{CfId, Result};
use thermocline_env::meter::Meter;
use thermocline_jobs::Outputs;
use thermocline_observe::event::Event;
use thermocline_policy::pick::Reason;

use crate::report::LevelUse;

/// A job that was begun, as events name it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    pub id: u64,
    pub family: CfId,
    pub reason: Reason,
    pub from: usize,
    pub to: usize,
    /// Whether tables change their level and are not read.
    pub moved: bool,
    pub internal: bool,
    pub tables: usize,
    pub bytes: u64,
    /// When, in nanoseconds.
    pub at: u64,
}

impl Begun {
    pub fn event(&self) -> Event {
        Event::CompactionBegun {
            id: self.id,
            family: self.family,
            reason: self.reason,
            from: self.from,
            to: self.to,
            tables: self.tables,
            bytes: self.bytes,
        }
    }

    /// It has come to this by `now`; no inputs were left if it was not installed.
    pub fn finished(
        &self,
        done: &Result<Option<LevelUse>>,
        (outputs, meter): (&Outputs, &Meter),
        now: u64,
    ) -> Event {
        let gone = matches!(done, Ok(None)).then(|| "its inputs have gone".to_string());
        let did = done.as_ref().ok().copied().flatten().unwrap_or_default();
        Event::CompactionFinished {
            id: self.id,
            family: self.family,
            reason: self.reason,
            from: self.from,
            to: self.to,
            tables: self.tables,
            moved: self.moved,
            tables_written: outputs.count(),
            bytes_read: did.bytes_read.max(meter.bytes_read()),
            bytes_written: outputs.bytes,
            entries_dropped: did.entries_dropped,
            took: Duration::from_nanos(now - self.at),
            stages: match done {
                Ok(_) => outputs.stages,
                Err(_) => meter.stages(),
            },
            error: done.as_ref().err().map(ToString::to_string).or(gone),
        }
    }
}
