//! Fitting a line and corrections to thresholds of which each may lie within a range.

use thermocline_base::numbers::len32;

use super::bits::BitWriter;
use super::line::Line;
use super::model::{BLOCKS_MAX, Model};
use super::work::Work;

/// The error that a model may have: most bits of a correction. A line that is further off is worth less
/// than a shorter one.
const WIDTH_MAX: u32 = 48;

/// About what a model takes beside its corrections, in bits.
const MODEL_BITS: u64 = 104;

/// Models in a row that are worse than a shorter one, before longer ones are given up.
const WORSE_MAX: usize = 2;

/// What a threshold may be: from, and to.
pub(super) type Range = (i64, i64);

/// Ranges that are looked at between two looks at whether a line is too far off already.
const CHUNK: usize = 32;

#[derive(Debug, Clone, Copy)]
struct Fitted {
    line: Line,
    shift: u32,
    width: u32,
}

/// What lines need to know of the first of all ranges, whatever their slope is.
#[derive(Debug, Clone, Copy)]
struct Sums {
    count: usize,
    /// Of the ranges' middles.
    middles: i128,
    /// Of the middles, each times its place.
    placed: i128,
    /// How much the narrowest range has beside its lowest number.
    narrowest: u64,
}

impl Sums {
    /// Of no range.
    const NONE: Sums = Sums {
        count: 0,
        middles: 0,
        placed: 0,
        narrowest: u64::MAX,
    };

    /// Those of the first `count` ranges, which are no fewer than before.
    fn up_to(mut self, ranges: &[Range], count: usize) -> Sums {
        for (place, range) in (self.count..count).zip(&ranges[self.count..count]) {
            let middle = i128::from(middle(*range));
            self.middles += middle;
            self.placed += place as i128 * middle;
            self.narrowest = self.narrowest.min(range.1.abs_diff(range.0));
        }
        self.count = count;
        self
    }

    /// How far the line of least squares through the middles rises from the first to the last.
    fn least_squares(&self) -> u64 {
        let count = self.count as i128;
        // Over twice the distances of places from the middle one, so that they are whole: each times its middle, and squared.
        let above = 2 * self.placed - (count - 1) * self.middles;
        let below = count * (count * count - 1) / 3;
        let rise = 2 * above * (count - 1) / below.max(1);
        u64::try_from(rise).unwrap_or(0)
    }
}

/// Fits models to the thresholds of the blocks from `first` on: each as long as makes the bits for a block
/// fewest, and one without corrections up to where the line ends. Appends them, and their corrections.
pub(super) fn models(
    ranges: &[Range],
    first: u32,
    out: &mut Vec<Model>,
    corrections: &mut BitWriter,
    at: &mut u64,
    work: &mut Work,
) -> Option<()> {
    let mut done = 0;
    while done < ranges.len() {
        let (count, fitted) = best(&ranges[done..], work)?;
        let model = Model {
            first: first + len32(done),
            blocks: len32(count),
            line: fitted.line,
            shift: u8::try_from(fitted.shift).ok()?,
            width: u8::try_from(fitted.width).ok()?,
            at: *at,
        };
        for (i, range) in (0..).zip(&ranges[done..done + count]) {
            let correction = correction(range.0 - fitted.line.at(i), fitted.shift);
            corrections.push(correction, fitted.width);
        }
        *at += model.bits();
        out.push(model.checked()?);
        done += count;
    }
    Some(())
}

/// The smallest correction with which a line gets over what is missing.
fn correction(missing: i64, shift: u32) -> u64 {
    steps(u64::try_from(missing).unwrap_or(0), shift)
}

/// How many steps of 2^`shift` reach so far. A division takes as long as a dozen shifts.
fn steps(far: u64, shift: u32) -> u64 {
    let rest = far & ((1 << shift) - 1);
    (far >> shift) + u64::from(rest > 0)
}

/// In bits for each of `count` blocks, times 2¹⁶.
fn cost(count: usize, width: u32) -> u64 {
    let bits = MODEL_BITS + count as u64 * u64::from(width);
    (bits << 16) / count as u64
}

/// The widest corrections with which each of `count` blocks costs at most so much: as much as each of fewer blocks does.
fn widest(count: usize, most: u64) -> u32 {
    let bits = ((most + 1) * count as u64 - 1) >> 16;
    let width = bits.saturating_sub(MODEL_BITS) / count as u64;
    u32::try_from(width).unwrap_or(WIDTH_MAX).min(WIDTH_MAX)
}

/// How many of the first ranges make the best model, and that model.
fn best(ranges: &[Range], work: &mut Work) -> Option<(usize, Fitted)> {
    let most = ranges.len().min(BLOCKS_MAX as usize);
    let mut sums = Sums::NONE.up_to(ranges, 1);
    let one = fit(ranges, &sums, WIDTH_MAX)?;
    let (mut best, mut worse) = ((sums, one), 0);
    while sums.count < most && worse < WORSE_MAX {
        let count = (2 * sums.count).min(most);
        work.spend(8 * count)?;
        sums = sums.up_to(ranges, count);
        // One that costs more is not worth being fitted to the end.
        let width_max = widest(count, cost(best.0.count, best.1.width));
        match fit(ranges, &sums, width_max) {
            Some(fitted) => (best, worse) = ((sums, fitted), 0),
            None => worse += 1,
        }
    }
    match best.1.width {
        0 => extended(ranges, best, work),
        _ => Some((best.0.count, best.1)),
    }
}

/// A model without corrections, up to where it would need some: the next one begins behind the jump then, and not
/// before it.
fn extended(
    ranges: &[Range],
    (mut sums, mut fitted): (Sums, Fitted),
    work: &mut Work,
) -> Option<(usize, Fitted)> {
    let most = ranges.len().min(BLOCKS_MAX as usize);
    let mut beyond = (2 * sums.count).min(most) + 1;
    while beyond - sums.count > 1 {
        let middle = sums.count.midpoint(beyond);
        work.spend(4 * middle)?;
        let more = sums.up_to(ranges, middle);
        match fit(ranges, &more, 0) {
            Some(longer) => (sums, fitted) = (more, longer),
            None => beyond = middle,
        }
    }
    Some((sums.count, fitted))
}

/// The best of three lines: from the top of the first range to the bottom of the last, where a jump makes either
/// of them wide and the line goes on at its near end; through the middles of both; and with the slope of least
/// squares. None if all need corrections of more than `width_max` bits.
fn fit(ranges: &[Range], sums: &Sums, width_max: u32) -> Option<Fitted> {
    let ranges = &ranges[..sums.count];
    let steps = ranges.len() as u64 - 1;
    let (first, last) = (ranges[0], ranges[ranges.len() - 1]);
    let slopes: [&dyn Fn() -> u64; 3] = [
        &|| u64::try_from(last.0 - first.1).unwrap_or(0),
        &|| u64::try_from(middle(last) - middle(first)).unwrap_or(0),
        &|| sums.least_squares(),
    ];
    let mut best: Option<Fitted> = None;
    for rise in slopes {
        // A later one is only better if it is narrower.
        let width_max = match best {
            Some(best) => best.width.checked_sub(1),
            None => Some(width_max),
        };
        let Some(width_max) = width_max else {
            break;
        };
        let line = Line::rising(0, rise(), steps);
        best = with_slope(ranges, line, sums.narrowest, width_max).or(best);
    }
    best
}

fn middle((low, high): Range) -> i64 {
    low.midpoint(high)
}

/// Among all bases for this line: the highest with which a range's bottom lies on it, and the lowest with which
/// a top does. None if the first is above the second by more than `room`.
fn bases(ranges: &[Range], line: &Line, room: u64) -> Option<(i64, i64)> {
    let rise = line.rise();
    let (mut lowest, mut highest) = (i64::MIN, i64::MAX);
    let mut place = 0;
    for chunk in ranges.chunks(CHUNK) {
        for (low, high) in chunk {
            let risen = rise.at(place).cast_signed();
            lowest = lowest.max(low - risen);
            highest = highest.min(high - risen);
            place += 1;
        }
        if lowest > highest && lowest.abs_diff(highest) > room {
            return None;
        }
    }
    Some((lowest, highest))
}

/// The narrowest corrections for a line with this slope, and the base that goes with them, if they have no more than
/// `width_max` bits.
fn with_slope(ranges: &[Range], line: Line, narrowest: u64, width_max: u32) -> Option<Fitted> {
    line.checked(len32(ranges.len()) - 1)?;
    // Steps of as much as the narrowest range holds always do; wider ones may.
    let sure = (narrowest + 1).ilog2();
    // The widest steps reach so far with the most corrections.
    let room = ((1u128 << width_max) - 1) << (sure + 2);
    let room = u64::try_from(room).unwrap_or(u64::MAX);
    let (lowest, highest) = bases(ranges, &line, room)?;
    if lowest <= highest {
        let line = Line {
            base: lowest,
            ..line
        };
        return Some(Fitted {
            line,
            shift: 0,
            width: 0,
        });
    }
    let line = Line {
        base: highest,
        ..line
    };
    let most = lowest.abs_diff(highest);
    let rise = line.rise();
    let does = |shift: u32| {
        let step = 1u64 << shift;
        (0u32..).zip(ranges).all(|(i, (low, high))| {
            // A range that is as wide as a step has the end of one.
            high.abs_diff(*low) >= step - 1 || {
                let at = line.base + rise.at(i).cast_signed();
                at + (correction(low - at, shift) << shift).cast_signed() <= *high
            }
        })
    };
    let shift = [sure + 2, sure + 1].into_iter().find(|shift| does(*shift));
    let shift = shift.unwrap_or(sure);
    let width = 64 - steps(most, shift).leading_zeros();
    (width <= width_max).then_some(Fitted { line, shift, width })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::bits::Bits;
    use thermocline_testkit::Rng;

    fn fitted(ranges: &[Range]) -> (Vec<Model>, u64) {
        let (mut models, mut bits, mut at) = (Vec::new(), BitWriter::default(), 0);
        let mut work = Work::new(ranges.len());
        super::models(ranges, 1, &mut models, &mut bits, &mut at, &mut work).unwrap();
        let bits = Bits::new(&bits.finish());
        let mut n = 0;
        for model in &models {
            assert_eq!(model.first, 1 + len32(n));
            for i in 0..model.blocks {
                let threshold = model.threshold(i, &bits);
                let (low, high) = ranges[n];
                assert!(
                    (low..=high).contains(&threshold),
                    "{threshold} is not in {low}..={high}"
                );
                n += 1;
            }
        }
        assert_eq!(n, ranges.len());
        (models, at)
    }

    #[test]
    fn every_threshold_lies_within_its_range() {
        let mut rng = Rng::new(7);
        for _ in 0..300 {
            let count = 1 + rng.below(700);
            let (step, gap) = (1 << rng.below(49), 1 << rng.below(20));
            let mut at = 0i64;
            let ranges: Vec<Range> = (0..count)
                .map(|_| {
                    let low = at + i64::try_from(rng.below(step)).unwrap();
                    at = low + i64::try_from(rng.below(gap)).unwrap();
                    (low, at)
                })
                .collect();
            fitted(&ranges);
        }
    }

    #[test]
    fn what_is_straight_takes_one_model_without_corrections() {
        let exact: Vec<Range> = (1..=70_000).map(|n| (3 * n, 3 * n)).collect();
        let (models, bits) = fitted(&exact);
        assert_eq!((models.len(), bits), (2, 0));
        let wide: Vec<Range> = (1..=1000).map(|n| (97 * n - n % 40, 97 * n + 40)).collect();
        let (models, bits) = fitted(&wide);
        assert_eq!((models.len(), bits), (1, 0));
    }

    #[test]
    fn a_jump_begins_a_model() {
        let jump = (1..=1000).map(|n| 3 * n + i64::from(n > 512) * (1 << 50));
        let ranges: Vec<Range> = jump.map(|n| (n, n)).collect();
        let (models, bits) = fitted(&ranges);
        assert!(models.len() < 6 && bits == 0, "{models:?}");
        let jumps = (1..=10_000).map(|n| 3 * n + n / 33 * 70_000);
        let ranges: Vec<Range> = jumps.map(|n| (n, n)).collect();
        let (models, bits) = fitted(&ranges);
        assert!(
            models.len() < 310 && bits == 0,
            "{} models, {bits}",
            models.len()
        );
        // Where it jumps between blocks, the threshold may be anywhere in the gap.
        let at = |n: i64| 3 * n + n / 33 * 70_000;
        let ranges: Vec<Range> = (1..=10_000).map(|n| (at(n - 1) + 3, at(n))).collect();
        let (models, bits) = fitted(&ranges);
        assert!(models.len() < 310 && bits == 0, "{}, {bits}", models.len());
    }
}
