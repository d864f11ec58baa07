//! How should a region on an ordinary file persist? Measures appends of about a kilobyte, each
//! durable before the next, by the methods that could stand behind the seam in
//! `pm::backend`. Run it on the disk in question, with nothing else running:
//!
//! ```text
//! cargo run --release -p thermocline-pm --features examples --example persist_spike -- FOLDER
//! ```
#![expect(
    clippy::disallowed_methods,
    reason = "measures the system calls themselves"
)]

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

const FILE: usize = 64 << 20;
const ITEM: usize = 1088;
const APPENDS: usize = 5000;

fn device_bytes_written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io
        .lines()
        .find(|l| l.starts_with("write_bytes"))
        .unwrap_or("x: 0");
    line.rsplit(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}

fn init(path: &Path, chunk: usize) -> File {
    let _ = std::fs::remove_file(path);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .expect("create");
    let zeros = vec![0u8; chunk];
    for i in 0..FILE / chunk {
        file.write_all_at(&zeros, (i * chunk) as u64)
            .expect("write");
    }
    file.sync_all().expect("fsync");
    file
}

fn report(name: &str, run: impl FnOnce()) {
    let before = device_bytes_written();
    let start = Instant::now();
    run();
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{name:<58} {:>7.0} appends/s  {:>7.1} KiB/append",
        APPENDS as f64 / seconds,
        (device_bytes_written() - before) as f64 / 1024.0 / APPENDS as f64
    );
}

fn mmap_msync(file: &File, advise_random: bool, read_first: bool) {
    // SAFETY: a fresh shared mapping of a file that this process alone uses.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            FILE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    assert_ne!(base, libc::MAP_FAILED);
    let base = base.cast::<u8>();
    let item = [7u8; ITEM];
    // SAFETY: every access lies within the mapping made above.
    unsafe {
        if advise_random {
            libc::madvise(base.cast(), FILE, libc::MADV_RANDOM);
        }
        if read_first {
            let mut sum = 0u64;
            for i in (0..FILE).step_by(4096) {
                sum += u64::from(base.add(i).read_volatile());
            }
            std::hint::black_box(sum);
        }
        for i in 0..APPENDS {
            let off = i * ITEM;
            base.add(off).copy_from(item.as_ptr(), ITEM);
            let page = off & !4095;
            let len = (off + ITEM).next_multiple_of(4096) - page;
            assert_eq!(libc::msync(base.add(page).cast(), len, libc::MS_SYNC), 0);
        }
        libc::munmap(base.cast(), FILE);
    }
}

fn drop_cache(file: &File) {
    // SAFETY: plain system call on an open descriptor.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

fn main() {
    let dir = std::env::args()
        .nth(1)
        .expect("usage: persist_spike FOLDER");
    let path = Path::new(&dir).join("persist-spike.tmp");
    let file = init(&path, 4096);
    report("mmap + msync, initialised in 4 KiB writes", || {
        mmap_msync(&file, false, false)
    });
    let file = init(&path, 1 << 20);
    report("mmap + msync, initialised in 1 MiB writes", || {
        mmap_msync(&file, false, false)
    });
    for (name, random) in [("", false), (", MADV_RANDOM", true)] {
        let file = init(&path, 4096);
        drop_cache(&file);
        report(&format!("mmap + msync, reopened cold{name}"), || {
            mmap_msync(&file, random, false)
        });
        let file = init(&path, 4096);
        drop_cache(&file);
        report(
            &format!("mmap + msync, reopened and read through{name}"),
            || {
                mmap_msync(&file, random, true);
            },
        );
    }
    let file = init(&path, 4096);
    report("pwrite + fdatasync", || {
        for i in 0..APPENDS {
            file.write_all_at(&[7u8; ITEM], (i * ITEM) as u64)
                .expect("write");
            file.sync_data().expect("fdatasync");
        }
    });
    for (name, align) in [("4 KiB", 4096usize), ("512 B", 512)] {
        let _ = init(&path, 4096);
        let direct = OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_DIRECT | libc::O_DSYNC)
            .open(&path)
            .expect("O_DIRECT");
        let layout = std::alloc::Layout::from_size_align(FILE, 4096).expect("layout");
        // SAFETY: a zeroed image of the file, never freed: the process ends soon.
        let image =
            unsafe { std::slice::from_raw_parts_mut(std::alloc::alloc_zeroed(layout), FILE) };
        report(
            &format!("DRAM image + O_DIRECT|O_DSYNC, {name} blocks"),
            || {
                for i in 0..APPENDS {
                    let off = i * ITEM;
                    image[off..off + ITEM].fill(7);
                    let (from, to) = (off / align * align, (off + ITEM).next_multiple_of(align));
                    direct
                        .write_all_at(&image[from..to], from as u64)
                        .expect("direct write");
                }
            },
        );
    }
    let _ = std::fs::remove_file(&path);
}
