//! Values of columns, and their types.

use std::fmt;
use std::str::FromStr;

use thermocline_base::shown::shown;
use thermocline_base::{Error, Result};

/// Most digits behind the point of a decimal.
pub const DECIMAL_SCALE_MAX: u8 = 18;

/// The values of a row, in the order of the table's columns.
pub type Row = Vec<Field>;

/// The type of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Type {
    /// A signed integer of 64 bits.
    I64,
    /// An unsigned integer of 64 bits.
    U64,
    /// A floating-point number: any but NaN. -0 is stored as 0.
    F64,
    /// A decimal with this many digits behind the point: an `i64` counts units of 10^-digits.
    Decimal(u8),
    /// True or false.
    Bool,
    /// Text in UTF-8, in the order of its bytes, which is that of code points.
    Text,
    /// Bytes.
    Bytes,
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::I64 => f.write_str("i64"),
            Type::U64 => f.write_str("u64"),
            Type::F64 => f.write_str("f64"),
            Type::Decimal(scale) => write!(f, "decimal({scale})"),
            Type::Bool => f.write_str("bool"),
            Type::Text => f.write_str("text"),
            Type::Bytes => f.write_str("bytes"),
        }
    }
}

/// A decimal number: `units` × 10^-`scale`.
///
/// ```
/// # use thermocline_records::Decimal;
/// assert_eq!(Decimal::new(1999, 2).to_string(), "19.99");
/// assert_eq!(Decimal::new(-5, 3).to_string(), "-0.005");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decimal {
    /// Number of units of the last digit.
    pub units: i64,
    /// Digits behind the point.
    pub scale: u8,
}

impl Decimal {
    /// `units` × 10^-`scale`.
    pub fn new(units: i64, scale: u8) -> Decimal {
        Decimal { units, scale }
    }

    /// The same number with so many digits behind the point, as a column of [`Type::Decimal`] takes it. `None` if digits
    /// would be lost, or the number becomes too large.
    ///
    /// ```
    /// # use thermocline_records::Decimal;
    /// let price: Decimal = "19.9".parse()?;
    /// assert_eq!(price.rescaled(2), Some(Decimal::new(1990, 2)));
    /// assert_eq!(price.rescaled(0), None);
    /// # Ok::<(), thermocline_base::Error>(())
    /// ```
    pub fn rescaled(self, scale: u8) -> Option<Decimal> {
        let factor = 10i64.checked_pow(u32::from(scale.abs_diff(self.scale)));
        let units = match factor {
            _ if self.units == 0 => Some(0),
            Some(factor) if scale >= self.scale => self.units.checked_mul(factor),
            Some(factor) => (self.units % factor == 0).then(|| self.units / factor),
            None => None,
        };
        units.map(|units| Decimal { units, scale })
    }
}

/// Reads what [`Display`](fmt::Display) prints. There are as many digits behind the point as the text has there.
///
/// ```
/// # use thermocline_records::Decimal;
/// assert_eq!("-0.50".parse::<Decimal>()?, Decimal::new(-50, 2));
/// assert!("0.5 EUR".parse::<Decimal>().is_err());
/// # Ok::<(), thermocline_base::Error>(())
/// ```
impl FromStr for Decimal {
    type Err = Error;

    /// # Errors
    /// [`Error::InvalidArgument`] with the text, and what a decimal is.
    fn from_str(text: &str) -> Result<Decimal> {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => ("", text),
        };
        let (whole, part) = match digits.split_once('.') {
            Some((whole, part)) => (whole, Some(part)),
            None => (digits, None),
        };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let scale = u8::try_from(part.map_or(0, str::len)).ok();
        let scale = scale.filter(|scale| *scale <= DECIMAL_SCALE_MAX);
        let units = (is_number(whole) && part.is_none_or(is_number))
            .then(|| format!("{sign}{whole}{}", part.unwrap_or_default()))
            .and_then(|units| units.parse().ok());
        match (units, scale) {
            (Some(units), Some(scale)) => Ok(Decimal { units, scale }),
            _ => Err(Error::InvalidArgument(format!(
                "'{}' is not a decimal: it has digits, then perhaps a point and up to {DECIMAL_SCALE_MAX} more, and all digits \
                 together are a number of at most {}",
                shown(text.as_bytes()),
                i64::MAX
            ))),
        }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = usize::from(self.scale);
        let digits = format!("{:0>1$}", self.units.unsigned_abs(), scale + 1);
        let (whole, part) = digits.split_at(digits.len() - scale);
        let sign = if self.units < 0 { "-" } else { "" };
        let point = if scale > 0 { "." } else { "" };
        write!(f, "{sign}{whole}{point}{part}")
    }
}

/// One value of a row. `From` makes it from Rust's types; [`fields!`](crate::fields) makes a list.
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    /// No value. It orders before all others.
    Null,
    /// A value of [`Type::I64`]. Fits a `u64` column if it is not negative.
    I64(i64),
    /// A value of [`Type::U64`]. Fits an `i64` column if it is not larger than the largest `i64`.
    U64(u64),
    /// A value of [`Type::F64`].
    F64(f64),
    /// A value of [`Type::Decimal`].
    Decimal(Decimal),
    /// A value of [`Type::Bool`].
    Bool(bool),
    /// A value of [`Type::Text`].
    Text(String),
    /// A value of [`Type::Bytes`].
    Bytes(Vec<u8>),
}

impl Field {
    /// Whether there is no value.
    pub fn is_null(&self) -> bool {
        matches!(self, Field::Null)
    }

    /// The integer, if the field is one that fits an `i64`.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Field::I64(n) => Some(*n),
            Field::U64(n) => i64::try_from(*n).ok(),
            _ => None,
        }
    }

    /// The integer, if the field is one that fits a `u64`.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Field::U64(n) => Some(*n),
            Field::I64(n) => u64::try_from(*n).ok(),
            _ => None,
        }
    }

    /// The floating-point number, if the field is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Field::F64(n) => Some(*n),
            _ => None,
        }
    }

    /// The decimal, if the field is one.
    pub fn as_decimal(&self) -> Option<Decimal> {
        match self {
            Field::Decimal(n) => Some(*n),
            _ => None,
        }
    }

    /// The truth value, if the field is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Field::Bool(is) => Some(*is),
            _ => None,
        }
    }

    /// The text, if the field is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Field::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The bytes, if the field is of that type.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Field::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The kind of value, for messages.
    pub(crate) fn kind(&self) -> String {
        match self {
            Field::Null => "NULL".into(),
            Field::I64(_) => "i64".into(),
            Field::U64(_) => "u64".into(),
            Field::F64(_) => "f64".into(),
            Field::Decimal(n) => format!("decimal({})", n.scale),
            Field::Bool(_) => "bool".into(),
            Field::Text(_) => "text".into(),
            Field::Bytes(_) => "bytes".into(),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::Null => f.write_str("NULL"),
            Field::I64(n) => write!(f, "{n}"),
            Field::U64(n) => write!(f, "{n}"),
            Field::F64(n) => write!(f, "{n}"),
            Field::Decimal(n) => write!(f, "{n}"),
            Field::Bool(is) => write!(f, "{is}"),
            Field::Text(text) => write!(f, "'{}'", shown(text.as_bytes())),
            Field::Bytes(bytes) => write!(f, "b'{}'", shown(bytes)),
        }
    }
}

/// A tuple for messages: `(1, 'a')`.
pub(crate) fn tuple(fields: &[Field]) -> String {
    let each: Vec<String> = fields.iter().map(ToString::to_string).collect();
    format!("({})", each.join(", "))
}

macro_rules! from {
    ($($of:ty => $variant:ident),*) => {$(
        impl From<$of> for Field {
            fn from(value: $of) -> Field {
                Field::$variant(value.into())
            }
        }
    )*};
}

from!(i64 => I64, i32 => I64, i16 => I64, i8 => I64, u64 => U64, u32 => U64, u16 => U64, u8 => U64);
from!(f64 => F64, f32 => F64, Decimal => Decimal, bool => Bool, String => Text, &str => Text);
from!(Vec<u8> => Bytes, &[u8] => Bytes);

impl<const N: usize> From<&[u8; N]> for Field {
    fn from(bytes: &[u8; N]) -> Field {
        Field::Bytes(bytes.to_vec())
    }
}

impl<T: Into<Field>> From<Option<T>> for Field {
    fn from(value: Option<T>) -> Field {
        value.map_or(Field::Null, Into::into)
    }
}

/// A row, or the values of a key, made from anything that converts to a [`Field`].
///
/// ```
/// # use thermocline_records::{Field, fields};
/// let row = fields![7u64, "Ada", None::<bool>];
/// assert_eq!(row, [Field::U64(7), Field::Text("Ada".into()), Field::Null]);
/// ```
#[macro_export]
macro_rules! fields {
    ($($value:expr),* $(,)?) => {
        ::std::vec![$($crate::Field::from($value)),*]
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_reads_back_as_it_is_printed() {
        let most = DECIMAL_SCALE_MAX;
        for units in [0, 1, -1, 7, -90, 123_456, i64::MAX, i64::MIN] {
            for scale in [0, 1, 2, 9, most] {
                let decimal = Decimal::new(units, scale);
                let text = decimal.to_string();
                assert_eq!(text.parse::<Decimal>().unwrap(), decimal, "{text}");
            }
        }
        assert_eq!("007.10".parse::<Decimal>().unwrap(), Decimal::new(710, 2));
        assert_eq!("-0".parse::<Decimal>().unwrap(), Decimal::new(0, 0));
        let long = format!("0.{}", "0".repeat(usize::from(most) + 1));
        for wrong in [
            "",
            "-",
            ".",
            "1.",
            ".5",
            "+1",
            "--1",
            "1.-5",
            "1.2.3",
            " 1",
            "1e3",
            "1,5",
            "\u{661}",
            "9223372036854775808",
            "92233720368547758.08",
            &long,
        ] {
            let error = wrong.parse::<Decimal>().unwrap_err();
            assert_eq!(error.kind(), thermocline_base::ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(wrong), "{error}");
        }
    }

    #[test]
    fn a_decimal_takes_another_scale_if_it_stays_the_same_number() {
        let of = |units, scale, to| Decimal::new(units, scale).rescaled(to);
        assert_eq!(of(-190, 1, 3), Some(Decimal::new(-19_000, 3)));
        assert_eq!(of(-190, 1, 1), Some(Decimal::new(-190, 1)));
        assert_eq!(of(-190, 1, 0), Some(Decimal::new(-19, 0)));
        assert_eq!(of(-191, 1, 0), None);
        assert_eq!(of(i64::MAX, 0, 1), None);
        assert_eq!(of(1, 0, 19), None);
        assert_eq!(of(1, 255, 0), None);
        assert_eq!(of(0, 255, 2), Some(Decimal::new(0, 2)));
    }
}
