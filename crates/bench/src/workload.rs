//! The workloads, by name, and the operations that they are made of.

use serde::Serialize;
use thermocline::{Error, Result};

use crate::distribution::{Distribution, THETA_DEFAULT};

/// What a workload does to one key. Each kind has latencies of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Reads a key.
    Read,
    /// Reads the entries from a key on.
    Scan,
    /// Writes a key, which may be there or not.
    Write,
    /// Writes a key that is there.
    Update,
    /// Writes a new key.
    Insert,
    /// Reads a key and writes it anew.
    ReadModifyWrite,
    /// Deletes a key.
    Delete,
}

impl Operation {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Operation; 7] = [
        Operation::Read,
        Operation::Scan,
        Operation::Write,
        Operation::Update,
        Operation::Insert,
        Operation::ReadModifyWrite,
        Operation::Delete,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Update => "update",
            Operation::Insert => "insert",
            Operation::Scan => "scan",
            Operation::ReadModifyWrite => "read_modify_write",
            Operation::Delete => "delete",
        }
    }

    /// Whether it looks a key up and so can find it.
    pub fn finds(self) -> bool {
        matches!(
            self,
            Operation::Read | Operation::Scan | Operation::ReadModifyWrite
        )
    }
}

/// The workloads, with the names and meanings of db_bench and YCSB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Workload {
    /// Writes every key once, in key order.
    FillSeq,
    /// Writes every key once, in random order.
    FillRandom,
    /// Writes keys drawn with replacement.
    Overwrite,
    /// Reads existing keys.
    ReadRandom,
    /// Reads keys that do not exist, each next to one that does.
    ReadMissing,
    /// Reads entries in key order.
    ReadSeq,
    /// Reads entries against key order.
    ReadReverse,
    /// Seeks an existing key and reads the entries from there.
    SeekRandom,
    /// Reads existing keys while one more thread overwrites keys for as long as they are read. As in
    /// db_bench only the reads count as operations.
    ReadWhileWriting,
    /// Each thread reads and writes existing keys, nine reads to one write.
    ReadRandomWriteRandom,
    /// Reads an existing key and writes it anew.
    UpdateRandom,
    /// Deletes keys drawn with replacement.
    DeleteRandom,
    /// Reads existing keys, several at once.
    MultiReadRandom,
    /// Reads blocks of the store's files, with the store closed: what the device does by itself.
    DeviceRead,
    /// YCSB's load phase: writes every key once, in random order.
    YcsbLoad,
    /// YCSB A: half reads, half updates, of zipfian keys.
    YcsbA,
    /// YCSB B: 95 % reads, 5 % updates, of zipfian keys.
    YcsbB,
    /// YCSB C: reads of zipfian keys.
    YcsbC,
    /// YCSB D: 95 % reads, most often of the newest keys, and 5 % inserts.
    YcsbD,
    /// YCSB E: 95 % scans from zipfian keys, of 1 to `scan-length` entries, and 5 % inserts.
    YcsbE,
    /// YCSB F: half reads, half read-modify-writes, of zipfian keys.
    YcsbF,
}

impl Workload {
    /// Every workload that runs.
    pub const ALL: [Workload; 21] = [
        Workload::FillSeq,
        Workload::FillRandom,
        Workload::Overwrite,
        Workload::ReadRandom,
        Workload::ReadMissing,
        Workload::ReadSeq,
        Workload::ReadReverse,
        Workload::SeekRandom,
        Workload::ReadWhileWriting,
        Workload::ReadRandomWriteRandom,
        Workload::UpdateRandom,
        Workload::DeleteRandom,
        Workload::MultiReadRandom,
        Workload::DeviceRead,
        Workload::YcsbLoad,
        Workload::YcsbA,
        Workload::YcsbB,
        Workload::YcsbC,
        Workload::YcsbD,
        Workload::YcsbE,
        Workload::YcsbF,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Workload::FillSeq => "fillseq",
            Workload::FillRandom => "fillrandom",
            Workload::Overwrite => "overwrite",
            Workload::ReadRandom => "readrandom",
            Workload::ReadMissing => "readmissing",
            Workload::ReadSeq => "readseq",
            Workload::ReadReverse => "readreverse",
            Workload::SeekRandom => "seekrandom",
            Workload::ReadWhileWriting => "readwhilewriting",
            Workload::ReadRandomWriteRandom => "readrandomwriterandom",
            Workload::UpdateRandom => "updaterandom",
            Workload::DeleteRandom => "deleterandom",
            Workload::MultiReadRandom => "multireadrandom",
            Workload::DeviceRead => "deviceread",
            Workload::YcsbLoad => "ycsb-load",
            Workload::YcsbA => "ycsb-a",
            Workload::YcsbB => "ycsb-b",
            Workload::YcsbC => "ycsb-c",
            Workload::YcsbD => "ycsb-d",
            Workload::YcsbE => "ycsb-e",
            Workload::YcsbF => "ycsb-f",
        }
    }

    /// The workload with this name.
    ///
    /// ```
    /// use thermocline_bench::Workload;
    /// assert_eq!(Workload::parse("ycsb-a")?, Workload::YcsbA);
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for any other name, those of transactions ([`oltp`](crate::oltp)) included.
    pub fn parse(name: &str) -> Result<Workload> {
        if let Some(workload) = Workload::ALL.into_iter().find(|w| w.name() == name) {
            return Ok(workload);
        }
        let names = Workload::ALL.map(Workload::name).join(", ");
        Err(Error::InvalidArgument(format!(
            "there is no workload '{name}'; there are {names}, tpcc, orders, randomtransaction and suite"
        )))
    }

    /// The operations that each of its threads draws from, with their percentages; none if its
    /// threads always do the same.
    pub fn mix(self) -> &'static [(Operation, u64)] {
        use Operation::{Insert, Read, ReadModifyWrite, Scan, Update, Write};
        match self {
            Workload::ReadRandomWriteRandom => &[(Read, 90), (Write, 10)],
            Workload::UpdateRandom => &[(ReadModifyWrite, 100)],
            Workload::YcsbA => &[(Read, 50), (Update, 50)],
            Workload::YcsbB => &[(Read, 95), (Update, 5)],
            Workload::YcsbC => &[(Read, 100)],
            Workload::YcsbD => &[(Read, 95), (Insert, 5)],
            Workload::YcsbE => &[(Scan, 95), (Insert, 5)],
            Workload::YcsbF => &[(Read, 50), (ReadModifyWrite, 50)],
            _ => &[],
        }
    }

    /// The kinds of its operations.
    pub fn operations(self) -> Vec<Operation> {
        match self {
            Workload::FillSeq | Workload::FillRandom | Workload::Overwrite | Workload::YcsbLoad => {
                vec![Operation::Write]
            }
            Workload::SeekRandom => vec![Operation::Scan],
            Workload::DeleteRandom => vec![Operation::Delete],
            Workload::ReadWhileWriting => vec![Operation::Read, Operation::Write],
            _ if self.mix().is_empty() => vec![Operation::Read],
            _ => self.mix().iter().map(|(operation, _)| *operation).collect(),
        }
    }

    /// Whether it works on keys that are there, so that they are loaded first.
    pub fn loads_first(self) -> bool {
        !self.only_writes() || self == Workload::DeleteRandom
    }

    /// Whether all that its threads do is writing.
    pub fn only_writes(self) -> bool {
        let operations = self.operations();
        matches!(operations[..], [Operation::Write | Operation::Delete])
    }

    /// Whether it looks keys up, so that how many were found can be said.
    pub fn finds(self) -> bool {
        self != Workload::DeviceRead && self.operations().into_iter().any(Operation::finds)
    }

    /// Whether its operations read entries beyond the first.
    pub fn scans(self) -> bool {
        self.operations().contains(&Operation::Scan)
    }

    /// Whether several of its reads can be under way at once.
    pub fn overlaps(self) -> bool {
        let some = [
            Workload::ReadRandom,
            Workload::ReadMissing,
            Workload::SeekRandom,
            Workload::DeviceRead,
        ];
        some.contains(&self)
    }

    /// Whether several keys can be written or read together.
    pub fn batches(self) -> bool {
        let single = [Workload::ReadWhileWriting, Workload::DeviceRead];
        self.mix().is_empty() && !single.contains(&self)
    }

    /// How it chooses keys, if nothing else is asked for.
    pub fn distribution(self) -> Distribution {
        match self {
            Workload::FillSeq | Workload::ReadSeq | Workload::ReadReverse => {
                Distribution::Sequential
            }
            Workload::YcsbD => Distribution::Latest,
            Workload::YcsbA
            | Workload::YcsbB
            | Workload::YcsbC
            | Workload::YcsbE
            | Workload::YcsbF => Distribution::Zipfian {
                theta: THETA_DEFAULT,
            },
            _ => Distribution::Uniform,
        }
    }

    /// Whether it chooses keys in this way only.
    pub fn distribution_is_fixed(self) -> bool {
        matches!(
            self,
            Workload::FillSeq
                | Workload::FillRandom
                | Workload::ReadSeq
                | Workload::ReadReverse
                | Workload::DeviceRead
                | Workload::YcsbLoad
        )
    }

    /// Entries that one of its scans reads, at most, if nothing else is asked for.
    pub fn scan_length(self) -> u64 {
        match self {
            Workload::YcsbE => 100,
            _ => 50,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_holds_together() {
        for (number, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, number);
            let json = serde_json::to_value(operation).unwrap();
            assert_eq!(json, operation.name());
        }
        for workload in Workload::ALL {
            assert_eq!(Workload::parse(workload.name()).unwrap(), workload);
            let mix = workload.mix();
            let all: u64 = mix.iter().map(|(_, percent)| percent).sum();
            assert!(mix.is_empty() || all == 100, "{}", workload.name());
            let finds = workload.finds() || workload == Workload::DeviceRead;
            assert!(finds != workload.only_writes());
        }
    }
}
