//! An operand that a table has.

use thermocline_base::SeqNo;

/// An operand that was found.
#[derive(Debug)]
pub struct TableOperand {
    /// When it was written; of several that were folded, the newest.
    pub seqno: SeqNo,
    /// The operand.
    pub bytes: Vec<u8>,
}

impl AsRef<[u8]> for TableOperand {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
