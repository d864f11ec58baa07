//! What is counted is what the operating system accounts to this process. Alone in its process, so
//! that nothing else is in the account.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::Site;
use thermocline_env::direct::DeviceBytes;
use thermocline_env::real::RealStorage;
use thermocline_env::{OpenMode, Storage};
use thermocline_exec::{BufPool, PAGE_BYTES, read_range, write_range};

/// How often the file is read, to see what the system accounts when nothing else is read beside it.
const READS: usize = 20;

/// Bytes that the kernel has read and written for this process, or `None` where it does not say.
fn account(storage: &dyn Storage) -> Option<(u64, u64)> {
    let file = storage.open(Path::new("/proc/self/io"), OpenMode::Read);
    let mut text = vec![0; 1000];
    let n = file.ok()?.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..n]).ok()?.to_string();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line?.trim().parse::<u64>().ok()
    };
    Some((value("read_bytes:")?, value("write_bytes:")?))
}

#[test]
fn counted_bytes_are_those_of_the_operating_system() {
    let storage = RealStorage::new();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("a");
    let pool = BufPool::new(1 << 20);
    let counter = Arc::new(DeviceBytes::default());
    let file = storage.open_direct(&path, OpenMode::CreateNew, &counter);
    let file = file.unwrap();
    if file.direct_unit().is_none() {
        println!("skipped: the file system refuses direct I/O");
        return;
    }
    let Some((_, before)) = account(&storage) else {
        println!("skipped: the operating system keeps no account");
        return;
    };
    let bytes: Vec<u8> = (0..1_000_003_u32).map(|i| i.to_le_bytes()[0]).collect();
    write_range(&*file, &pool, &bytes, 0).unwrap();
    let (_, after) = account(&storage).unwrap();
    // Beside it the file system may note something of its own: blocks that are taken now.
    let its_own = (after - before).checked_sub(counter.written());
    assert!(
        its_own.is_some_and(|bytes| bytes <= 16 * PAGE_BYTES as u64),
        "{its_own:?}"
    );
    let whole = bytes.len() - bytes.len() % PAGE_BYTES;
    assert_eq!(counter.direct_written(), whole as u64);
    assert_eq!(counter.cached_written(), PAGE_BYTES as u64);
    // Making it durable moves no more of the file. Where the file system notes its new length and
    // blocks is its own: that is not in a counter of files.
    let written = counter.written();
    file.sync(Site("test: durable")).unwrap();
    assert_eq!(counter.written(), written);
    drop(file);

    let counter = Arc::new(DeviceBytes::default());
    let file = storage
        .open_direct(&path, OpenMode::Read, &counter)
        .unwrap();
    // The system accounts to us what it reads of this program, too, where it has dropped pages of it for want of memory.
    // That is only ever more; so what was counted is the least that is accounted.
    let mut beside = Vec::new();
    for _ in 0..READS {
        let (before, counted) = (account(&storage).unwrap().0, counter.direct_read());
        let (mut offset, mut len) = (0_u64, 1);
        while offset + len as u64 <= bytes.len() as u64 {
            let at = usize::try_from(offset).unwrap();
            let got = read_range(&*file, &pool, offset, len).unwrap();
            assert!(*got == bytes[at..at + len]);
            offset += 37_199;
            len = len * 7 % 20_011;
        }
        let rest = 5_000;
        let got = read_range(&*file, &pool, (bytes.len() - rest) as u64, rest).unwrap();
        assert!(*got == bytes[bytes.len() - rest..], "over the end");
        let read = account(&storage).unwrap().0 - before;
        let counted = counter.direct_read() - counted;
        assert!(counted > 20 * PAGE_BYTES as u64);
        assert!(read >= counted, "{read} and {counted}");
        beside.push(read - counted);
    }
    assert_eq!(counter.cached_read(), 0);
    assert!(beside.contains(&0), "{beside:?}");
}
