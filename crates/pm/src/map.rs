//! Reserving, mapping and syncing memory.
//!
//! Invariant **M1**: a [`Reservation`] owns its address range from `reserve` until drop; nothing
//! else in the process maps there.
#![expect(unsafe_code, reason = "mapping has no safe interface")]

use std::io;

/// An address range of `len` bytes, of which the front is mapped to a file.
#[derive(Debug)]
pub(crate) struct Reservation {
    base: *mut u8,
    len: usize,
}

// SAFETY: a plain address range; who may touch its bytes is governed by `region` (crate invariants
// 1-3), not by which thread holds this struct.
unsafe impl Send for Reservation {}
// SAFETY: as above; `&self` methods only make system calls that the kernel serialises.
unsafe impl Sync for Reservation {}

/// Maps a page of a file so, and gives it up: whether the file system takes such mappings. Asked at an address of the
/// kernel's choice: a refused `MAP_FIXED` mapping may already have taken away what it was to replace, and then another
/// thread's pages could come to lie in a reservation (M1), and go with it.
fn ask(fd: i32, prot: libc::c_int, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: asks for fresh addresses anywhere; nothing existing is touched.
    let got = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, prot, flags, fd, 0) };
    if got == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the page was mapped above and nobody knows it.
    unsafe { libc::munmap(got, PAGE) };
    Ok(())
}

/// Whether the file system of `fd` grants `MAP_SYNC` mappings, which only DAX does.
pub(crate) fn gives_sync(fd: i32) -> bool {
    let flags = libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC;
    ask(fd, libc::PROT_READ, flags).is_ok()
}

/// How a mapping and its file share changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Stores go to the file.
    Shared,
    /// They do, and its metadata is durable by then: `MAP_SYNC`, which only DAX gives.
    Sync,
    /// A page shows the file until it is stored to, and is memory of the process's own from then on.
    Private,
}

/// Makes a call again that a signal has ended: that says nothing of the device, and a store would be poisoned by it.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            answer => return answer,
        }
    }
}

/// The page size that everything here is a multiple of.
pub(crate) const PAGE: usize = 4096;

/// The size of a huge page. Such pages need addresses that are multiples of it, and places in their file that are.
const HUGE: usize = 2 << 20;

impl Reservation {
    /// Reserves addresses without memory behind them; where a huge page fits, they begin as one does.
    pub fn reserve(len: usize) -> io::Result<Reservation> {
        // No process has so many.
        let too_many = || io::Error::from(io::ErrorKind::OutOfMemory);
        let len = len.checked_next_multiple_of(PAGE).ok_or_else(too_many)?;
        let whole = Reservation::reserve_anywhere(match len < HUGE {
            true => len,
            false => len.checked_add(HUGE - PAGE).ok_or_else(too_many)?,
        })?;
        let skip = match len < HUGE {
            true => 0,
            false => whole.base.addr().next_multiple_of(HUGE) - whole.base.addr(),
        };
        Ok(whole.cut(skip, len))
    }

    /// Gives up what lies before and behind `[skip, skip + len)`.
    fn cut(self, skip: usize, len: usize) -> Reservation {
        let whole = std::mem::ManuallyDrop::new(self);
        let behind = skip + len;
        for (from, to) in [(0, skip), (behind, whole.len)] {
            if from < to {
                // SAFETY: M1: the range is ours, and nobody has a slice of it, since nothing is mapped there yet.
                unsafe { libc::munmap(whole.base.add(from).cast(), to - from) };
            }
        }
        Reservation {
            // SAFETY: it lies within what was reserved.
            base: unsafe { whole.base.add(skip) },
            len,
        }
    }

    fn reserve_anywhere(len: usize) -> io::Result<Reservation> {
        // SAFETY: asks for fresh addresses anywhere; nothing existing is touched.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Reservation {
            base: base.cast(),
            len,
        })
    }

    /// Maps `[from, to)` of the file there.
    pub fn map(
        &self,
        fd: i32,
        from: usize,
        to: usize,
        write: bool,
        sharing: Sharing,
    ) -> io::Result<()> {
        assert!(
            from < to && to <= self.len && from.is_multiple_of(PAGE) && to.is_multiple_of(PAGE)
        );
        let prot = if write {
            libc::PROT_READ | libc::PROT_WRITE
        } else {
            libc::PROT_READ
        };
        let flags = match sharing {
            Sharing::Shared => libc::MAP_SHARED,
            Sharing::Sync => libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC,
            Sharing::Private => libc::MAP_PRIVATE | libc::MAP_NORESERVE,
        };
        let offset = libc::off_t::try_from(from).map_err(io::Error::other)?;
        ask(fd, prot, flags)?;
        // SAFETY: M1: the range is ours, so MAP_FIXED replaces only our own pages.
        let got = unsafe {
            libc::mmap(
                self.base.add(from).cast(),
                to - from,
                prot,
                flags | libc::MAP_FIXED,
                fd,
                offset,
            )
        };
        if got == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Forbids all access to `[from, to)`, whose bytes the file may lose then. The mapping stays until another one takes
    /// its place: an `mmap` in its place that finds no memory may have taken it away before, and another thread's pages could
    /// come to lie there (M1).
    pub fn forbid(&self, from: usize, to: usize) -> io::Result<()> {
        assert!(
            from < to && to <= self.len && from.is_multiple_of(PAGE) && to.is_multiple_of(PAGE)
        );
        // SAFETY: M1: the range is ours. That nobody has a slice of it is what the caller promises (`Region::shrink`).
        let rc = unsafe { libc::mprotect(self.base.add(from).cast(), to - from, libc::PROT_NONE) };
        match rc {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Puts memory of the process's own, all zeros, behind `[from, to)`, which has nothing behind it yet.
    pub fn back(&self, from: usize, to: usize) -> io::Result<()> {
        assert!(
            from < to && to <= self.len && from.is_multiple_of(PAGE) && to.is_multiple_of(PAGE)
        );
        // SAFETY: M1: the range is ours. It was reserved as private anonymous memory, which reads as
        // zeros from now on.
        let rc = unsafe {
            libc::mprotect(
                self.base.add(from).cast(),
                to - from,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
        match rc {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Writes the pages of `[off, off + len)` to the device and waits.
    pub fn sync(&self, off: usize, len: usize) -> io::Result<usize> {
        let from = off / PAGE * PAGE;
        let to = (off + len).next_multiple_of(PAGE).min(self.len);
        uninterrupted(|| {
            // SAFETY: M1; msync changes no contents.
            match unsafe { libc::msync(self.base.add(from).cast(), to - from, libc::MS_SYNC) } {
                0 => Ok(to - from),
                _ => Err(io::Error::last_os_error()),
            }
        })
    }

    /// Asks for the pages of `[off, off + len)` to be present, so that the first touch of each
    /// does not fault. A hint: failure is no error.
    pub fn populate(&self, off: usize, len: usize, write: bool) {
        let from = off / PAGE * PAGE;
        let to = (off + len).next_multiple_of(PAGE).min(self.len);
        let advice = if write {
            libc::MADV_POPULATE_WRITE
        } else {
            libc::MADV_POPULATE_READ
        };
        // SAFETY: M1; populating changes no contents.
        unsafe { libc::madvise(self.base.add(from).cast(), to - from, advice) };
    }

    /// Bytes of huge pages in it, by what the system says of all mappings of the process (`/proc/self/smaps`).
    pub fn huge_bytes(&self, mappings: &str) -> u64 {
        let first = self.base.addr();
        let ours = first..first + self.len;
        let mut inside = false;
        let mut kib = 0;
        for line in mappings.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(name), value) = (words.next(), words.next()) else {
                continue;
            };
            match name {
                "AnonHugePages:" | "ShmemPmdMapped:" | "FilePmdMapped:" if inside => {
                    kib += value.and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
                }
                // A mapping begins with its addresses.
                _ if !name.ends_with(':') => {
                    let (start, _) = name.split_once('-').unwrap_or_default();
                    let start = usize::from_str_radix(start, 16);
                    inside = start.is_ok_and(|start| ours.contains(&start));
                }
                _ => {}
            }
        }
        kib << 10
    }

    pub fn base(&self) -> *mut u8 {
        self.base
    }

    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: M1: the range is ours, and the owner is gone, so no slice of it is left.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn what_holds_a_huge_page_begins_as_one_does_and_takes_no_more() {
        // Alone in a process: what tests beside it reserve right behind counts as one mapping with ours.
        if std::env::var_os("ALONE").is_none() {
            let name = "what_holds_a_huge_page_begins_as_one_does_and_takes_no_more";
            let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
            let alone = alone.args(["--exact", &format!("map::tests::{name}")]);
            let ran = alone.env("ALONE", "").output().unwrap();
            let says = String::from_utf8_lossy(&ran.stdout);
            assert!(ran.status.success() && says.contains(" 1 passed"), "{says}");
            return;
        }
        for len in [PAGE, HUGE - PAGE, HUGE, HUGE + PAGE, 5 * HUGE] {
            // Several, since one may lie well by chance.
            let all: Vec<_> = (0..8).map(|_| Reservation::reserve(len).unwrap()).collect();
            for map in &all {
                assert_eq!(map.len(), len);
                assert!(len < HUGE || map.base().addr().is_multiple_of(HUGE));
            }
            let mut starts: Vec<usize> = all.iter().map(|map| map.base().addr()).collect();
            starts.sort_unstable();
            assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= len));
            let mappings = std::fs::read_to_string("/proc/self/maps").unwrap();
            for map in &all {
                let end = format!("{:x}", map.base().addr() + len);
                let ends = |line: &str| {
                    let (range, _) = line.split_once(' ').unwrap();
                    let (from, to) = range.split_once('-').unwrap();
                    from == end || to == end
                };
                let next_begins = starts.contains(&(map.base().addr() + len));
                assert!(
                    next_begins || mappings.lines().any(ends),
                    "of {len} more is there"
                );
            }
        }
    }

    #[test]
    fn huge_pages_are_counted_where_they_are_ours() {
        let map = Reservation::reserve(3 * HUGE).unwrap();
        let first = map.base().addr();
        let mapping = |from: usize, kind: &str, kib: u64| {
            let to = from + HUGE;
            format!(
                "{from:x}-{to:x} rw-s 00000000 00:1b 42    /dev/shm/a b: c\nSize: 2048 kB\nAnonHugePages: 0 kB\n\
                 {kind}: {kib} kB\nVmFlags: rd wr\n"
            )
        };
        let mappings = [
            mapping(first - HUGE, "ShmemPmdMapped", 2048),
            mapping(first, "ShmemPmdMapped", 2048),
            mapping(first + HUGE, "FilePmdMapped", 4),
            mapping(first + 2 * HUGE, "AnonHugePages", 1024),
            mapping(first + 3 * HUGE, "ShmemPmdMapped", 2048),
        ];
        assert_eq!(map.huge_bytes(&mappings.concat()), 3076 << 10);
        assert_eq!(map.huge_bytes("no such text\n\n:"), 0);
    }

    #[test]
    fn a_signal_ends_no_call_for_good_and_an_error_does() {
        let answers = |all: [i32; 3]| {
            let mut calls = 0;
            let answer = uninterrupted(|| {
                calls += 1;
                match all[calls - 1] {
                    0 => Ok(calls),
                    code => Err(io::Error::from_raw_os_error(code)),
                }
            });
            answer.map_err(|error| (error.raw_os_error(), calls))
        };
        assert_eq!(answers([libc::EINTR, libc::EINTR, 0]), Ok(3));
        let failed = Err((Some(libc::EIO), 2));
        assert_eq!(answers([libc::EINTR, libc::EIO, 0]), failed);
    }

    fn is_whole(map: &Reservation) -> bool {
        let mut present = vec![0u8; map.len() / PAGE];
        // SAFETY: the range is reserved, and there is a byte for each page.
        let rc = unsafe { libc::mincore(map.base().cast(), map.len(), present.as_mut_ptr()) };
        rc == 0
    }

    #[test]
    fn asking_for_sync_takes_no_page_out_of_a_reservation() {
        let file = tempfile::tempfile().unwrap();
        let map = Reservation::reserve(4 * PAGE).unwrap();
        gives_sync(file.as_raw_fd());
        assert!(is_whole(&map), "a page of the reservation is unmapped");
    }

    #[test]
    fn what_a_file_is_to_lose_is_forbidden_and_stays_in_its_place() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 * PAGE as u64).unwrap();
        let map = Reservation::reserve(4 * PAGE).unwrap();
        map.map(file.as_raw_fd(), 0, 4 * PAGE, true, Sharing::Shared)
            .unwrap();
        map.forbid(2 * PAGE, 4 * PAGE).unwrap();
        let start = format!("{:x}-", map.base().addr() + 2 * PAGE);
        let mappings = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut lines = mappings.lines();
        let line = lines.find(|line| line.starts_with(&start)).unwrap();
        assert_eq!(line.split_ascii_whitespace().nth(1), Some("---s"), "{line}");
        file.set_len(2 * PAGE as u64).unwrap();
        assert!(is_whole(&map), "a page of the reservation is unmapped");
    }

    /// Some file systems refuse a mapping only when the kernel has made room for it: FUSE and 9p do so with shared ones, and
    /// ext4 with those of DAX. A broken reservation has a hole then, into which the next mapping of another thread may
    /// fall; and it unmaps that, too, when it goes.
    #[test]
    fn a_refused_mapping_takes_no_page_out_of_a_reservation() {
        let file = tempfile::tempfile().unwrap();
        let map = Reservation::reserve(4 * PAGE).unwrap();
        // Where it is granted all is well, too.
        let _ = map.map(file.as_raw_fd(), 0, 2 * PAGE, false, Sharing::Sync);
        assert!(is_whole(&map), "a page of the reservation is unmapped");
    }
}
