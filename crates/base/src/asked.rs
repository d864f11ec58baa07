//! Which threads are inside the user's code that a store asks for an answer, a compaction filter or a merge operator, or that it
//! tells something: an observer of progress.
//!
//! The work that asks waits for the answer. So that code must not wait for that work, as whoever closes the store does.

use std::cell::Cell;

use crate::sync::SCHEDULED;

thread_local! {
    /// How many such calls this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Whether this thread is in such code, of whatever store. A scheduler that takes over has several threads on one of the system's: there nobody is.
pub fn is_asked() -> bool {
    !SCHEDULED && DEPTH.try_with(Cell::get).unwrap_or(0) > 0
}

/// Such code runs on this thread until it is dropped.
pub(crate) struct Asked;

impl Asked {
    pub fn begin() -> Asked {
        let _ = DEPTH.try_with(|depth| depth.set(depth.get() + 1));
        Asked
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let _ = DEPTH.try_with(|depth| depth.set(depth.get().saturating_sub(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{CompactionFilter, Entry, Verdict, ask};
    use crate::merge::{MergeOperator, merge_one};

    /// Panics, or says whether it is asked.
    #[derive(Debug)]
    struct Tells;

    impl CompactionFilter for Tells {
        fn name(&self) -> &str {
            "tells"
        }

        fn filter(&self, entry: &Entry<'_>) -> std::result::Result<Verdict, String> {
            assert!(entry.key() != b"panics");
            Ok(Verdict::Change(vec![u8::from(is_asked())]))
        }
    }

    impl MergeOperator for Tells {
        fn name(&self) -> &str {
            "tells"
        }

        fn merge(
            &self,
            key: &[u8],
            _: Option<&[u8]>,
            _: &[u8],
        ) -> std::result::Result<Vec<u8>, String> {
            assert!(key != b"panics");
            Ok(vec![u8::from(is_asked())])
        }
    }

    #[test]
    fn filters_and_operators_are_asked_and_nobody_else() {
        for _ in 0..2 {
            assert!(!is_asked());
            let told = ask(&Tells, &Entry::new(b"k", b"")).unwrap();
            assert_eq!(told, Verdict::Change(vec![1]));
            assert_eq!(merge_one(&Tells, b"k", None, b"").unwrap(), [1]);
            assert!(ask(&Tells, &Entry::new(b"panics", b"")).is_err());
            assert!(merge_one(&Tells, b"panics", None, b"").is_err());
        }
        assert!(!is_asked());
    }
}
