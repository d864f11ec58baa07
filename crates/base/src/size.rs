//! Sizes in bytes as people write them: `64MiB`, `4 GiB`, `512`.

use crate::error::{Error, Result};

/// Parses a size: a whole number, optionally followed by `B`, `KiB`, `MiB`, `GiB` or `TiB`.
///
/// ```
/// # use thermocline_base as thermocline;
/// use thermocline::size::parse_size;
/// assert_eq!(parse_size("4 GiB").unwrap(), 4 << 30);
/// assert_eq!(parse_size("512").unwrap(), 512);
/// assert!(parse_size("4GB").unwrap_err().to_string().contains("KiB"));
/// for too_large in ["99999999TiB", "99999999999999999999"] {
///     assert!(parse_size(too_large).unwrap_err().to_string().contains("largest"));
/// }
/// ```
///
/// # Errors
/// [`Error::InvalidArgument`] with the text, and what a size is.
pub fn parse_size(text: &str) -> Result<u64> {
    let text = text.trim();
    let at = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(at);
    let unit = match unit.trim() {
        "" | "B" => 1u64,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(bad_size(text)),
    };
    if digits.is_empty() {
        return Err(bad_size(text));
    }
    // There are digits alone, so a number that does not parse is too large.
    let number = digits.parse::<u64>().ok();
    let bytes = number.and_then(|number| number.checked_mul(unit));
    bytes.ok_or_else(|| {
        Error::InvalidArgument(format!(
            "'{text}' is not a size: it is more than 16777215TiB, the largest there is"
        ))
    })
}

fn bad_size(text: &str) -> Error {
    Error::InvalidArgument(format!(
        "'{text}' is not a size: write a whole number of bytes or of KiB, MiB, GiB or TiB (like 64MiB)"
    ))
}

/// Prints a size in the largest unit that keeps it readable.
///
/// ```
/// # use thermocline_base as thermocline;
/// use thermocline::size::format_size;
/// assert_eq!(format_size(4 << 30), "4 GiB");
/// assert_eq!(format_size(1_500_000), "1.4 MiB");
/// assert_eq!(format_size(100), "100 B");
/// assert_eq!(format_size((1 << 20) - 1), "1 MiB");
/// ```
pub fn format_size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = "B";
    for name in units {
        // As it is printed, in tenths: what is rounded to 1024 is one of the next unit.
        if (value * 10.0).round() < 10240.0 {
            break;
        }
        value /= 1024.0;
        unit = name;
    }
    if (value - value.round()).abs() < 0.05 {
        format!("{value:.0} {unit}")
    } else {
        format!("{value:.1} {unit}")
    }
}

/// As [`format_size`], if that says all; else in bytes. For a size that lies beyond a limit, perhaps by one byte.
///
/// ```
/// # use thermocline_base as thermocline;
/// use thermocline::size::format_given;
/// assert_eq!(format_given(64 << 20), "64 MiB");
/// assert_eq!(format_given((1 << 20) - 1), "1048575 B");
/// assert_eq!(format_given(1_500_000), "1500000 B");
/// ```
pub fn format_given(bytes: u64) -> String {
    let short = format_size(bytes);
    match parse_size(&short) {
        Ok(same) if same == bytes => short,
        _ => format!("{bytes} B"),
    }
}

const _: () = assert!(
    usize::BITS == 64,
    "offsets of 64 bits index memory directly"
);

/// A 64-bit offset or length as an index. The engine runs on 64-bit machines only.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "usize has 64 bits, asserted above"
)]
pub const fn index(n: u64) -> usize {
    n as usize
}
