//! Making, opening and growing regions.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_base::options::RegionDemand;
use thermocline_base::size::{format_size, index};
use thermocline_base::{Error, Result};
use thermocline_env::{Env, File, FsKind, OpenMode};

use super::{Backend, Inner, Place, Region, RegionKind, RegionSpec};
use crate::counters::Counters;
use crate::map::{PAGE, Reservation, gives_sync};
use crate::sigbus::Watch;
use crate::{SITE_CREATE, SITE_GROW};

impl Region {
    /// Makes a new region of `len` bytes, all zero and durable, name included.
    ///
    /// # Errors
    /// The file exists, cannot be made, or is not of the kind demanded.
    pub fn create(spec: &RegionSpec, len: u64) -> Result<Region> {
        if let Place::Path(path) = &spec.place {
            let storage = &spec.env.storage;
            let file = storage.open(path, OpenMode::CreateNew)?;
            let made = Region::attach(spec, path, Some(file)).and_then(|region| {
                region.grow(0, len)?;
                storage.sync_dir(parent(path), SITE_CREATE)?;
                Ok(region)
            });
            if made.is_err() {
                // Leave no half-made file behind; the first error is the one that counts.
                let _ = storage.remove(path);
            }
            made
        } else {
            let region = Region::open(spec)?;
            region.grow(0, len)?;
            Ok(region)
        }
    }

    /// Opens an existing region with all bytes it has.
    ///
    /// # Errors
    /// The file is missing, cannot be mapped, or is not of the kind demanded.
    pub fn open(spec: &RegionSpec) -> Result<Region> {
        match &spec.place {
            Place::Path(path) => {
                let mode = if spec.read_only {
                    OpenMode::Read
                } else {
                    OpenMode::ReadWrite
                };
                let file = spec.env.storage.open(path, mode)?;
                Region::attach(spec, path, Some(file))
            }
            Place::Sim(_) => Region::attach(spec, Path::new("sim"), None),
        }
    }

    fn attach(spec: &RegionSpec, path: &Path, file: Option<Arc<dyn File>>) -> Result<Region> {
        let env = spec.env.clone();
        let (kind, backend, base, len, map, watch, capacity) = match (&spec.place, &file) {
            (Place::Sim(sim), _) => {
                let capacity = spec.capacity.min(sim.capacity());
                let backend = Backend::Sim(sim.clone());
                (
                    RegionKind::Sim,
                    backend,
                    sim.base(),
                    sim.len(),
                    None,
                    None,
                    capacity,
                )
            }
            (Place::Path(_), Some(file)) => {
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
                let capacity = spec.capacity.max(len).next_multiple_of(PAGE as u64);
                let io = |e| Error::io("map", path, e);
                let fd = file.raw_fd().ok_or_else(|| {
                    Error::Unsupported(format!("{} cannot be mapped", path.display()))
                })?;
                let map = Reservation::reserve(index(capacity)).map_err(io)?;
                let kind = detect(&env, path, spec.demand, fd)?;
                if len > 0 {
                    let sync = kind == RegionKind::Dax;
                    map.map(fd, 0, index(len), !spec.read_only, sync)
                        .map_err(io)?;
                }
                let watch = Watch::new(map.base(), map.len()).ok_or_else(|| {
                    Error::Busy("this process has too many regions open at once".into())
                })?;
                let backend = if kind == RegionKind::File {
                    Backend::Msync
                } else {
                    Backend::Cpu
                };
                (
                    kind,
                    backend,
                    map.base(),
                    len,
                    Some(map),
                    Some(watch),
                    capacity,
                )
            }
            (Place::Path(_), None) => {
                return Err(Error::InvalidArgument(
                    "a region on a path needs its file".into(),
                ));
            }
        };
        Ok(Region {
            inner: Arc::new(Inner {
                kind,
                backend,
                base,
                len: AtomicU64::new(len),
                capacity,
                path: path.to_path_buf(),
                env,
                emulation: spec.emulation,
                read_only: spec.read_only,
                counters: Counters::default(),
                file,
                watch,
                map,
            }),
        })
    }

    /// Makes the bytes `[from, to)` part of the region, all zero and durable. `from` is the size
    /// that is in use; leftovers of an interrupted growth behind it are overwritten.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] if the device is full, with the region as it was.
    pub fn grow(&self, from: u64, to: u64) -> Result<()> {
        let inner = &*self.inner;
        assert!(
            from < to && to <= inner.capacity,
            "growth is checked against pm by the caller"
        );
        if let Backend::Sim(sim) = &inner.backend {
            sim.set_len(from, to, SITE_GROW);
            inner.len.store(to, Ordering::Release);
            return Ok(());
        }
        let (Some(file), Some(map)) = (&inner.file, &inner.map) else {
            return Err(Error::Unsupported("this region cannot grow".into()));
        };
        let mapped = self.len();
        if let Err(error) = self.initialise(file.as_ref(), from, to) {
            // Give back what was taken; the mapping never covered it.
            let _ = file.set_len(mapped);
            return Err(match error {
                Error::Io { source, .. } if device_is_full(&source) => Error::OutOfSpace(format!(
                    "the device of region {} is full: it cannot grow from {} to {}",
                    inner.path.display(),
                    format_size(from),
                    format_size(to)
                )),
                other => other,
            });
        }
        if to > mapped {
            let fd = file.raw_fd().unwrap_or(-1);
            let sync = inner.kind == RegionKind::Dax;
            map.map(fd, index(mapped), index(to), true, sync)
                .map_err(|e| Error::io("map", &inner.path, e))?;
            inner.len.store(to, Ordering::Release);
        }
        Ok(())
    }

    /// Zeroes `[from, to)` of the file in writes of 4 KiB (larger ones make the page cache sync in
    /// larger units, see the crate documentation) and syncs it.
    fn initialise(&self, file: &dyn File, from: u64, to: u64) -> Result<()> {
        const ZEROS: [u8; PAGE] = [0; PAGE];
        let written = file.len()?;
        file.allocate(from, to - from)?;
        // tmpfs hands out zeroed pages; elsewhere unwritten extents would turn every first sync
        // into a metadata write.
        let zero_to = if self.inner.kind == RegionKind::Shm {
            written.min(to)
        } else {
            to
        };
        let mut at = from;
        while at < zero_to {
            let n = (PAGE as u64).min(zero_to - at);
            file.write_at(&ZEROS[..index(n)], at)?;
            at += n;
        }
        if self.inner.kind == RegionKind::File {
            self.inner.counters.device(to - from);
        }
        file.sync(SITE_GROW)
    }
}

/// Whether there is no room for more: on the device, in a quota, or in the largest file allowed.
fn device_is_full(error: &std::io::Error) -> bool {
    let full = [libc::ENOSPC, libc::EDQUOT, libc::EFBIG];
    error
        .raw_os_error()
        .is_some_and(|code| full.contains(&code))
}

/// What kind of region `path` gives, held against what the user demands.
fn detect(env: &Env, path: &Path, demand: RegionDemand, fd: i32) -> Result<RegionKind> {
    let tmpfs = env.storage.fs_kind(path)? == FsKind::Tmpfs;
    let dax = !tmpfs && gives_sync(fd);
    let kind = match (dax, tmpfs) {
        (true, _) => RegionKind::Dax,
        (_, true) => RegionKind::Shm,
        _ => RegionKind::File,
    };
    let wanted = match demand {
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
