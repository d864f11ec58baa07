//! Opening a database with more than options.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thermocline_base::Result;
use thermocline_base::filter::CompactionFilter;
use thermocline_base::merge::MergeOperator;
use thermocline_engine::{Engine, EventListener, Setup, World};

use crate::{Options, Runtime};

/// How a database is to be opened. Made by [`Db::builder`](crate::Db::builder).
///
/// [`Options`] are kept with the database. A runtime and a listener belong to this process.
///
/// A relative path means the working folder that the process has when it opens the database. It may change that later.
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

    /// The options of the database; without this call the default ones, not those of the last opening, which
    /// [`Db::stored_options`](crate::Db::stored_options) gives.
    pub fn options(mut self, options: Options) -> DbBuilder {
        self.options = options;
        self
    }

    /// The runtime that the database shares with others; without this call it has one of its own.
    pub fn runtime(mut self, runtime: &Runtime) -> DbBuilder {
        self.setup.runtime = Some(runtime.inner().clone());
        self
    }

    /// The listener that receives the database's events. [`EventListener`] says when and on which thread.
    pub fn listener(mut self, listener: impl EventListener + 'static) -> DbBuilder {
        self.setup.listener = Some(Arc::new(listener));
        self
    }

    /// A merge operator for column families of this database, beside the built-in ones ([`merge`](crate::merge)). It
    /// must be given at every opening of a database in which a family has it. Without it the database does not open.
    /// Of several with one name the first one counts, also before a built-in one.
    ///
    /// ```
    /// use thermocline::merge::MergeOperator;
    /// use thermocline::{CfOptions, Db};
    /// /// Keeps the larger of two byte strings.
    /// #[derive(Debug)]
    /// struct Largest;
    /// impl MergeOperator for Largest {
    ///     fn name(&self) -> &str {
    ///         "example.largest"
    ///     }
    ///     fn merge(&self, _: &[u8], existing: Option<&[u8]>, operand: &[u8]) -> Result<Vec<u8>, String> {
    ///         Ok(existing.unwrap_or_default().max(operand).to_vec())
    ///     }
    /// }
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("db");
    /// let db = Db::builder(&path).merge_operator(Largest).open()?;
    /// let best = db.column_family("best", CfOptions::default().merge_operator("example.largest"))?;
    /// best.merge("score", "37")?;
    /// best.merge("score", "12")?;
    /// assert_eq!(best.get("score")?.as_deref(), Some(&b"37"[..]));
    /// # drop(best);
    /// # db.close()?;
    /// assert!(Db::builder(&path).open().is_err());
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    pub fn merge_operator(mut self, operator: impl MergeOperator + 'static) -> DbBuilder {
        self.setup.merge_operators.push(Arc::new(operator));
        self
    }

    /// The compaction filter of the column family `family`, which may be made later; so a name that no family has is no
    /// error. Of several for one family the last one counts. The filter belongs to this
    /// opening and is not kept with the database: an opening without it filters nothing. [`CompactionFilter`] says
    /// what holds for filters, and [`Metrics::compaction`](crate::Metrics::compaction) what they have done. A family with
    /// one cannot be a table of [`records`](crate::records).
    ///
    /// ```
    /// use thermocline::filter::{CompactionFilter, Entry, Verdict};
    /// use thermocline::{CfOptions, Db};
    /// /// Removes what is marked as gone, and takes the mark "new " off the rest.
    /// #[derive(Debug)]
    /// struct Marks;
    /// impl CompactionFilter for Marks {
    ///     fn name(&self) -> &str {
    ///         "example.marks"
    ///     }
    ///     fn filter(&self, entry: &Entry<'_>) -> Result<Verdict, String> {
    ///         let value = entry.value()?;
    ///         Ok(match value.strip_prefix(b"new ") {
    ///             Some(rest) => Verdict::Change(rest.to_vec()),
    ///             None if value.starts_with(b"gone") => Verdict::Remove,
    ///             None => Verdict::Keep,
    ///         })
    ///     }
    /// }
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("db");
    /// let db = Db::builder(&path).compaction_filter("visits", Marks).open()?;
    /// let visits = db.column_family("visits", CfOptions::default())?;
    /// visits.put("ann", "new 7")?;
    /// visits.put("bob", "gone")?;
    /// let snapshot = db.snapshot();
    /// visits.compact::<&str>(..)?;
    /// assert!(visits.get("bob")?.is_some()); // The snapshot sees it, so it stays.
    /// drop(snapshot);
    /// visits.compact::<&str>(..)?;
    /// assert!(visits.get("bob")?.is_none());
    /// assert_eq!(visits.get("ann")?.as_deref(), Some(&b"7"[..]));
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    pub fn compaction_filter(
        mut self,
        family: &str,
        filter: impl CompactionFilter + 'static,
    ) -> DbBuilder {
        let filter = (
            family.to_string(),
            Arc::new(filter) as Arc<dyn CompactionFilter>,
        );
        self.setup.compaction_filters.push(filter);
        self
    }

    /// The time to live (TTL) of the column family `family`, which may be made later. `default` is the family that
    /// [`Db`](crate::Db) itself reads and writes. A name that no family has is no error, and of several TTLs for one
    /// family the last one counts. The TTL belongs to this opening and is not kept with the database.
    /// Another opening may give another TTL, or none, and then finds the entries that have not gone yet.
    ///
    /// An entry that was written longer ago than that *may* go. It goes when a compaction reads it; a table in which
    /// everything has expired is dropped unread. No entry goes before its TTL, and a value that was overwritten or
    /// deleted never returns. Reads find an entry until it goes. Snapshots, cursors, iterators and transactions keep
    /// what they see. In a family with a merge operator each operand counts for its TTL at least. Change feeds do not
    /// report what goes.
    ///
    /// Entries go late: by the time until their memtable was sealed, and by a hundredth of the shortest TTL of the
    /// database. An entry far older than the shortest TTL is also late by up to 6 percent of its age.
    /// [`Db::compact`](crate::Db::compact) removes all that is known to have expired. Time is the machine's calendar.
    /// If that is set ahead, earlier writes count as older by as much. If it is set back, writes expire later until
    /// the calendar is where it was. A family with a TTL cannot be a table of [`records`](crate::records).
    ///
    /// Opening fails with [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the TTL is 0 or longer than
    /// 100 years. A part of a second counts as a whole one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thermocline::{CfOptions, Db};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("db");
    /// let month = Duration::from_secs(30 * 24 * 3600);
    /// let db = Db::builder(&path).ttl("sessions", month).open()?;
    /// let sessions = db.column_family("sessions", CfOptions::default())?;
    /// sessions.put("ann", "since today")?;
    /// sessions.compact::<&str>(..)?;
    /// assert!(sessions.get("ann")?.is_some()); // It has a month.
    /// # drop(sessions);
    /// # db.close()?;
    /// let error = Db::builder(&path).ttl("sessions", Duration::ZERO).open().unwrap_err();
    /// assert!(error.to_string().contains("'sessions'"));
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    pub fn ttl(mut self, family: &str, ttl: Duration) -> DbBuilder {
        self.setup.ttls.push((family.to_string(), ttl));
        self
    }

    /// Keeps no writer out, for a database that is opened with [`Options::read_only`]. Without this call such an opening does so
    /// unless there is one already, beside which it reads in the same way as with it.
    ///
    /// Beside a writer the database is what it is when it is opened here, and stays that. To see what was written since, open it
    /// again. The writer is not asked and does not notice. What lies in persistent memory is copied into memory of this process, as
    /// much again as it is there, and does not count in `dram`. Tables on the SSD are read where they are, as long as half of the
    /// files that the process may have open are enough for all of them. Beyond that a read of a table that the writer has
    /// replaced fails with [`Error::Busy`](crate::Error::Busy).
    ///
    /// ```
    /// use thermocline::{Db, Options};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("db");
    /// let writer = Db::open(&path, Options::default())?;
    /// writer.put("k", "1")?;
    /// let options = Options { read_only: true, ..Options::default() };
    /// let reader = Db::builder(&path).options(options).beside_writers().open()?;
    /// writer.put("k", "2")?;
    /// assert_eq!(reader.get("k")?.as_deref(), Some(&b"1"[..]));
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    pub fn beside_writers(mut self) -> DbBuilder {
        self.setup.beside_writers = true;
        self
    }

    /// Opens the engine that the handles of the database share.
    pub(crate) fn open_engine(self, world: World) -> Result<Engine> {
        Engine::open_with(world, &self.path, self.options, self.setup)
    }
}
