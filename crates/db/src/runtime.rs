//! What databases of one process share.

use std::fmt;

use thermocline_base::Result;
use thermocline_engine::{RuntimeMetrics, RuntimeOptions};

/// What the databases of a process share: threads, a budget of DRAM, and the cache of blocks. Clones share it, too. Its
/// threads end when the last clone and the last database in it have gone.
///
/// [`Db::open_in`](crate::Db::open_in) and [`DbBuilder::runtime`](crate::DbBuilder::runtime) open a database in it.
///
/// ```
/// use thermocline::{Runtime, RuntimeOptions};
/// let runtime = Runtime::new(RuntimeOptions { dram: 256 << 20, ..RuntimeOptions::default() })?;
/// assert_eq!(runtime.options().dram, 256 << 20);
/// assert_eq!(runtime.metrics().stores, 0);
/// # Ok::<(), thermocline::Error>(())
/// ```
#[derive(Clone)]
pub struct Runtime(thermocline_engine::Runtime);

impl Runtime {
    /// A runtime with these limits. Starts no thread yet.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] naming the option and the limit it breaks.
    pub fn new(options: RuntimeOptions) -> Result<Runtime> {
        thermocline_engine::Runtime::new(options).map(Runtime)
    }

    /// Its limits.
    pub fn options(&self) -> &RuntimeOptions {
        self.0.options()
    }

    /// Its threads, and the DRAM of its databases.
    pub fn metrics(&self) -> RuntimeMetrics {
        self.0.metrics()
    }

    /// The runtime as the engine knows it.
    pub(crate) fn inner(&self) -> &thermocline_engine::Runtime {
        &self.0
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
