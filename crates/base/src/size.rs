//! Sizes in bytes as people write them: `64MiB`, `4 GiB`, `512`.

use crate::error::{Error, Result};

/// Parses a size: a whole number, optionally followed by `B`, `KiB`, `MiB`, `GiB` or `TiB`.
///
/// ```
/// use thermocline_base::size::parse_size;
/// assert_eq!(parse_size("4 GiB").unwrap(), 4 << 30);
/// assert_eq!(parse_size("512").unwrap(), 512);
/// assert!(parse_size("4GB").unwrap_err().to_string().contains("KiB"));
/// assert!(parse_size("99999999TiB").unwrap_err().to_string().contains("largest"));
/// ```
pub fn parse_size(text: &str) -> Result<u64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let unit = match text[digits..].trim() {
        "" | "B" => 1u64,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(bad_size(text)),
    };
    let number: u64 = text[..digits].parse().map_err(|_| bad_size(text))?;
    number.checked_mul(unit).ok_or_else(|| {
        Error::InvalidArgument(format!(
            "'{text}' is not a size: it is more than 16777215TiB, the largest there is"
        ))
    })
}

fn bad_size(text: &str) -> Error {
    Error::InvalidArgument(format!(
        "'{text}' is not a size: write a whole number of bytes or of KiB, MiB, GiB (like 64MiB)"
    ))
}

/// Prints a size in the largest unit that keeps it readable.
///
/// ```
/// use thermocline_base::size::format_size;
/// assert_eq!(format_size(4 << 30), "4 GiB");
/// assert_eq!(format_size(1_500_000), "1.4 MiB");
/// assert_eq!(format_size(100), "100 B");
/// ```
pub fn format_size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = "B";
    for name in units {
        if value < 1024.0 {
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
