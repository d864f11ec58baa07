//! The one clock of all simulators.
//!
//! Simulated persistent memory and simulated files share a [`Steps`]. Each reports the points at
//! which a crash would leave a different image (before and after a fence, a publishing store, an
//! fsync, a rename). A test installs an observer that runs inside the call, on the thread that
//! made it, and can take the crash image of *all* simulators at that very instant.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sync::{Mutex, lock};

/// A place in the code where something becomes durable. Named after the fact that it makes
/// durable; a crash test fails if it never reaches one of a crate's sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site(pub &'static str);

/// Whether the point lies before or after the operation of its site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum When {
    /// The operation has not taken effect.
    Before,
    /// The operation has taken effect.
    After,
}

/// One point at which a test may crash the world.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// Position in the run, counted over all simulators from 1.
    pub step: u64,
    /// The place in the code.
    pub site: Site,
    /// Before or after the operation.
    pub when: When,
}

/// Called at each point. Must not call back into the simulators' writing side.
pub type Observer = Arc<dyn Fn(Point) + Send + Sync>;

/// The shared counter of crash points. Cloning shares it.
#[derive(Clone, Default)]
pub struct Steps {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    count: AtomicU64,
    observer: Mutex<Option<Observer>>,
}

impl Steps {
    /// A counter at zero, with no observer.
    pub fn new() -> Steps {
        Steps::default()
    }

    /// Installs the observer, or removes it.
    pub fn observe(&self, observer: Option<Observer>) {
        *lock(&self.inner.observer) = observer;
    }

    /// Counts one point and shows it to the observer. Simulators call this with none of their own
    /// locks held, so that the observer can read their state.
    pub fn point(&self, site: Site, when: When) {
        let step = self.inner.count.fetch_add(1, Ordering::Relaxed) + 1;
        let observer = lock(&self.inner.observer).clone();
        if let Some(observer) = observer {
            observer(Point { step, site, when });
        }
    }

    /// Points counted so far.
    pub fn count(&self) -> u64 {
        self.inner.count.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for Steps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Steps")
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

/// Declares the sites of a crate: one constant each, and `ALL` with all of them.
///
/// ```
/// thermocline_base::sites! {
///     /// The example is durable.
///     EXAMPLE = "doc: example";
/// }
/// assert_eq!(ALL, &[EXAMPLE]);
/// ```
#[macro_export]
macro_rules! sites {
    ($($(#[$meta:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$meta])* pub const $name: $crate::Site = $crate::Site($text);)*
        /// Every site declared here.
        pub const ALL: &[$crate::Site] = &[$($name),*];
    };
}
