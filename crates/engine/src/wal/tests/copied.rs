//! Folders that were copied by other means, while the logs lie where both find them.

use thermocline_base::Error;
use thermocline_base::planted::{Bug, plant};
use thermocline_wal::{Owner, OwnerFile};

use super::*;

const LOGS: &str = "/pmem";
const COPY: &str = "/copy";

fn shared() -> Options {
    Options {
        wal_path: Some(LOGS.into()),
        ..options()
    }
}

fn open_at(fs: &SimFs, dir: &str) -> Result<Engine> {
    Engine::open(world(fs), Path::new(dir), shared())
}

/// Copies a folder file by file, as `cp -r` does.
fn copy(fs: &SimFs, from: &str, to: &str) {
    fs.create_dir_all(Path::new(to)).unwrap();
    for name in fs.list(Path::new(from)).unwrap() {
        let bytes = fs.contents(&Path::new(from).join(&name)).unwrap();
        fs.install(&Path::new(to).join(&name), &bytes);
    }
}

fn remove(fs: &SimFs, dir: &str) {
    for name in fs.list(Path::new(dir)).unwrap() {
        fs.remove(&Path::new(dir).join(name)).unwrap();
    }
}

/// All that lies in a folder.
fn content(fs: &SimFs, dir: &str) -> BTreeMap<String, Vec<u8>> {
    let names = fs.list(Path::new(dir)).unwrap();
    let content = |name: String| {
        let bytes = fs.contents(&Path::new(dir).join(&name)).unwrap();
        (name, bytes)
    };
    names.into_iter().map(content).collect()
}

/// A store with logs elsewhere that was killed after five writes.
fn killed_elsewhere() -> SimFs {
    let fs = SimFs::new(Steps::new());
    let engine = open_at(&fs, DB).unwrap();
    (1..=5).for_each(|n| put(&engine, n));
    fs.image_killed(Steps::new())
}

fn is_whole(fs: &SimFs, dir: &str, last: u8) {
    let engine = open_at(fs, dir).unwrap();
    assert!((1..=9).all(|n| has(&engine, n) == (n <= last)));
    engine.close().unwrap();
}

#[test]
fn a_copy_is_refused_while_the_original_is_open() {
    let fs = killed_elsewhere();
    let engine = open_at(&fs, DB).unwrap();
    copy(&fs, DB, COPY);
    let before = content(&fs, LOGS);
    for read_only in [false, true] {
        let options = Options {
            read_only,
            ..shared()
        };
        let error = Engine::open(world(&fs), Path::new(COPY), options).unwrap_err();
        let Error::Locked { path, pid } = &error else {
            panic!("{error}");
        };
        assert_eq!((path.as_path(), *pid), (Path::new(DB), std::process::id()));
    }
    assert_eq!(content(&fs, LOGS), before);
    put(&engine, 6);
    engine.flush().unwrap();
    put(&engine, 7);
    engine.close().unwrap();
    is_whole(&fs, DB, 7);
}

#[test]
fn a_copy_is_refused_where_the_original_is_and_harms_nothing() {
    for closed in [false, true] {
        let fs = killed_elsewhere();
        if closed {
            open_at(&fs, DB).unwrap().close().unwrap();
        }
        copy(&fs, DB, COPY);
        let before = content(&fs, LOGS);
        for read_only in [false, true] {
            let options = Options {
                read_only,
                ..shared()
            };
            let error = Engine::open(world(&fs), Path::new(COPY), options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            let text = error.to_string();
            assert!(text.contains("/db") && text.contains("/copy"), "{text}");
        }
        let error = verify(&world(&fs), Path::new(COPY), &shared()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert_eq!(content(&fs, LOGS), before, "{closed}");
        is_whole(&fs, DB, 5);
        let report = verify(&world(&fs), Path::new(DB), &shared()).unwrap();
        assert_eq!(report.faults, []);
    }
}

/// Whoever is there alone is not a copy. The other one is, when it comes back.
#[test]
fn a_folder_that_was_moved_takes_its_logs_along() {
    let fs = killed_elsewhere();
    copy(&fs, DB, "/away");
    remove(&fs, DB);
    let engine = open_at(&fs, "/away").unwrap();
    put(&engine, 6);
    engine.flush().unwrap();
    put(&engine, 7);
    engine.close().unwrap();
    copy(&fs, "/away", DB);
    let before = content(&fs, LOGS);
    let error = open_at(&fs, DB).unwrap_err();
    assert!(error.to_string().contains("/away"), "{error}");
    assert_eq!(content(&fs, LOGS), before);
    is_whole(&fs, "/away", 7);
    // Another database in its place is no hindrance.
    remove(&fs, "/away");
    let other = World {
        env: Env::simulated(fs.clone(), 8),
        ..world(&fs)
    };
    drop(Engine::open(other, Path::new("/away"), options()).unwrap());
    is_whole(&fs, DB, 7);
}

/// Folders that do not see each other: the logs know which has gone on.
#[test]
fn a_copy_that_has_stayed_behind_is_refused() {
    for flushed in [false, true] {
        let fs = killed_elsewhere();
        copy(&fs, DB, COPY);
        let old = content(&fs, COPY);
        remove(&fs, COPY);
        let engine = open_at(&fs, DB).unwrap();
        if flushed {
            put(&engine, 6);
            engine.flush().unwrap();
        }
        engine.close().unwrap();
        copy(&fs, DB, "/unseen");
        remove(&fs, DB);
        for (name, bytes) in &old {
            fs.install(&Path::new(COPY).join(name), bytes);
        }
        let before = content(&fs, LOGS);
        let error = open_at(&fs, COPY).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert_eq!(content(&fs, LOGS), before);
        remove(&fs, COPY);
        is_whole(&fs, "/unseen", if flushed { 6 } else { 5 });
    }
}

/// Logs of a version that knew of none of this are claimed by whoever opens them first.
#[test]
fn logs_without_an_owner_get_one() {
    let fs = killed_elsewhere();
    for name in fs.list(Path::new(LOGS)).unwrap() {
        if !name.ends_with(".log") {
            fs.remove(&Path::new(LOGS).join(name)).unwrap();
        }
    }
    let read_only = Options {
        read_only: true,
        ..shared()
    };
    let before = fs.digest();
    let engine = open(&fs, &read_only).unwrap();
    assert!(has(&engine, 5));
    drop(engine);
    assert_eq!(fs.digest(), before);
    copy(&fs, DB, COPY);
    is_whole(&fs, DB, 5);
    let error = open_at(&fs, COPY).unwrap_err();
    assert!(error.to_string().contains("/db"), "{error}");
    is_whole(&fs, DB, 5);
}

/// As after a restore that mixed up files: the name alone does not say whose logs they are.
#[test]
fn an_owner_with_another_databases_content_is_refused() {
    let fs = killed_elsewhere();
    let mut names = fs.list(Path::new(LOGS)).unwrap().into_iter();
    let name = names.find(|name| name.ends_with("OWNER")).unwrap();
    let path = Path::new(LOGS).join(name);
    let (owner, _) = OwnerFile::read(&fs, &path).unwrap().unwrap();
    let db_id = [9; 16];
    OwnerFile::make(&fs, &path, &Owner { db_id, ..owner }).unwrap();
    let before = content(&fs, LOGS);
    for read_only in [false, true] {
        let options = Options {
            read_only,
            ..shared()
        };
        let error = Engine::open(world(&fs), Path::new(DB), options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        let text = error.to_string();
        assert!(text.contains("OWNER") && text.contains("0909"), "{text}");
    }
    assert_eq!(content(&fs, LOGS), before);
}

/// The manifest is whole: the error names the log.
#[test]
fn a_log_that_is_missing_is_named() {
    let fs = killed_elsewhere();
    let mut logs = fs.list(Path::new(LOGS)).unwrap();
    logs.retain(|name| name.ends_with(".log"));
    for log in &logs {
        fs.remove(&Path::new(LOGS).join(log)).unwrap();
    }
    let error = open_at(&fs, DB).unwrap_err().to_string();
    let says = "at offset 0: a log that the manifest names is missing";
    assert!(error.contains(says), "{error}");
    assert!(error.starts_with("corruption in /"), "{error}");
    let is_named = |log: &String| error.contains(log.as_str());
    assert!(logs.iter().any(is_named), "{error}");
}

fn real() -> World {
    World {
        env: Env::real(),
        sim: None,
        shadow: None,
        background: false,
    }
}

/// The folder was moved, and a file has the name of the one that it was in.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a test moves a folder of its own"
)]
fn below_a_file_there_is_no_other_database() {
    let home = tempfile::tempdir().unwrap();
    let (before, now) = (home.path().join("before"), home.path().join("now"));
    let options = Options {
        wal_path: Some(home.path().join("logs")),
        ..options()
    };
    let open = |dir: &Path| Engine::open(real(), dir, options.clone());
    let engine = open(&before.join("db")).unwrap();
    put(&engine, 1);
    engine.close().unwrap();
    drop(engine);
    std::fs::rename(before.join("db"), &now).unwrap();
    std::fs::remove_dir(&before).unwrap();
    std::fs::copy(now.join("LOCK"), &before).unwrap();
    assert!(has(&open(&now).unwrap(), 1));
}

/// By another path it is the same folder; and a real copy of a real folder is refused.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a test copies a folder of its own"
)]
fn a_folder_has_many_paths() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("db");
    let options = Options {
        wal_path: Some(home.path().join("logs")),
        ..options()
    };
    let open = |dir: &Path| Engine::open(real(), dir, options.clone());
    let engine = open(&dir).unwrap();
    put(&engine, 1);
    engine.close().unwrap();
    let link = home.path().join("link");
    std::os::unix::fs::symlink(&dir, &link).unwrap();
    for path in [&link, &dir, &link] {
        let engine = open(path).unwrap();
        assert!(has(&engine, 1));
        engine.close().unwrap();
    }
    // So may the folder of the logs, of which one path was remembered and another one is given. What a killed process has left
    // there lies at both.
    let logs = home.path().join("logs");
    let mut paths = std::fs::read_dir(&logs).unwrap().map(|e| e.unwrap().path());
    let log = paths.find_map(|path| {
        let prefix = path.to_str()?.strip_suffix("000001.log")?;
        Some(prefix.to_string())
    });
    let log = log.unwrap();
    let left = PathBuf::from(format!("{log}000099.log"));
    std::fs::copy(format!("{log}000001.log"), &left).unwrap();
    let pmem = home.path().join("pmem");
    std::os::unix::fs::symlink(&logs, &pmem).unwrap();
    let elsewhere = Options {
        wal_path: Some(pmem),
        ..options.clone()
    };
    drop(Engine::open(real(), &dir, elsewhere).unwrap());
    assert!(!left.exists());
    let copy = home.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(&dir).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    let error = open(&copy).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(has(&open(&dir).unwrap(), 1));
}

/// What the copy does when nobody asks whose the logs are.
#[test]
fn without_claims_a_copy_destroys_the_original() {
    let _planted = plant(Bug::LogsUnclaimed);
    let fs = killed_elsewhere();
    copy(&fs, DB, COPY);
    let engine = open_at(&fs, COPY).unwrap();
    put(&engine, 6);
    engine.flush().unwrap();
    engine.close().unwrap();
    let error = open_at(&fs, DB).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
}

#[test]
fn a_full_disk_does_not_let_go_of_the_logs() {
    let fs = killed_elsewhere();
    let engine = open_at(&fs, DB).unwrap();
    copy(&fs, DB, COPY);
    fs.limit(fs.used());
    engine.inner.reclaimer.give_space_back(false);
    let error = open_at(&fs, COPY).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
}
