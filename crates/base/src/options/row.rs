//! A row of an option table: how its value reads and prints.

use crate::error::{Error, Result};
use crate::size::parse_size;

/// How an option's value reads and prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A number of bytes (`64MiB`).
    Bytes,
    /// A plain number.
    Count,
    /// A number of milliseconds.
    Millis,
    /// `true` or `false`, kept as 1 or 0.
    Flag,
    /// How blocks are compressed: one of [`CODECS`], kept as its place there.
    Codec,
    /// The future of sealed memtables: one of [`SHAPES`] or `auto`, kept as its place there.
    Shape,
    /// By what keys are divided into partitions: one of [`DIVISIONS`], kept as its place there.
    Division,
    /// When level 0 is merged inside persistent memory: one of [`COSTS`], kept as its place there.
    Costs,
    /// Which index tables have: one of [`INDEXES`], kept as its place there.
    Index,
    /// How asynchronous reads are made: one of [`ASYNC_IO`], kept as its place there.
    AsyncIo,
    /// How jobs wait for the device: one of [`SCHEDULERS`], kept as its place there.
    Scheduler,
}

/// The values of [`Unit::Codec`].
pub const CODECS: [&str; 3] = ["none", "lz4", "zstd"];

/// The values of [`Unit::Shape`].
pub const SHAPES: [&str; 5] = ["immutables", "global-index", "ssd", "pm-tables", "tiered"];

/// [`SHAPES`], and the word that leaves the choice to the region.
const SHAPES_OR_AUTO: [&str; 6] = [
    SHAPES[0], SHAPES[1], SHAPES[2], SHAPES[3], SHAPES[4], "auto",
];

/// The values of [`Unit::Division`].
pub const DIVISIONS: [&str; 4] = ["none", "size", "prefix", "keys"];

/// The values of [`Unit::Index`].
pub const INDEXES: [&str; 2] = ["binary", "learned"];

/// The values of [`Unit::AsyncIo`].
pub const ASYNC_IO: [&str; 4] = ["interrupt", "sqpoll", "iopoll", "threads"];

/// The values of [`Unit::Scheduler`].
pub const SCHEDULERS: [&str; 3] = ["threads", "coroutines", "stages"];

/// The values of [`Unit::Costs`].
pub const COSTS: [&str; 3] = ["off", "corrected", "printed"];

impl Unit {
    /// The place of its last word; numbers have none.
    pub(in crate::options) const fn last_place(self) -> u64 {
        let words = match self {
            Unit::Flag => 2,
            Unit::Codec => CODECS.len(),
            Unit::Shape => SHAPES_OR_AUTO.len(),
            Unit::Division => DIVISIONS.len(),
            Unit::Costs => COSTS.len(),
            Unit::Index => INDEXES.len(),
            Unit::AsyncIo => ASYNC_IO.len(),
            Unit::Scheduler => SCHEDULERS.len(),
            Unit::Bytes | Unit::Count | Unit::Millis => return u64::MAX,
        };
        words as u64 - 1
    }

    /// What an option takes that has it, in words.
    fn takes(self) -> &'static str {
        match self {
            Unit::Bytes => "a size like 64MiB",
            Unit::Count => "a whole number",
            Unit::Millis => "a whole number of milliseconds",
            Unit::Flag => "true or false",
            Unit::Codec => "none, lz4 or zstd",
            Unit::Shape => "auto, immutables, global-index, ssd, pm-tables or tiered",
            Unit::Division => "none, size, prefix or keys",
            Unit::Costs => "off, corrected or printed",
            Unit::Index => "binary or learned",
            Unit::AsyncIo => "interrupt, sqpoll, iopoll or threads",
            Unit::Scheduler => "threads, coroutines or stages",
        }
    }

    /// The words that an option takes, if it takes words.
    fn words(self) -> &'static [&'static str] {
        match self {
            Unit::Codec => &CODECS,
            Unit::Shape => &SHAPES_OR_AUTO,
            Unit::Division => &DIVISIONS,
            Unit::Costs => &COSTS,
            Unit::Index => &INDEXES,
            Unit::AsyncIo => &ASYNC_IO,
            Unit::Scheduler => &SCHEDULERS,
            Unit::Bytes | Unit::Count | Unit::Millis | Unit::Flag => &[],
        }
    }
}

/// One row of an option table.
#[derive(Debug, Clone, Copy)]
pub struct OptionRow {
    /// `group.option`.
    pub name: &'static str,
    /// The option's meaning.
    pub doc: &'static str,
    /// The unit in which it reads and prints.
    pub unit: Unit,
    /// The value unless set.
    pub default: u64,
    /// Smallest allowed value.
    pub min: u64,
    /// Largest allowed value.
    pub max: u64,
}

impl OptionRow {
    pub(in crate::options) fn parse(&self, text: &str) -> Result<u64> {
        let bad = || {
            let range = match self.unit {
                Unit::Bytes | Unit::Count | Unit::Millis => format!(", {}", self.takes()),
                _ => String::new(),
            };
            Error::InvalidArgument(format!(
                "'{text}' is not a value for {}: it takes {}{range}",
                self.name,
                self.unit.takes()
            ))
        };
        let value = match (self.unit, text) {
            (Unit::Bytes, _) => parse_size(text).map_err(|_| bad())?,
            (Unit::Flag, "true") => 1,
            (Unit::Flag, "false") => 0,
            (Unit::Flag, _) => return Err(bad()),
            (
                Unit::Codec
                | Unit::Shape
                | Unit::Division
                | Unit::Costs
                | Unit::Index
                | Unit::AsyncIo
                | Unit::Scheduler,
                _,
            ) => {
                let place = (0..)
                    .zip(self.unit.words())
                    .find(|(_, word)| **word == text);
                place.ok_or_else(bad)?.0
            }
            (Unit::Count | Unit::Millis, _) => text.trim().parse().map_err(|_| bad())?,
        };
        self.check(value)?;
        Ok(value)
    }

    pub(in crate::options) fn print(&self, value: u64) -> String {
        match self.unit {
            Unit::Bytes => format_exact(value),
            Unit::Flag => (value != 0).to_string(),
            Unit::Codec
            | Unit::Shape
            | Unit::Division
            | Unit::Costs
            | Unit::Index
            | Unit::AsyncIo
            | Unit::Scheduler => {
                let place = usize::try_from(value).ok();
                let word = place.and_then(|place| self.unit.words().get(place));
                word.map_or_else(|| value.to_string(), ToString::to_string)
            }
            Unit::Count | Unit::Millis => value.to_string(),
        }
    }

    /// What it takes: a range with its unit, or all words.
    pub(in crate::options) fn takes(&self) -> String {
        let range = || format!("{} to {}", self.print(self.min), self.print(self.max));
        match self.unit {
            Unit::Bytes | Unit::Count => range(),
            Unit::Millis => range() + " ms",
            unit => unit.takes().to_string(),
        }
    }

    pub(in crate::options) fn check(&self, value: u64) -> Result<()> {
        if value < self.min || value > self.max {
            return Err(Error::InvalidArgument(format!(
                "{} must lie between {} and {}; {} was given",
                self.name,
                self.print(self.min),
                self.print(self.max),
                self.print(value)
            )));
        }
        Ok(())
    }
}

/// A number of bytes as [`Unit::Bytes`] prints it: exact, so that it can be read back.
pub(in crate::options) fn format_exact(bytes: u64) -> String {
    if bytes == 0 || !bytes.is_multiple_of(1024) {
        return bytes.to_string();
    }
    let power = (bytes.trailing_zeros() / 10).min(3);
    let unit = ["B", "KiB", "MiB", "GiB"][power as usize];
    format!("{}{unit}", bytes >> (10 * power))
}
