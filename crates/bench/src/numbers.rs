//! Numbers as people read them.

/// A number with its digits in groups of three.
///
/// ```
/// assert_eq!(thermocline_bench::grouped(1234567), "1,234,567");
/// ```
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things.
///
/// ```
/// assert_eq!(thermocline_bench::counted(1, "row"), "1 row");
/// assert_eq!(thermocline_bench::counted(2000, "row"), "2,000 rows");
/// ```
pub fn counted(n: u64, thing: &str) -> String {
    let many = if n == 1 { "" } else { "s" };
    format!("{} {thing}{many}", grouped(n))
}
