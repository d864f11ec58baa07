//! How far a call has come that may take long, for whoever watches it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::asked::Asked;

/// Bytes that are done within a part before whoever watches is told of them: so it is told several times a second by any device, and
/// not for each record.
const STEP_BYTES: u64 = 1 << 20;

/// How far a call has come that may take long, such as `Db::verify_observed`. Its observer is told.
///
/// Within one call `done` never falls, and `total` stays as it is. The last that a call tells that returns without an error has
/// `done` equal to `total`. The observer is told about once for each file and each MiB, on the thread of the call, which waits for it: if
/// it takes long, so does the call. If it panics it is told nothing more. The call goes on to its end, and then panics in the same way,
/// or returns its error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that are done; at most `total`.
    pub done: u64,
    /// Bytes that there are to do; 0 if there is nothing.
    pub total: u64,
}

/// The course of a call: parts of known sizes, one after the other.
///
/// ```
/// use thermocline_base::progress::{Course, Progress};
/// let mut told = Vec::new();
/// let mut observer = |progress: Progress| told.push(progress.done);
/// let mut course = Course::new(&mut observer);
/// course.begin(30);
/// course.part(10);
/// course.advance(7);
/// course.part(20); // whatever became of the first one
/// course.finish();
/// assert_eq!(told, [0, 10, 30]);
/// ```
pub struct Course<'a> {
    observer: &'a mut dyn FnMut(Progress),
    total: u64,
    done: u64,
    /// Where the part ends.
    end: u64,
    /// Of `done`, the last that the observer was told; `None` before the beginning.
    told: Option<u64>,
    /// The observer's panic.
    panic: Option<Box<dyn Any + Send>>,
}

impl<'a> Course<'a> {
    /// One that has not begun, of which `observer` is told.
    pub fn new(observer: &'a mut dyn FnMut(Progress)) -> Course<'a> {
        Course {
            observer,
            total: 0,
            done: 0,
            end: 0,
            told: None,
            panic: None,
        }
    }

    /// There are `total` bytes to do. After the first time it changes nothing.
    pub fn begin(&mut self, total: u64) {
        if self.told.is_none() {
            self.total = total;
            self.tell();
        }
    }

    /// The part before is done, and the next one has `bytes` bytes.
    pub fn part(&mut self, bytes: u64) {
        self.done = self.end;
        self.end = self.end.saturating_add(bytes).min(self.total);
        self.tell();
    }

    /// So many more bytes of the part are done. What a part has beyond its size does not count.
    pub fn advance(&mut self, bytes: u64) {
        self.done = self.done.saturating_add(bytes).min(self.end);
        let untold = self.done.saturating_sub(self.told.unwrap_or(0));
        if untold >= STEP_BYTES {
            self.tell();
        }
    }

    /// All is done once more from the beginning. The observer is told of it where that comes further than before.
    pub fn again(&mut self) {
        (self.done, self.end) = (0, 0);
    }

    /// All is done, and nothing is locked or half made any more. Goes on with the observer's panic.
    pub fn finish(&mut self) {
        self.begin(0);
        (self.done, self.end) = (self.total, self.total);
        self.tell();
        if let Some(panic) = self.panic.take() {
            resume_unwind(panic);
        }
    }

    fn tell(&mut self) {
        if self.told.is_some_and(|told| self.done <= told) {
            return;
        }
        self.told = Some(self.done);
        if self.panic.is_some() {
            return;
        }
        let (done, total) = (self.done, self.total);
        let observer = &mut *self.observer;
        // It must not wait for the call that waits for it.
        let _asked = Asked::begin();
        let told = catch_unwind(AssertUnwindSafe(|| observer(Progress { done, total })));
        self.panic = told.err();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an observer is told of a course.
    fn told(course: impl FnOnce(&mut Course<'_>)) -> Vec<(u64, u64)> {
        let mut told = Vec::new();
        let mut observer = |progress: Progress| told.push((progress.done, progress.total));
        course(&mut Course::new(&mut observer));
        told
    }

    #[test]
    fn a_part_is_told_by_steps_and_never_beyond_its_end() {
        let steps = told(|course| {
            course.begin(5 * STEP_BYTES);
            course.part(3 * STEP_BYTES);
            course.advance(STEP_BYTES - 1);
            course.advance(1);
            course.advance(u64::MAX);
            course.advance(STEP_BYTES);
            course.part(2 * STEP_BYTES);
            course.advance(STEP_BYTES / 2);
            course.finish();
        });
        let expected = [0, 1, 3, 5].map(|n| (n * STEP_BYTES, 5 * STEP_BYTES));
        assert_eq!(steps, expected);
    }

    #[test]
    fn sizes_that_are_wrong_neither_pass_the_total_nor_hide_the_end() {
        let too_much = told(|course| {
            course.begin(10);
            course.part(u64::MAX);
            course.part(u64::MAX);
            course.part(1);
            course.finish();
        });
        assert_eq!(too_much, [(0, 10), (10, 10)]);
        let too_little = told(|course| {
            course.begin(10);
            course.begin(20);
            course.part(1);
            course.finish();
        });
        assert_eq!(too_little, [(0, 10), (10, 10)]);
    }

    #[test]
    fn what_is_done_once_more_is_told_where_it_comes_further() {
        let steps = told(|course| {
            course.begin(6 * STEP_BYTES);
            course.part(3 * STEP_BYTES);
            course.advance(2 * STEP_BYTES);
            course.again();
            course.part(3 * STEP_BYTES);
            course.advance(STEP_BYTES);
            course.advance(2 * STEP_BYTES);
            course.part(3 * STEP_BYTES);
            course.finish();
        });
        let expected = [0, 2, 3, 6].map(|n| (n * STEP_BYTES, 6 * STEP_BYTES));
        assert_eq!(steps, expected);
    }

    #[test]
    fn a_panic_of_the_observer_waits_for_the_end() {
        let mut told = 0;
        let mut observer = |progress: Progress| {
            told += 1;
            if progress.done == 0 {
                panic!("of the observer");
            }
        };
        let mut course = Course::new(&mut observer);
        course.begin(10);
        course.part(5);
        course.part(5);
        let ended = catch_unwind(AssertUnwindSafe(|| course.finish()));
        let panic = ended.unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"of the observer"));
        assert_eq!(told, 1);
    }

    #[test]
    fn a_course_with_nothing_to_do_is_told_once() {
        assert_eq!(told(|course| course.finish()), [(0, 0)]);
        let begun = told(|course| {
            course.begin(0);
            course.part(0);
            course.finish();
        });
        assert_eq!(begun, [(0, 0)]);
    }
}
