//! The bytes of a job that is done, as [`super`] draws them.

use std::sync::Arc;
use std::time::Duration;

use thermocline_base::CfId;
use thermocline_base::stages::Stages;

use super::fields::{Fields, Unreadable, damaged, len32};
use crate::job_done::JobDone;

/// Of a flush, which takes memtables: no level has this number.
const MEMTABLES: u8 = u8::MAX;

pub(super) fn encode(job: &JobDone, bytes: &mut Vec<u8>) {
    bytes.push(u8::from(job.family.is_some()));
    bytes.extend_from_slice(&job.family.map_or(0, |cf| cf.0).to_le_bytes());
    bytes.extend_from_slice(&[job.from.unwrap_or(MEMTABLES), job.to]);
    let numbers = [
        job.unix_s,
        job.inputs,
        job.bytes_in,
        job.tables,
        job.tables_in_pm,
        job.bytes_read,
        job.bytes_written,
        job.entries_read,
        job.entries_dropped,
    ];
    let stages = &job.stages;
    let times = [job.took, stages.reading, stages.writing, stages.syncing];
    // More than five centuries are as good as those.
    let times = times.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    for number in numbers.into_iter().chain(times) {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    for text in [&job.work, &job.because] {
        bytes.extend_from_slice(&len32(text.len()).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
}

pub(super) fn decode(body: &mut Fields<'_>) -> Result<Arc<JobDone>, Unreadable> {
    let at = body.at;
    let family = match (body.u8()?, body.u16()?) {
        (0, 0) => None,
        (1, id) => Some(CfId(id)),
        (is_one, id) => {
            let got = format!("{is_one}, {id}");
            return Err(damaged("family of a job", at, "0, 0 or 1, its id", got));
        }
    };
    let from = body.u8()?;
    Ok(Arc::new(JobDone {
        family,
        from: (from != MEMTABLES).then_some(from),
        to: body.u8()?,
        unix_s: body.u64()?,
        inputs: body.u64()?,
        bytes_in: body.u64()?,
        tables: body.u64()?,
        tables_in_pm: body.u64()?,
        bytes_read: body.u64()?,
        bytes_written: body.u64()?,
        entries_read: body.u64()?,
        entries_dropped: body.u64()?,
        took: Duration::from_nanos(body.u64()?),
        stages: Stages {
            reading: Duration::from_nanos(body.u64()?),
            writing: Duration::from_nanos(body.u64()?),
            syncing: Duration::from_nanos(body.u64()?),
        },
        work: body.text()?,
        because: body.text()?,
    }))
}
