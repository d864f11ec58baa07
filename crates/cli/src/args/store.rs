//! Options of every command that opens a store.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use thermocline::size::parse_size;

pub(super) fn size(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|e| match e {
        thermocline::Error::InvalidArgument(text) => text,
        other => other.to_string(),
    })
}

pub(super) fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_string(), value.to_string())),
        _ => Err("write it as group.option=value, like memtable.bytes_max=64MiB".to_string()),
    }
}

/// A family and its TTL.
pub(super) fn ttl(text: &str) -> Result<(String, Duration), String> {
    let parsed = text.rsplit_once('=').and_then(|(family, ttl)| {
        let digits = ttl.find(|c: char| !c.is_ascii_digit())?;
        let (number, unit) = ttl.split_at(digits);
        let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let seconds = number.parse::<u64>().ok()?.checked_mul(*seconds)?;
        (!family.is_empty()).then(|| (family.to_string(), Duration::from_secs(seconds)))
    });
    parsed.ok_or_else(|| {
        "write it as family=duration, like sessions=30d; a duration ends with s, m, h or d"
            .to_string()
    })
}

/// Units of durations, in seconds.
const UNITS: [(&str, u64); 4] = [("s", 1), ("m", 60), ("h", 3600), ("d", 24 * 3600)];

/// Options of every command that opens a store. What is not given stays as the database was last
/// opened with.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of the store")]
pub(crate) struct StoreArgs {
    /// The named set of options to start from: thermocline, global-index, pm-blade, flat-lsm, leveled or trident
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Most DRAM to use, like 512MiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub dram: Option<u64>,
    /// Where persistent memory lies: a file, or a folder to make it in
    #[arg(long, value_name = "PATH")]
    pub pm_path: Option<PathBuf>,
    /// With presets leveled and trident: the folder for logs, on any file system
    #[arg(long, value_name = "PATH")]
    pub wal_path: Option<PathBuf>,
    /// Most persistent memory to use, like 4GiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub pm: Option<u64>,
    /// How long a column family keeps what is written to it, at least: as family=duration, like sessions=30d; may be repeated. Of this
    /// run, and not kept; the family must be there, or be made by this run
    #[arg(long, value_name = "FAMILY=DURATION", value_parser = ttl)]
    pub ttl: Vec<(String, Duration)>,
    /// Set one option, like memtable.bytes_max=64MiB; may be repeated. `options` lists all that there are
    #[arg(long, value_name = "GROUP.OPTION=VALUE", value_parser = setting)]
    pub set: Vec<(String, String)>,
}

/// A database.
#[derive(Debug, Args)]
pub(crate) struct DbArgs {
    /// The database's folder
    pub db: PathBuf,
    #[command(flatten)]
    pub store: StoreArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_has_a_family_a_number_and_a_unit() {
        for (text, family, seconds) in [
            ("sessions=30d", "sessions", 2_592_000),
            ("a=b=90s", "a=b", 90),
            ("default=0h", "default", 0),
            ("x=5m", "x", 300),
        ] {
            let expected = (family.to_string(), Duration::from_secs(seconds));
            assert_eq!(ttl(text), Ok(expected));
        }
        for wrong in [
            "",
            "30d",
            "=30d",
            "x=",
            "x=30",
            "x=d",
            "x=1w",
            "x=-1s",
            "x=99999999999999999999s",
            "x=400000000000000000d",
        ] {
            ttl(wrong).unwrap_err();
        }
    }
}
