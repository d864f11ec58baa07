//! A limit of the work that training may take: counted, so that it is the same on every machine.

/// Bytes, digits and thresholds that training may look at, for each block. Keys of the usual lengths take
/// a fifth of it; keys of thousands of bytes are not worth a model.
const STEPS_PER_BLOCK: u64 = 2048;

/// Work that is left.
#[derive(Debug)]
pub(super) struct Work {
    left: u64,
}

impl Work {
    /// For a table of so many blocks.
    pub fn new(blocks: usize) -> Work {
        Work {
            left: STEPS_PER_BLOCK * (blocks as u64 + 16),
        }
    }

    /// Does so many steps; `None` if there is no work left for them.
    pub fn spend(&mut self, steps: usize) -> Option<()> {
        self.left = self.left.checked_sub(steps as u64)?;
        Some(())
    }
}
