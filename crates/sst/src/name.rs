//! Names of files.

use thermocline_base::FileId;

use crate::identity::Identity;

/// The name of a table's file.
///
/// ```
/// use thermocline_base::FileId;
/// use thermocline_sst::{FileName, table_name};
/// assert_eq!(table_name(FileId(7)), "000007.sst");
/// assert_eq!(FileName::parse("000007.sst"), Some(FileName::Table(FileId(7))));
/// ```
pub fn table_name(file: FileId) -> String {
    format!("{:06}.sst", file.0)
}

/// The name of a blob file.
pub fn blob_name(file: FileId) -> String {
    format!("{:06}.blob", file.0)
}

/// What a name in a database's folder says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileName {
    /// A table.
    Table(FileId),
    /// A blob file.
    Blob(FileId),
    /// A table of this database that is being written, or whose writer was interrupted.
    Unfinished(Identity),
}

impl FileName {
    /// Reads a name exactly as it is displayed; none for a stranger's.
    pub fn parse(name: &str) -> Option<FileName> {
        let (number, kind) = name.split_once('.')?;
        let (number, owner) = match number.split_once('-') {
            Some((number, owner)) => (number, Some(u128::from_str_radix(owner, 16).ok()?)),
            None => (number, None),
        };
        let file = FileId(number.parse().ok()?);
        let parsed = match (kind, owner) {
            ("sst", None) => FileName::Table(file),
            ("blob", None) => FileName::Blob(file),
            ("part", Some(owner)) => FileName::Unfinished(Identity::new(owner.to_be_bytes(), file)),
            _ => return None,
        };
        (parsed.to_string() == name).then_some(parsed)
    }
}

impl std::fmt::Display for FileName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&match self {
            FileName::Table(file) => table_name(*file),
            FileName::Blob(file) => blob_name(*file),
            FileName::Unfinished(Identity { db_id, file }) => {
                format!("{:06}-{:032x}.part", file.0, u128::from_be_bytes(*db_id))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_they_were_made_and_strangers_are_none() {
        for n in [0, 1, 999_999, 1_000_000, u64::MAX] {
            let of = |db_id| FileName::Unfinished(Identity::new(db_id, FileId(n)));
            let unfinished = [of([0; 16]), of([255; 16]), of(*b"0123456789abcdef")];
            let finished = [FileName::Table(FileId(n)), FileName::Blob(FileId(n))];
            for name in finished.into_iter().chain(unfinished) {
                assert_eq!(FileName::parse(&name.to_string()), Some(name));
            }
        }
        for name in [
            "",
            "7.sst",
            "+00007.sst",
            "000007.SST",
            "000007.sst.tmp",
            "0000007.sst",
            "sst",
            "000007.part",
            "000007-.part",
            "000007-0.part",
            "000007-0123456789ABCDEF0123456789ABCDEF.part",
            "000007-0123456789abcdef0123456789abcdef.sst",
        ] {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }
}
