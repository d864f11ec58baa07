//! Making, opening and growing regions.

pub(super) mod copied;
mod file_growth;

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use thermocline_base::budget::Account;
use thermocline_base::options::RegionDemand;
use thermocline_base::planted::{Bug, active};
use thermocline_base::size::{format_size, index};
use thermocline_base::sync::{Mutex, lock};
use thermocline_base::{Error, Result};
use thermocline_env::{File, FsKind, OpenMode};

use super::{Backend, Charged, Inner, Place, Region, RegionKind, RegionSpec};
use crate::counters::Counters;
use crate::cpu;
use crate::map::{PAGE, Reservation, Sharing, gives_sync};
use crate::shadow::ShadowPm;
use crate::sigbus::Watch;
use crate::{Emulation, SITE_CREATE, SITE_GROW, SimPm};
use file_growth::FileGrowth;

/// Says whether somebody still wants growth.
type GoesOn<'a> = &'a dyn Fn() -> bool;

impl Region {
    /// Makes a new region of `len` bytes, all zero and durable, name included.
    ///
    /// # Errors
    /// The file exists, cannot be made, or is not of the kind demanded.
    pub fn create(spec: &RegionSpec, len: u64) -> Result<Region> {
        let Some(path) = spec.place.path() else {
            if let Place::Sim(sim) = &spec.place {
                sim.begin_anew();
            }
            let region = Region::open(spec)?;
            return region.grow(0, len).map(|()| region);
        };
        let storage = &spec.env.storage;
        let file = storage.open(path, OpenMode::CreateNew)?;
        let made = Region::attach(spec, path, file).and_then(|region| {
            region.grow(0, len)?;
            storage.sync_dir(parent(path), SITE_CREATE)?;
            Ok(region)
        });
        if made.is_err() {
            // Leave no half-made file behind; the first error is the one that counts.
            let _ = storage.remove(path);
        }
        made
    }

    /// Opens an existing region with all bytes it has.
    ///
    /// # Errors
    /// The file is missing, cannot be mapped, or is not of the kind demanded.
    pub fn open(spec: &RegionSpec) -> Result<Region> {
        let (path, mode) = match &spec.place {
            Place::Sim(sim) => return Ok(Region::attach_sim(spec, sim)),
            Place::Dram(account) => return Region::attach_dram(spec, account),
            Place::Path(path) | Place::Shadow { path, .. } if spec.read_only => {
                (path, OpenMode::Read)
            }
            Place::Path(path) | Place::Shadow { path, .. } => (path, OpenMode::ReadWrite),
        };
        let file = spec.env.storage.open(path, mode)?;
        Region::attach(spec, path, file)
    }

    fn attach_sim(spec: &RegionSpec, sim: &SimPm) -> Region {
        let (kind, path) = match sim.stands_in() {
            false => (RegionKind::Sim, "sim"),
            true => (RegionKind::Absent, "(not made yet)"),
        };
        Region::assemble(
            spec,
            Path::new(path),
            Parts {
                kind,
                backend: Backend::Sim(sim.clone()),
                base: sim.base(),
                len: sim.len(),
                capacity: spec.capacity.min(sim.capacity()),
                file: None,
                map: None,
                watch: None,
            },
        )
    }

    /// Memory of the process's own, of which nothing is there yet.
    fn attach_dram(spec: &RegionSpec, account: &Arc<Account>) -> Result<Region> {
        let refused = match (spec.read_only, spec.demand, spec.emulation) {
            (true, ..) => "it is empty when it is opened, so it cannot be for reading only",
            (_, RegionDemand::Any, Emulation::None) => "",
            (_, RegionDemand::Any, _) => "an emulation profile is for persistent memory",
            _ => "persistent memory of another kind was demanded; drop the demand",
        };
        if !refused.is_empty() {
            return Err(Error::InvalidArgument(format!(
                "the region is kept in DRAM: {refused}"
            )));
        }
        let path = Path::new("dram");
        let map = Reservation::reserve(index(spec.capacity))
            .map_err(|e| Error::io("reserve address space for as much as", path, e))
            .map(Arc::new)?;
        let parts = Parts {
            kind: RegionKind::Dram,
            backend: Backend::Volatile(Charged {
                account: account.clone(),
                charges: Mutex::default(),
            }),
            base: map.base(),
            len: 0,
            // Whole pages.
            capacity: map.len() as u64,
            file: None,
            map: Some(map),
            watch: None,
        };
        Ok(Region::assemble(spec, path, parts))
    }

    fn attach(spec: &RegionSpec, path: &Path, file: Arc<dyn File>) -> Result<Region> {
        // Two databases, one a copy of the other, must not write one region.
        file.lock(!spec.read_only).map_err(|error| match error {
            Error::Busy(_) => Error::Busy(format!(
                "the persistent memory region {} is open in another database or process; \
                 close it there, or choose another pm-path",
                path.display()
            )),
            other => other,
        })?;
        let len = file.len()? / PAGE as u64 * PAGE as u64;
        let io = |e| Error::io("map", path, e);
        let fd = file
            .raw_fd()
            .ok_or_else(|| Error::Unsupported(format!("{} cannot be mapped", path.display())))?;
        let reserved = Reservation::reserve(index(spec.capacity.max(len)));
        let map = reserved
            .map_err(|e| Error::io("reserve as much address space as pm for", path, e))
            .map(Arc::new)?;
        let kind = kind(spec, path, fd)?;
        if len > 0 {
            map.map(fd, 0, index(len), !spec.read_only, sharing(kind))
                .map_err(io)?;
        }
        let watch = Watch::new(map.base(), map.len()).ok_or_else(Watch::too_many)?;
        let backend = match &spec.place {
            Place::Shadow { shadow, .. } => {
                let cache = map.clone();
                Backend::Shadow(ShadowPm::open(
                    *shadow,
                    path,
                    fd,
                    cache,
                    len,
                    spec.read_only,
                )?)
            }
            _ if kind == RegionKind::File => Backend::Msync,
            _ => Backend::Cpu,
        };
        let parts = Parts {
            kind,
            backend,
            base: map.base(),
            len,
            // Whole pages.
            capacity: map.len() as u64,
            file: Some(file),
            map: Some(map),
            watch: Some(watch),
        };
        Ok(Region::assemble(spec, path, parts))
    }

    fn assemble(spec: &RegionSpec, path: &Path, parts: Parts) -> Region {
        Region {
            inner: Arc::new(Inner {
                kind: parts.kind,
                backend: parts.backend,
                base: parts.base,
                len: AtomicU64::new(parts.len),
                capacity: parts.capacity,
                path: path.to_path_buf(),
                env: spec.env.clone(),
                emulation: spec.emulation,
                read_only: spec.read_only,
                counters: Counters::default(),
                file: parts.file,
                watch: parts.watch,
                map: parts.map,
                syncing: Mutex::default(),
                sync_failed: OnceLock::new(),
                // Relaxed: only distinct numbers are asked for.
                number: REGIONS.fetch_add(1, Ordering::Relaxed),
            }),
        }
    }

    /// Makes the bytes `[from, to)` part of the region, all zero and durable. `from` is the size
    /// that is in use; leftovers of an interrupted growth behind it are overwritten.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] if the device is full or refuses to reserve or write what is behind the region, or there
    /// is no DRAM left for plain memory, with the region as it was. Others of the storage: if it was the sync that
    /// failed, what of the region is durable is unknown, and no fence succeeds any more.
    pub fn grow(&self, from: u64, to: u64) -> Result<()> {
        self.grow_keeping(from, to, 0)
    }

    /// As [`Region::grow`], if the device has room for `keep` bytes more than that. It is asked by taking
    /// them and giving them back, since a quota tells nobody how much it leaves.
    ///
    /// # Errors
    /// As [`Region::grow`].
    pub fn grow_keeping(&self, from: u64, to: u64, keep: u64) -> Result<()> {
        self.grow_while(from..to, keep, &|| true)
    }

    /// As [`Region::grow_keeping`], as long as `goes_on` says so: a file of ordinary storage takes long.
    ///
    /// # Errors
    /// As [`Region::grow`]; [`Error::Closed`] if it does not go on, with the region as it was.
    pub fn grow_while(&self, grown: Range<u64>, keep: u64, goes_on: GoesOn<'_>) -> Result<()> {
        let inner = &*self.inner;
        let (from, to) = (grown.start, grown.end);
        assert!(
            from < to && to <= inner.capacity,
            "growth is checked against pm by the caller"
        );
        // What is durable is unknown then, and what would be overwritten with zeros may count as part of the region.
        self.check_synced()?;
        match (&inner.backend, &inner.file, &inner.map) {
            (Backend::Sim(sim), ..) => self.grow_sim(sim, from, to, keep),
            (Backend::Volatile(charged), _, Some(map)) => self.grow_dram(charged, map, from, to),
            (_, Some(file), Some(map)) => {
                let growth = FileGrowth {
                    file: file.as_ref(),
                    kind: inner.kind,
                    from,
                    to,
                    keep,
                };
                self.grow_file(growth, map, goes_on)
            }
            _ => Err(Error::Unsupported("this region cannot grow".into())),
        }
    }

    fn grow_sim(&self, sim: &SimPm, from: u64, to: u64, keep: u64) -> Result<()> {
        if !sim.take_disk(to + keep) {
            let why = "no space left in the simulator";
            return Err(self.no_growth((from, to, keep), true, &why));
        }
        sim.take_disk(to);
        self.sync_growth(|| sim.grow(from, to, SITE_GROW))?;
        self.inner.len.fetch_max(to, Ordering::AcqRel);
        Ok(())
    }

    fn grow_dram(&self, charged: &Charged, map: &Reservation, from: u64, to: u64) -> Result<()> {
        // What is there already is not zero any more.
        assert_eq!(from, self.len(), "plain memory grows at its end");
        let charge = charged.account.charge_kept(to - from);
        let charge = charge.ok_or_else(|| {
            Error::OutOfSpace(format!(
                "memory for records cannot grow from {} to {}: dram of this store, or \
                 what its runtime's stores may have of theirs for records, is used up; raise dram, or close stores",
                format_size(from),
                format_size(to)
            ))
        })?;
        map.back(index(from), index(to))
            .map_err(|e| Error::io("map", &self.inner.path, e))?;
        lock(&charged.charges).push(charge);
        self.inner.len.store(to, Ordering::Release);
        Ok(())
    }

    fn grow_file(
        &self,
        growth: FileGrowth<'_>,
        map: &Reservation,
        goes_on: GoesOn<'_>,
    ) -> Result<()> {
        let inner = &*self.inner;
        let FileGrowth {
            file,
            from,
            to,
            keep,
            ..
        } = growth;
        let mapped = self.len();
        if let Backend::Shadow(shadow) = &inner.backend {
            shadow.forget(from);
        }
        let refused = |error: Error| match &error {
            Error::Io { .. } => self.no_growth((from, to, keep), error.is_no_room(), &error),
            _ => error,
        };
        // What is refused before a sync is no more than that.
        let reserved = growth.reserve(mapped).map_err(refused);
        let made = reserved.and_then(|zero_to| {
            let mut at = from;
            loop {
                let end = growth.zero(at, zero_to).map_err(refused)?;
                if inner.kind == RegionKind::File {
                    inner.counters.device(end - at);
                }
                at = end;
                // As in `sync_flushed`: this one might be told of another's failure.
                let syncing = lock(&inner.syncing);
                self.sync_growth(|| file.sync(SITE_GROW))?;
                drop(syncing);
                match at < zero_to {
                    true if !goes_on() => return Err(Error::Closed),
                    true => {}
                    false => return Ok(()),
                }
            }
        });
        if let Err(error) = made {
            // Give back what was taken; the mapping never covered it, and what stays is overwritten.
            let _ = file.set_len(mapped);
            return Err(error);
        }
        let fd = file.raw_fd().unwrap_or(-1);
        let map_more = match &inner.backend {
            Backend::Shadow(shadow) => shadow.grow(fd, from, mapped, to),
            _ if to > mapped => {
                let sharing = sharing(inner.kind);
                map.map(fd, index(mapped), index(to), true, sharing)
            }
            _ => Ok(()),
        };
        map_more.map_err(|e| {
            let _ = file.set_len(mapped);
            let error = Error::io("map", &inner.path, e);
            self.no_growth((from, to, keep), false, &error)
        })?;
        inner.len.fetch_max(to, Ordering::AcqRel);
        Ok(())
    }

    /// The error for a growth that was not to be, of which nothing is left: its device is full, or something else is in
    /// the way.
    #[cold]
    fn no_growth(
        &self,
        (from, to, keep): (u64, u64, u64),
        is_full: bool,
        why: &dyn std::fmt::Display,
    ) -> Error {
        let beyond = match keep {
            0 => String::new(),
            _ => format!(
                " and leave {} for flushing and compaction",
                format_size(keep)
            ),
        };
        let path = self.inner.path.display();
        let what = match is_full {
            true => format!("the device of region {path} is full: it"),
            false => format!("region {path}"),
        };
        Error::OutOfSpace(format!(
            "{what} cannot grow from {} to {}{beyond} ({why})",
            format_size(from),
            format_size(to)
        ))
    }

    /// Whether [`Region::shrink`] is more than a wish.
    pub fn can_shrink(&self) -> bool {
        match &self.inner.backend {
            Backend::Cpu | Backend::Msync => self.inner.file.is_some(),
            Backend::Sim(_) => true,
            Backend::Shadow(_) | Backend::Volatile(_) | Backend::Copied(_) => false,
        }
    }

    /// Gives all bytes from `to` on back to the device.
    ///
    /// # Safety
    /// Nobody holds a slice of them ([`Region::bytes`]).
    ///
    /// # Errors
    /// Those of the file system: the file may stay as long as it is.
    pub unsafe fn shrink(&self, to: u64) -> Result<()> {
        let inner = &*self.inner;
        let before = self.len();
        assert!(to <= before && to.is_multiple_of(PAGE as u64) && !inner.read_only);
        if to == before || !self.can_shrink() {
            return Ok(());
        }
        inner.len.store(to, Ordering::Release);
        if let Backend::Sim(sim) = &inner.backend {
            sim.cut(to);
        }
        if let (Some(file), Some(map)) = (&inner.file, &inner.map) {
            // First the mapping: a page of it behind the end of its file would kill whoever touches it.
            let forbidden = map.forbid(index(to), index(before));
            forbidden.map_err(|e| Error::io("map", &inner.path, e))?;
            file.set_len(to)?;
        }
        Ok(())
    }

    /// Whether it takes room of the file system that `dir` lies on.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn takes_room_of(&self, dir: &Path) -> Result<bool> {
        match &self.inner.backend {
            Backend::Volatile(_) => Ok(false),
            Backend::Sim(sim) => Ok(sim.has_disk()),
            _ => self.inner.env.storage.same_disk(self.path(), dir),
        }
    }

    /// Syncs what was made part of the file. It covers whatever else of the file is dirty, records among it:
    /// so if it fails, for whatever reason, nobody knows what is durable. A disk that is full is no exception
    /// (delayed allocation, thin volumes, quotas): what was not written for want of room is held for
    /// clean, as after any failure.
    fn sync_growth(&self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        sync().map_err(|error| {
            if error.is_no_room() && active(Bug::CleanAfterEnospc) {
                return Error::OutOfSpace(error.to_string());
            }
            let _ = self.inner.sync_failed.set(error.to_string());
            error
        })
    }
}

/// Regions that the process has had.
static REGIONS: AtomicU64 = AtomicU64::new(0);

/// What a region is made of.
struct Parts {
    kind: RegionKind,
    backend: Backend,
    base: *mut u8,
    len: u64,
    capacity: u64,
    file: Option<Arc<dyn File>>,
    map: Option<Arc<Reservation>>,
    watch: Option<Watch>,
}

fn sharing(kind: RegionKind) -> Sharing {
    match kind {
        RegionKind::Dax => Sharing::Sync,
        RegionKind::Shadow => Sharing::Private,
        _ => Sharing::Shared,
    }
}

/// What kind of region `path` gives, held against what the user demands.
fn kind(spec: &RegionSpec, path: &Path, fd: i32) -> Result<RegionKind> {
    let tmpfs = spec.env.storage.fs_kind(path)? == FsKind::Tmpfs;
    let kind = match &spec.place {
        Place::Shadow { .. } => RegionKind::Shadow,
        _ if tmpfs => RegionKind::Shm,
        _ if cpu::WRITES_BACK && gives_sync(fd) => RegionKind::Dax,
        _ => RegionKind::File,
    };
    let wanted = match spec.demand {
        RegionDemand::Any => kind,
        RegionDemand::Dax => RegionKind::Dax,
        RegionDemand::File => RegionKind::File,
        RegionDemand::Shm => RegionKind::Shm,
    };
    if wanted != kind {
        return Err(Error::Unsupported(format!(
            "{} lies on storage of kind '{}', but kind '{}' was demanded; choose another pm-path \
             or drop the demand",
            path.display(),
            kind.name(),
            wanted.name()
        )));
    }
    Ok(kind)
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}
