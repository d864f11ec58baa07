//! How payloads of blocks are compressed.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io;

use thermocline_base::{Codec, Error, Result};
use zstd::bulk::Decompressor;

pub(crate) const TAG_NONE: u8 = Codec::None as u8;
pub(crate) const TAG_LZ4: u8 = Codec::Lz4 as u8;
pub(crate) const TAG_ZSTD: u8 = Codec::Zstd as u8;

/// How the blocks of a table are compressed. A block that would not become an eighth smaller is stored
/// as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// LZ4: fast.
    Lz4,
    /// Zstandard at this level, 1 to 19: small.
    Zstd(i32),
}

impl Compression {
    /// What reads it.
    pub fn codec(self) -> Codec {
        match self {
            Compression::None => Codec::None,
            Compression::Lz4 => Codec::Lz4,
            Compression::Zstd(_) => Codec::Zstd,
        }
    }

    pub(crate) fn validate(self) -> Result<()> {
        match self {
            Compression::Zstd(level) if !(1..=19).contains(&level) => Err(Error::InvalidArgument(
                format!("the level of zstd is {level}, but must be from 1 to 19"),
            )),
            _ => Ok(()),
        }
    }
}

/// Blocks in a row that did not shrink, after which not every one is tried any more.
const TRIES: u32 = 4;

/// Most blocks that are passed over between two that are tried.
const PASSED_MAX: u32 = 32;

/// How this one compresses.
enum Method {
    None,
    Lz4,
    Zstd(Box<zstd::bulk::Compressor<'static>>),
}

/// Compresses block after block. Where values cannot be compressed, trying costs more time than anything
/// else that is done to them: so after some blocks in a row that did not shrink the next ones are passed
/// over, twice as many each time, up to [`PASSED_MAX`]. The first block that shrinks ends that.
pub(crate) struct Compressor {
    method: Method,
    /// Blocks in a row that were tried and did not shrink.
    misses: u32,
    /// Blocks that are still to be passed over.
    pass: u32,
    /// Bytes of memory of what is kept from one block to the next.
    kept_bytes: usize,
}

impl Compressor {
    pub fn new(compression: Compression) -> Result<Compressor> {
        let method = match compression {
            Compression::None => Method::None,
            Compression::Lz4 => Method::Lz4,
            Compression::Zstd(level) => {
                let made = zstd::bulk::Compressor::new(level);
                let refused =
                    |e| Error::OutOfSpace(format!("no memory to compress with zstd: {e}"));
                Method::Zstd(Box::new(made.map_err(refused)?))
            }
        };
        Ok(Compressor {
            method,
            ..Compressor::plain()
        })
    }

    /// One that does not compress.
    pub fn plain() -> Compressor {
        Compressor {
            method: Method::None,
            misses: 0,
            pass: 0,
            kept_bytes: 0,
        }
    }

    /// Bytes of memory that it takes beside itself: for Zstandard, more the longer the longest block was.
    pub fn memory(&self) -> usize {
        self.kept_bytes
    }

    /// The bytes to store and how they are compressed.
    pub fn compress<'a>(&mut self, payload: &'a [u8]) -> (Cow<'a, [u8]>, u8) {
        let plain = (Cow::Borrowed(payload), TAG_NONE);
        if self.pass > 0 {
            self.pass -= 1;
            return plain;
        }
        let (small, tag) = match &mut self.method {
            Method::None => return plain,
            Method::Lz4 => (Some(lz4_flex::block::compress(payload)), TAG_LZ4),
            // It fails only for want of memory; the block can do without.
            Method::Zstd(zstd) => {
                let small = zstd.compress(payload).ok();
                self.kept_bytes = zstd.context_mut().sizeof();
                (small, TAG_ZSTD)
            }
        };
        match small {
            Some(small)
                if small.len() <= payload.len() - payload.len() / 8
                    && small.len() < payload.len() =>
            {
                self.misses = 0;
                (Cow::Owned(small), tag)
            }
            _ => {
                self.misses += 1;
                if self.misses > TRIES {
                    let doubled = 1 << (self.misses - TRIES).min(PASSED_MAX.ilog2());
                    self.pass = PASSED_MAX.min(doubled);
                }
                plain
            }
        }
    }
}

thread_local! {
    /// A context takes long to make and is needed for each block.
    static ZSTD: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// The `len` bytes that were compressed to `bytes`. Allocates `len`.
///
/// # Errors
/// What the decompressor says, or nothing if the tag is of no compression that there is.
pub(crate) fn decompress(tag: u8, bytes: &[u8], len: usize) -> Result<Vec<u8>, Option<String>> {
    let got = match tag {
        TAG_LZ4 => {
            let mut out = vec![0; len];
            let n = lz4_flex::block::decompress_into(bytes, &mut out)
                .map_err(|e| Some(e.to_string()))?;
            out.truncate(n);
            out
        }
        TAG_ZSTD => decompress_zstd(bytes, len).map_err(|e| Some(e.to_string()))?,
        _ => return Err(None),
    };
    if got.len() != len {
        return Err(Some(format!("it holds {} bytes", got.len())));
    }
    Ok(got)
}

fn decompress_zstd(bytes: &[u8], len: usize) -> io::Result<Vec<u8>> {
    let kept = ZSTD.try_with(|context| -> io::Result<Vec<u8>> {
        let context = &mut *context.borrow_mut();
        let zstd = match context {
            Some(zstd) => zstd,
            None => context.insert(Decompressor::new()?),
        };
        zstd.decompress(bytes, len)
    });
    // A thread that ends may read when its thread-local memory is gone already.
    kept.unwrap_or_else(|_| Decompressor::new()?.decompress(bytes, len))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use thermocline_testkit::Rng;

    #[test]
    fn what_is_compressed_reads_back_and_another_length_is_an_error() {
        let mut rng = Rng::new(1);
        for compression in [
            Compression::Lz4,
            Compression::Zstd(1),
            Compression::Zstd(19),
        ] {
            let mut compressor = Compressor::new(compression).unwrap();
            for len in [100, 4096, 100_000] {
                let payload: Vec<u8> = (0..len).map(|_| b"ab"[rng.below(2)]).collect();
                let (small, tag) = compressor.compress(&payload);
                assert_eq!(tag, compression.codec().tag());
                assert!(small.len() < payload.len());
                assert_eq!(decompress(tag, &small, len).unwrap(), payload);
                assert!(decompress(tag, &small, len - 1).is_err());
                assert!(decompress(tag, &small, len + 1).is_err());
                assert!(decompress(tag, &small[1..], len).is_err());
            }
        }
        assert_eq!(decompress(9, &[], 0), Err(None));
    }

    /// Reads a block while its thread drops it.
    struct Last(Vec<u8>, Sender<bool>);

    impl Drop for Last {
        fn drop(&mut self) {
            let got = decompress(TAG_ZSTD, &self.0, 4096);
            let _ = self.1.send(got == Ok(vec![b'a'; 4096]));
        }
    }

    thread_local! {
        static EARLY: RefCell<Option<Last>> = const { RefCell::new(None) };
        static LATE: RefCell<Option<Last>> = const { RefCell::new(None) };
    }

    /// Where a read needs the context that its thread keeps, one of the two ends the process.
    #[test]
    fn a_thread_that_ends_may_read() {
        let (said, heard) = channel();
        let mut compressor = Compressor::new(Compression::Zstd(1)).unwrap();
        let (small, tag) = compressor.compress(&[b'a'; 4096]);
        assert_eq!(tag, TAG_ZSTD);
        let small = small.into_owned();
        let thread = std::thread::spawn(move || {
            EARLY.set(Some(Last(small.clone(), said.clone())));
            decompress(TAG_ZSTD, &small, 4096).unwrap();
            LATE.set(Some(Last(small, said)));
        });
        thread.join().unwrap();
        assert_eq!(heard.iter().collect::<Vec<_>>(), [true, true]);
    }

    #[test]
    fn what_does_not_shrink_is_stored_as_it_is() {
        let mut rng = Rng::new(2);
        let payload: Vec<u8> = (0..4096).map(|_| rng.next_u64().to_le_bytes()[0]).collect();
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd(3)] {
            let mut compressor = Compressor::new(compression).unwrap();
            assert_eq!(
                compressor.compress(&payload),
                (Cow::Borrowed(&payload[..]), TAG_NONE)
            );
            assert_eq!(compressor.compress(&[]), (Cow::Borrowed(&[][..]), TAG_NONE));
        }
    }

    #[test]
    fn blocks_are_passed_over_only_where_they_did_not_shrink() {
        let mut rng = Rng::new(3);
        let noise: Vec<u8> = (0..4096).map(|_| rng.next_u64().to_le_bytes()[0]).collect();
        let text = vec![b'a'; 4096];
        let mut compressor = Compressor::new(Compression::Lz4).unwrap();
        for _ in 0..1000 {
            assert_eq!(compressor.compress(&noise).1, TAG_NONE);
        }
        // Something that shrinks is seen soon, and then every one.
        let stored = (0..100).map(|_| compressor.compress(&text).1);
        let tags: Vec<u8> = stored.collect();
        let first = tags.iter().position(|tag| *tag == TAG_LZ4).unwrap();
        assert!((1..=32).contains(&first), "{first}");
        assert!(tags[first..].iter().all(|tag| *tag == TAG_LZ4));
        // A few that do not shrink between others cost those nothing.
        for _ in 0..50 {
            for _ in 0..TRIES {
                compressor.compress(&noise);
            }
            assert_eq!(compressor.compress(&text).1, TAG_LZ4);
        }
    }

    #[test]
    fn levels_that_zstd_does_not_have_are_refused() {
        for (level, right) in [(0, false), (1, true), (19, true), (20, false), (-5, false)] {
            assert_eq!(Compression::Zstd(level).validate().is_ok(), right);
        }
    }
}
