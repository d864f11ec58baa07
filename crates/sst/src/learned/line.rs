//! A straight line, in integers.
//!
//! `at(i) = base + i × slope`, where the slope is a mantissa of 32 bits times a power of two, rounded
//! down. No floating point: every machine has the same line. `checked` keeps every value that is asked
//! for within 2⁶¹ of the base, and the base within 2⁶¹ of zero.

/// Most that a line rises, and most that its base is away from zero.
pub(super) const RISE_MAX: u64 = 1 << 61;

/// A line over places 0, 1, 2 and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    pub base: i64,
    pub mantissa: u32,
    /// Of two: the mantissa's factor.
    pub exponent: i8,
}

/// How far a line has risen at each of its places.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rise {
    factor: u64,
    down: u32,
}

impl Rise {
    /// At place `i`, which is not behind the last that was checked.
    #[inline]
    pub fn at(self, i: u32) -> u64 {
        self.factor.wrapping_mul(u64::from(i)) >> self.down
    }
}

impl Line {
    /// A line through `base` that rises by about `rise` in `steps` steps.
    pub fn rising(base: i64, rise: u64, steps: u64) -> Line {
        if rise == 0 || steps == 0 {
            return Line {
                base,
                mantissa: 0,
                exponent: 0,
            };
        }
        // As many bits of the slope as the mantissa has.
        let scaled = (u128::from(rise) << 32) / u128::from(steps);
        let bits = 128 - scaled.leading_zeros();
        let down = bits.saturating_sub(32);
        let mantissa = u32::try_from(scaled >> down).expect("it has at most 32 bits");
        let zeros = mantissa.trailing_zeros().min(31);
        let exponent = i64::from(down) - 32 + i64::from(zeros);
        Line {
            base,
            mantissa: mantissa >> zeros,
            exponent: i8::try_from(exponent).expect("from -32 to 64"),
        }
    }

    /// The line, if all its values from place 0 to `last` can be had.
    pub fn checked(self, last: u32) -> Option<Line> {
        let product = u128::from(self.mantissa) * u128::from(last);
        let rise = match u32::try_from(self.exponent) {
            Ok(up) if up < 64 => product << up,
            Ok(_) if product > 0 => return None,
            Ok(_) => 0,
            Err(_) => product >> self.exponent.unsigned_abs().min(127),
        };
        let fits = rise <= u128::from(RISE_MAX) && self.base.unsigned_abs() <= RISE_MAX;
        fits.then_some(self)
    }

    /// How far it rises, for whoever asks for many places.
    #[inline]
    pub fn rise(&self) -> Rise {
        let mantissa = u64::from(self.mantissa);
        let (factor, down) = match u32::try_from(self.exponent) {
            Ok(up) => (mantissa.checked_shl(up).unwrap_or(0), 0),
            Err(_) => (mantissa, u32::from(self.exponent.unsigned_abs())),
        };
        match down < u64::BITS {
            true => Rise { factor, down },
            false => Rise { factor: 0, down: 0 },
        }
    }

    /// Its value at place `i`, which is not behind the last that was checked.
    #[inline]
    pub fn at(&self, i: u32) -> i64 {
        self.base + self.rise().at(i).cast_signed()
    }

    /// About the place where it has this value, from 0 to `last`.
    #[inline]
    pub fn place_of(&self, value: i64, last: u32) -> u32 {
        let above = value.saturating_sub(self.base);
        let Ok(above) = u64::try_from(above) else {
            return 0;
        };
        if self.mantissa == 0 || above >= self.rise().at(last) {
            return last;
        }
        // Below the product of mantissa and place: it has room where it stood before.
        let product = match u32::try_from(self.exponent) {
            Ok(up) => above.checked_shr(up).unwrap_or(0),
            Err(_) => above
                .checked_shl(u32::from(self.exponent.unsigned_abs()))
                .unwrap_or(u64::MAX),
        };
        let place = product / u64::from(self.mantissa);
        u32::try_from(place).unwrap_or(last).min(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline_testkit::Rng;

    #[test]
    fn whole_slopes_are_exact_and_others_nearly() {
        for slope in [1, 3, 117, 1000, 1 << 40] {
            let line = Line::rising(-7, slope * 4000, 4000).checked(4000).unwrap();
            for i in 0..=4000 {
                assert_eq!(line.at(i), -7 + (slope * u64::from(i)).cast_signed());
                assert_eq!(line.place_of(line.at(i), 4000), i);
            }
        }
        let line = Line::rising(0, 1000, 7000).checked(7000).unwrap();
        assert!((0..=7000).all(|i| line.at(i).abs_diff(i64::from(i) / 7) <= 1));
    }

    #[test]
    fn places_are_about_right_and_within_whatever_the_value() {
        let mut rng = Rng::new(3);
        for _ in 0..3000 {
            let last = 1 + u32::try_from(rng.below(1 << rng.clone().below(17))).unwrap();
            let rise = rng.next_u64() >> (4 + rng.below(60));
            let line = Line::rising(rng.next_u64().cast_signed() >> 4, rise, u64::from(last));
            let line = line.checked(last).unwrap();
            for _ in 0..20 {
                let place = u32::try_from(rng.below(1 + last as usize)).unwrap();
                let found = line.place_of(line.at(place), last);
                assert!(found <= last && line.at(found) <= line.at(place));
                assert!(line.place_of(rng.next_u64().cast_signed(), last) <= last);
            }
        }
    }

    #[test]
    fn lines_that_would_leave_the_numbers_are_refused() {
        let line = |base, mantissa, exponent| Line {
            base,
            mantissa,
            exponent,
        };
        assert!(line(0, 1, 61).checked(1).is_some());
        assert!(line(0, 1, 61).checked(2).is_none());
        assert!(line(0, u32::MAX, 127).checked(u32::MAX).is_none());
        assert!(line(0, 0, 127).checked(u32::MAX).is_some());
        assert!(line(i64::MIN, 0, 0).checked(0).is_none());
        let flat = line(5, u32::MAX, -128).checked(u32::MAX).unwrap();
        assert_eq!(flat.at(u32::MAX), 5);
        assert_eq!(flat.place_of(9, 7), 7);
    }
}
