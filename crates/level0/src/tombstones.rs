//! Range tombstones of a table: how they are written, and read.

use thermocline_base::numbers::u16_at;
use thermocline_base::tombstones::Head;
use thermocline_base::varint::{put_varint, varint};
use thermocline_base::{CfId, Error, Result, SeqNo};

use crate::format::TOMBSTONES_LEN_MAX;
use crate::format::coding::take;

/// Range tombstones on their way into a table.
#[derive(Debug, Default)]
pub(crate) struct TombstonesBuilder {
    bytes: Vec<u8>,
    count: u64,
    last: Option<(CfId, SeqNo)>,
    last_start: Vec<u8>,
    last_end: Vec<u8>,
}

impl TombstonesBuilder {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.last_start.capacity() + self.last_end.capacity()
    }

    /// The bytes of all that was added.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    pub fn add(&mut self, cf: CfId, start: &[u8], end: &[u8], seqno: SeqNo) -> Result<()> {
        let refused = |why: String| Err(Error::InvalidArgument(why));
        if let Some((last_cf, last_seqno)) = self.last {
            // Of one start the newest comes first.
            let last = (last_cf, &self.last_start[..], SeqNo(!last_seqno.0));
            if last >= (cf, start, SeqNo(!seqno.0)) {
                return refused(format!(
                    "a range tombstone at {seqno} of family {} must not be written after one at \
                     {last_seqno} of family {}: they come by start, then newest first",
                    cf.0, last_cf.0
                ));
            }
        }
        let before = self.bytes.len();
        let same_start = self.last.is_some() && self.last_start == start;
        let same_end = self.last.is_some() && self.last_end == end;
        let out = &mut self.bytes;
        out.extend_from_slice(&cf.0.to_le_bytes());
        put_varint(
            out,
            if same_start {
                0
            } else {
                start.len() as u64 + 1
            },
        );
        put_varint(out, if same_end { 0 } else { end.len() as u64 + 1 });
        put_varint(out, seqno.0);
        if !same_start {
            out.extend_from_slice(start);
        }
        if !same_end {
            out.extend_from_slice(end);
        }
        if out.len() > TOMBSTONES_LEN_MAX {
            out.truncate(before);
            return refused(format!(
                "the range tombstones of a PM table take at most {TOMBSTONES_LEN_MAX} bytes"
            ));
        }
        self.count += 1;
        self.last = Some((cf, seqno));
        self.last_start.clear();
        self.last_start.extend_from_slice(start);
        self.last_end.clear();
        self.last_end.extend_from_slice(end);
        Ok(())
    }
}

/// What stands before the keys of the one at `at`; moves behind it.
pub(crate) fn head(bytes: &[u8], at: &mut usize) -> Option<Head> {
    Some(Head {
        cf: CfId(u16_at(take(bytes, at, 2)?, 0)),
        start: varint(bytes, at)?.checked_sub(1),
        end: varint(bytes, at)?.checked_sub(1),
        seqno: SeqNo(varint(bytes, at)?),
    })
}
