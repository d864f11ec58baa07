//! The meta layer: what runs of groups share.

use thermocline_base::numbers::{len_of, u16_at, u32_at, u64_at};
use thermocline_base::{CfId, SeqNo};

use super::coding::take;
use super::{PREFIX_MAX, RUN_HEAD, array_len};

/// Groups that lie one behind the other and share column family and the beginning of their first keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunHead<'a> {
    pub cf: CfId,
    pub prefix_len: usize,
    pub groups: u32,
    /// Where its array begins in the piece.
    pub array: u32,
    pub separator_seqno: SeqNo,
    /// What the first keys of its groups share.
    pub shared: &'a [u8],
    /// The user key of the separator.
    pub separator: &'a [u8],
}

impl RunHead<'_> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let narrow = |len: usize| u8::try_from(len).expect("prefixes and what is shared are short");
        let separator = u16::try_from(self.separator.len()).expect("keys are no longer");
        out.extend_from_slice(&self.cf.0.to_le_bytes());
        out.push(narrow(self.prefix_len));
        out.push(narrow(self.shared.len()));
        out.extend_from_slice(&self.groups.to_le_bytes());
        out.extend_from_slice(&self.array.to_le_bytes());
        out.extend_from_slice(&separator.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.separator_seqno.0.to_le_bytes());
        out.extend_from_slice(self.shared);
        out.extend_from_slice(self.separator);
    }

    /// Reads the run at `at` and moves behind it. Its array has to lie within `arrays` of the piece.
    pub fn decode<'a>(
        bytes: &'a [u8],
        at: &mut usize,
        arrays: std::ops::Range<u32>,
    ) -> Option<RunHead<'a>> {
        let head = take(bytes, at, RUN_HEAD)?;
        let prefix_len = usize::from(head[2]);
        let (groups, array) = (u32_at(head, 4), u32_at(head, 8));
        let is_prefix = (4..=PREFIX_MAX).contains(&prefix_len) && prefix_len.is_multiple_of(4);
        if !is_prefix || groups == 0 || u16_at(head, 14) != 0 {
            return None;
        }
        let shared = take(bytes, at, usize::from(head[3]))?;
        let separator = take(bytes, at, usize::from(u16_at(head, 12)))?;
        let end = len_of(array).checked_add(array_len(len_of(groups), prefix_len))?;
        let within = array >= arrays.start && end <= len_of(arrays.end);
        within.then_some(RunHead {
            cf: CfId(u16_at(head, 0)),
            prefix_len,
            groups,
            array,
            separator_seqno: SeqNo(u64_at(head, 16)),
            shared,
            separator,
        })
    }
}
