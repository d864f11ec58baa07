//! The report of `verify`.

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file or region.
    pub place: String,
    /// The offset in it, in bytes.
    pub offset: u64,
    /// A description of the fault, and of what should have been there.
    pub what: String,
}

/// The result of `Db::verify` and `Backups::verify`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifyReport {
    /// The faults; empty for a sound database, or sound backups. A file with very many faults has only its first ones here.
    pub faults: Vec<Fault>,
    /// Number of faults that are not among `faults`.
    pub more_faults: u64,
    /// Records, entries of tables and values in blob files whose checksums were checked. Of backups: files that lists name, those that
    /// are missing among them.
    pub records: u64,
    /// Bytes that were checked: of records, of the manifest, of tables and blob files. Of backups: those that the files have by their lists.
    pub bytes: u64,
}

impl VerifyReport {
    /// Number of all faults.
    ///
    /// ```
    /// use thermocline::{Fault, VerifyReport};
    /// let fault = Fault { place: "a table".into(), offset: 7, what: "checksum".into() };
    /// let report = VerifyReport { faults: vec![fault], more_faults: 3, ..VerifyReport::default() };
    /// assert_eq!(report.fault_count(), 4);
    /// ```
    pub fn fault_count(&self) -> u64 {
        self.faults.len() as u64 + self.more_faults
    }

    pub(crate) fn of(report: thermocline_engine::Report) -> VerifyReport {
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
