//! Runs the package `schedules/`: the engine's threads in random orders. It is a workspace of its own,
//! since its engine is built from a scheduler's locks and atomics; here it is built and run by this
//! test's cargo, in a folder below this test's target folder.

use std::path::Path;
use std::process::Command;

#[test]
fn the_engine_keeps_its_word_in_many_orders() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("schedules");
    let output = Command::new(env!("CARGO"))
        .args(["test", "--locked", "--manifest-path"])
        .arg(root.join("schedules/Cargo.toml"))
        .args(["--", "--nocapture"])
        .env("CARGO_TARGET_DIR", target)
        .output()
        .expect("cargo runs");
    let stdout = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        panic!(
            "{stdout}\n{stderr}\nby itself, and to renew its Cargo.lock: \
             cargo test --manifest-path schedules/Cargo.toml"
        );
    }
    let counts = stdout.lines().filter(|line| line.contains("schedules: "));
    counts.for_each(|line| println!("{line}"));
}
