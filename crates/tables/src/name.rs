//! Names of the files that a version names.

use thermocline_base::FileId;
use thermocline_sst::FileName;
use thermocline_version::FileKind;

/// The name of a file in a database's folder.
pub fn file_name(file: FileId, kind: FileKind) -> FileName {
    match kind {
        FileKind::Table => FileName::Table(file),
        FileKind::Blob => FileName::Blob(file),
    }
}
