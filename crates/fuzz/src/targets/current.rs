//! `CURRENT`, and the headers of manifests.

use thermocline_version::format::{
    CURRENT_LEN_MAX, HEADER_LEN, Header, decode_current, encode_current,
};

use super::digest::Digest;
use crate::seal::{DB_ID, manifest as seal};
use crate::target::{Answer, SEAL, Target};

pub(super) const TARGET: Target = Target {
    name: "current",
    run,
    samples,
    beginnings: Some(|_| Vec::new()),
    runs: 1_000_000,
};

/// Of the first byte: the others are a manifest's header.
const HEADER: u8 = 2;

fn samples() -> Vec<Vec<u8>> {
    let header = Header {
        file_no: 0x1_0000_0001,
        db_id: DB_ID,
        durable_len: 0x90,
    };
    let currents = [1, 999_999, 1_000_000, u64::MAX].map(|n| encode_current(n, &DB_ID));
    let currents = currents.map(|bytes| [&[0][..], &bytes].concat());
    let header = [&[HEADER][..], &header.encode()].concat();
    currents.into_iter().chain([header]).collect()
}

fn run(input: &[u8]) -> Answer {
    let Some((flags, bytes)) = input.split_first() else {
        return Answer::Refused;
    };
    let mut bytes = bytes.to_vec();
    let mut digest = Digest::default();
    if flags & HEADER == 0 {
        return match decode_current(&bytes) {
            Ok((file_no, db_id)) => {
                assert!(bytes.len() <= CURRENT_LEN_MAX);
                assert_eq!(encode_current(file_no, &db_id), bytes);
                digest.number(file_no);
                digest.add(&db_id);
                Answer::Read(digest.0)
            }
            Err(_) => Answer::Refused,
        };
    }
    bytes.resize(HEADER_LEN, 0);
    if flags & SEAL != 0 {
        seal::seal(&mut bytes);
    }
    let bytes = bytes.first_chunk().expect("as many bytes as a header has");
    match Header::decode(bytes) {
        Ok(header) => {
            assert_eq!(&header.encode(), bytes);
            digest.number(header.file_no);
            digest.add(&header.db_id);
            digest.number(header.durable_len);
            Answer::Read(digest.0)
        }
        Err(_) => Answer::Refused,
    }
}
