//! What a job reads: the records of a sealed memtable, or a run of tables.

mod ahead;
mod run;
pub mod tombstones;

use std::ops::Bound;
use std::task::{Context, Poll};

use thermocline_base::{Error, Kind, Result, SeqNo};
use thermocline_compaction::Head;
use thermocline_compaction::merge::Source;
use thermocline_memtable::{RecordRef, Versions};
use thermocline_sst::Value;

pub use run::RunInput;
pub use tombstones::LastDeletes;

/// A source with values.
pub enum Input<'a> {
    /// A memtable.
    Memtable(Versions<'a>),
    /// Tables.
    Run(Box<RunInput<'a>>),
    /// What range tombstones without an end come to for the greatest key.
    Last(LastDeletes),
}

impl Input<'_> {
    /// The value of the entry at which it stands.
    ///
    /// # Errors
    /// Those of reading.
    pub fn value(&self) -> Result<Value<'_>> {
        let nothing = Value::Inline(b"");
        Ok(match self {
            Input::Memtable(memtable) => memtable.head().map_or(nothing, |record| {
                let blob = record.blob().map(Value::Blob);
                blob.unwrap_or(Value::Inline(record.value))
            }),
            Input::Run(run) => run.value()?,
            Input::Last(_) => nothing,
        })
    }
}

impl Input<'_> {
    /// What its entry means that lies before one that came already, or is none.
    #[cold]
    pub(crate) fn disordered(&self, head: Head<'_>) -> Error {
        let place = match self {
            Input::Run(run) => run.place(),
            Input::Memtable(_) | Input::Last(_) => "a memtable".into(),
        };
        let Head {
            user_key,
            seqno,
            kind,
        } = head;
        let start = &user_key[..user_key.len().min(40)];
        let got = format!("{kind:?} of \"{}\" at {seqno}", start.escape_ascii());
        let expected = "one behind those that came before";
        Error::corruption("an entry out of order", place, 0, expected, got)
    }

    /// Whether what was read for it is about to be used up, and there is more.
    pub(crate) fn is_short(&self) -> bool {
        matches!(self, Input::Run(run) if run.is_short())
    }

    /// Bytes of the key and the value at which it stands, if it is a memtable.
    pub(crate) fn memtable_bytes(&self) -> u64 {
        match self {
            Input::Memtable(memtable) => memtable
                .head()
                .map_or(0, |record| (record.key.len() + record.value.len()) as u64),
            Input::Run(_) | Input::Last(_) => 0,
        }
    }

    /// Bytes of DRAM that what is read takes.
    pub(crate) fn memory(&self) -> u64 {
        match self {
            Input::Run(run) => run.memory(),
            Input::Memtable(_) | Input::Last(_) => 0,
        }
    }

    /// Waits, without holding up the thread, until it is not.
    pub(crate) fn poll_more(&self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Input::Run(run) => run.poll_more(context),
            Input::Memtable(_) | Input::Last(_) => Poll::Ready(()),
        }
    }
}

impl Source for Input<'_> {
    fn head(&self) -> Option<Head<'_>> {
        match self {
            Input::Memtable(memtable) => memtable.head().map(head_of),
            Input::Run(run) => run.head(),
            Input::Last(deletes) => deletes.head(),
        }
    }

    fn advance(&mut self) -> Result<()> {
        match self {
            Input::Memtable(memtable) => memtable.advance(),
            Input::Run(run) => run.advance(),
            Input::Last(deletes) => {
                deletes.advance();
                Ok(())
            }
        }
    }

    fn seek(&mut self, user_key: &[u8], seqno: SeqNo) -> Result<()> {
        match self {
            Input::Memtable(memtable) => {
                memtable.seek(Bound::Included(user_key))?;
                let newer =
                    |record: &&RecordRef<'_>| record.key == user_key && record.seqno > seqno;
                while memtable.head().filter(newer).is_some() {
                    memtable.advance()?;
                }
                Ok(())
            }
            Input::Run(run) => run.seek(user_key, seqno),
            Input::Last(deletes) => {
                deletes.seek(user_key, seqno);
                Ok(())
            }
        }
    }
}

fn head_of<'r>(record: &RecordRef<'r>) -> Head<'r> {
    Head {
        user_key: record.key,
        seqno: record.seqno,
        kind: match record.kind {
            // Where a value lies is the value's business.
            Kind::PutBlob => Kind::Put,
            kind => kind,
        },
    }
}
