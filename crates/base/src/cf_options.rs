//! Options of one column family.

use crate::error::{Error, Result};

const REVERSE: &str = "reverse";

/// What may differ from one column family to the next. An option that is not set stays as the
/// family was made, and is as by default for a new family: so an existing family can be had without
/// repeating its options.
///
/// ```
/// use thermocline_base::CfOptions;
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
}

impl CfOptions {
    /// With the order set: bytewise descending, or not.
    #[must_use]
    pub fn reverse(mut self, reverse: bool) -> CfOptions {
        self.reverse = Some(reverse);
        self
    }

    /// Every option set: what is not set is as by default.
    #[must_use]
    pub fn settled(self) -> CfOptions {
        CfOptions {
            reverse: Some(self.reverse.unwrap_or(false)),
        }
    }

    /// What a database remembers: names and values of the options that are not as by default.
    pub fn stored(&self) -> Vec<(String, String)> {
        let reverse = self.reverse == Some(true);
        let options = reverse.then(|| (REVERSE.to_string(), true.to_string()));
        options.into_iter().collect()
    }

    /// Reads what [`CfOptions::stored`] gave; every option is set.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for an option or value that this version does not know: it may decide
    /// how the family is to be read.
    pub fn from_stored(options: &[(String, String)]) -> Result<CfOptions> {
        let mut settled = CfOptions::default().settled();
        for (name, value) in options {
            match (name.as_str(), value.parse()) {
                (REVERSE, Ok(reverse)) => settled.reverse = Some(reverse),
                _ => {
                    return Err(Error::Unsupported(format!(
                        "the option {name}={value} of a column family, which a newer version wrote"
                    )));
                }
            }
        }
        Ok(settled)
    }

    /// Whether a family made with the options `made` can be had with these.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] naming the family, the option and both values.
    pub fn check_fixed(&self, made: &CfOptions, family: &str) -> Result<()> {
        let made = made.settled();
        if self.reverse.is_none() || self.reverse == made.reverse {
            return Ok(());
        }
        let value = |options: &CfOptions| options.reverse == Some(true);
        Err(Error::InvalidArgument(format!(
            "column family '{family}' was made with {REVERSE}={}, which stays; {REVERSE}={} was \
             asked for",
            value(&made),
            value(self)
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
