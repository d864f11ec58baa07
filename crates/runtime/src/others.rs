//! What a store has to do with the others of its runtime.

use crate::{Background, Job};

impl Background {
    /// Has a job run soon in every store of the runtime.
    pub fn request_job_of_all(&self, job: Job) {
        if let Some((jobs, _)) = &self.jobs {
            jobs.request_of_all(job);
        }
    }

    /// Whether a job is asked for, or runs, in another store of the runtime.
    pub fn is_under_way_elsewhere(&self, job: Job) -> bool {
        let jobs = self.jobs.as_ref();
        jobs.is_some_and(|(jobs, lane)| jobs.is_under_way_beside(*lane, job))
    }
}
