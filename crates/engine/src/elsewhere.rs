//! Work that has to wait, for whoever must not.

use thermocline_base::{Error, Result};
use thermocline_tables::TableFiles;

use crate::awaited::PendingRead;
use crate::sync::Arc;

/// Has work done on the threads that read for futures.
#[derive(Debug, Clone)]
pub struct Elsewhere(Arc<TableFiles>);

impl Elsewhere {
    pub(crate) fn new(files: &Arc<TableFiles>) -> Elsewhere {
        Elsewhere(files.clone())
    }

    /// Has `work` done, and begins at once. If nobody wants any more what it comes to, it may be dropped undone.
    ///
    /// # Errors
    /// The future's answer has those of the work, and one if that has panicked.
    pub fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> PendingRead<T> {
        PendingRead::begin(self.clone().done(work))
    }

    /// As [`Elsewhere::run`], for who awaits it anyway.
    pub(crate) async fn done<T: Send + 'static>(
        self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let running = self.0.async_reader().run(work);
        running.await.unwrap_or_else(|| {
            let source = std::io::Error::other("the thread that read has panicked");
            Err(Error::io("read", &self.0.dir, source))
        })
    }
}
