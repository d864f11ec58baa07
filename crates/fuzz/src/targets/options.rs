//! Options as text: names and values, as a manifest and a command line have them.

use thermocline_base::options::Options;
use thermocline_base::{CfOptions, ErrorKind};

use super::digest::Digest;
use crate::target::{Answer, Target};

pub(super) const TARGET: Target = Target {
    name: "options",
    run,
    samples,
    beginnings: None,
    runs: 300_000,
};

/// Lines of `name=value`.
fn samples() -> Vec<Vec<u8>> {
    let all = Options::default().effective().into_iter();
    let lines: Vec<String> = all.map(|(name, value)| format!("{name}={value}")).collect();
    let mut samples: Vec<String> = lines.chunks(6).map(|some| some.join("\n")).collect();
    samples.push("region=dax\npm_path=/mnt/pm\ndram=1GiB".into());
    samples
        .into_iter()
        .map(|text| format!("\0{text}").into_bytes())
        .collect()
}

fn run(input: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(input.get(1..).unwrap_or_default());
    let mut options = Options::default();
    let mut stored = Vec::new();
    let mut digest = Digest::default();
    let mut all = true;
    for line in text.lines() {
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        let before = options.clone();
        if let Err(error) = options.set(name, value) {
            let is_of_later = name == "preset" && error.kind() == ErrorKind::Unsupported;
            let is_wrong = error.kind() == ErrorKind::InvalidArgument;
            assert!(is_wrong || is_of_later, "{error}");
            assert_eq!(options, before, "a value that was refused was set");
            all = false;
        }
        stored.push((name.to_string(), value.to_string()));
    }
    if let Ok(family) = CfOptions::from_stored(&stored) {
        assert_eq!(CfOptions::from_stored(&family.stored()).ok(), Some(family));
    }
    // What is remembered of them is read back.
    let mut again = Options::default();
    for (name, value) in options.effective() {
        again.set(name, &value).expect("what is stored is read");
        digest.add(value.as_bytes());
    }
    (again.region, again.emulate) = (options.region, options.emulate);
    assert_eq!(again, options);
    match options.validate() {
        Ok(()) => assert!(options.memtable_bytes() > 0),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            all = false;
        }
    }
    match all {
        true => Answer::Read(digest.0),
        false => Answer::Refused,
    }
}
