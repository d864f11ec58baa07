//! Notes of what is being made: the names in them, and what goes by them from a folder of backups.

use std::path::Path;

use thermocline_base::{ErrorKind, Steps};
use thermocline_copies::{Backups, is_unfinished, noted_names};
use thermocline_env::sim::SimFs;
use thermocline_env::{Env, Storage};

use super::digest::Digest;
use crate::seal::note::{self as seal, note};
use crate::target::{Answer, SEAL, Target};

pub(super) const TARGET: Target = Target {
    name: "note",
    run,
    samples,
    beginnings: Some(beginnings),
    runs: 100_000,
};

/// Each is there if its bit of the first byte of an input, from the second bit on, is set.
const FILES: [&str; 4] = ["000007.sst", "000008.blob", "BACKUP.tmp", "precious"];

/// That can be deleted, as any can that is damaged.
const LIST: &str = "BACKUP-000001";
const LOCK: &str = "LOCK";

fn samples() -> Vec<Vec<u8>> {
    let of = |flags: u8, names: &[&str]| [&[flags << 1][..], &note(names)].concat();
    vec![
        of(0b0111, &FILES[..3]),
        of(0b1111, &FILES[..3]),
        of(
            0b0001,
            &["000007.sst", "CURRENT", "CURRENT.tmp", "MANIFEST-000001"],
        ),
        of(0b0010, &[]),
        of(0b1000, &[&"n".repeat(255), "precious"]),
        vec![0b1110; 9],
    ]
}

/// The names before a bad one are named.
fn beginnings(input: &[u8]) -> Vec<Vec<u8>> {
    let cut = |end: &usize| input.get(..1 + end).map(<[u8]>::to_vec);
    seal::ends(&input[1..]).iter().filter_map(cut).collect()
}

fn run(input: &[u8]) -> Answer {
    let Some((flags, bytes)) = input.split_first() else {
        return Answer::Refused;
    };
    let mut bytes = bytes.to_vec();
    if flags & SEAL != 0 {
        seal::seal(&mut bytes);
    }
    let names = noted_names(&bytes);
    let fs = SimFs::new(Steps::new());
    check_copying(&fs, &bytes, names.is_some());
    check_backing_up(&fs, &bytes, names.as_deref(), flags >> 1);
    let Some(names) = names else {
        return Answer::Refused;
    };
    // Written again it is the beginning of what was read, but where that was only begun itself.
    let again: Vec<&str> = names.iter().map(String::as_str).collect();
    let begun = bytes.len() <= seal::HEADER && bytes.iter().all(|&byte| byte == 0);
    assert!(begun || bytes.starts_with(&note(&again)));
    let mut digest = Digest::default();
    for name in &names {
        assert!(!name.is_empty() && name.len() < 256);
        // One file of the folder, whatever was written.
        let path = Path::new("/folder").join(name);
        assert_eq!(path.parent(), Some(Path::new("/folder")), "{name:?}");
        assert_eq!(path.file_name(), Some(name.as_ref()), "{name:?}");
        assert!(!name.contains('\0'));
        digest.add(name.as_bytes());
    }
    Answer::Read(digest.0)
}

fn check_copying(fs: &SimFs, bytes: &[u8], is_note: bool) {
    let dir = Path::new("/copy");
    fs.create_dir_all(dir).expect("a folder can be made");
    fs.install(&dir.join("COPYING"), bytes);
    assert_eq!(is_unfinished(fs, dir).expect("it can be read"), is_note);
}

/// Nothing goes but what the note names, and that only if nothing else is there.
fn check_backing_up(fs: &SimFs, bytes: &[u8], names: Option<&[String]>, there: u8) {
    let dir = Path::new("/backups");
    fs.create_dir_all(dir).expect("a folder can be made");
    let files = (0..FILES.len()).filter(|n| there >> n & 1 != 0);
    let files: Vec<&str> = files.map(|n| FILES[n]).collect();
    let own = [(LIST, &b"damaged"[..]), ("BACKING-UP", bytes)];
    for (name, bytes) in own
        .into_iter()
        .chain(files.iter().map(|name| (*name, &b"x"[..])))
    {
        fs.install(&dir.join(name), bytes);
    }
    let named = |name: &&str| names.is_some_and(|names| names.iter().any(|n| n == name));
    let cleared = names.is_some() && files.iter().all(named);
    let deleted = Backups::new(Env::simulated(fs.clone(), 1), dir).delete(1);
    let mut left = fs.list(dir).expect("it can be listed");
    left.retain(|name| name != LOCK);
    match deleted {
        Ok(()) => assert!(cleared && left.is_empty(), "{left:?}"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            assert!(
                !cleared && left.len() == files.len() + 2,
                "{error}: {left:?}"
            );
        }
    }
}
