//! Names of files, and sizes as people write them.

use thermocline_base::FileId;
use thermocline_base::size::{format_size, parse_size};
use thermocline_sst::{FileName, blob_name, table_name};
use thermocline_version::format::{manifest_name, manifest_no};

use super::digest::Digest;
use crate::target::{Answer, Target};

pub(super) const TARGET: Target = Target {
    name: "names",
    run,
    samples,
    beginnings: None,
    runs: 1_000_000,
};

fn samples() -> Vec<Vec<u8>> {
    let numbers = [0, 7, 999_999, 1_000_000, u64::MAX];
    let names = numbers.map(|n| {
        [
            table_name(FileId(n)),
            blob_name(FileId(n)),
            manifest_name(n),
        ]
    });
    let names = names.into_iter().flatten();
    let sizes = [
        "512",
        "64MiB",
        "4 GiB",
        "18446744073709551615",
        "1B",
        "16777215 TiB",
    ];
    let all = names.chain(sizes.map(String::from));
    all.map(|text| [&[0][..], text.as_bytes()].concat())
        .collect()
}

fn run(input: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(input.get(1..).unwrap_or_default());
    let mut digest = Digest::default();
    if let Some(name) = FileName::parse(&text) {
        assert_eq!(name.to_string(), text);
        digest.add(text.as_bytes());
    }
    if let Some(n) = manifest_no(&text) {
        assert_eq!(manifest_name(n), text);
        digest.number(n);
    }
    match parse_size(&text) {
        Ok(bytes) => {
            assert!(!format_size(bytes).is_empty());
            assert_eq!(parse_size(&bytes.to_string()).ok(), Some(bytes));
            digest.number(bytes);
        }
        Err(error) => assert!(error.to_string().contains("is not a size")),
    }
    match digest.0 {
        0 => Answer::Refused,
        read => Answer::Read(read),
    }
}
