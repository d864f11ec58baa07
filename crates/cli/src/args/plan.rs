//! Arguments of `plan`.

use clap::{Args, ValueEnum};

use crate::args::store::{setting, size};

/// Where keys lie that are written often
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SpreadArg {
    /// Anywhere among the others
    Keys,
    /// Together, in ranges
    Ranges,
}

/// Arguments of `plan`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thermocline plan --data 2TiB --pm 64GiB --dram 16GiB --writes 50MB/s --skew 0.9
  thermocline plan --data 100GiB --writes 20MB/s --preset leveled --device 2GB/s
  thermocline plan --data 1TiB --pm 32GiB --writes 10MB/s --reads 50000 --value-size 1000 --json

The figures are those of a model of a store that has been written to for long: it is driven by the same decisions
as a real one, and no store is opened. It takes seconds, or a minute with terabytes of persistent memory. It leaves
out deletes, long values, several column families and compression. Where a store lies changes nothing in it, so
--set refuses pm_path, wal_path, region and emulate.")]
pub(crate) struct PlanArgs {
    /// All keys with their values, like 2TiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub data: u64,
    /// Persistent memory
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "4GiB")]
    pub pm: u64,
    /// DRAM
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1GiB")]
    pub dram: u64,
    /// Keys and values written in a second, like 50MB/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub writes: f64,
    /// Keys read in a second
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub reads: u64,
    /// How unlike keys are: with 0 all are written alike, with 1 the n-th one n-th as often as the first
    #[arg(long, value_name = "S", value_parser = skew, default_value = "0")]
    pub skew: f64,
    /// Where keys lie that are written often
    #[arg(long, value_enum, default_value = "keys")]
    pub spread: SpreadArg,
    /// Bytes of a key
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    pub key_size: u64,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 400)]
    pub value_size: u64,
    /// What the SSD writes or reads in a second
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "1GB/s")]
    pub device: f64,
    /// Processors for background work
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), default_value_t = 2)]
    pub processors: u16,
    /// The named set of options
    #[arg(long, value_name = "NAME", default_value = "thermocline")]
    pub preset: String,
    /// Set one option, like memtable.bytes_max=64MiB; may be repeated
    #[arg(long, value_name = "GROUP.OPTION=VALUE", value_parser = setting)]
    pub set: Vec<(String, String)>,
}

/// Units of a rate, in bytes.
const UNITS: [(&str, f64); 9] = [
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("B", 1.0),
    ("", 1.0),
];

fn rate(text: &str) -> Result<f64, String> {
    let bad = || "write a rate like 50MB/s or 200MiB/s".to_string();
    let all = text.trim().strip_suffix("/s").unwrap_or(text.trim()).trim();
    let (number, unit) = UNITS
        .into_iter()
        .find_map(|(name, bytes)| Some((all.strip_suffix(name)?, bytes)))
        .ok_or_else(bad)?;
    let number: f64 = number.trim().parse().map_err(|_| bad())?;
    let rate = number * unit;
    match (1.0..=1e13).contains(&rate) {
        true => Ok(rate),
        false => Err("a rate lies between 1 B/s and 10000 GB/s".to_string()),
    }
}

fn skew(text: &str) -> Result<f64, String> {
    let bad = "a skew is a number from 0 to 2".to_string();
    match text.trim().parse::<f64>() {
        Ok(skew) if (0.0..=2.0).contains(&skew) => Ok(skew),
        _ => Err(bad),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("50MB/s", 50e6),
            ("1.5 GB/s", 1.5e9),
            ("200MiB/s", 200.0 * 1_048_576.0),
            ("10kB", 10e3),
            ("512", 512.0),
            ("7 B/s", 7.0),
        ] {
            assert_eq!(rate(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "fast",
            "MB/s",
            "-1MB/s",
            "0",
            "NaN",
            "inf",
            "1e300MB/s",
            "5TB/h",
        ] {
            assert!(rate(text).is_err(), "{text}");
        }
        assert_eq!(skew("0.9"), Ok(0.9));
        assert!(skew("-0.1").is_err() && skew("nan").is_err() && skew("3").is_err());
    }
}
