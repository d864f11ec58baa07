//! What lies in a region twice and never changes: the superblock, and the header of each part. One sound copy serves, so
//! nobody who reads notices a rotten one; when the other one rots, too, the whole region is refused. So a check names
//! the rotten copy, and an open that may write writes it again.
//!
//! # Which copies a crash may leave unsound
//! None that is looked at here, so each of these that is not sound has rotted:
//!
//! 1. *The superblock.* Its copies are the last that formatting writes ([`Space::create`](crate::Space::create)), and a
//!    crash in there leaves them zero or torn. But a manifest names a region only when that has returned, with both
//!    copies durable, and nothing but [`mend`] writes them afterwards. Whoever checks a database comes from its
//!    manifest. Who opens a region that no manifest names may find the first copy alone; then mending ends what
//!    formatting has begun.
//! 2. *The header of a part.* A crash leaves it torn, or not there, only as long as the part word does not count the
//!    part: the word is *stored* when both copies are durable (invariant 4), so that a word that counts it tells that,
//!    durable or not. Where the copies of the word differ the larger counts, and was stored by that rule as well. Only
//!    parts that are counted are looked at. Parts that are given back are in neither copy of the word before their
//!    bytes go, and while others are made in their place.
//! 3. *What is being mended.* A crash leaves it rotten, or torn, which is not sound either, or whole. It was rotten
//!    before, so it is rightly named, and mended by the next open.
//!
//! Words that lie twice are not looked at here: opening writes the part word again wherever one of its copies is not
//! sound, and each chain that is recorded writes the witness.
//!
//! # Why mending is safe
//! - The copy that is sound is not written to, and it is durable: the superblock and the first part's header since the
//!   open has stored the meta zone again, the headers of other parts since these are counted. So whatever a crash leaves
//!   of the rotten one, the other one serves as before.
//! - It is written with the bytes of the sound one, not with what this version would write: a later one may use what is
//!   reserved. A copy that is sound stays as it is whatever it says, such as a superblock of a newer format.
//! - It comes when all else has been read and no page was missing, so that a region that is refused has nothing mended.

use thermocline_base::{Error, Result, Site};
use thermocline_pm::{PmOff, Region};

use crate::format::{
    COPY_BYTES, PartHeader, SUPERBLOCK_COPIES, SuperblockCopy, damaged, decode_superblock,
};
use crate::part::Part;
use crate::{SITE_FORMAT, SITE_PART};

/// A structure with two copies.
struct Doubled {
    what: String,
    copies: [u64; 2],
    /// The fact that both are durable.
    site: Site,
}

/// A copy that has rotted, beside one that is sound.
#[derive(Debug)]
pub(crate) struct Rotten {
    /// Of what it is a copy.
    what: String,
    at: u64,
    /// The bytes of the other one.
    sound: [u8; COPY_BYTES],
    site: Site,
}

impl Doubled {
    /// The copy that is not sound, if the other one is.
    fn rotten(self, region: &Region, is_sound: impl Fn(&[u8]) -> bool) -> Result<Option<Rotten>> {
        let [a, b] = self.copies;
        let first = region.bytes(PmOff(a), COPY_BYTES)?;
        let second = region.bytes(PmOff(b), COPY_BYTES)?;
        let (at, other) = match (is_sound(first), is_sound(second)) {
            (true, true) => return Ok(None),
            (false, true) => (a, second),
            (true, false) => (b, first),
            (false, false) => {
                region.check_media()?;
                return Err(damaged(&self.what, region.path(), a));
            }
        };
        let mut sound = [0; COPY_BYTES];
        sound.copy_from_slice(other);
        Ok(Some(Rotten {
            what: self.what,
            at,
            sound,
            site: self.site,
        }))
    }
}

impl Rotten {
    /// What a check says of it.
    pub fn fault(&self, region: &Region) -> Error {
        Error::corruption(
            format!(
                "a copy of {} is damaged; the other one serves, and the next open for writing mends this one",
                self.what
            ),
            region.path().display().to_string(),
            self.at,
            "a matching checksum",
            "none",
        )
    }
}

/// The copies of the superblock, and of the headers of these parts, that have rotted. Writes nothing.
///
/// # Errors
/// [`Error::Corruption`] if neither copy of something is sound any more, or a page cannot be read.
pub(crate) fn rotten(region: &Region, seed: u64, parts: &[Part]) -> Result<Vec<Rotten>> {
    let mut found = Vec::new();
    let superblock = Doubled {
        what: "the superblock".into(),
        copies: SUPERBLOCK_COPIES,
        site: SITE_FORMAT,
    };
    found.extend(superblock.rotten(region, |block| {
        !matches!(decode_superblock(block), SuperblockCopy::Invalid)
    })?);
    for part in parts {
        let (number, offset) = (part.header.index, part.header.offset);
        let at = PartHeader::place(number, offset);
        let header = Doubled {
            what: format!("the header of part {number}"),
            copies: [at, at + 64],
            site: SITE_PART,
        };
        found.extend(header.rotten(region, |block| {
            PartHeader::decode(block, seed, number, offset).is_some()
        })?);
    }
    region.check_media()?;
    Ok(found)
}

/// Writes the rotten copies again, unless the region is for reading only. To be called while a space is being opened.
///
/// # Errors
/// As [`rotten`]; a failed persist.
pub(crate) fn mend(region: &Region, seed: u64, parts: &[Part]) -> Result<()> {
    if region.is_read_only() {
        return Ok(());
    }
    for copy in rotten(region, seed, parts)? {
        // SAFETY: headers are read by opens and checks alone; no space of this region is open yet, and what was read
        // of them has been copied.
        unsafe { region.write(PmOff(copy.at), &copy.sound) };
        region.persist(PmOff(copy.at), COPY_BYTES as u64, copy.site)?;
    }
    Ok(())
}
