//! Merge operators: functions that make one value of a value and an operand.
//!
//! A family may have one. `merge(key, operand)` then writes the operand and reads nothing. A later read of the key
//! folds the operands into the value. The engine folds operands whenever it moves them, so the result must not depend
//! on how they are grouped.
//!
//! # The law
//! For all values and operands, `merge(merge(e, a), b) = merge(e, merge(a, b))`, where `e` may be absent. So an
//! operand is a value, too: the value of a key that had none before. Operands of a key are folded in the order in
//! which they were written, and each exactly once; they need not commute.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::asked::Asked;
use crate::error::{Error, Result};
use crate::limits;
use crate::shown::shown;

/// Makes one value of a value and an operand. [`Counter`] and [`Append`] are built in.
///
/// # The law
/// It must be associative: `merge(merge(e, a), b)` is `merge(e, merge(a, b))`, whether `e` is there or not. It must
/// be a function: the same arguments give the same result, in every process that opens the database. Reads call it,
/// and threads that flush and compact. It must not use the database; to close it there is an error.
///
/// ```
/// # use thermocline_base as thermocline;
/// use thermocline::merge::MergeOperator;
/// /// Keeps the larger of two byte strings.
/// #[derive(Debug)]
/// struct Largest;
/// impl MergeOperator for Largest {
///     fn name(&self) -> &str {
///         "example.largest"
///     }
///     fn merge(&self, _: &[u8], existing: Option<&[u8]>, operand: &[u8]) -> Result<Vec<u8>, String> {
///         Ok(existing.unwrap_or_default().max(operand).to_vec())
///     }
/// }
/// assert_eq!(Largest.merge(b"k", Some(b"b"), b"a"), Ok(b"b".to_vec()));
/// ```
pub trait MergeOperator: fmt::Debug + Send + Sync {
    /// The operator's name, of 1 to [`limits::MERGE_NAME_LEN_MAX`] bytes. A database remembers it for each family
    /// that has the operator. An operator with another meaning needs another name.
    fn name(&self) -> &str;

    /// The value of `key` after `operand`. `existing` is what it had before: a value, an operand or several folded
    /// ones; or `None` if it had no value.
    ///
    /// # Errors
    /// A text that says what does not fit. The read that needs the value fails with it, and the operands stay as they
    /// are. A panic counts as an error.
    fn merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operand: &[u8],
    ) -> std::result::Result<Vec<u8>, String>;

    /// Whether an operand can be merged. It is asked before the operand is written.
    ///
    /// # Errors
    /// A text that says what an operand should be. Nothing is written then. A panic counts as an error.
    fn check(&self, _operand: &[u8]) -> std::result::Result<(), String> {
        Ok(())
    }
}

/// Adds numbers of 8 bytes, little-endian, and wraps around where they overflow. Two's complement adds signed and unsigned
/// numbers alike, so it counts in `i64` and in `u64`; a negative operand subtracts. A key without a value counts as 0.
///
/// It wraps because addition that stops at the largest number is not associative once operands may be negative.
///
/// ```
/// # use thermocline_base as thermocline;
/// use thermocline::merge::{Counter, MergeOperator};
/// let two = Counter.merge(b"k", Some(&5i64.to_le_bytes()), &(-3i64).to_le_bytes());
/// assert_eq!(two, Ok(2i64.to_le_bytes().to_vec()));
/// assert!(Counter.check(b"three").is_err());
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Counter;

impl Counter {
    /// Its name.
    pub const NAME: &'static str = "thermocline.counter";
}

fn number(bytes: &[u8]) -> std::result::Result<u64, String> {
    let bytes: std::result::Result<[u8; 8], _> = bytes.try_into();
    bytes.map(u64::from_le_bytes).map_err(|_| {
        "a counter has values and operands of 8 bytes, and one of another length is there".into()
    })
}

impl MergeOperator for Counter {
    fn name(&self) -> &str {
        Counter::NAME
    }

    fn merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operand: &[u8],
    ) -> std::result::Result<Vec<u8>, String> {
        let before = existing.map_or(Ok(0), number)?;
        let sum = before.wrapping_add(number(operand)?);
        Ok(sum.to_le_bytes().to_vec())
    }

    fn check(&self, operand: &[u8]) -> std::result::Result<(), String> {
        match operand.len() {
            8 => Ok(()),
            len => Err(format!("an operand has 8 bytes; this one has {len}")),
        }
    }
}

/// Joins operands, with a delimiter between two, which may be empty.
///
/// ```
/// # use thermocline_base as thermocline;
/// use thermocline::merge::{Append, MergeOperator};
/// let list = Append::new(",");
/// assert_eq!(list.merge(b"k", Some(b"a,b"), b"c"), Ok(b"a,b,c".to_vec()));
/// assert_eq!(list.merge(b"k", None, b"a"), Ok(b"a".to_vec()));
/// assert_eq!(list.name(), "thermocline.append:2c");
/// ```
#[derive(Debug, Clone)]
pub struct Append {
    delimiter: Vec<u8>,
    name: String,
}

/// The beginning of the names of [`Append`]; the delimiter follows in hexadecimal digits.
const APPEND: &str = "thermocline.append:";

impl Append {
    /// An operator with this delimiter, of up to 22 bytes. With a longer one its name would be too long for a family.
    pub fn new(delimiter: impl AsRef<[u8]>) -> Append {
        let delimiter: Vec<u8> = delimiter.as_ref().to_vec();
        let digits: String = delimiter.iter().map(|byte| format!("{byte:02x}")).collect();
        Append {
            name: format!("{APPEND}{digits}"),
            delimiter,
        }
    }

    /// The operator of this name.
    fn named(name: &str) -> Option<Append> {
        let digits = name.strip_prefix(APPEND)?;
        let pairs = (0..digits.len()).step_by(2);
        let bytes = pairs.map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok());
        let append = Append::new(bytes.collect::<Option<Vec<u8>>>()?);
        (append.name == name).then_some(append)
    }
}

impl MergeOperator for Append {
    fn name(&self) -> &str {
        &self.name
    }

    fn merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operand: &[u8],
    ) -> std::result::Result<Vec<u8>, String> {
        Ok(match existing {
            None => operand.to_vec(),
            Some(existing) => [existing, &self.delimiter, operand].concat(),
        })
    }
}

/// The built-in operator of this name.
pub fn built_in(name: &str) -> Option<Arc<dyn MergeOperator>> {
    match name == Counter::NAME {
        true => Some(Arc::new(Counter)),
        false => Append::named(name).map(|append| Arc::new(append) as Arc<dyn MergeOperator>),
    }
}

/// The name of a merge operator, as a family has it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MergeName {
    len: u8,
    bytes: [u8; limits::MERGE_NAME_LEN_MAX],
}

impl MergeName {
    /// `None` if it is empty or longer than [`limits::MERGE_NAME_LEN_MAX`].
    pub fn new(name: &str) -> Option<MergeName> {
        let len = u8::try_from(name.len()).ok().filter(|len| *len > 0)?;
        let mut bytes = [0; limits::MERGE_NAME_LEN_MAX];
        bytes
            .get_mut(..name.len())?
            .copy_from_slice(name.as_bytes());
        Some(MergeName { len, bytes })
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        // It was made of a string.
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl fmt::Debug for MergeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// The value that `operator` makes of a value and one operand.
///
/// # Errors
/// [`Error::InvalidArgument`] naming operator and key if the operator fails or panics, or the value is longer than
/// [`limits::VALUE_LEN_MAX`].
pub fn merge_one(
    operator: &dyn MergeOperator,
    key: &[u8],
    existing: Option<&[u8]>,
    operand: &[u8],
) -> Result<Vec<u8>> {
    let asked = Asked::begin();
    let merged = catch_unwind(AssertUnwindSafe(|| operator.merge(key, existing, operand)));
    drop(asked);
    let why = match merged {
        Ok(Ok(value)) if value.len() <= limits::VALUE_LEN_MAX => return Ok(value),
        Ok(Ok(value)) => format!(
            "a value has at most {} bytes; this one would have {}",
            limits::VALUE_LEN_MAX,
            value.len()
        ),
        Ok(Err(why)) => why,
        Err(_) => "it panicked".into(),
    };
    Err(Error::InvalidArgument(format!(
        "merge operator '{}' cannot merge the operands of key '{}', which stay as they are: {why}",
        operator.name(),
        shown(key)
    )))
}

/// The value that `operator` makes of a value and operands, which are given newest first.
///
/// # Errors
/// As [`merge_one`].
pub fn fold<O: AsRef<[u8]>>(
    operator: &dyn MergeOperator,
    key: &[u8],
    base: Option<&[u8]>,
    newest_first: &[O],
) -> Result<Vec<u8>> {
    let mut operands = newest_first.iter().rev();
    let mut value = match (base, operands.next()) {
        (base, Some(first)) => merge_one(operator, key, base, first.as_ref())?,
        (Some(base), None) => base.to_vec(),
        (None, None) => Vec::new(),
    };
    for operand in operands {
        value = merge_one(operator, key, Some(&value), operand.as_ref())?;
    }
    Ok(value)
}

/// Checks an operand before it is written.
///
/// # Errors
/// [`Error::InvalidArgument`] past [`limits::MERGE_OPERAND_LEN_MAX`], or with the operator's text.
pub fn check_operand(operator: &dyn MergeOperator, operand: &[u8]) -> Result<()> {
    if operand.len() > limits::MERGE_OPERAND_LEN_MAX {
        return Err(Error::InvalidArgument(format!(
            "an operand of a merge has at most {} bytes; this one has {}",
            limits::MERGE_OPERAND_LEN_MAX,
            operand.len()
        )));
    }
    let asked = Asked::begin();
    let checked = catch_unwind(AssertUnwindSafe(|| operator.check(operand)));
    drop(asked);
    let why = match checked {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(why)) => why,
        Err(_) => "it panicked".into(),
    };
    let name = operator.name();
    Err(Error::InvalidArgument(format!(
        "merge operator '{name}' does not take this operand: {why}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asked::is_asked;

    #[derive(Debug)]
    struct Panics;

    impl MergeOperator for Panics {
        fn name(&self) -> &str {
            "panics"
        }

        fn merge(
            &self,
            _: &[u8],
            _: Option<&[u8]>,
            _: &[u8],
        ) -> std::result::Result<Vec<u8>, String> {
            panic!("a fault of the operator's")
        }
    }

    #[test]
    fn operands_fold_in_the_order_of_writing_in_whatever_groups() {
        let append = Append::new("-");
        let newest_first: [&[u8]; 3] = [b"d", b"c", b"b"];
        let whole = fold(&append, b"k", Some(b"a"), &newest_first).unwrap();
        assert_eq!(whole, b"a-b-c-d");
        for cut in 0..newest_first.len() {
            let (newer, older) = newest_first.split_at(cut);
            let (rest, oldest) = older.split_at(older.len() - 1);
            let older = fold(&append, b"k", Some(oldest[0]), rest).unwrap();
            let mut rest: Vec<&[u8]> = newer.to_vec();
            rest.push(&older);
            assert_eq!(fold(&append, b"k", Some(b"a"), &rest).unwrap(), whole);
        }
        assert_eq!(fold(&append, b"k", None, &newest_first).unwrap(), b"b-c-d");
    }

    #[test]
    fn what_an_operator_cannot_do_is_an_error_that_names_it_and_the_key() {
        for (operator, existing, says) in [
            (&Counter as &dyn MergeOperator, &b"five"[..], "8 bytes"),
            (&Panics, b"", "it panicked"),
        ] {
            let one = 1u64.to_le_bytes();
            let error = merge_one(operator, b"hits", Some(existing), &one).unwrap_err();
            let text = error.to_string();
            let named = text.contains(operator.name()) && text.contains("'hits'");
            assert!(named && text.contains(says), "{text}");
        }
        let long = vec![0; limits::MERGE_OPERAND_LEN_MAX + 1];
        for operand in [&long[..], b"1"] {
            check_operand(&Counter, operand).unwrap_err();
        }
        check_operand(&Append::new(""), &long[1..]).unwrap();
    }

    /// Looks at operands, as its own user code.
    #[derive(Debug)]
    struct Looks;

    impl MergeOperator for Looks {
        fn name(&self) -> &str {
            "looks"
        }

        fn merge(
            &self,
            _: &[u8],
            _: Option<&[u8]>,
            operand: &[u8],
        ) -> std::result::Result<Vec<u8>, String> {
            Ok(operand.to_vec())
        }

        fn check(&self, operand: &[u8]) -> std::result::Result<(), String> {
            assert!(operand != b"panic", "a fault of the operator's");
            match is_asked() {
                true => Ok(()),
                false => Err("here it could close the database".into()),
            }
        }
    }

    /// It is asked about operands as it is asked to merge them.
    #[test]
    fn an_operator_that_looks_at_an_operand_is_asked_and_may_panic() {
        check_operand(&Looks, b"fits").unwrap();
        assert!(!is_asked());
        let error = check_operand(&Looks, b"panic").unwrap_err();
        assert!(!is_asked());
        let text = error.to_string();
        assert!(
            text.contains("'looks'") && text.contains("it panicked"),
            "{text}"
        );
    }

    #[test]
    fn names_lead_to_what_is_built_in() {
        for operator in [
            &Counter as &dyn MergeOperator,
            &Append::new(""),
            &Append::new("\0|\u{ff}"),
        ] {
            let found = built_in(operator.name()).unwrap();
            assert_eq!(found.name(), operator.name());
            let name = MergeName::new(operator.name()).unwrap();
            assert_eq!(name.as_str(), operator.name());
        }
        for unknown in [
            "",
            "counter",
            "thermocline.append:2",
            "thermocline.append:2C",
        ] {
            assert!(built_in(unknown).is_none(), "{unknown}");
        }
        for (len, fits) in [(22, true), (23, false)] {
            let append = Append::new("-".repeat(len));
            assert_eq!(MergeName::new(append.name()).is_some(), fits);
            assert_eq!(append.merge(b"k", Some(b""), b"").unwrap().len(), len);
        }
        let longest = "n".repeat(limits::MERGE_NAME_LEN_MAX);
        assert_eq!(MergeName::new(&longest).unwrap().as_str(), longest);
        assert_eq!(MergeName::new(&(longest + "n")), None);
        assert_eq!(MergeName::new(""), None);
    }
}
