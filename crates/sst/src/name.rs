//! Names of files.

use thermocline_base::FileId;

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
}

impl FileName {
    /// Reads a name exactly as [`table_name`] or [`blob_name`] makes it; none for a stranger's.
    pub fn parse(name: &str) -> Option<FileName> {
        let (number, kind) = name.split_once('.')?;
        let file = FileId(number.parse().ok()?);
        let parsed = match kind {
            "sst" => FileName::Table(file),
            "blob" => FileName::Blob(file),
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
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_they_were_made_and_strangers_are_none() {
        for n in [0, 1, 999_999, 1_000_000, u64::MAX] {
            for name in [FileName::Table(FileId(n)), FileName::Blob(FileId(n))] {
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
        ] {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }
}
