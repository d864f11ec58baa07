//! Options of one column family.

use crate::error::{Error, Result};
use crate::merge::MergeName;
use crate::options::PartitionBy;

const REVERSE: &str = "reverse";
const BY: &str = "partition.by";
const BYTES: &str = "partition.bytes";
const PREFIX_LEN: &str = "partition.prefix_len";
const MERGE: &str = "merge_operator";

/// The options that may differ from one column family to the next. For an existing family an option that is not set
/// stays as the family was made, so its options need not be repeated. For a new family it has its default.
///
/// ```
/// # use thermocline_base as thermocline;
/// use thermocline::CfOptions;
/// let newest_first = CfOptions::default().reverse(true);
/// assert_eq!(newest_first.reverse, Some(true));
/// assert_eq!(CfOptions::default().reverse, None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CfOptions {
    /// Whether keys order bytewise descending. By default they ascend. Fixed when the family is
    /// made.
    pub reverse: Option<bool>,
    /// How the keys are divided into partitions, in place of `partition.by` of the database. Fixed when the family is
    /// made, as are the next two. If it is not set, the database's options decide.
    pub partition_by: Option<PartitionBy>,
    /// Bytes on the SSD past which a partition is split, in place of `partition.bytes`.
    pub partition_bytes: Option<u64>,
    /// Bytes at the beginning of a key that decide its partition, in place of `partition.prefix_len`.
    pub partition_prefix_len: Option<u64>,
    /// The name of the family's merge operator. A family without one can be given one later; then it stays.
    pub merge_operator: Option<MergeName>,
}

impl CfOptions {
    /// With the order set: bytewise descending, or not.
    #[must_use]
    pub fn reverse(mut self, reverse: bool) -> CfOptions {
        self.reverse = Some(reverse);
        self
    }

    /// With the kind of partitions set.
    #[must_use]
    pub fn partition_by(mut self, by: PartitionBy) -> CfOptions {
        self.partition_by = Some(by);
        self
    }

    /// With partitions split past so many bytes.
    #[must_use]
    pub fn partition_bytes(mut self, bytes: u64) -> CfOptions {
        self.partition_bytes = Some(bytes);
        self
    }

    /// With prefixes of so many bytes.
    #[must_use]
    pub fn partition_prefix_len(mut self, len: u64) -> CfOptions {
        self.partition_prefix_len = Some(len);
        self
    }

    /// With the merge operator of this name: [`Counter::NAME`](crate::merge::Counter::NAME), that of an
    /// [`Append`](crate::merge::Append), or of an operator that the database was opened with.
    ///
    /// # Panics
    /// If the name is empty or longer than [`limits::MERGE_NAME_LEN_MAX`](crate::limits::MERGE_NAME_LEN_MAX).
    #[must_use]
    pub fn merge_operator(mut self, name: &str) -> CfOptions {
        let checked = MergeName::new(name);
        let checked = checked.expect("the name of a merge operator has 1 to 64 bytes");
        self.merge_operator = Some(checked);
        self
    }

    /// Sets every option that has a default of its own and is not set. The division of keys stays as it is: if it is
    /// not set, the database's options decide.
    #[must_use]
    pub fn settled(self) -> CfOptions {
        CfOptions {
            reverse: Some(self.reverse.unwrap_or(false)),
            ..self
        }
    }

    /// The names and values of the options that differ from the defaults: what a database remembers.
    pub fn stored(&self) -> Vec<(String, String)> {
        let reverse = self.reverse == Some(true);
        let options = [
            (REVERSE, reverse.then(|| true.to_string())),
            (BY, self.partition_by.map(|by| by.name().to_string())),
            (BYTES, self.partition_bytes.map(|bytes| bytes.to_string())),
            (
                PREFIX_LEN,
                self.partition_prefix_len.map(|len| len.to_string()),
            ),
            (MERGE, merge_name(self.merge_operator)),
        ];
        let set = options.into_iter();
        set.filter_map(|(name, value)| Some((name.to_string(), value?)))
            .collect()
    }

    /// Reads what [`CfOptions::stored`] gave; every option is set.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for an option or value that this version does not know: it may decide how the family is
    /// to be read.
    pub fn from_stored(options: &[(String, String)]) -> Result<CfOptions> {
        let mut settled = CfOptions::default().settled();
        for (name, value) in options {
            let known = match name.as_str() {
                REVERSE => value.parse().map(|it| settled.reverse = Some(it)).ok(),
                BY => PartitionBy::named(value).map(|it| settled.partition_by = Some(it)),
                BYTES => number(value).map(|it| settled.partition_bytes = Some(it)),
                PREFIX_LEN => number(value).map(|it| settled.partition_prefix_len = Some(it)),
                MERGE => MergeName::new(value).map(|it| settled.merge_operator = Some(it)),
                _ => None,
            };
            known.ok_or_else(|| {
                Error::Unsupported(format!(
                    "the option {name}={value} of a column family, which a newer version wrote"
                ))
            })?;
        }
        Ok(settled)
    }

    /// Whether a family made with the options `made` can be had with these.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] naming the family, the option and both values.
    pub fn check_fixed(&self, made: &CfOptions, family: &str) -> Result<()> {
        let made = made.settled();
        let flag = |reverse: Option<bool>| reverse.map(|reverse| reverse.to_string());
        let word = |by: Option<PartitionBy>| by.map(|by| by.name().to_string());
        let count = |n: Option<u64>| n.map(|n| n.to_string());
        let all = [
            (REVERSE, flag(self.reverse), flag(made.reverse)),
            (BY, word(self.partition_by), word(made.partition_by)),
            (
                BYTES,
                count(self.partition_bytes),
                count(made.partition_bytes),
            ),
            (
                PREFIX_LEN,
                count(self.partition_prefix_len),
                count(made.partition_prefix_len),
            ),
            (
                MERGE,
                merge_name(self.merge_operator),
                merge_name(made.merge_operator.or(self.merge_operator)),
            ),
        ];
        for (name, asked, made) in all {
            let Some(asked) = asked.filter(|asked| Some(asked) != made.as_ref()) else {
                continue;
            };
            let made = made.map_or(format!("no {name} of its own"), |made| {
                format!("{name}={made}")
            });
            return Err(Error::InvalidArgument(format!(
                "column family '{family}' was made with {made}, which stays; {name}={asked} was asked for"
            )));
        }
        Ok(())
    }
}

fn merge_name(name: Option<MergeName>) -> Option<String> {
    name.map(|name| name.as_str().to_string())
}

/// A number as [`CfOptions::stored`] writes it.
fn number(text: &str) -> Option<u64> {
    let number = text.parse::<u64>().ok();
    number.filter(|number| number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_keys_are_divided_is_stored_where_it_is_set_and_stays() {
        let made = CfOptions::default()
            .partition_by(PartitionBy::Prefix)
            .partition_prefix_len(4)
            .partition_bytes(1 << 20);
        let stored = made.stored();
        let stored: Vec<_> = stored.iter().map(|(n, v)| (&n[..], &v[..])).collect();
        let expected = [
            ("partition.by", "prefix"),
            ("partition.bytes", "1048576"),
            ("partition.prefix_len", "4"),
        ];
        assert_eq!(stored, expected);
        let again = CfOptions::from_stored(&made.stored()).unwrap();
        assert_eq!(again, made.settled());
        made.check_fixed(&again, "f").unwrap();
        CfOptions::default().check_fixed(&again, "f").unwrap();
        for (asked, says) in [
            (
                CfOptions::default().partition_by(PartitionBy::Size),
                "partition.by=size was",
            ),
            (
                CfOptions::default().partition_prefix_len(5),
                "made with partition.prefix_len=4",
            ),
        ] {
            let error = asked.check_fixed(&again, "f").unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        let error = made.check_fixed(&CfOptions::default(), "f").unwrap_err();
        assert!(
            error.to_string().contains("no partition.by of its own"),
            "{error}"
        );
        for (name, value) in [("partition.by", "hash"), ("partition.bytes", "+1")] {
            let stored = [(name.to_string(), value.to_string())];
            CfOptions::from_stored(&stored).unwrap_err();
        }
    }

    #[test]
    fn a_merge_operator_may_come_later_and_then_stays() {
        let counts = CfOptions::default().merge_operator("counter");
        assert_eq!(
            counts.stored(),
            [("merge_operator".to_string(), "counter".to_string())]
        );
        let made = CfOptions::from_stored(&counts.stored()).unwrap();
        assert_eq!(made, counts.settled());
        counts.check_fixed(&CfOptions::default(), "f").unwrap();
        CfOptions::default().check_fixed(&made, "f").unwrap();
        counts.check_fixed(&made, "f").unwrap();
        let other = CfOptions::default().merge_operator("append");
        let error = other.check_fixed(&made, "f").unwrap_err().to_string();
        let says = "made with merge_operator=counter, which stays; merge_operator=append was";
        assert!(error.contains(says), "{error}");
    }

    #[test]
    fn what_is_stored_reads_back_and_only_what_differs_is_stored() {
        for options in [
            CfOptions::default(),
            CfOptions::default().reverse(false),
            CfOptions::default().reverse(true),
        ] {
            let stored = options.stored();
            assert_eq!(stored.is_empty(), options.reverse != Some(true));
            assert_eq!(CfOptions::from_stored(&stored).unwrap(), options.settled());
        }
    }

    #[test]
    fn what_a_newer_version_stored_is_refused() {
        for (name, value) in [("reverse", "perhaps"), ("comparator", "true")] {
            let stored = [(name.to_string(), value.to_string())];
            let error = CfOptions::from_stored(&stored).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(name) && text.contains(value), "{text}");
            assert_eq!(error.kind(), crate::ErrorKind::Unsupported);
        }
    }

    #[test]
    fn a_fixed_option_may_be_left_out_or_repeated_but_not_changed() {
        let (unset, no, yes) = (
            CfOptions::default(),
            CfOptions::default().reverse(false),
            CfOptions::default().reverse(true),
        );
        for (made, asked, fits) in [
            (unset, unset, true),
            (unset, no, true),
            (unset, yes, false),
            (yes, unset, true),
            (yes, yes, true),
            (yes, no, false),
        ] {
            let checked = asked.check_fixed(&made, "orders");
            assert_eq!(checked.is_ok(), fits, "{made:?} {asked:?}");
            if let Err(error) = checked {
                let text = error.to_string();
                assert!(text.contains("'orders'") && text.contains("reverse=true"));
            }
        }
    }
}
