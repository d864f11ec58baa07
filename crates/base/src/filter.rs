//! Compaction filters: user code that removes or changes values as compactions move them.
//!
//! A family may have one. When a compaction writes the table entry of a key anew it asks the filter. The filter keeps
//! the value, removes it or gives another one. No delete is written for that, and nothing else is read or written.
//! `engine::compact::filters` argues what concurrent readers see.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::asked::Asked;
use crate::error::{Error, Result};
use crate::limits;
use crate::shown::shown;

/// The filter's answer about a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It stays.
    Keep,
    /// The key has no value from now on, as if it had been deleted.
    Remove,
    /// The key has this value from now on, of at most [`limits::VALUE_INLINE_MAX`] bytes.
    Change(Vec<u8>),
}

/// Decides about values when a compaction moves them.
///
/// # What holds
/// - It is asked for the newest version of a key that a compaction finds, if that is a value that no registered
///   reader (snapshot, cursor, iterator, transaction, copy) sees. It never sees deletes, or operands that are not
///   folded yet. Newer versions, in memtables or levels that the compaction does not take, hide the result; operands
///   there build on it.
/// - Its answers take effect with the compaction, all or none. If none do, it is asked again some other time. A
///   snapshot never changes, nor does what a transaction reads.
/// - There is no promise when it is asked. `compact` asks it for all entries of a range, except those that a reader
///   sees. Flushes do not ask it, nor do tables that change their level without being rewritten.
/// - Change feeds do not report what it removes.
///
/// Compaction threads call it, several at a time. It must not use the database; to close it there is an error.
///
/// ```
/// # use thermocline_base as thermocline;
/// use thermocline::filter::{CompactionFilter, Entry, Verdict};
/// /// Forgets sessions that have ended.
/// #[derive(Debug)]
/// struct EndedSessions;
/// impl CompactionFilter for EndedSessions {
///     fn name(&self) -> &str {
///         "example.ended-sessions"
///     }
///     fn filter(&self, entry: &Entry<'_>) -> Result<Verdict, String> {
///         Ok(match entry.value()?.ends_with(b"ended") {
///             true => Verdict::Remove,
///             false => Verdict::Keep,
///         })
///     }
/// }
/// let verdict = EndedSessions.filter(&Entry::new(b"session:7", b"ended"));
/// assert_eq!(verdict, Ok(Verdict::Remove));
/// ```
pub trait CompactionFilter: fmt::Debug + Send + Sync {
    /// The filter's name, for messages.
    fn name(&self) -> &str;

    /// Decides about an entry.
    ///
    /// # Errors
    /// A text that says what is wrong. The compaction fails with it, and everything stays as it was. A panic has the
    /// same effect.
    fn filter(&self, entry: &Entry<'_>) -> std::result::Result<Verdict, String>;
}

/// A key and its value, about which a filter is asked.
pub struct Entry<'a> {
    key: &'a [u8],
    value: Held<'a>,
    level: usize,
    /// The error with which reading the value failed.
    failed: RefCell<Option<Error>>,
}

/// Reads a value that lies elsewhere.
pub type ReadValue<'a> = &'a dyn Fn() -> Result<Vec<u8>>;

enum Held<'a> {
    Here(&'a [u8]),
    /// Its length, if that is known.
    Elsewhere(Option<u64>, ReadValue<'a>),
}

impl<'a> Entry<'a> {
    /// A key and its value.
    pub fn new(key: &'a [u8], value: &'a [u8]) -> Entry<'a> {
        Entry {
            key,
            value: Held::Here(value),
            level: 0,
            failed: RefCell::default(),
        }
    }

    /// A key and a value in a blob file, of `len` bytes if that is known. The value is read only when it is asked for.
    pub fn elsewhere(key: &'a [u8], len: Option<u64>, read: ReadValue<'a>) -> Entry<'a> {
        Entry {
            value: Held::Elsewhere(len, read),
            ..Entry::new(key, b"")
        }
    }

    /// The same entry, on its way to this level.
    #[must_use]
    pub fn to_level(self, level: usize) -> Entry<'a> {
        Entry { level, ..self }
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        self.key
    }

    /// Length of the value, in bytes. A value in a blob file may be compressed there, and is read for this if it is not longer than
    /// 1 MiB.
    ///
    /// # Errors
    /// As [`Entry::value`].
    pub fn value_len(&self) -> std::result::Result<u64, String> {
        match self.value {
            Held::Elsewhere(Some(len), _) => Ok(len),
            _ => Ok(self.value()?.len() as u64),
        }
    }

    /// The value. A long one lies in a blob file, and is read now. It stays unread if the filter does not ask for it.
    ///
    /// # Errors
    /// The error of reading it. A filter that fails then fails the compaction with that error.
    pub fn value(&self) -> std::result::Result<Cow<'_, [u8]>, String> {
        match self.value {
            Held::Here(value) => Ok(Cow::Borrowed(value)),
            Held::Elsewhere(_, read) => read().map(Cow::Owned).map_err(|error| {
                let text = error.to_string();
                *self.failed.borrow_mut() = Some(error);
                text
            }),
        }
    }

    /// The level into which the entry is written: 0 inside persistent memory, else a level of files.
    pub fn level(&self) -> usize {
        self.level
    }
}

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("key", &shown(self.key))
            .field("level", &self.level)
            .finish()
    }
}

/// The answer of `filter` about an entry.
///
/// # Errors
/// The error of reading the value, if the filter fails because of it. Else [`Error::InvalidArgument`] naming filter
/// and key, if the filter fails or panics, or gives a value of more than [`limits::VALUE_INLINE_MAX`] bytes.
pub fn ask(filter: &dyn CompactionFilter, entry: &Entry<'_>) -> Result<Verdict> {
    let asked = Asked::begin();
    let answer = catch_unwind(AssertUnwindSafe(|| filter.filter(entry)));
    drop(asked);
    let why = match answer {
        Ok(Ok(Verdict::Change(value))) if value.len() > limits::VALUE_INLINE_MAX => format!(
            "it gives a value of {} bytes, and may give {} at most",
            value.len(),
            limits::VALUE_INLINE_MAX
        ),
        Ok(Ok(verdict)) => return Ok(verdict),
        Ok(Err(why)) => match entry.failed.take() {
            Some(error) => return Err(error),
            None => why,
        },
        Err(_) => "it panicked".into(),
    };
    Err(Error::InvalidArgument(format!(
        "compaction filter '{}' fails at key '{}', so that nothing was compacted: {why}",
        filter.name(),
        shown(entry.key)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does what the value says.
    #[derive(Debug)]
    struct Obeys;

    impl CompactionFilter for Obeys {
        fn name(&self) -> &str {
            "obeys"
        }

        fn filter(&self, entry: &Entry<'_>) -> std::result::Result<Verdict, String> {
            match &*entry.value()? {
                b"panic" => panic!("a fault of the filter's"),
                b"fail" => Err("no".into()),
                b"grow" => Ok(Verdict::Change(vec![0; limits::VALUE_INLINE_MAX])),
                b"grow too much" => Ok(Verdict::Change(vec![0; limits::VALUE_INLINE_MAX + 1])),
                _ => Ok(Verdict::Keep),
            }
        }
    }

    #[test]
    fn what_a_filter_cannot_do_is_an_error_that_names_it_and_the_key() {
        for (value, says) in [
            ("panic", "it panicked"),
            ("fail", ": no"),
            ("grow too much", "1048577 bytes"),
        ] {
            let error = ask(&Obeys, &Entry::new(b"k7", value.as_bytes())).unwrap_err();
            let text = error.to_string();
            let named = text.contains("'obeys'") && text.contains("'k7'");
            assert!(named && text.contains(says), "{text}");
        }
        let grown = ask(&Obeys, &Entry::new(b"k", b"grow")).unwrap();
        assert!(matches!(grown, Verdict::Change(value) if value.len() == 1 << 20));
    }

    #[test]
    fn a_value_elsewhere_is_read_when_it_is_asked_for_and_its_error_is_the_compactions() {
        let read = || -> Result<Vec<u8>> { Ok(b"fail".to_vec()) };
        let entry = Entry::elsewhere(b"k", Some(9), &read).to_level(3);
        assert_eq!((entry.value_len(), entry.level()), (Ok(9), 3));
        assert_eq!(Entry::elsewhere(b"k", None, &read).value_len(), Ok(4));
        assert!(ask(&Obeys, &entry).unwrap_err().to_string().contains("no"));
        let read = || -> Result<Vec<u8>> { Err(Error::Closed) };
        let unread = Entry::elsewhere(b"k", None, &read);
        assert!(unread.value_len().is_err());
        let error = ask(&Obeys, &unread).unwrap_err();
        assert!(matches!(error, Error::Closed), "{error}");
    }
}
