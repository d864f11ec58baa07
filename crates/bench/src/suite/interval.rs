//! The ratio of two rates that were measured in pairs, and its interval.

use serde::Serialize;

/// How many times as fast one side was as the other, from rounds in which both ran close together.
///
/// Each round gives a ratio, and chance multiplies rates rather than adding to them. So the mean is the geometric one, and the
/// interval is Student's, of the logarithms, with one degree of freedom less than there are rounds: where rounds are alike but
/// for chance, 95 of 100 such intervals hold the true ratio.
///
/// ```
/// use thermocline_bench::suite::Ratio;
/// let ratio = Ratio::of(&[2.0, 4.0, 8.0], &[1.0, 2.0, 4.0]);
/// assert_eq!((ratio.mean, ratio.interval), (2.0, Some((2.0, 2.0))));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// The geometric mean of the rounds' ratios.
    pub mean: f64,
    /// The ends of the 95 % interval; `None` for a single round, which says nothing about chance.
    pub interval: Option<(f64, f64)>,
}

impl Ratio {
    /// Of `ours` by `theirs`, round by round. There is at least one round.
    pub fn of(ours: &[f64], theirs: &[f64]) -> Ratio {
        let pairs = ours.iter().zip(theirs);
        // A side that did nothing at all is no reason to divide by nothing.
        let positive = |rate: f64| rate.max(f64::MIN_POSITIVE);
        let logs: Vec<f64> = pairs
            .map(|(&ours, &theirs)| (positive(ours) / positive(theirs)).ln())
            .collect();
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let interval = (logs.len() > 1).then(|| {
            let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
            let half = student(logs.len() - 1) * (squares / (n - 1.0) / n).sqrt();
            ((mean - half).exp(), (mean + half).exp())
        });
        Ratio {
            mean: mean.exp(),
            interval,
        }
    }

    /// Whether the interval, or the mean where there is none, reaches `bar`.
    pub fn reaches(&self, bar: f64) -> bool {
        self.interval.map_or(self.mean, |(_, high)| high) >= bar
    }
}

/// What 2.5 % of Student's distribution with so many degrees of freedom, at least one, lie above.
fn student(freedom: usize) -> f64 {
    const FIRST: [f64; 10] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    ];
    if let Some(known) = FIRST.get(freedom - 1) {
        return *known;
    }
    // The first terms of the Cornish-Fisher expansion about the normal distribution (Abramowitz and Stegun, 26.7.5).
    let (z, n) = (1.959_964_f64, freedom as f64);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / n + second / n.powi(2) + third / n.powi(3)
}

/// The one in the middle, or the mean of the two there; of at least one.
pub fn median(all: &[f64]) -> f64 {
    let mut all = all.to_vec();
    all.sort_by(f64::total_cmp);
    let (half, odd) = (all.len() / 2, all.len() % 2 == 1);
    match odd {
        true => all[half],
        false => (all[half - 1] + all[half]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64, by: f64) {
        assert!((a - b).abs() <= by, "{a} is not {b}");
    }

    #[test]
    fn intervals_are_as_in_tables() {
        // Printed tables of Student's distribution.
        for (freedom, expected) in [
            (1, 12.706),
            (4, 2.776),
            (10, 2.228),
            (11, 2.201),
            (15, 2.131),
            (30, 2.042),
            (60, 2.000),
            (99, 1.984),
        ] {
            near(student(freedom), expected, 0.0006);
        }
        // Ratios e^-0.1, e^0, e^0.1, e^0.2, e^0.3: mean 0.1, deviation 0.15811, half width 2.776 * 0.15811 / sqrt 5.
        let ours: Vec<f64> = [-0.1f64, 0.0, 0.1, 0.2, 0.3].map(f64::exp).to_vec();
        let ratio = Ratio::of(&ours, &[1.0; 5]);
        near(ratio.mean, 0.1f64.exp(), 1e-12);
        let (low, high) = ratio.interval.unwrap();
        near(low.ln(), 0.1 - 0.196_29, 1e-4);
        near(high.ln(), 0.1 + 0.196_29, 1e-4);
    }

    #[test]
    fn pairs_count_and_not_how_fast_the_machine_was() {
        let theirs = [100.0, 900.0, 50.0];
        let ours = theirs.map(|rate| rate * 0.9);
        let ratio = Ratio::of(&ours, &theirs);
        let (low, high) = ratio.interval.unwrap();
        near(low, 0.9, 1e-9);
        near(high, 0.9, 1e-9);
        assert!(ratio.reaches(0.89) && !ratio.reaches(0.95));
        // The other way about it is the inverse.
        near(Ratio::of(&theirs, &ours).mean, 1.0 / 0.9, 1e-9);
    }

    #[test]
    fn one_round_has_no_interval_and_two_have_a_wide_one() {
        let one = Ratio::of(&[94.0], &[100.0]);
        assert_eq!(one.interval, None);
        assert!(!one.reaches(0.95) && one.reaches(0.94));
        let two = Ratio::of(&[80.0, 90.0], &[100.0, 100.0]);
        let (low, high) = two.interval.unwrap();
        assert!(low < 0.5 && high > 1.5 && two.reaches(0.95));
        let none = Ratio::of(&[0.0], &[1.0]);
        assert!(none.mean.is_finite() && !none.reaches(0.95));
    }

    #[test]
    fn medians() {
        near(median(&[3.0, 1.0, 2.0]), 2.0, 0.0);
        near(median(&[4.0, 1.0, 2.0, 3.0]), 2.5, 0.0);
        near(median(&[7.0]), 7.0, 0.0);
    }
}
