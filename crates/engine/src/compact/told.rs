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

/// What has become of a job's outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Installed {
    /// They stand in the place of its inputs.
    Done,
    /// Its inputs were not there any more.
    Gone,
    /// Somebody reads what would go.
    Read,
}

impl Installed {
    /// Whether the inputs were still there.
    pub fn of(there: bool) -> Installed {
        match there {
            true => Installed::Done,
            false => Installed::Gone,
        }
    }

    /// Why they were thrown away; `None` if they were not.
    pub fn why_not(self) -> Option<&'static str> {
        match self {
            Installed::Done => None,
            Installed::Gone => Some("its inputs have gone"),
            Installed::Read => Some("somebody reads what has expired; it goes later"),
        }
    }
}

impl Begun {
    pub fn event(&self) -> Event {
        Event::CompactionBegun {
            id: self.id,
            family: self.family.0,
            reason: self.reason,
            from: self.from,
            to: self.to,
            tables: self.tables,
            bytes: self.bytes,
        }
    }

    /// What it was, in a few words.
    pub fn told(&self) -> String {
        let Begun { from, to, .. } = self;
        format!("from level {from} to {to} ({})", self.reason.name())
    }

    /// It has come to this by `now`; `left` says why it was not installed, if nothing failed.
    pub fn finished(
        &self,
        (done, left): (&Result<Option<LevelUse>>, Option<&'static str>),
        (outputs, meter): (&Outputs, &Meter),
        now: u64,
    ) -> Event {
        let did = done.as_ref().ok().copied().flatten().unwrap_or_default();
        Event::CompactionFinished {
            id: self.id,
            family: self.family.0,
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
            error: done
                .as_ref()
                .err()
                .map(ToString::to_string)
                .or_else(|| left.map(str::to_string)),
        }
    }
}
