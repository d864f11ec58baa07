//! Opening a store: the manifest ([`named`]), what region and logs have ([`recovered`]), and the store made of it
//! ([`wired`]).

pub(crate) mod beside;
mod named;
mod recovered;
pub(crate) mod spec;
mod wired;

use std::path::Path;

use thermocline_base::budget::Account;
use thermocline_base::options::Options;
use thermocline_base::{Error, ErrorKind, Result, SeqNo};
use thermocline_env::frugal::Frugal;
use thermocline_env::{LockGuard, Storage};
use thermocline_runtime::Runtime;
use thermocline_version::{LOCK_NAME, Manifest};

use crate::create::{create, prepare_or_find};
use crate::expiry::Ttls;
use crate::families::table::{Families, Given};
use crate::layout::{self, REGION_NAME, ReadLock};
use crate::store::{Engine, Handle};
use crate::sync::Arc;
use crate::world::{Setup, World};
use beside::Moments;
use named::Named;
use recovered::Recovered;
use wired::{Shared, table_files_beside, wire};

impl Engine {
    /// Opens the database in `dir`, making it if the options say so. For reading only it is opened beside somebody who writes to it,
    /// too, and shows what it is at that moment.
    ///
    /// # Errors
    /// [`thermocline_base::Error::InvalidArgument`] for options that make no sense, a folder that is not a database,
    /// or none at all; [`thermocline_base::Error::Locked`]; [`thermocline_base::Error::Busy`] if no moment of it lasts until it is copied; [`thermocline_base::Error::Corruption`] with file or
    /// region and offset; [`thermocline_base::Error::OutOfSpace`]; those of the file system.
    pub fn open(world: World, dir: &Path, options: Options) -> Result<Engine> {
        Engine::open_with(world, dir, options, Setup::default())
    }

    /// As [`Engine::open`], with what is not kept with the database.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn open_with(
        mut world: World,
        dir: &Path,
        options: Options,
        mut setup: Setup,
    ) -> Result<Engine> {
        options.validate()?;
        layout::check_path(dir)?;
        if setup.beside_writers && !options.read_only {
            return Err(Error::InvalidArgument(
                "who writes is beside nobody; beside_writers is for a database that is opened with read_only".into(),
            ));
        }
        let ttls = Ttls::new(std::mem::take(&mut setup.ttls))?;
        world.env.storage = Frugal::new(world.env.storage.clone());
        let options = layout::absolute(options.settled())?;
        let started = world.env.clock.now_ns();
        let storage = world.env.storage.clone();
        let mut exists = storage.is_dir(dir)? && Manifest::exists(&*storage, dir)?;
        if !exists {
            exists = prepare_or_find(&*storage, dir, &options)?;
        }
        let lock = match options.read_only {
            true if setup.beside_writers => ReadLock::Beside,
            true => layout::lock_to_read(&*storage, dir)?,
            false => ReadLock::Held(Some(storage.lock(&dir.join(LOCK_NAME))?)),
        };
        let ReadLock::Held(lock) = lock else {
            return open_beside((&world, dir, &options), (&setup, &ttls), started);
        };
        if !exists && !Manifest::exists(&*storage, dir)? {
            create(&world, dir, &options)?;
        }
        // Files are made and removed for as long as it is open.
        let lasting = layout::lasting(&*storage, dir);
        let named = Named::read(world, &lasting, options)?;
        let dirs = (dir, lasting.as_path());
        open_named(named, dirs, (setup, ttls), lock, started)
    }

    /// The options that the database in `dir` was last opened with for writing; `None` if there is
    /// no database. Their `pm_path` is where the region was then, unless it lies in the database's
    /// folder or is not there any more.
    ///
    /// # Errors
    /// Corruption of the manifest; [`thermocline_base::Error::Busy`] if somebody who has the store open for writing
    /// exchanges it faster than it can be read; those of the file system.
    pub fn stored_options(world: &World, dir: &Path) -> Result<Option<Options>> {
        // Stores of the process give descriptors back, if they have all of them.
        let storage: Arc<dyn Storage> = Frugal::new(world.env.storage.clone());
        if !storage.is_dir(dir)? || !Manifest::exists(&*storage, dir)? {
            return Ok(None);
        }
        let read = || Manifest::open(storage.clone(), dir, true);
        let (_, state) = match read() {
            // It is damaged only if it is so while nobody writes to it, or twice in the same place. Whoever opens the store
            // next takes a lock of its own.
            Err(error) if error.kind() == ErrorKind::Corruption => {
                match layout::lock_to_read(&*storage, dir)? {
                    ReadLock::Held(_lock) => read()?,
                    ReadLock::Beside => Moments::default().first_whole(|_| read())?,
                }
            }
            found => found?,
        };
        let mut options = spec::before(&state);
        if let Some(place) = &options.pm_path
            && (storage.exists(&dir.join(REGION_NAME))? || !storage.exists(place)?)
        {
            options.pm_path = None;
        }
        Ok(Some(options))
    }
}

/// Opens a database to which somebody else writes, for reading only ([`beside`]).
fn open_beside(
    (world, dir, options): (&World, &Path, &Options),
    (setup, ttls): (&Setup, &Ttls),
    started: u64,
) -> Result<Engine> {
    let lasting = layout::lasting(&*world.env.storage, dir);
    let dirs = (dir, lasting.as_path());
    Moments::default().first_whole(|moments| {
        let named = beside::named(moments, (world, &lasting, options))?;
        open_named(named, dirs, (setup.clone(), ttls.clone()), None, started)
    })
}

fn open_named(
    mut named: Named,
    (given, dir): (&Path, &Path),
    (setup, ttls): (Setup, Ttls),
    lock: Option<Box<dyn LockGuard>>,
    started: u64,
) -> Result<Engine> {
    let handed = Given {
        operators: setup.merge_operators,
        filters: setup.compaction_filters.into_iter().collect(),
    };
    let families = Families::of(&named.state, handed)?;
    let runtime = setup.runtime;
    let runtime = runtime.unwrap_or_else(|| Runtime::private(named.options.dram));
    let account = Account::new(runtime.budget().clone(), named.options.dram);
    let kept = named.beside.is_some();
    let kept = kept.then(|| table_files_beside(&named, dir, (&runtime, &account)));
    let kept = kept.transpose()?;
    let mut recovered = Recovered::find(&mut named, (dir, lock.as_deref()), &account)?;
    if !named.options.read_only {
        recovered.keep(&mut named)?;
    }
    let dropped = recovered.start.dropped().to_vec();
    let shared = Shared {
        given: given.to_path_buf(),
        runtime,
        account,
        listener: setup.listener,
        ttls,
    };
    let places = (dir, lock, started);
    let inner = wire(named, places, (recovered, kept), families, shared)?;
    // From here on its runtime counts it, and who came before reads in it. If it is not opened after all, that ends as a
    // close does.
    let engine = Engine {
        _handle: Arc::new(Handle(inner.clone())),
        inner,
    };
    let inner = &engine.inner;
    // Before anybody writes.
    inner.preparer.load()?;
    // Which of it are deletes nobody knows.
    inner
        .pressure
        .deleted(SeqNo(inner.common.commits.ring.visible()));
    inner.pressure.press();
    // To which the process before removed the last reference.
    inner.sweeper.release_pm_tables();
    if inner.memtables.is_logged() {
        // What was sealed when the process before ended.
        inner.flush_due.flush_if_due();
    }
    inner.common.look_again_when_more_expires();
    if !inner.common.catalog.view().tables.is_empty() {
        // The process before may have left some.
        inner.common.want_compaction();
    }
    inner.common.tell_opened(&dropped);
    Ok(engine)
}
