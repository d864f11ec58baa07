//! Reading: `CURRENT`, then the edits of the file that it names, or that its pointer leads to. Nothing here writes.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::{Error, Result};
use thermocline_env::{File, OpenMode, Storage};

use crate::format::{self, Header, Unreadable};
use crate::state::State;

/// So often it is looked for the live manifest, at most, where it is another one each time. A manifest lives for hundreds of edits, each with
/// a sync, and is read in less: a second look is rare.
const LOOKS: u32 = 8;

/// What a manifest says.
pub(super) struct Replayed {
    pub(super) header: Header,
    pub(super) state: State,
    /// The end of the last whole record.
    pub(super) len: u64,
    /// That record.
    pub(super) last: LastRecord,
    /// Whether there is a torn append behind it.
    pub(super) torn: bool,
    /// The manifest that goes on, if that record is a pointer.
    pub(super) next: Option<u64>,
}

/// The bytes of a file's last record, as they were checked.
pub(super) struct LastRecord {
    bytes: Vec<u8>,
    at: u64,
}

impl LastRecord {
    pub(super) fn write_again(&self, file: &dyn File) -> Result<()> {
        file.write_at(&self.bytes, self.at)
    }
}

/// A file on the way from `CURRENT` to the live one.
pub(super) struct Passed {
    pub(super) file: Arc<dyn File>,
    pub(super) pointer: LastRecord,
}

/// An error about `path`, whose unreadable part begins at `offset`.
fn unreadable(path: &Path, offset: u64, why: Unreadable) -> Error {
    match why {
        Unreadable::Damaged {
            what,
            at,
            expected,
            got,
        } => {
            let place = path.display().to_string();
            Error::corruption(what, place, offset + at as u64, expected, got)
        }
        Unreadable::Newer(text) => Error::Unsupported(format!("{}: {text}", path.display())),
    }
}

fn corrupt(
    file: &dyn File,
    what: &str,
    at: u64,
    expected: impl ToString,
    got: impl ToString,
) -> Error {
    let place = file.path().display().to_string();
    Error::corruption(what, place, at, expected, got)
}

/// The bytes of `file` from `start` up to `end`.
fn read(file: &dyn File, start: u64, end: u64) -> Result<Vec<u8>> {
    let len = usize::try_from(end - start).expect("callers ask for at most a record");
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

/// The live manifest's number and the database's id, as the file `path` says them: `CURRENT`, whatever it is called.
pub(super) fn read_current(storage: &dyn Storage, path: &Path) -> Result<(u64, [u8; 16])> {
    let file = storage.open(path, OpenMode::Read)?;
    let len = file.len()?;
    if len > format::CURRENT_LEN_MAX as u64 {
        let most = format!("at most {} bytes", format::CURRENT_LEN_MAX);
        return Err(corrupt(&*file, "length", 0, most, len));
    }
    let bytes = read(&*file, 0, len)?;
    format::decode_current(&bytes).map_err(|why| unreadable(path, 0, why))
}

/// Opens a manifest that `named_by` names.
fn open_named(
    storage: &dyn Storage,
    named_by: &Path,
    path: &Path,
    mode: OpenMode,
) -> Result<Arc<dyn File>> {
    if storage.exists(path)? {
        return storage.open(path, mode);
    }
    // Which one is what was found: who reads beside a writer tells by that whether it is the same one the next time.
    Err(Error::corruption(
        "the manifest that it names is missing",
        named_by.display().to_string(),
        0,
        "a file",
        format!("no {}", path.display()),
    ))
}

/// A live manifest, what it says, and the files on the way from `CURRENT` to it.
type Found = (Arc<dyn File>, Replayed, Vec<Passed>);

/// Finds the live manifest, from the file of the name `current` on.
///
/// Edits go to a file only when it is reached, so a later one that has some shows that a pointer to it has rotted.
pub(super) fn find_live(
    storage: &dyn Storage,
    (dir, current): (&Path, &str),
    mode: OpenMode,
) -> Result<Found> {
    let named_by = dir.join(current);
    let found = follow(storage, (dir, &named_by), mode)?;
    let Some(later) = later_with_edits(storage, dir, &found.1.header)? else {
        return Ok(found);
    };
    // Somebody may be writing while this one reads. Then the pointer is there by now.
    let (file, replayed, passed) = follow(storage, (dir, &named_by), mode)?;
    if replayed.header.file_no < later {
        let what = "a pointer is missing to a later manifest, which has edits";
        let expected = format!("a pointer to {}", format::manifest_name(later));
        let got = if replayed.torn {
            "a damaged record"
        } else {
            "no more"
        };
        return Err(corrupt(&*file, what, replayed.len, expected, got));
    }
    Ok((file, replayed, passed))
}

/// Who writes may go on to another manifest while this one reads, and remove those that are on the way. Then `CURRENT` names another one
/// by now, and it is followed from there.
fn follow(storage: &dyn Storage, (dir, named_by): (&Path, &Path), mode: OpenMode) -> Result<Found> {
    let mut current = read_current(storage, named_by)?;
    for _ in 1..LOOKS {
        let found = follow_from(storage, (dir, named_by), mode, current);
        if found.is_ok() {
            return found;
        }
        match read_current(storage, named_by) {
            Ok(now) if now != current => current = now,
            _ => return found,
        }
    }
    follow_from(storage, (dir, named_by), mode, current)
}

fn follow_from(
    storage: &dyn Storage,
    (dir, current): (&Path, &Path),
    mode: OpenMode,
    (mut file_no, db_id): (u64, [u8; 16]),
) -> Result<Found> {
    let mut named_by = current.to_path_buf();
    let mut passed = Vec::new();
    // Numbers rise from one to the next, and each is the name of a file: it ends.
    loop {
        let path = dir.join(format::manifest_name(file_no));
        let file = open_named(storage, &named_by, &path, mode)?;
        let replayed = replay(&*file, file_no, db_id)?;
        let Some(next) = replayed.next else {
            return Ok((file, replayed, passed));
        };
        let pointer = replayed.last;
        passed.push(Passed { file, pointer });
        (file_no, named_by) = (next, path);
    }
}

/// A manifest of this database with a larger number than the one with `header`, and with records behind its snapshot.
fn later_with_edits(storage: &dyn Storage, dir: &Path, header: &Header) -> Result<Option<u64>> {
    for name in storage.list(dir)? {
        let Some(file_no) = format::manifest_no(&name).filter(|no| *no > header.file_no) else {
            continue;
        };
        // Whoever writes may have removed it, or it is no file.
        let Ok(file) = storage.open(&dir.join(&name), OpenMode::Read) else {
            continue;
        };
        // What cannot be read was never finished: it was made before it got its pointer.
        let has_edits = replay(&*file, file_no, header.db_id)
            .is_ok_and(|replayed| replayed.len > replayed.header.durable_len);
        if has_edits {
            return Ok(Some(file_no));
        }
    }
    Ok(None)
}

/// The manifest that another one's pointer names, if that has one.
pub(super) fn pointer_of(
    storage: &dyn Storage,
    dir: &Path,
    file_no: u64,
    db_id: [u8; 16],
) -> Result<Option<u64>> {
    let path = dir.join(format::manifest_name(file_no));
    let file = storage.open(&path, OpenMode::Read)?;
    replay(&*file, file_no, db_id).map(|replayed| replayed.next)
}

/// Reads the whole manifest.
pub(super) fn replay(file: &dyn File, file_no: u64, db_id: [u8; 16]) -> Result<Replayed> {
    let file_len = file.len()?;
    let header = read_header(file, file_len, file_no, db_id)?;
    let mut replayed = Replayed {
        header,
        state: State::default(),
        len: format::HEADER_LEN as u64,
        last: LastRecord {
            bytes: Vec::new(),
            at: 0,
        },
        torn: false,
        next: None,
    };
    while replayed.len < file_len {
        let at = replayed.len;
        let Some(record) = read_record(file, at, file_len)? else {
            check_torn(file, &header, at, file_len)?;
            replayed.torn = true;
            break;
        };
        let Some((payload, len)) = header.decode_record(&record, at) else {
            check_torn(file, &header, at, file_len)?;
            replayed.torn = true;
            break;
        };
        take_payload(file, &mut replayed, payload)?;
        replayed.len = at + len as u64;
        replayed.last = LastRecord { bytes: record, at };
    }
    if replayed.len < header.durable_len {
        let what = "the file ends within its snapshot";
        return Err(corrupt(
            file,
            what,
            replayed.len,
            header.durable_len,
            file_len,
        ));
    }
    if replayed.state.db_id() != Some(db_id) {
        let what = "database id in the first edit";
        let at = format::HEADER_LEN as u64;
        let got = replayed.state.db_id().map(u128::from_be_bytes);
        let got = got.map_or("none".to_string(), |id| format!("{id:032x}"));
        let expected = format!("{:032x}", u128::from_be_bytes(db_id));
        return Err(corrupt(file, what, at, expected, got));
    }
    Ok(replayed)
}

/// What the record at the end of what was read so far says.
fn take_payload(file: &dyn File, replayed: &mut Replayed, payload: &[u8]) -> Result<()> {
    let at = replayed.len;
    let within = |why| unreadable(file.path(), at + format::RECORD_HEADER_LEN as u64, why);
    if let Some(next) = replayed.next {
        let what = "a record behind the one that names another manifest";
        return Err(corrupt(
            file,
            what,
            at,
            format::manifest_name(next),
            "a record",
        ));
    }
    if let Some(next) = format::decode_pointer(payload).map_err(within)? {
        let own = replayed.header.file_no;
        if next <= own || at < replayed.header.durable_len {
            let expected = format!("a later one than {}", format::manifest_name(own));
            let got = format::manifest_name(next);
            return Err(corrupt(
                file,
                "the manifest that goes on",
                at,
                expected,
                got,
            ));
        }
        replayed.next = Some(next);
        return Ok(());
    }
    let edit = format::decode_edit(payload).map_err(within)?;
    let applied = replayed.state.apply_in_place(&edit);
    applied.map_err(|e| corrupt(file, e.what, at, e.expected, e.got))
}

fn read_header(file: &dyn File, file_len: u64, file_no: u64, db_id: [u8; 16]) -> Result<Header> {
    let mut bytes = [0; format::HEADER_LEN];
    if file_len < bytes.len() as u64 {
        return Err(corrupt(file, "length", 0, bytes.len(), file_len));
    }
    file.read_exact_at(&mut bytes, 0)?;
    let header = Header::decode(&bytes).map_err(|why| unreadable(file.path(), 0, why))?;
    if header.file_no != file_no {
        return Err(corrupt(file, "file number", 16, file_no, header.file_no));
    }
    if header.db_id != db_id {
        let [expected, got] = [db_id, header.db_id].map(|id| {
            let id = u128::from_be_bytes(id);
            format!("{id:032x}")
        });
        return Err(corrupt(file, "database id", 24, expected, got));
    }
    Ok(header)
}

/// The bytes that the record at `at` claims, if it can be one and lies within the file.
fn read_record(file: &dyn File, at: u64, file_len: u64) -> Result<Option<Vec<u8>>> {
    if file_len - at < format::RECORD_HEADER_LEN as u64 {
        return Ok(None);
    }
    let head = read(file, at, at + format::RECORD_HEADER_LEN as u64)?;
    match format::record_len_of(&head) {
        Some(len) if len as u64 <= file_len - at => read(file, at, at + len as u64).map(Some),
        _ => Ok(None),
    }
}

/// Whether the bad record at `at` may be what a crash left of one append; otherwise an error.
fn check_torn(file: &dyn File, header: &Header, at: u64, file_len: u64) -> Result<()> {
    if at < header.durable_len {
        let what = "damaged record in the snapshot";
        return Err(corrupt(
            file,
            what,
            at,
            "a whole record",
            "another checksum",
        ));
    }
    let most = format::RECORD_LEN_MAX as u64;
    if file_len - at > most {
        let what = "damaged record with more behind it than one append";
        let got = file_len - at;
        return Err(corrupt(
            file,
            what,
            at,
            format!("at most {most} bytes"),
            got,
        ));
    }
    let tail = read(file, at, file_len)?;
    // Of what an append left, any eight bytes may claim to be a long record.
    let searched = format::Searched::new(&tail);
    let mut skipped = format::RECORD_ALIGN;
    while skipped < tail.len() {
        let place = at + skipped as u64;
        if searched.has_record(header, skipped, place) {
            let what = "damaged record before a whole one";
            let got = format!("a whole one at offset {place}");
            return Err(corrupt(file, what, at, "a whole record", got));
        }
        skipped += format::RECORD_ALIGN;
    }
    Ok(())
}
