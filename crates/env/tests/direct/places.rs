//! Where the tests run.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_base::{Site, Steps};
use thermocline_env::direct::{DIRECT_UNIT, DeviceBytes};
use thermocline_env::fault::{Choppy, FaultStorage};
use thermocline_env::real::{Kernel, RealStorage, Syscalls};
use thermocline_env::sim::SimFs;
use thermocline_env::{File, OpenMode, Storage};

pub const SITE: Site = Site("test: durable");
pub const UNIT: usize = DIRECT_UNIT;

/// Memory in which a piece lies at a multiple of the unit, or a little behind one.
pub struct Memory(Vec<u8>);

impl Memory {
    pub fn filled(len: usize, byte: u8) -> Memory {
        Memory(vec![byte; len + 2 * UNIT])
    }

    pub fn at(&mut self, len: usize, shift: usize) -> &mut [u8] {
        let over = self.0.as_ptr().addr() % UNIT;
        let start = (UNIT - over) % UNIT + shift;
        &mut self.0[start..start + len]
    }
}

pub struct Place {
    pub name: &'static str,
    pub storage: Arc<dyn Storage>,
    pub dir: PathBuf,
    /// Whether files are direct here, where that is known.
    pub direct: Option<bool>,
    _held: Option<tempfile::TempDir>,
}

pub fn on(
    name: &'static str,
    storage: Arc<dyn Storage>,
    folder: &Path,
    direct: Option<bool>,
) -> Place {
    let held = tempfile::tempdir_in(folder).unwrap();
    Place {
        name,
        storage,
        dir: held.path().to_path_buf(),
        direct,
        _held: Some(held),
    }
}

pub fn simulated(name: &'static str, direct: bool) -> (Place, SimFs) {
    let sim = SimFs::new(Steps::new());
    sim.refuse_direct(!direct);
    let place = Place {
        name,
        storage: Arc::new(sim.clone()),
        dir: PathBuf::from("/"),
        direct: Some(direct),
        _held: None,
    };
    (place, sim)
}

pub fn disk_folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

pub fn places() -> Vec<Place> {
    let real = || Arc::new(RealStorage::new());
    let choppy = |most| Arc::new(RealStorage::with_syscalls(Arc::new(Choppy::new(most))));
    let refusing = |refusal| Arc::new(RealStorage::with_syscalls(Arc::new(refusal)));
    let mut places = vec![
        on("disk", real(), disk_folder(), None),
        on(
            "disk, short and interrupted",
            choppy(UNIT + 512),
            disk_folder(),
            None,
        ),
        on(
            "disk, refused",
            refusing(Refusing::opening(false)),
            disk_folder(),
            Some(false),
        ),
        on(
            "disk, failing",
            refusing(Refusing::opening(true)),
            disk_folder(),
            Some(false),
        ),
        simulated("simulated", true).0,
        simulated("simulated, refused", false).0,
        Place {
            name: "no faults",
            storage: Arc::new(FaultStorage::over_sim(SimFs::new(Steps::new()))),
            dir: PathBuf::from("/"),
            direct: Some(true),
            _held: None,
        },
    ];
    let shm = Path::new("/dev/shm");
    if shm.is_dir() {
        places.push(on("memory", real(), shm, Some(false)));
    }
    places
}

/// A kernel that refuses direct I/O at opening, or at the transfers from one on.
#[derive(Debug)]
pub struct Refusing {
    opening: Option<bool>,
    transfers_left: AtomicU64,
    direct: std::sync::Mutex<Vec<i32>>,
}

impl Refusing {
    pub fn opening(by_error: bool) -> Refusing {
        Refusing {
            opening: Some(by_error),
            ..Refusing::after(0)
        }
    }

    pub fn after(transfers: u64) -> Refusing {
        Refusing {
            opening: None,
            transfers_left: AtomicU64::new(transfers),
            direct: std::sync::Mutex::default(),
        }
    }

    fn answer(&self, file: &std::fs::File) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        if self.direct.lock().unwrap().contains(&file.as_raw_fd()) {
            let left = self.transfers_left.load(Ordering::SeqCst);
            if left == 0 {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            self.transfers_left.store(left - 1, Ordering::SeqCst);
        }
        Ok(())
    }
}

impl Syscalls for Refusing {
    fn pread(&self, file: &std::fs::File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.answer(file)?;
        Kernel.pread(file, buf, offset)
    }

    fn pwrite(&self, file: &std::fs::File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.answer(file)?;
        Kernel.pwrite(file, bytes, offset)
    }

    fn fsync(&self, file: &std::fs::File) -> io::Result<()> {
        Kernel.fsync(file)
    }

    fn set_direct(&self, file: &std::fs::File, direct: bool) -> io::Result<bool> {
        use std::os::fd::AsRawFd;
        match self.opening {
            Some(true) => return Err(io::ErrorKind::PermissionDenied.into()),
            Some(false) => return Ok(false),
            None => {}
        }
        let mut all = self.direct.lock().unwrap();
        all.retain(|fd| *fd != file.as_raw_fd());
        if direct {
            all.push(file.as_raw_fd());
        }
        Ok(true)
    }
}

pub fn open(place: &Place, name: &str, mode: OpenMode) -> (Arc<dyn File>, Arc<DeviceBytes>) {
    let counter = Arc::new(DeviceBytes::default());
    let path = place.dir.join(name);
    let file = place.storage.open_direct(&path, mode, &counter).unwrap();
    (file, counter)
}
