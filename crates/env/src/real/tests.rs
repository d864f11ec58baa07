use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::fault::Choppy;
use crate::sim::SimFs;
use thermocline_base::{ErrorKind, Steps};

const SITE: Site = Site("test: durable");

/// A rename that replaces would leave one file of the two.
fn takes_no_name_from_another(storage: &dyn Storage, dir: &Path) {
    let [a, b, c] = ["a", "b", "c"].map(|name| dir.join(name));
    for path in [&a, &b] {
        storage.open(path, OpenMode::CreateNew).unwrap();
    }
    for taken in [b.as_path(), dir] {
        let refused = kind_of(storage.rename_new(&a, taken));
        assert_eq!(refused, io::ErrorKind::AlreadyExists);
    }
    let missing = storage.rename_new(&dir.join("none"), &c);
    assert_eq!(kind_of(missing), io::ErrorKind::NotFound);
    assert_eq!(storage.list(dir).unwrap(), ["a", "b"]);
    storage.rename_new(&a, &c).unwrap();
    assert_eq!(storage.list(dir).unwrap(), ["b", "c"]);
    storage.remove(&b).unwrap();
    storage.remove(&c).unwrap();
}

/// A folder is no file, and a file no folder, whatever is done with either.
fn tells_files_from_folders(storage: &dyn Storage, dir: &Path) {
    let [file, folder, gone] = ["file", "folder", "gone"].map(|name| dir.join(name));
    storage.create_dir_all(&folder).unwrap();
    storage.open(&file, OpenMode::CreateNew).unwrap();
    for mode in [OpenMode::Read, OpenMode::ReadWrite] {
        let opened = storage.open(&folder, mode);
        assert_eq!(kind_of(opened), io::ErrorKind::InvalidInput);
    }
    let locked = storage.lock(&folder);
    assert_eq!(kind_of(locked), io::ErrorKind::InvalidInput);
    let locked = storage.lock_shared(&folder);
    assert_eq!(kind_of(locked), io::ErrorKind::InvalidInput);
    let replaced = storage.rename(&file, &folder);
    assert_eq!(kind_of(replaced), io::ErrorKind::IsADirectory);
    assert_eq!(storage.list(dir).unwrap(), ["file", "folder"]);
    for (path, kind) in [
        (&file, io::ErrorKind::NotADirectory),
        (&gone, io::ErrorKind::NotFound),
    ] {
        assert_eq!(kind_of(storage.list(path)), kind);
        assert_eq!(kind_of(storage.hold_folder(path)), kind);
        assert_eq!(kind_of(storage.is_folder_held(path)), kind);
        let unsynced = storage.sync_dir(path, SITE).unwrap_err();
        assert!(!unsynced.is_failed_sync(), "it has not begun: {unsynced}");
        assert_eq!(kind_of::<()>(Err(unsynced)), kind);
    }
    let below = file.join("below");
    for path in [below.join("that"), below, gone] {
        assert!(!storage.exists(&path).unwrap() && !storage.is_dir(&path).unwrap());
    }
}

/// What every [`Storage`] promises; the simulator must not differ from the operating system.
fn keeps_its_promises(storage: &dyn Storage, dir: &Path) {
    let inner = dir.join("x/y");
    storage.create_dir_all(&inner).unwrap();
    storage.create_dir_all(&inner).unwrap();
    assert!(storage.is_dir(&inner).unwrap() && storage.exists(&inner).unwrap());
    let (a, b, gone) = (inner.join("a"), inner.join("b"), inner.join("gone"));
    for mode in [OpenMode::Read, OpenMode::ReadWrite] {
        assert_eq!(kind_of(storage.open(&gone, mode)), io::ErrorKind::NotFound);
    }
    let file = storage.open(&a, OpenMode::CreateNew).unwrap();
    let again = storage.open(&a, OpenMode::CreateNew);
    assert_eq!(kind_of(again), io::ErrorKind::AlreadyExists);
    assert!(file.is_empty().unwrap());
    file.write_at(&[7; 10_000], 5).unwrap();
    assert_eq!(file.len().unwrap(), 10_005);
    let mut buf = vec![1; 20_000];
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), 10_005);
    assert!(buf[..5] == [0; 5] && buf[5..10_005].iter().all(|b| *b == 7));
    assert_eq!(file.read_at(&mut buf, 10_005).unwrap(), 0);
    assert_eq!(file.read_at(&mut buf, 1 << 40).unwrap(), 0);
    let short = file.read_exact_at(&mut buf, 0);
    assert_eq!(kind_of(short), io::ErrorKind::UnexpectedEof);
    file.set_len(3).unwrap();
    file.allocate(0, 9000).unwrap();
    assert_eq!(file.len().unwrap(), 9000);
    file.allocate(0, 10).unwrap();
    assert_eq!(file.len().unwrap(), 9000, "allocating never cuts");
    file.allocate(1 << 20, 0).unwrap();
    file.reserve_behind(1 << 20, 0).unwrap();
    assert_eq!(file.len().unwrap(), 9000, "nothing makes no file longer");
    file.read_exact_at(&mut buf[..9000], 0).unwrap();
    assert!(buf[..9000].iter().all(|b| *b == 0));
    file.sync(SITE).unwrap();
    storage.sync_dir(&inner, SITE).unwrap();

    storage.open(&b, OpenMode::CreateNew).unwrap();
    assert_eq!(storage.list(&inner).unwrap(), ["a", "b"]);
    storage.rename(&a, &b).unwrap();
    assert_eq!(storage.list(&inner).unwrap(), ["b"]);
    assert_eq!(storage.list(&dir.join("x")).unwrap(), ["y"]);
    let read = storage.open(&b, OpenMode::Read).unwrap();
    assert_eq!(read.len().unwrap(), 9000);
    assert!(read.write_at(b"x", 0).is_err(), "it was opened for reading");
    let second = dir.join("x/second");
    storage.link(&b, &second).unwrap();
    assert_eq!(
        kind_of(storage.link(&b, &second)),
        io::ErrorKind::AlreadyExists
    );
    assert_eq!(kind_of(storage.link(&a, &gone)), io::ErrorKind::NotFound);
    storage.remove(&b).unwrap();
    let read = storage.open(&second, OpenMode::ReadWrite).unwrap();
    assert_eq!(read.len().unwrap(), 9000);
    storage.link(&second, &b).unwrap();
    read.write_at(b"both", 0).unwrap();
    let mut bytes = [0; 4];
    let other = storage.open(&b, OpenMode::Read).unwrap();
    other.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"both", "one file with two names");
    storage.remove(&second).unwrap();
    storage.remove(&b).unwrap();
    assert_eq!(kind_of(storage.remove(&b)), io::ErrorKind::NotFound);
    assert_eq!(kind_of(storage.rename(&a, &b)), io::ErrorKind::NotFound);
    assert_eq!(kind_of(storage.list(&gone)), io::ErrorKind::NotFound);
    takes_no_name_from_another(storage, &inner);
    let within = |one: &Path, other: &Path| storage.is_within(one, other).unwrap();
    assert!(within(&inner, dir) && within(&inner, &inner) && !within(dir, &inner));
    assert_eq!(
        kind_of(storage.sync_dir(&gone, SITE)),
        io::ErrorKind::NotFound
    );
    assert!(!storage.exists(&b).unwrap() && !storage.is_dir(&b).unwrap());
    assert_eq!(kind_of(storage.fs_kind(&gone)), io::ErrorKind::NotFound);

    let lock_file = inner.join("LOCK");
    let guard = storage.lock(&lock_file).unwrap();
    match storage.lock(&lock_file) {
        Err(Error::Locked { path, pid }) => {
            assert_eq!((path, pid), (inner.clone(), std::process::id()));
        }
        other => panic!("{other:?}"),
    }
    drop(guard);
    drop(storage.lock(&lock_file).unwrap());
    assert!(!storage.is_folder_held(&inner).unwrap());
    let first = storage.hold_folder(&inner).unwrap().unwrap();
    let second = storage.hold_folder(&inner).unwrap().unwrap();
    for guard in [first, second] {
        assert!(storage.is_folder_held(&inner).unwrap());
        assert!(!storage.is_folder_held(dir).unwrap());
        drop(storage.lock(&lock_file).unwrap());
        drop(guard);
    }
    assert!(!storage.is_folder_held(&inner).unwrap());
    tells_files_from_folders(storage, &dir.join("kinds"));
}

fn kind_of<T>(answer: Result<T>) -> io::ErrorKind {
    match answer.map(|_| ()).unwrap_err() {
        Error::Io { source, .. } => source.kind(),
        other => panic!("{other}"),
    }
}

#[test]
fn the_operating_system_keeps_the_promises() {
    let dir = tempfile::tempdir().unwrap();
    keeps_its_promises(&RealStorage::new(), dir.path());
}

/// No name is taken first, with an empty file, which would stay if the process was killed then. No file system links a folder, so
/// one stands for a file where there are no hard links.
#[test]
fn what_cannot_be_linked_gets_a_new_name_in_one_step() {
    let dir = tempfile::tempdir().unwrap();
    let storage = RealStorage::new();
    let [from, to, taken] = ["from", "to", "taken"].map(|name| dir.path().join(name));
    storage.create_dir_all(&from).unwrap();
    storage.open(&taken, OpenMode::CreateNew).unwrap();
    let refused = kind_of(storage.rename_new(&from, &taken));
    assert_eq!(refused, io::ErrorKind::AlreadyExists);
    storage.rename_new(&from, &to).unwrap();
    assert_eq!(storage.list(dir.path()).unwrap(), ["taken", "to"]);
    assert!(storage.is_dir(&to).unwrap());
}

#[test]
fn interruptions_and_partial_transfers_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let choppy = Arc::new(Choppy::new(333));
    keeps_its_promises(&RealStorage::with_syscalls(choppy.clone()), dir.path());
    assert!(choppy.calls() > 200, "{}", choppy.calls());
}

#[test]
fn the_simulator_keeps_the_promises() {
    keeps_its_promises(&SimFs::new(Steps::new()), Path::new("/t"));
    keeps_its_promises(&SimFs::new(Steps::new()), Path::new("t"));
}

#[test]
fn folders_and_files_are_their_owners_only() {
    let dir = tempfile::tempdir().unwrap();
    let storage = RealStorage::new();
    let inner = dir.path().join("x/y");
    storage.create_dir_all(&inner).unwrap();
    let file = inner.join("a");
    storage.open(&file, OpenMode::CreateNew).unwrap();
    let lock_file = inner.join("LOCK");
    let _guard = storage.lock(&lock_file).unwrap();
    for (path, mode) in [
        (dir.path().join("x"), 0o700),
        (inner, 0o700),
        (file, 0o600),
        (lock_file, 0o600),
    ] {
        let got = path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(got, mode, "{}", path.display());
    }
}

/// As it is the parent of a file's name that stands alone.
#[test]
fn the_empty_path_is_the_current_folder() {
    let (storage, here) = (RealStorage::new(), Path::new(""));
    storage.sync_dir(here, SITE).unwrap();
    assert!(storage.hold_folder(here).unwrap().is_some());
    assert!(!storage.is_folder_held(here).unwrap());
    let [one, other] = ["there is no such file", "nor this one"].map(Path::new);
    let missing = storage.rename_and_sync(one, other, here, SITE);
    let text = missing.unwrap_err().to_string();
    assert!(text.starts_with("cannot rename"), "{text}");
}

#[test]
fn a_file_where_a_folder_should_be_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let storage = RealStorage::new();
    let file = dir.path().join("a");
    storage.open(&file, OpenMode::CreateNew).unwrap();
    for path in [file.clone(), file.join("b")] {
        let error = storage.create_dir_all(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("/a"), "{error}");
    }
}

/// A data disk may be mounted on a file system that is only read and knows no sync, as `/proc` does not: `squashfs` is one.
#[test]
#[cfg(target_os = "linux")]
fn a_folder_that_is_there_needs_no_sync_of_a_folder_that_has_none() {
    let storage = RealStorage::new();
    let [above, there] = ["/proc", "/proc/self"].map(Path::new);
    if storage.sync_dir(above, SITE).is_ok() {
        println!("skipped: this system syncs /proc");
        return;
    }
    storage.create_dir_all(there).unwrap();
    // A name that is to be durable is another matter.
    storage.create_dir_all(&there.join("new")).unwrap_err();
}

#[test]
fn errors_name_operation_path_and_offset() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let storage = RealStorage::new();
    storage.open(&path, OpenMode::CreateNew).unwrap();
    let file = storage.open(&path, OpenMode::Read).unwrap();
    let text = file.write_at(b"x", 42).unwrap_err().to_string();
    let place = format!("cannot write {} at offset 42: ", path.display());
    assert!(text.starts_with(&place), "{text}");
    assert!(file.raw_fd().is_some());
}

/// Whoever destroys a database to make room on a full disk locks it first.
#[test]
fn a_lock_needs_no_room_for_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let of = |code| Error::io("write", &path, io::Error::from_raw_os_error(code));
    for code in [libc::ENOSPC, libc::EDQUOT] {
        // A name is there from before.
        drop(RealStorage::new().lock(&path).unwrap());
        let file = open_in(OpenMode::ReadWrite, &path).unwrap();
        assert!(file.metadata().unwrap().len() > 0);
        lock::without_name(&file, of(code)).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 0);
    }
    let file = open_in(OpenMode::ReadWrite, &path).unwrap();
    let failed = lock::without_name(&file, of(libc::EIO)).unwrap_err();
    assert!(failed.to_string().contains("LOCK"), "{failed}");
}

#[test]
fn a_lock_names_another_holder_and_survives_a_stale_or_foreign_pid() {
    let dir = tempfile::tempdir().unwrap();
    let storage = RealStorage::new();
    let path = dir.path().join("LOCK");
    // Left by a process that is gone: longer than any new number.
    let stale = storage.open(&path, OpenMode::CreateNew).unwrap();
    stale.write_at(b"99999999999999\nmore", 0).unwrap();
    let _guard = storage.lock(&path).unwrap();
    let mut text = vec![0; usize::try_from(stale.len().unwrap()).unwrap()];
    stale.read_exact_at(&mut text, 0).unwrap();
    assert_eq!(text, format!("{}\n", std::process::id()).as_bytes());
    // Whatever the file says, the loser gets an answer.
    for (bytes, expected) in [(&b"4711\n"[..], 4711), (b"\xff\xff", 0), (b"", 0)] {
        stale.set_len(0).unwrap();
        stale.write_at(bytes, 0).unwrap();
        match storage.lock(&path) {
            Err(Error::Locked { pid, .. }) => assert_eq!(pid, expected),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_memory_file_system_is_told_from_others() {
    let storage = RealStorage::new();
    let shm = Path::new("/dev/shm");
    if cfg!(target_os = "linux") && shm.is_dir() {
        assert_eq!(storage.fs_kind(shm).unwrap(), FsKind::Tmpfs);
    }
    assert_eq!(
        storage.fs_kind(Path::new("/proc")).unwrap(),
        FsKind::Ordinary
    );
}

#[test]
fn clock_and_randomness_work() {
    let env = crate::Env::real();
    let before = env.clock.now_ns();
    env.clock.sleep_ms(1);
    assert!(env.clock.now_ns() >= before + 1_000_000);
    assert_ne!(env.random_u64().unwrap(), env.random_u64().unwrap());
}

/// Everything that can have a name and is no ordinary file, and the file behind the link.
fn strange_names(dir: &Path) -> (Vec<std::path::PathBuf>, std::path::PathBuf) {
    let of = |name: &str| dir.join(name);
    RealStorage::new().create_dir_all(&of("folder")).unwrap();
    let target = of("target");
    let file = RealStorage::new()
        .open(&target, OpenMode::CreateNew)
        .unwrap();
    file.write_at(b"precious", 0).unwrap();
    std::os::unix::fs::symlink(&target, of("link")).unwrap();
    std::os::unix::fs::symlink(of("folder"), of("link-to-folder")).unwrap();
    std::os::unix::fs::symlink(of("nothing"), of("dangling")).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(of("fifo"))
        .status();
    assert!(made.unwrap().success());
    std::os::unix::net::UnixListener::bind(of("socket")).unwrap();
    let names = [
        "folder",
        "link",
        "link-to-folder",
        "dangling",
        "fifo",
        "socket",
    ];
    let mut all: Vec<_> = names.into_iter().map(of).collect();
    all.push("/dev/null".into());
    (all, target)
}

#[test]
fn nothing_but_an_ordinary_file_is_opened_and_no_link_followed() {
    let dir = tempfile::tempdir().unwrap();
    let storage = RealStorage::new();
    let (names, target) = strange_names(dir.path());
    let counter = Arc::default();
    for path in &names {
        let refused = |answer: Result<()>| {
            let error = answer.unwrap_err();
            let text = error.to_string();
            assert!(text.contains(&path.display().to_string()), "{text}");
            assert_eq!(
                kind_of::<()>(Err(error)),
                io::ErrorKind::InvalidInput,
                "{text}"
            );
        };
        assert!(storage.exists(path).unwrap());
        for mode in [OpenMode::Read, OpenMode::ReadWrite] {
            refused(storage.open(path, mode).map(drop));
            refused(storage.open_direct(path, mode, &counter).map(drop));
        }
        let made = storage.open(path, OpenMode::CreateNew);
        assert_eq!(kind_of(made), io::ErrorKind::AlreadyExists);
        refused(storage.lock(path).map(drop));
        refused(storage.lock_shared(path).map(drop));
        assert!(!dir.path().join("nothing").exists(), "made through a link");
    }
    let file = storage.open(&target, OpenMode::Read).unwrap();
    let mut bytes = [0; 20];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 8);
    assert_eq!(&bytes[..8], b"precious");
    // What a user names may be a link, to an ordinary file; and so may a folder.
    for (path, fine) in names.iter().map(|path| (path, path.ends_with("link"))) {
        assert_eq!(
            storage.open(path, OpenMode::ReadInput).is_ok(),
            fine,
            "{path:?}"
        );
    }
    let linked = dir.path().join("link-to-folder");
    storage.lock(&linked.join("LOCK")).unwrap();
    storage.sync_dir(&linked, SITE).unwrap();
    storage.hold_folder(&linked).unwrap().unwrap();
    assert!(storage.hold_folder(&dir.path().join("fifo")).is_err());
    assert!(storage.sync_dir(&dir.path().join("fifo"), SITE).is_err());
}

#[test]
fn an_open_file_waits_for_its_device() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let storage = RealStorage::new();
    storage.open(&path, OpenMode::CreateNew).unwrap();
    let file = storage.open(&path, OpenMode::ReadWrite).unwrap();
    let info = format!("/proc/self/fdinfo/{}", file.raw_fd().unwrap());
    let text = std::fs::read_to_string(info).unwrap();
    let flags = text
        .lines()
        .find_map(|line| line.strip_prefix("flags:"))
        .unwrap();
    let flags = i32::from_str_radix(flags.trim(), 8).unwrap();
    assert_eq!(flags & libc::O_NONBLOCK, 0, "{text}");
}

#[test]
fn a_file_that_can_be_no_lock_file_is_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let storage = RealStorage::new();
    let path = dir.path().join("LOCK");
    let file = storage.open(&path, OpenMode::CreateNew).unwrap();
    file.write_at(&[b'7'; 65], 0).unwrap();
    let text = storage.lock(&path).unwrap_err().to_string();
    assert!(text.contains("LOCK") && text.contains("65 bytes"), "{text}");
    assert_eq!(file.len().unwrap(), 65);
    file.set_len(64).unwrap();
    storage.lock(&path).unwrap();
}

/// The copy is what a child process has that another thread is starting. Whoever takes the lock next would be told that the database
/// is open somewhere.
#[test]
fn a_lock_that_is_refused_for_what_the_file_has_is_given_up_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let storage = RealStorage::new();
    let path = dir.path().join("LOCK");
    let strange = storage.open(&path, OpenMode::CreateNew).unwrap();
    strange.write_at(&[b'7'; 65], 0).unwrap();
    let file = open_in(OpenMode::ReadWrite, &path).unwrap();
    file.try_lock().unwrap();
    let _copy = file.try_clone().unwrap();
    let text = lock::named(file, &path).unwrap_err().to_string();
    assert!(text.contains("65 bytes"), "{text}");
    strange.set_len(0).unwrap();
    storage.lock(&path).unwrap();
}

/// A child process that another thread is starting has a copy of each descriptor for a moment, and with it of its lock.
#[test]
fn who_has_looked_whether_a_folder_is_held_keeps_nobody_from_holding_it() {
    let dir = tempfile::tempdir().unwrap();
    let storage = RealStorage::new();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..150 {
                    let child = std::process::Command::new("true").status();
                    assert!(child.unwrap().success());
                }
                done.store(true, std::sync::atomic::Ordering::SeqCst);
            });
        }
        while !done.load(std::sync::atomic::Ordering::SeqCst) {
            assert!(!storage.is_folder_held(dir.path()).unwrap());
            assert!(storage.hold_folder(dir.path()).unwrap().is_some());
        }
    });
}
