//! Opening a database with more than options.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_base::Result;
use thermocline_engine::{Engine, EventListener, Runtime, Setup, World};

use crate::Options;

/// What a database is to be opened with. Made by [`Db::builder`](crate::Db::builder).
///
/// [`Options`] are kept with the database; a runtime and a listener are of this process.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use thermocline::{Db, Event, Options};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("db");
/// let told = Arc::new(Mutex::new(Vec::new()));
/// let listener = {
///     let told = told.clone();
///     move |event: &Event| told.lock().unwrap().push(format!("{event:?}"))
/// };
/// let db = Db::builder(path).options(Options::default()).listener(listener).open()?;
/// db.put("k", "v")?;
/// db.close()?; // what happened until then has been told
/// let told = told.lock().unwrap();
/// assert!(told[0].starts_with("Opened") && told[1].starts_with("Closed"));
/// # Ok::<(), thermocline::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "`open` opens it"]
pub struct DbBuilder {
    path: PathBuf,
    options: Options,
    setup: Setup,
}

impl DbBuilder {
    pub(crate) fn new(path: &Path) -> DbBuilder {
        DbBuilder {
            path: path.to_path_buf(),
            options: Options::default(),
            setup: Setup::default(),
        }
    }

    /// The options; those by default unless given.
    pub fn options(mut self, options: Options) -> DbBuilder {
        self.options = options;
        self
    }

    /// The runtime that it shares with other databases; one of its own unless given.
    pub fn runtime(mut self, runtime: &Runtime) -> DbBuilder {
        self.setup.runtime = Some(runtime.clone());
        self
    }

    /// Who is told what happens to the database. See [`EventListener`] for when and where.
    pub fn listener(mut self, listener: impl EventListener + 'static) -> DbBuilder {
        self.setup.listener = Some(Arc::new(listener));
        self
    }

    /// Opens what a database is a handle of.
    pub(crate) fn open_engine(self) -> Result<Engine> {
        Engine::open_with(World::real(), &self.path, self.options, self.setup)
    }
}
