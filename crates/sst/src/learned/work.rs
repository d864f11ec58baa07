//! A limit of the work that training may take: counted, so that it is the same on every machine. (TridentKV's algorithm 1 has a
//! time there. With one the same keys would have one index today and another one tomorrow.)

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ends_with_its_steps_however_they_are_spent() {
        let all = usize::try_from(STEPS_PER_BLOCK * (4 + 16)).unwrap();
        let mut work = Work::new(4);
        assert_eq!(work.spend(all - 1), Some(()));
        assert_eq!(work.spend(2), None);
        assert_eq!(work.spend(1), Some(()));
        assert_eq!(work.spend(1), None);
        assert_eq!(work.spend(0), Some(()));
    }
}
