//! Two openers, in one process and in two.
//!
//! The other process is this test binary, told by an environment variable to run [`child`].

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::*;

const CHILD: &str = "THERMOCLINE_LOCK_CHILD";

/// Not a test of its own: opens the database and waits to be killed, or for the parent's end.
#[test]
fn child() {
    let Ok(task) = std::env::var(CHILD) else {
        return;
    };
    let (read_only, dir) = task.split_once(' ').unwrap();
    let options = Options {
        read_only: read_only == "true",
        ..options()
    };
    let db = Db::open(dir, options).unwrap();
    println!("\nopen");
    // The parent holds the other end of this pipe for as long as it lives.
    let _ = std::io::stdin().read_line(&mut String::new());
    assert!(db.metrics().pm_limit_bytes > 0);
}

fn start(dir: &Path, read_only: bool) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "locks::child", "--nocapture", "--test-threads=1"])
        .env(CHILD, format!("{read_only} {}", dir.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    while lines.next().expect("the child opens the database").unwrap() != "open" {}
    child
}

fn read_only() -> Options {
    Options {
        read_only: true,
        ..options()
    }
}

#[test]
fn in_one_process() {
    let home = home();
    let dir = home.path().join("db");
    filled(&dir, options());
    let db = Db::open(&dir, options()).unwrap();
    let before = snapshot(&dir);
    let pid = format!("process {} (this one", std::process::id());
    let says = [&text(&dir)[..], &pid, "close it"];
    refused(Db::open(&dir, options()), ErrorKind::Locked, &says);
    // Whoever reads is not in the way, and is let in.
    assert_filled(&Db::open(&dir, read_only()).unwrap());
    assert_eq!(Db::verify(&dir, options()).unwrap().faults, []);
    // Through another name of the folder.
    let link = home.path().join("link");
    std::os::unix::fs::symlink(&dir, &link).unwrap();
    refused(Db::open(&link, options()), ErrorKind::Locked, &[&pid]);
    assert_unchanged(&dir, &before);
    db.put("k", "v").unwrap();
    drop(db);
    drop(Db::open(&link, options()).unwrap());
}

#[test]
fn in_two_processes() {
    let home = home();
    let dir = home.path().join("db");
    filled(&dir, options());
    let mut child = start(&dir, false);
    let before = snapshot(&dir);
    let pid = format!("process {}", child.id());
    let says = [&text(&dir)[..], &pid, "close it"];
    refused(Db::open(&dir, options()), ErrorKind::Locked, &says);
    // Whoever reads is not in the way, and is let in.
    assert_filled(&Db::open(&dir, read_only()).unwrap());
    assert_eq!(Db::verify(&dir, options()).unwrap().faults, []);
    assert_unchanged(&dir, &before);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_filled(&Db::open(&dir, options()).unwrap());
}

#[test]
fn readers_share_and_keep_writers_out() {
    let home = home();
    let dir = home.path().join("db");
    filled(&dir, options());
    let before = snapshot(&dir);
    let mut child = start(&dir, true);
    let reader = Db::open(&dir, read_only()).unwrap();
    let another = Db::open(&dir, read_only()).unwrap();
    assert_filled(&reader);
    assert_filled(&another);
    assert_eq!(Db::verify(&dir, options()).unwrap().faults, []);
    // The name in the file is the last writer's, long gone: nobody is blamed wrongly.
    let says = [&text(&dir)[..], "left no name, as those do that read it"];
    refused(Db::open(&dir, options()), ErrorKind::Locked, &says);
    drop((reader, another));
    refused(Db::open(&dir, options()), ErrorKind::Locked, &says);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_unchanged(&dir, &before);
    assert_filled(&Db::open(&dir, options()).unwrap());
}

/// One region for two databases: the second is refused while the first is open, and after.
#[test]
fn two_databases_and_one_region() {
    let home = home();
    let region = home.path().join("region");
    let first = Db::open(home.path().join("first"), with_pm_path(&region)).unwrap();
    fill(&first);
    let bytes = std::fs::read(&region).unwrap();
    for _ in 0..2 {
        let second = Db::open(home.path().join("second"), with_pm_path(&region));
        refused(
            second,
            ErrorKind::InvalidArgument,
            &[&text(&region), "pm-path"],
        );
    }
    assert!(std::fs::read(&region).unwrap() == bytes);
    drop(first);
    assert_filled(&Db::open(home.path().join("first"), with_pm_path(&region)).unwrap());
}

/// As above with a first database that has no data yet.
#[test]
fn two_databases_and_one_new_region() {
    let home = home();
    let region = home.path().join("region");
    let first = Db::open(home.path().join("first"), with_pm_path(&region)).unwrap();
    let second = Db::open(home.path().join("second"), with_pm_path(&region));
    refused(
        second,
        ErrorKind::InvalidArgument,
        &[&text(&region), "pm-path"],
    );
    fill(&first);
    drop(first);
    assert_filled(&Db::open(home.path().join("first"), with_pm_path(&region)).unwrap());
}
