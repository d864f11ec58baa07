//! A place of its own in the caches.

use std::ops::Deref;

/// A value on cache lines that it shares with nothing. Data that many threads write must not lie beside data that
/// they read. Two lines, because processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Line<T>(pub T);

impl<T> Deref for Line<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
