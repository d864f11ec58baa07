//! Damaged and foreign files: an error that names the place, or the end of the log cut where a
//! torn append could have left it. Never a panic, never another state.

use thermocline_base::checksum::summed;
use thermocline_base::{Error, ErrorKind, Result, Steps};
use thermocline_env::sim::SimFs;
use thermocline_env::simulated::SeededRandom;
use thermocline_env::{OpenMode, Storage};
use thermocline_version::format::{self, Header};
use thermocline_version::{Change, Manifest, State, VersionEdit};

use crate::common::{DB_ID, created, dir, fresh, next_edit, storage};

/// A manifest, the states after each of its records, and where each record ends.
struct Sample {
    bytes: Vec<u8>,
    current: Vec<u8>,
    name: String,
    states: Vec<(u64, State)>,
}

fn sample(seed: u64, appends: u64) -> Sample {
    let fs = fresh();
    let mut manifest = Manifest::create(storage(&fs), dir(), &created()).unwrap();
    let random = SeededRandom::new(seed);
    let mut states = vec![(manifest.len(), manifest.state().clone())];
    for _ in 0..appends {
        let edit = next_edit(manifest.state(), &random);
        manifest.append(&edit).unwrap();
        states.push((manifest.len(), manifest.state().clone()));
    }
    let path = manifest.path().to_path_buf();
    Sample {
        bytes: fs.contents(&path).unwrap(),
        current: fs.contents(&dir().join(format::CURRENT)).unwrap(),
        name: path.file_name().unwrap().to_str().unwrap().to_string(),
        states,
    }
}

fn laid_out(sample: &Sample, bytes: &[u8]) -> SimFs {
    let fs = fresh();
    fs.install(&dir().join(&sample.name), bytes);
    fs.install(&dir().join(format::CURRENT), &sample.current);
    fs
}

fn open(fs: &SimFs, read_only: bool) -> Result<State> {
    Manifest::open(storage(fs), dir(), read_only).map(|(_, state)| state)
}

/// Opens to read and to write; the same answer, and for ever.
fn opens_as(fs: &SimFs, what: &str) -> Result<State> {
    let before = fs.digest();
    let read = open(fs, true);
    assert_eq!(fs.digest(), before, "{what}: a read-only open wrote");
    match (&read, open(fs, false)) {
        (Ok(read), Ok(written)) => {
            assert_eq!(read, &written, "{what}");
            let cut = fs.image_none(Steps::new());
            assert_eq!(&open(&cut, false).unwrap(), read, "{what}: again");
        }
        (Err(read), Err(written)) => {
            assert_eq!(read.to_string(), written.to_string(), "{what}");
            assert_eq!(fs.digest(), before, "{what}: a refused open wrote");
        }
        (read, written) => panic!("{what}: {read:?} but {written:?}"),
    }
    read
}

fn assert_names_place(error: &Error, name: &str, len: usize, what: &str) {
    match error {
        Error::Corruption { place, offset, .. } => {
            assert!(place.ends_with(name), "{what}: {place}");
            assert!(*offset <= len as u64, "{what}: {offset}");
        }
        other => panic!("{what}: {other}"),
    }
}

#[test]
fn a_file_cut_at_any_length_loses_only_whole_records_behind_its_snapshot() {
    let sample = sample(1, 12);
    let (mut errors, mut cuts) = (0, 0);
    for len in 0..=sample.bytes.len() {
        let what = format!("cut to {len}");
        let fs = laid_out(&sample, &sample.bytes[..len]);
        let whole = sample.states.iter().rfind(|(end, _)| *end <= len as u64);
        match (opens_as(&fs, &what), whole) {
            (Ok(state), Some((_, expected))) => {
                assert_eq!(&state, expected, "{what}");
                cuts += 1;
            }
            (Err(e), None) => {
                assert_names_place(&e, &sample.name, len, &what);
                errors += 1;
            }
            (answer, _) => panic!("{what}: {answer:?}"),
        }
    }
    println!("{errors} errors, {cuts} cut at a record");
    assert!(errors > 100 && cuts > 300);
}

#[test]
fn every_flipped_bit_is_an_error_or_cuts_the_last_record() {
    let sample = sample(2, 6);
    let last = sample.states.len() - 1;
    let last_record = sample.states[last - 1].0;
    let (mut errors, mut cuts) = (0, 0);
    for at in 0..sample.bytes.len() {
        for bit in 0..8 {
            let what = format!("bit {bit} of byte {at}");
            let mut bytes = sample.bytes.clone();
            bytes[at] ^= 1 << bit;
            let fs = laid_out(&sample, &bytes);
            match opens_as(&fs, &what) {
                Ok(state) => {
                    assert!(at as u64 >= last_record, "{what} was not noticed");
                    assert_eq!(state, sample.states[last - 1].1, "{what}");
                    cuts += 1;
                }
                Err(e) => {
                    assert!((at as u64) < last_record, "{what}: {e}");
                    assert_names_place(&e, &sample.name, bytes.len(), &what);
                    errors += 1;
                }
            }
        }
    }
    println!("{errors} errors, {cuts} cut the last record");
    assert_eq!(errors + cuts, sample.bytes.len() * 8);
}

#[test]
fn every_flipped_bit_and_every_cut_of_current_is_corruption() {
    let sample = sample(3, 2);
    let mut damaged: Vec<Vec<u8>> = (0..sample.current.len())
        .map(|len| sample.current[..len].to_vec())
        .collect();
    for bit in 0..sample.current.len() * 8 {
        let mut bytes = sample.current.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        damaged.push(bytes);
    }
    damaged.push(vec![b'x'; 1 << 20]);
    damaged.push(b"MANIFEST-000004\n".to_vec());
    for current in damaged {
        let fs = laid_out(&sample, &sample.bytes);
        fs.install(&dir().join(format::CURRENT), &current);
        let error = opens_as(&fs, "CURRENT").unwrap_err();
        assert_names_place(&error, "CURRENT", current.len(), "CURRENT");
    }
}

#[test]
fn random_bytes_are_refused() {
    let sample = sample(4, 2);
    let random = SeededRandom::new(5);
    for _ in 0..300 {
        let len = usize::try_from(random.below(5000)).unwrap();
        let mut bytes = vec![0; len];
        thermocline_env::Random::fill(&random, &mut bytes).unwrap();
        // Half of them behind a header that is right.
        if random.below(2) == 0 && len >= format::HEADER_LEN {
            bytes[..format::HEADER_LEN].copy_from_slice(&sample.bytes[..format::HEADER_LEN]);
        }
        let fs = laid_out(&sample, &bytes);
        let error = opens_as(&fs, "random").unwrap_err();
        assert_names_place(&error, &sample.name, len, "random");
    }
}

/// Records with a right checksum and anything in them: what a buggy or malicious writer leaves.
#[test]
fn sealed_nonsense_is_refused() {
    let base = sample(6, 0);
    let header = Header {
        file_no: format::manifest_no(&base.name).unwrap(),
        db_id: DB_ID,
        durable_len: base.bytes.len() as u64,
    };
    let valid = {
        let grown = sample(6, 1);
        let record = &grown.bytes[base.bytes.len()..];
        let (payload, _) = header
            .decode_record(record, base.bytes.len() as u64)
            .expect("the appended record");
        payload.to_vec()
    };
    let random = SeededRandom::new(7);
    let (mut refused, mut taken) = (0, 0);
    for n in 0..4000 {
        let mut payload = valid.clone();
        if n % 2 == 0 {
            let at = usize::try_from(random.below(payload.len() as u64)).unwrap();
            payload[at] = random.next_u64().to_le_bytes()[0];
        } else {
            payload = vec![0; usize::try_from(1 + random.below(60)).unwrap()];
            thermocline_env::Random::fill(&random, &mut payload).unwrap();
            payload[0] = 0x81 + payload[0] % 17;
        }
        let record = header.encode_record(&payload, base.bytes.len() as u64);
        let bytes = [&base.bytes[..], &record].concat();
        let fs = laid_out(&base, &bytes);
        match opens_as(&fs, "sealed") {
            Ok(_) => taken += 1,
            Err(Error::Unsupported(text)) => assert!(text.contains("newer")),
            Err(e) => {
                assert_names_place(&e, &base.name, bytes.len(), "sealed");
                refused += 1;
            }
        }
    }
    println!("{refused} refused, {taken} happened to be edits");
    assert!(refused > 1000);
}

#[test]
fn more_behind_a_bad_record_than_one_append_is_corruption() {
    let sample = sample(8, 3);
    for (behind, torn) in [
        (format::RECORD_LEN_MAX, true),
        (format::RECORD_LEN_MAX + 1, false),
    ] {
        let bytes = [&sample.bytes[..], &vec![0xa5; behind]].concat();
        let answer = opens_as(&laid_out(&sample, &bytes), "tail");
        match answer {
            Ok(state) => assert!(torn && state == sample.states[3].1),
            Err(e) => {
                assert!(!torn);
                assert_names_place(&e, &sample.name, bytes.len(), "tail");
            }
        }
    }
}

/// Behind the snapshot a bad last record is a torn append; within it nothing is, though the records
/// before would make a state.
#[test]
fn a_snapshot_of_several_records_is_whole_or_corrupt() {
    let fs = fresh();
    let mut manifest = Manifest::create(storage(&fs), dir(), &created()).unwrap();
    manifest.set_bytes_max(0);
    for part in 0..3u16 {
        let families = (1..1000).map(|n| Change::ColumnFamilyCreated {
            id: part * 1000 + n,
            name: format!("{part}-{n}-{}", "x".repeat(200)),
        });
        let edit = VersionEdit {
            changes: families.collect(),
        };
        manifest.append(&edit).unwrap();
    }
    let bytes = fs.contents(manifest.path()).unwrap();
    let header = Header::decode(&bytes[..format::HEADER_LEN].try_into().unwrap()).unwrap();
    let durable = usize::try_from(header.durable_len).unwrap();
    let mut ends = Vec::new();
    let mut at = format::HEADER_LEN;
    while at < durable {
        at += header.decode_record(&bytes[at..], at as u64).unwrap().1;
        ends.push(at);
    }
    assert!(ends.len() > 1, "{ends:?}");
    let name = manifest.path().file_name().unwrap().to_str().unwrap();
    let path = dir().join(name);
    for end in &ends[..ends.len() - 1] {
        for len in [end - 1, *end, end + 1] {
            let fs = fs.image_all(Steps::new());
            fs.install(&path, &bytes[..len]);
            assert_names_place(&opens_as(&fs, "cut").unwrap_err(), name, len, "cut");
        }
    }
    let last = ends[ends.len() - 2];
    for at in [last, last + 4, last + 8, durable - 1] {
        let fs = fs.image_all(Steps::new());
        let mut flipped = bytes[..durable].to_vec();
        flipped[at] ^= 1;
        fs.install(&path, &flipped);
        let error = opens_as(&fs, "flip").unwrap_err();
        assert_names_place(&error, name, durable, "flip");
        let text = error.to_string();
        assert!(text.contains("damaged record in the snapshot"), "{text}");
    }
    let fs = fs.image_all(Steps::new());
    fs.install(&path, &bytes[..durable]);
    assert!(opens_as(&fs, "whole").unwrap().families().len() > 2000);
}

#[test]
fn files_swapped_between_databases_are_refused() {
    let ours = sample(9, 3);
    let fs = fresh();
    let other_id = VersionEdit::from(Change::Created {
        db_id: [9; 16],
        region_id: [8; 16],
    });
    let other = Manifest::create(storage(&fs), dir(), &other_id).unwrap();
    let theirs = fs.contents(other.path()).unwrap();
    let error = open(&laid_out(&ours, &theirs), true).unwrap_err();
    assert_names_place(&error, &ours.name, theirs.len(), "another database's file");
    assert!(
        error.to_string().contains("offset 24: database id"),
        "{error}"
    );

    // Our own file under another number.
    let fs = laid_out(&ours, &ours.bytes);
    let name = format::manifest_name(42);
    fs.install(&dir().join(&name), &ours.bytes);
    let current = format::encode_current(42, &DB_ID);
    fs.install(&dir().join(format::CURRENT), &current);
    let error = open(&fs, true).unwrap_err();
    assert_names_place(&error, &name, ours.bytes.len(), "another number");
}

#[test]
fn a_missing_manifest_is_corruption_and_a_folder_without_current_is_no_database() {
    let sample = sample(10, 1);
    let fs = laid_out(&sample, &sample.bytes);
    fs.remove(&dir().join(&sample.name)).unwrap();
    let error = open(&fs, false).unwrap_err();
    assert_names_place(&error, "CURRENT", 0, "missing");
    assert!(error.to_string().contains(&sample.name), "{error}");

    let fs = fresh();
    assert!(!Manifest::exists(&fs, dir()).unwrap());
    let error = open(&fs, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    // And what is one is not created again.
    let fs = laid_out(&sample, &sample.bytes);
    let error = Manifest::create(storage(&fs), dir(), &created()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_newer_format_is_unsupported_and_both_versions_are_named() {
    let sample = sample(11, 1);
    let mut bytes = sample.bytes.clone();
    bytes[8] = 2;
    let crc = thermocline_base::checksum::crc32c(0, &bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    let error = opens_as(&laid_out(&sample, &bytes), "newer").unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        text.contains("version 2") && text.contains("version 1"),
        "{text}"
    );
}

/// Strangers' files stay, whatever they are called; our leftovers go.
#[test]
fn only_our_own_leftovers_are_removed() {
    let fs = fresh();
    let ours = sample(12, 1);
    fs.install(&dir().join("MANIFEST-000900"), &ours.bytes);
    fs.install(&dir().join("MANIFEST-000901"), b"");
    fs.install(&dir().join("MANIFEST-000902"), &[0; 100]);
    fs.install(&dir().join("CURRENT.tmp"), b"half");
    let strangers = [
        "MANIFEST-000903",
        "MANIFEST-12",
        "MANIFEST-000001.bak",
        "CURRENT.old",
        "notes",
    ];
    for name in strangers {
        fs.install(&dir().join(name), b"a stranger's");
    }
    let mut manifest = Manifest::create(storage(&fs), dir(), &created()).unwrap();
    let expect = |fs: &SimFs, live: &str| {
        let mut expected: Vec<String> = strangers.iter().map(ToString::to_string).collect();
        expected.extend(["CURRENT".to_string(), live.to_string()]);
        expected.sort_unstable();
        assert_eq!(fs.list(dir()).unwrap(), expected);
    };
    expect(&fs, "MANIFEST-000904");
    manifest.set_bytes_max(0);
    let random = SeededRandom::new(1);
    for _ in 0..1000 {
        if !manifest.path().ends_with("MANIFEST-000904") {
            break;
        }
        let edit = next_edit(manifest.state(), &random);
        manifest.append(&edit).unwrap();
    }
    expect(&fs, "MANIFEST-000905");
    fs.install(&dir().join("MANIFEST-000010"), &ours.bytes);
    fs.install(&dir().join("CURRENT.tmp"), b"half");
    drop(manifest);
    let (manifest, _) = Manifest::open(storage(&fs), dir(), false).unwrap();
    expect(&fs, "MANIFEST-000905");
    drop(manifest);
}

/// Another database's manifest is a stranger's if it names data, and if nobody can tell. A creation that was cut short leaves one
/// that names none, and it goes, whatever its id.
#[test]
fn another_databases_manifest_stays_if_it_names_data() {
    let theirs = fresh();
    let first = VersionEdit::from(Change::Created {
        db_id: [9; 16],
        region_id: [8; 16],
    });
    let mut other = Manifest::create(storage(&theirs), dir(), &first).unwrap();
    let bytes = || theirs.contents(&dir().join("MANIFEST-000001")).unwrap();
    let without_data = bytes();
    for id in 0..2 {
        let name = format!("family {id}");
        let family = Change::ColumnFamilyCreated { id, name };
        other.append(&family.into()).unwrap();
    }
    let with_data = bytes();
    let mut damaged = with_data.clone();
    damaged[format::HEADER_LEN + 9] ^= 1;
    let fs = fresh();
    fs.install(&dir().join("MANIFEST-000900"), &with_data);
    fs.install(&dir().join("MANIFEST-000901"), &damaged);
    fs.install(&dir().join("MANIFEST-000902"), &without_data);
    let expect = |live: &str| {
        let expected = ["CURRENT", "MANIFEST-000900", "MANIFEST-000901", live];
        assert_eq!(fs.list(dir()).unwrap(), expected);
    };
    let mut manifest = Manifest::create(storage(&fs), dir(), &created()).unwrap();
    expect("MANIFEST-000903");
    manifest.set_bytes_max(0);
    while manifest.path().ends_with("MANIFEST-000903") {
        manifest.append(&Change::Options(vec![]).into()).unwrap();
    }
    expect("MANIFEST-000904");
    drop(manifest);
    fs.install(&dir().join("MANIFEST-000010"), &without_data);
    for _ in 0..2 {
        Manifest::open(storage(&fs), dir(), false).unwrap();
        expect("MANIFEST-000904");
    }
}

#[test]
fn edits_that_cannot_be_are_refused_without_a_trace() {
    let fs = fresh();
    let none = VersionEdit::new();
    let early = VersionEdit::from(Change::MemtableCreated { id: 1 });
    for first in [&none, &early] {
        let error = Manifest::create(storage(&fs), dir(), first).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(fs.list(dir()).unwrap(), Vec::<String>::new());
    let mut manifest = Manifest::create(storage(&fs), dir(), &created()).unwrap();
    let before = fs.digest();
    let long = "x".repeat(format::PAYLOAD_LEN_MAX);
    let long = VersionEdit::from(Change::Options(vec![("a".into(), long)]));
    for edit in [&none, &long, &created()] {
        let error = manifest.append(edit).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(fs.digest(), before);
    manifest.append(&early).unwrap();
    let (mut read_only, _) = Manifest::open(storage(&fs), dir(), true).unwrap();
    let possible = VersionEdit::from(Change::MemtableCreated { id: 2 });
    let error = read_only.append(&possible).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    manifest.append(&possible).unwrap();
    assert!(fs.open(read_only.path(), OpenMode::Read).is_ok());
}

/// What a long append left, of which any eight bytes claim to be a record that reaches to the end, is
/// looked through once.
#[test]
fn a_long_torn_append_is_searched_in_linear_time() {
    let sample = sample(3, 4);
    for len in [1usize << 14, 1 << 17] {
        let mut bytes = sample.bytes.clone();
        let end = bytes.len() + len;
        while bytes.len() < end {
            let claim = u32::try_from(end - bytes.len() - format::RECORD_HEADER_LEN).unwrap();
            bytes.extend_from_slice(&claim.max(1).to_le_bytes());
            bytes.extend_from_slice(&[7; 4]);
        }
        let fs = laid_out(&sample, &bytes);
        let before = summed();
        let state = open(&fs, true).unwrap();
        assert_eq!(state, sample.states.last().unwrap().1);
        let steps = summed() - before;
        assert!(steps < 64 * bytes.len() as u64, "{steps} for {len}");
        // A whole one that is hidden among them is found.
        let at = bytes.len() - len / 2;
        let header: [u8; format::HEADER_LEN] = bytes[..format::HEADER_LEN].try_into().unwrap();
        let header = Header::decode(&header).unwrap();
        let record = header.encode_record(&[9; 1000], at as u64);
        bytes[at..at + record.len()].copy_from_slice(&record);
        let error = open(&laid_out(&sample, &bytes), true).unwrap_err();
        assert!(
            error.to_string().contains(&format!("offset {at}")),
            "{error}"
        );
    }
}
