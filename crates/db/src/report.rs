//! What `verify` finds.

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file or zone.
    pub place: String,
    /// The offset in it, in bytes.
    pub offset: u64,
    /// What is wrong, and what should have been there.
    pub what: String,
}

/// The answer of `Db::verify`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifyReport {
    /// Everything that is wrong; empty for a sound database. Of a file with very many faults the first ones.
    pub faults: Vec<Fault>,
    /// How many more there are.
    pub more_faults: u64,
    /// Records whose checksums were checked.
    pub records: u64,
    /// Bytes read and checked.
    pub bytes: u64,
}

impl From<thermocline_engine::Report> for VerifyReport {
    fn from(report: thermocline_engine::Report) -> VerifyReport {
        let faults = report.faults.into_iter();
        VerifyReport {
            faults: faults
                .map(|f| Fault {
                    place: f.place,
                    offset: f.offset,
                    what: f.what,
                })
                .collect(),
            more_faults: report.more_faults,
            records: report.records,
            bytes: report.bytes,
        }
    }
}
