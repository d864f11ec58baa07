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

#[derive(Debug, Clone, Copy)]
struct Fitted {
    line: Line,
    shift: u32,
    width: u32,
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
            let correction = correction(&fitted.line, i, range.0, fitted.shift);
            corrections.push(correction, fitted.width);
        }
        *at += model.bits();
        out.push(model.checked()?);
        done += count;
    }
    Some(())
}

/// The smallest correction with which the line reaches `low` at place `i`.
fn correction(line: &Line, i: u32, low: i64, shift: u32) -> u64 {
    let missing = u64::try_from(low - line.at(i)).unwrap_or(0);
    missing.div_ceil(1 << shift)
}

/// How many of the first ranges make the best model, and that model.
fn best(ranges: &[Range], work: &mut Work) -> Option<(usize, Fitted)> {
    let most = ranges.len().min(BLOCKS_MAX as usize);
    // In bits for each block, times 2¹⁶.
    let cost = |count: usize, fitted: &Fitted| {
        let bits = MODEL_BITS + count as u64 * u64::from(fitted.width);
        (bits << 16) / count as u64
    };
    let one = fit(&ranges[..1])?;
    let (mut best, mut worse, mut count) = ((1, one), 0, 1);
    while count < most && worse < WORSE_MAX {
        count = (2 * count).min(most);
        work.spend(8 * count)?;
        match fit(&ranges[..count]) {
            Some(fitted) if cost(count, &fitted) <= cost(best.0, &best.1) => {
                best = (count, fitted);
                worse = 0;
            }
            _ => worse += 1,
        }
    }
    match best.1.width {
        0 => extended(ranges, best, work),
        _ => Some(best),
    }
}

/// A model without corrections, up to where it would need some: the next one begins behind the jump then, and not
/// before it.
fn extended(
    ranges: &[Range],
    (mut count, mut fitted): (usize, Fitted),
    work: &mut Work,
) -> Option<(usize, Fitted)> {
    let mut beyond = (2 * count).min(ranges.len()).min(BLOCKS_MAX as usize) + 1;
    while beyond - count > 1 {
        let middle = count.midpoint(beyond);
        work.spend(4 * middle)?;
        match fit(&ranges[..middle]) {
            Some(longer) if longer.width == 0 => (count, fitted) = (middle, longer),
            _ => beyond = middle,
        }
    }
    Some((count, fitted))
}

/// The best of three lines: from the top of the first range to the bottom of the last, where a jump makes either
/// of them wide and the line goes on at its near end; through the middles of both; and with the slope of least
/// squares.
fn fit(ranges: &[Range]) -> Option<Fitted> {
    let steps = ranges.len() as u64 - 1;
    let (first, last) = (ranges[0], ranges[ranges.len() - 1]);
    let slopes: [&dyn Fn() -> u64; 3] = [
        &|| u64::try_from(last.0 - first.1).unwrap_or(0),
        &|| u64::try_from(middle(last) - middle(first)).unwrap_or(0),
        &|| least_squares(ranges),
    ];
    let mut best: Option<Fitted> = None;
    for rise in slopes {
        let fitted = with_slope(ranges, Line::rising(0, rise(), steps));
        best = best.into_iter().chain(fitted).min_by_key(|f| f.width);
        if best.is_some_and(|fitted| fitted.width == 0) {
            break;
        }
    }
    best
}

fn middle((low, high): Range) -> i64 {
    low.midpoint(high)
}

/// How far the line of least squares through the middles rises from the first to the last.
fn least_squares(ranges: &[Range]) -> u64 {
    let count = ranges.len() as i128;
    let (mut above, mut below) = (0i128, 0i128);
    for (i, range) in (0i128..).zip(ranges) {
        // Twice the distance from the middle place, so that it is whole.
        let from_middle = 2 * i - (count - 1);
        above += from_middle * i128::from(middle(*range));
        below += from_middle * from_middle;
    }
    let rise = 2 * above * (count - 1) / below.max(1);
    u64::try_from(rise).unwrap_or(0)
}

/// The narrowest corrections for a line with this slope, and the base that goes with them.
fn with_slope(ranges: &[Range], line: Line) -> Option<Fitted> {
    line.checked(len32(ranges.len()) - 1)?;
    let places = || (0u32..).zip(ranges);
    let lowest = places().map(|(i, range)| range.0 - line.at(i)).max()?;
    let highest = places().map(|(i, range)| range.1 - line.at(i)).min()?;
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
    let narrowest = ranges.iter().map(|range| range.1.abs_diff(range.0)).min()?;
    // Steps of as much as the narrowest range holds always do; wider ones may.
    let sure = (narrowest + 1).ilog2();
    let most = u64::try_from(lowest - highest).ok()?;
    let does = |shift: u32| {
        places().all(|(i, range)| {
            let correction = correction(&line, i, range.0, shift);
            line.at(i) + (correction << shift).cast_signed() <= range.1
        })
    };
    let shift = [sure + 2, sure + 1].into_iter().find(|shift| does(*shift));
    let shift = shift.unwrap_or(sure);
    let width = 64 - most.div_ceil(1 << shift).leading_zeros();
    (width <= WIDTH_MAX).then_some(Fitted { line, shift, width })
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
