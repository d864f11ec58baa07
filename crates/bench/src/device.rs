//! What the operating system says of the device on which a folder lies.
//!
//! It is `/proc/diskstats`, as `iostat` reads it. The store's own counts do not do for this: a job that reads, merges and
//! writes one after the other (`compaction.scheduler=threads`) makes its reads and writes past what counts those of others.
//! The system counts everybody's, so nothing else may use the device meanwhile. It counts busy time in its own ticks of a
//! few milliseconds, in each of which one transfer is enough: a device with many short pauses counts as busier than it is.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use thermocline::Result;
use thermocline_env::{Env, OpenMode};

/// Where the system tells.
const STATISTICS: &str = "/proc/diskstats";

/// More than the system ever writes there.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// A device, by its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    major: u64,
    minor: u64,
}

/// What a device has done since the machine was started, for all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceUse {
    /// Time for which it had something to do, in milliseconds.
    pub busy_ms: u64,
    /// Reads and writes.
    pub transfers: u64,
    /// How long these took, each from when the system had it, added up, in milliseconds.
    pub waited_ms: u64,
}

impl Device {
    /// The one on which `folder` lies. What does not lie on one, such as tmpfs, has numbers that the system does not list.
    ///
    /// # Errors
    /// [`Error::Io`](thermocline::Error::Io) if there is no such folder.
    pub fn under(folder: &Path) -> Result<Device> {
        let failed = |source| thermocline::Error::io("look up the device of", folder, source);
        Ok(Device::of(folder.metadata().map_err(failed)?.dev()))
    }

    /// As the system packs both numbers into one.
    fn of(numbers: u64) -> Device {
        Device {
            major: ((numbers >> 8) & 0xfff) | ((numbers >> 32) & 0xffff_f000),
            minor: (numbers & 0xff) | ((numbers >> 12) & 0xffff_ff00),
        }
    }

    /// What it has done so far; `None` if the system does not say.
    pub fn usage(self) -> Option<DeviceUse> {
        let storage = Env::real().storage;
        let file = storage.open(Path::new(STATISTICS), OpenMode::Read).ok()?;
        let mut bytes = vec![0; TEXT_BYTES_MAX];
        let mut len = 0;
        while len < bytes.len() {
            match file.read_at(&mut bytes[len..], len as u64).ok()? {
                0 => break,
                read => len += read,
            }
        }
        self.find(&String::from_utf8_lossy(&bytes[..len]))
    }

    /// Its line in the system's statistics.
    fn find(self, statistics: &str) -> Option<DeviceUse> {
        statistics.lines().find_map(|line| {
            let mut fields = line.split_whitespace();
            let mut number = || fields.next()?.parse::<u64>().ok();
            if (number()?, number()?) != (self.major, self.minor) {
                return None;
            }
            // Behind the name: of reads and then of writes how many, merged, sectors, milliseconds; then those under way.
            fields.next()?;
            let all: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
            let [reads, _, _, reading, writes, _, _, writing, _, busy_ms, ..] = all[..] else {
                return None;
            };
            Some(DeviceUse {
                busy_ms,
                transfers: reads + writes,
                waited_ms: reading + writing,
            })
        })
    }
}

impl DeviceUse {
    /// What was done since `earlier`.
    #[must_use]
    pub fn since(self, earlier: DeviceUse) -> DeviceUse {
        DeviceUse {
            busy_ms: self.busy_ms.saturating_sub(earlier.busy_ms),
            transfers: self.transfers.saturating_sub(earlier.transfers),
            waited_ms: self.waited_ms.saturating_sub(earlier.waited_ms),
        }
    }

    /// The share of so many seconds for which it had something to do, at most 1.
    pub fn busy(self, seconds: f64) -> f64 {
        (self.busy_ms as f64 / 1e3 / seconds.max(f64::MIN_POSITIVE)).min(1.0)
    }

    /// How long a transfer took on average, in microseconds.
    pub fn transfer_us(self) -> f64 {
        self.waited_ms as f64 * 1e3 / self.transfers.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATISTICS: &str = "   7       0 loop0 1 0 2 3 4 5 6 7 0 8 9\n \
        254       0 vda 100 1 2000 30 50 2 4000 60 1 80 95 0 0 0 0 7 6\n \
        254       1 vda1 9 9 9 9\n";

    #[test]
    fn a_device_is_found_by_its_numbers() {
        let vda = Device::of(65024);
        assert_eq!((vda.major, vda.minor), (254, 0));
        let found = vda.find(STATISTICS);
        let used = DeviceUse {
            busy_ms: 80,
            transfers: 150,
            waited_ms: 90,
        };
        assert_eq!(found, Some(used));
        // A short line, as of old systems, and no line.
        let of = |major, minor| Device { major, minor }.find(STATISTICS);
        assert_eq!([of(254, 1), of(254, 2), of(0, 27)], [None; 3]);
        // The bits of either number lie in two places.
        let far = Device::of(0x0000_1abc_def1_2345);
        assert_eq!((far.major, far.minor), (0x1123, 0xabcd_ef45));
    }

    #[test]
    fn differences_become_shares_and_means() {
        let of = |busy_ms, transfers, waited_ms| DeviceUse {
            busy_ms,
            transfers,
            waited_ms,
        };
        let since = of(1500, 30, 90).since(of(1000, 10, 30));
        assert_eq!(since, of(500, 20, 60));
        assert_eq!((since.busy(1.0), since.busy(0.1)), (0.5, 1.0));
        assert_eq!(since.transfer_us(), 3000.0);
        assert_eq!(of(0, 0, 0).transfer_us(), 0.0);
    }

    #[test]
    fn a_folder_lies_on_something() {
        let folder = tempfile::tempdir().unwrap();
        let device = Device::under(folder.path()).unwrap();
        // Where the system says anything of it, that does not become less.
        if let Some(used) = device.usage() {
            assert!(device.usage().unwrap().busy_ms >= used.busy_ms);
        }
        assert!(Device::under(&folder.path().join("none")).is_err());
    }
}
