//! The bytes of write times, as [`super`] draws them.

use std::sync::Arc;

use thermocline_base::SeqNo;

use super::fields::{Fields, Unreadable, len32};
use crate::write_times::WriteTime;

pub(super) fn encode(times: &[WriteTime], bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&len32(times.len()).to_le_bytes());
    for time in times {
        bytes.extend_from_slice(&time.seqno.0.to_le_bytes());
        bytes.extend_from_slice(&time.unix_s.to_le_bytes());
    }
}

pub(super) fn decode(body: &mut Fields<'_>) -> Result<Arc<[WriteTime]>, Unreadable> {
    // Grows as it is read: a count that lies allocates nothing.
    let mut times = Vec::new();
    for _ in 0..body.len32()? {
        times.push(WriteTime {
            seqno: SeqNo(body.u64()?),
            unix_s: body.u64()?,
        });
    }
    Ok(times.into())
}
