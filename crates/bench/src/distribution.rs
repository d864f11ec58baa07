//! Which keys are asked for, how often.

use thermocline::{Error, Result};

use crate::keys::Permutation;
use crate::rng::Rng;

/// YCSB's skew.
pub const THETA_DEFAULT: f64 = 0.99;

/// How a workload chooses keys.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Distribution {
    /// Every key as likely as any other.
    #[default]
    Uniform,
    /// The key of rank r with a likelihood of 1 / r^theta; ranks are scattered over the keys. YCSB's "scrambled" draws are
    /// flatter: from ten billion ranks, which it hashes onto the keys. Its hottest key has 3.8 % of them, that of a million keys
    /// here 6.5 %.
    Zipfian {
        /// The skew, between 0 and 1.
        theta: f64,
    },
    /// As Zipfian with YCSB's skew, the key that was loaded or inserted last first.
    Latest,
    /// In key order, from the first, again from the first after the last.
    Sequential,
}

impl Distribution {
    /// Parses `uniform`, `zipfian`, `zipfian:THETA`, `latest` or `sequential`.
    ///
    /// ```
    /// use thermocline_bench::Distribution;
    /// let zipfian = Distribution::parse("zipfian:0.8").unwrap();
    /// assert_eq!(zipfian, Distribution::Zipfian { theta: 0.8 });
    /// assert_eq!(zipfian.to_string(), "zipfian:0.8");
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for anything else, or a skew not between 0 and 1.
    pub fn parse(text: &str) -> Result<Distribution> {
        let (name, theta) = match text.split_once(':') {
            Some((name, theta)) => (name, Some(theta)),
            None => (text, None),
        };
        match (name, theta) {
            ("uniform", None) => Ok(Distribution::Uniform),
            ("latest", None) => Ok(Distribution::Latest),
            ("sequential", None) => Ok(Distribution::Sequential),
            ("zipfian", None) => Ok(Distribution::Zipfian {
                theta: THETA_DEFAULT,
            }),
            ("zipfian", Some(theta)) => match theta.parse::<f64>() {
                Ok(theta) if theta > 0.0 && theta < 1.0 => Ok(Distribution::Zipfian { theta }),
                _ => Err(Error::InvalidArgument(format!(
                    "the skew of zipfian lies between 0 and 1, both excluded; '{theta}' was given"
                ))),
            },
            _ => Err(Error::InvalidArgument(format!(
                "there is no distribution '{text}'; they are uniform, zipfian, zipfian:THETA, \
                 latest and sequential"
            ))),
        }
    }
}

impl std::fmt::Display for Distribution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Distribution::Uniform => f.write_str("uniform"),
            Distribution::Zipfian { theta } if *theta == THETA_DEFAULT => f.write_str("zipfian"),
            Distribution::Zipfian { theta } => write!(f, "zipfian:{theta}"),
            Distribution::Latest => f.write_str("latest"),
            Distribution::Sequential => f.write_str("sequential"),
        }
    }
}

/// Draws key indexes below `n`.
#[derive(Debug, Clone)]
pub struct Draw {
    rng: Rng,
    /// In which the load writes the keys.
    order: Permutation,
    /// Where the ranks of zipfian keys lie: not in the order of the load, else those that are drawn most would all be the oldest.
    scatter: Permutation,
    n: u64,
    form: Form,
}

/// The ranks' order has a seed that differs from the load's by this.
const SCATTERED: u64 = 0x7363_6174_7465_7221;

#[derive(Debug, Clone)]
enum Form {
    Uniform,
    Zipfian(Zipf),
    Latest(Zipf),
    Sequential { next: u64 },
}

impl Draw {
    /// Draws of thread `thread`; a sequential one begins at `first`.
    pub fn new(what: Distribution, n: u64, seed: u64, thread: u64, first: u64) -> Draw {
        Draw {
            rng: Rng::of_part(seed, thread + 1),
            order: Permutation::new(n, seed),
            scatter: Permutation::new(n, seed ^ SCATTERED),
            n,
            form: match what {
                Distribution::Uniform => Form::Uniform,
                Distribution::Zipfian { theta } => Form::Zipfian(Zipf::new(n, theta)),
                Distribution::Latest => Form::Latest(Zipf::new(n, THETA_DEFAULT)),
                Distribution::Sequential => Form::Sequential { next: first % n },
            },
        }
    }

    /// The index of the next key, where `inserted` keys lie behind the loaded ones, newest last.
    /// Only the latest keys are drawn from those too.
    #[inline]
    pub fn index(&mut self, inserted: u64) -> u64 {
        match &mut self.form {
            Form::Uniform => self.rng.below(self.n),
            Form::Zipfian(zipf) => self.scatter.at(zipf.rank(self.rng.unit())),
            // The load writes keys in the order of the permutation, so place n - 1 is the newest.
            Form::Latest(zipf) => {
                let place = self.n + inserted - 1 - zipf.rank(self.rng.unit());
                if place < self.n {
                    self.order.at(place)
                } else {
                    place
                }
            }
            Form::Sequential { next } => {
                let index = *next;
                *next = if index + 1 == self.n { 0 } else { index + 1 };
                index
            }
        }
    }
}

/// Ranks `0..n` by Zipf's law, with the closed form of Gray et al., "Quickly generating
/// billion-record synthetic databases" (SIGMOD 1994), as YCSB uses it.
#[derive(Debug, Clone)]
struct Zipf {
    n: f64,
    last: u64,
    alpha: f64,
    zeta_n: f64,
    eta: f64,
    second: f64,
}

impl Zipf {
    fn new(n: u64, theta: f64) -> Zipf {
        let zeta_n = zeta(n, theta);
        let count = n as f64;
        Zipf {
            n: count,
            last: n - 1,
            alpha: 1.0 / (1.0 - theta),
            zeta_n,
            eta: (1.0 - (2.0 / count).powf(1.0 - theta)) / (1.0 - zeta(2, theta) / zeta_n),
            second: 1.0 + 0.5f64.powf(theta),
        }
    }

    #[inline]
    fn rank(&self, unit: f64) -> u64 {
        let place = unit * self.zeta_n;
        if place < 1.0 || self.last == 0 {
            0
        } else if place < self.second || self.last == 1 {
            1
        } else {
            floor(self.n * (self.eta * unit - self.eta + 1.0).powf(self.alpha)).min(self.last)
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the fraction is what is to go; a float beyond the range saturates"
)]
fn floor(x: f64) -> u64 {
    x as u64
}

/// The sum of 1 / r^theta for r from 1 to n: the first terms one by one, the rest by the
/// Euler-Maclaurin formula, whose error there is far below that of the sum itself.
fn zeta(n: u64, theta: f64) -> f64 {
    const EXACT: u64 = 10_000;
    let term = |r: u64| (r as f64).powf(-theta);
    let head: f64 = (1..=n.min(EXACT)).map(term).sum();
    if n <= EXACT {
        return head;
    }
    let integral =
        ((n as f64).powf(1.0 - theta) - (EXACT as f64).powf(1.0 - theta)) / (1.0 - theta);
    head + integral + (term(n) - term(EXACT)) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: u64 = 1000;
    const DRAWS: u32 = 400_000;

    fn counts(what: Distribution) -> Vec<u32> {
        let mut draw = Draw::new(what, N, 5, 0, 0);
        let mut counts = vec![0; usize::try_from(N).unwrap()];
        for _ in 0..DRAWS {
            counts[usize::try_from(draw.index(0)).unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn zipfian_is_as_skewed_as_its_law_says() {
        for theta in [0.5, 0.8, 0.99] {
            let mut counts = counts(Distribution::Zipfian { theta });
            counts.sort_unstable_by(|a, b| b.cmp(a));
            let share = |k: u64| {
                let top: u32 = counts[..usize::try_from(k).unwrap()].iter().sum();
                f64::from(top) / f64::from(DRAWS)
            };
            for k in [1, 2, 10, 100] {
                let law = zeta(k, theta) / zeta(N, theta);
                // The closed form is itself an approximation beyond the second rank.
                assert!(
                    (share(k) - law).abs() < 0.03,
                    "theta {theta}: the first {k} have {} instead of {law}",
                    share(k)
                );
            }
        }
    }

    #[test]
    fn the_hot_keys_are_scattered_and_latest_begins_at_the_end() {
        let hottest = |counts: &[u32]| {
            let most = counts.iter().max().copied();
            counts.iter().position(|c| Some(*c) == most).unwrap() as u64
        };
        let order = Permutation::new(N, 5);
        let zipfian = counts(Distribution::Zipfian { theta: 0.99 });
        let scatter = Permutation::new(N, 5 ^ SCATTERED);
        assert_eq!(hottest(&zipfian), scatter.at(0));
        assert_eq!(hottest(&counts(Distribution::Latest)), order.at(N - 1));
        // Of the hundred hottest about as many were loaded early as late. Had ranks the order of the load, all were the first.
        let hot: Vec<u64> = (0..100).map(|rank| scatter.at(rank)).collect();
        let early = (0..N / 2).filter(|place| hot.contains(&order.at(*place)));
        assert!((30..70).contains(&early.count()));
    }

    #[test]
    fn the_latest_keys_are_those_that_were_inserted_last() {
        let mut draw = Draw::new(Distribution::Latest, N, 5, 0, 0);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..DRAWS {
            *counts.entry(draw.index(2)).or_insert(0u32) += 1;
        }
        let count = |key| counts.get(&key).copied().unwrap_or_default();
        let newest = [N + 1, N, draw.order.at(N - 1), draw.order.at(N - 2)].map(count);
        assert!(newest.is_sorted_by(|a, b| a > b), "{newest:?}");
        assert!(counts.values().all(|&n| n <= newest[0]));
        assert_eq!(counts.last_key_value().map(|(key, _)| *key), Some(N + 1));
        let mut uniform = Draw::new(Distribution::Uniform, N, 5, 0, 0);
        assert!((0..DRAWS).all(|_| uniform.index(2) < N));
    }

    #[test]
    fn uniform_is_even_and_sequential_comes_round() {
        let expected = f64::from(DRAWS) / N as f64;
        for count in counts(Distribution::Uniform) {
            assert!((f64::from(count) - expected).abs() < 6.0 * expected.sqrt());
        }
        let mut draw = Draw::new(Distribution::Sequential, 3, 0, 0, 1);
        let drawn: Vec<u64> = (0..5).map(|_| draw.index(0)).collect();
        assert_eq!(drawn, [1, 2, 0, 1, 2]);
    }

    #[test]
    fn tiny_sets_and_long_sums_work() {
        for n in 1..5 {
            let zipf = Zipf::new(n, 0.99);
            for i in 0..1000 {
                assert!(zipf.rank(f64::from(i) / 1000.0) < n);
            }
        }
        let exact: f64 = (1..=200_000u32).map(|r| f64::from(r).powf(-0.99)).sum();
        assert!((zeta(200_000, 0.99) - exact).abs() < 1e-6);
    }

    #[test]
    fn wrong_names_are_refused() {
        for bad in [
            "zipf",
            "zipfian:1",
            "zipfian:x",
            "zipfian:-1",
            "uniform:2",
            "",
        ] {
            assert!(Distribution::parse(bad).is_err(), "{bad}");
        }
        for good in ["uniform", "zipfian", "zipfian:0.5", "latest", "sequential"] {
            assert_eq!(Distribution::parse(good).unwrap().to_string(), good);
        }
    }
}
