//! Edits: the payloads of a manifest's records, one after the other.

use thermocline_base::checksum::hash64;
use thermocline_testkit::golden;
use thermocline_version::State;
use thermocline_version::format::{Unreadable, decode_edit, encode_edit};

use crate::seal::manifest;
use crate::target::{Answer, Target};

pub(super) const TARGET: Target = Target {
    name: "edit",
    run,
    samples,
    beginnings: None,
    runs: 2_000_000,
};

pub(super) const MANIFESTS: [&str; 4] = [
    include_str!("../../../version/tests/golden/manifest-v1.txt"),
    include_str!("../../../version/tests/golden/manifest-v1-chain-adopted.txt"),
    include_str!("../../../version/tests/golden/manifest-v1-family-options.txt"),
    include_str!("../../../version/tests/golden/manifest-v1-tables.txt"),
];

/// Each record's payload, behind as many bytes as there are in the records before: those are applied
/// first.
fn samples() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for manifest in MANIFESTS.map(golden::listed) {
        let mut at = 64;
        for end in manifest::ends(&manifest) {
            let len = u32::from_le_bytes(manifest[at..at + 4].try_into().expect("four bytes"));
            let len = usize::try_from(len).expect("a record is small");
            all.push([&[0][..], &manifest[at + 8..at + 8 + len]].concat());
            at = end;
        }
    }
    all
}

fn run(input: &[u8]) -> Answer {
    let bytes = input.get(1..).unwrap_or_default();
    match decode_edit(bytes) {
        Ok(edit) => {
            // What is read is what would be written, but for changes that may be passed over.
            let again = encode_edit(&edit);
            assert_eq!(decode_edit(&again).as_ref(), Ok(&edit));
            assert!(again.len() <= bytes.len());
            // It may be impossible, not more: refused or applied, and then a snapshot gives it again.
            let mut state = State::default();
            if state.apply(&edit).is_ok() {
                let mut copy = State::default();
                for part in state.snapshot() {
                    copy.apply(&part).expect("a snapshot can be applied");
                }
                assert_eq!(copy, state);
            }
            Answer::Read(hash64(&again))
        }
        Err(Unreadable::Damaged { at, .. }) => {
            assert!(at <= bytes.len());
            Answer::Refused
        }
        Err(Unreadable::Newer(text)) => {
            assert!(!text.is_empty());
            Answer::Refused
        }
    }
}
