//! One manifest names the next: the bytes, and what damage of them does.

use std::path::PathBuf;

use thermocline_base::{Error, ErrorKind};
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::sim::SimFs;
use thermocline_env::simulated::SeededRandom;
use thermocline_version::format::{self, Header};
use thermocline_version::{Manifest, State};

use crate::common::{DB_ID, created, dir, fresh, next_edit, storage};

/// `CURRENT` names the first manifest, whose pointer names the second; that one has edits.
struct Pair {
    first: Vec<u8>,
    second: Vec<u8>,
    current: Vec<u8>,
    state: State,
}

fn path(file_no: u64) -> PathBuf {
    dir().join(format::manifest_name(file_no))
}

fn pair() -> Pair {
    let fs = fresh();
    let disk = FaultStorage::over_sim(fs.clone());
    let mut manifest =
        Manifest::create(std::sync::Arc::new(disk.clone()), dir(), &created()).unwrap();
    manifest.set_bytes_max(700);
    disk.arm(Plan {
        fault: Fault::NoSpace,
        op: Some(Op::Rename),
        at: disk.calls_for(Fault::NoSpace, Some(Op::Rename)),
        repeat: Repeat::Forever,
    });
    let random = SeededRandom::new(5);
    let mut behind = 0;
    while behind < 3 {
        let edit = next_edit(manifest.state(), &random);
        manifest.append(&edit).unwrap();
        behind += u32::from(manifest.path() == path(2));
    }
    let bytes = |name: PathBuf| fs.contents(&name).unwrap();
    Pair {
        first: bytes(path(1)),
        second: bytes(path(2)),
        current: bytes(dir().join(format::CURRENT)),
        state: manifest.state().clone(),
    }
}

/// Opens to read and to write: the same answer.
fn open(pair: &Pair, first: &[u8], second: Option<&[u8]>) -> Result<State, Error> {
    let fs = fresh();
    fs.install(&path(1), first);
    fs.install(&dir().join(format::CURRENT), &pair.current);
    if let Some(second) = second {
        fs.install(&path(2), second);
    }
    let open = |fs: &SimFs, read_only| {
        let opened = Manifest::open(storage(fs), dir(), read_only);
        opened.map(|(_, state)| state)
    };
    let (read, written) = (open(&fs, true), open(&fs, false));
    match (&read, written) {
        (Ok(read), Ok(written)) => assert_eq!(*read, written),
        (Err(read), Err(written)) => assert_eq!(read.to_string(), written.to_string()),
        (read, written) => panic!("{read:?} to read, {written:?} to write"),
    }
    read
}

fn refused(answer: Result<State, Error>, says: &str) {
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains(says), "{error}");
}

fn header(bytes: &[u8]) -> Header {
    Header::decode(bytes[..format::HEADER_LEN].try_into().unwrap()).unwrap()
}

/// The first manifest with another last record.
fn ending_with(pair: &Pair, payload: &[u8]) -> Vec<u8> {
    let at = pair.first.len() - format::record_len(format::encode_pointer(2).len());
    let mut bytes = pair.first[..at].to_vec();
    bytes.extend_from_slice(&header(&pair.first).encode_record(payload, at as u64));
    bytes
}

#[test]
fn golden_of_pointers() {
    let bytes = format::encode_pointer(0x0102_0304_0506_0708);
    assert_eq!(bytes, [0x9a, 8, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1]);
    let read = format::decode_pointer(&bytes).ok().flatten();
    assert_eq!(read, Some(0x0102_0304_0506_0708));
    let pair = pair();
    assert_eq!(ending_with(&pair, &format::encode_pointer(2)), pair.first);
    assert_eq!(header(&pair.second).db_id, DB_ID);
    assert_eq!(
        open(&pair, &pair.first, Some(&pair.second)).unwrap(),
        pair.state
    );
}

#[test]
fn every_flipped_bit_and_every_cut_of_it_is_found() {
    let pair = pair();
    for bit in 0..pair.first.len() * 8 {
        let mut bytes = pair.first.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        refused(open(&pair, &bytes, Some(&pair.second)), "MANIFEST-000001");
    }
    for len in 0..pair.first.len() {
        refused(
            open(&pair, &pair.first[..len], Some(&pair.second)),
            "MANIFEST-000001",
        );
    }
}

#[test]
fn what_it_names_is_a_later_manifest_and_it_is_the_last_record() {
    let pair = pair();
    refused(open(&pair, &pair.first, None), "that it names is missing");
    for file_no in [0, 1] {
        let bytes = ending_with(&pair, &format::encode_pointer(file_no));
        refused(open(&pair, &bytes, None), "a later one");
    }
    let longer = [&format::encode_pointer(2)[..], &[0]].concat();
    refused(open(&pair, &ending_with(&pair, &longer), None), "pointer");
    let short = &longer[..longer.len() - 2];
    refused(
        open(&pair, &ending_with(&pair, short), None),
        "MANIFEST-000001",
    );
    let mut two = pair.first.clone();
    let record = header(&two).encode_record(&format::encode_pointer(2), two.len() as u64);
    two.extend_from_slice(&record);
    refused(open(&pair, &two, Some(&pair.second)), "behind the one");
}
