//! The keys of a store, in cells and classes.

use super::setting::{Setting, Spread};

/// Cells: ranges with as many keys each.
const CELLS: usize = 1024;

/// Cells, where those are divided into classes.
const CELLS_WITH_CLASSES: usize = 512;

/// Classes of keys that are written alike, where hot keys lie everywhere. Each has half as many keys as the one before.
const CLASSES: usize = 12;

/// See the [module](self). What is said of a cell's classes stands side by side.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    /// Where cells begin, and the last one ends.
    pub bounds: Vec<[u8; 4]>,
    /// Keys of a cell, by class.
    pub of_class: Vec<f64>,
    /// How often each class of each cell is written, as a part of all.
    pub weights: Vec<f64>,
}

impl Keys {
    pub fn new(setting: &Setting) -> Keys {
        let all = setting.data_bytes as f64 / setting.record.user() as f64;
        let (cells, of_class, weights) = match setting.spread {
            Spread::Ranges => (CELLS, vec![all / CELLS as f64], range_weights(setting.skew)),
            Spread::Keys if setting.skew == 0.0 => {
                let alike = vec![1.0 / CELLS as f64; CELLS];
                (CELLS, vec![all / CELLS as f64], alike)
            }
            Spread::Keys => {
                let (keys, weights) = classes(all, setting.skew);
                let cells = CELLS_WITH_CLASSES as f64;
                let of = |all: Vec<f64>| all.into_iter().map(|n| n / cells).collect::<Vec<f64>>();
                let of_cell = of(weights);
                let weights = of_cell.repeat(CELLS_WITH_CLASSES);
                (CELLS_WITH_CLASSES, of(keys), weights)
            }
        };
        let number = |n: usize| u32::try_from(n).expect("few cells").to_be_bytes();
        Keys {
            bounds: (0..=cells).map(number).collect(),
            of_class,
            weights,
        }
    }

    pub fn cells(&self) -> usize {
        self.bounds.len() - 1
    }

    pub fn classes(&self) -> usize {
        self.of_class.len()
    }

    /// All keys of these cells.
    pub fn all(&self, cells: usize) -> Vec<f64> {
        self.of_class.repeat(cells)
    }

    /// Keys that so many writes meet, of each class of each cell.
    pub fn distinct(&self, writes: f64) -> Vec<f64> {
        let keys = self.of_class.iter().cycle();
        let each = self.weights.iter().zip(keys);
        each.map(|(weight, n)| n * (1.0 - (-writes * weight / n.max(f64::MIN_POSITIVE)).exp()))
            .collect()
    }

    /// So many keys, as writes meet them first; all, if there are no more.
    pub fn first_met(&self, keys: f64) -> Vec<f64> {
        let (mut least, mut most) = (0.0, 1.0);
        while most < 1e18 && self.distinct(most).iter().sum::<f64>() < keys {
            (least, most) = (most, most * 2.0);
        }
        for _ in 0..30 {
            let middle = f64::midpoint(least, most);
            match self.distinct(middle).iter().sum::<f64>() < keys {
                true => least = middle,
                false => most = middle,
            }
        }
        self.distinct(least)
    }

    /// The first cell that begins at `key` or behind.
    pub fn cell_of(&self, key: &[u8]) -> usize {
        let at = self.bounds.partition_point(|cell| &cell[..] < key);
        at.min(self.cells())
    }
}

/// How often each cell is written. Hot cells lie apart from each other.
fn range_weights(skew: f64) -> Vec<f64> {
    let rank = |cell: usize| ((cell * 389) % CELLS + 1) as f64;
    let weights = (0..CELLS).map(|cell| rank(cell).powf(-skew));
    let weights: Vec<f64> = weights.collect();
    let all: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / all).collect()
}

/// The sizes of classes, and how often each is written, where of `all` keys the n-th is written n^-skew times as often
/// as the first.
fn classes(all: f64, skew: f64) -> (Vec<f64>, Vec<f64>) {
    // The sum of n^-skew up to x, by the integral that begins half a step before.
    let sum = |x: f64| match (1.0 - skew).abs() < 1e-9 {
        true => ((x + 0.5) / 0.5).ln(),
        false => ((x + 0.5).powf(1.0 - skew) - 0.5f64.powf(1.0 - skew)) / (1.0 - skew),
    };
    let end = |class: usize| all / f64::powi(2.0, i32::try_from(class).unwrap_or(i32::MAX));
    let (mut keys, mut weights) = (Vec::new(), Vec::new());
    for class in 0..CLASSES {
        let from = match class + 1 < CLASSES {
            true => end(class + 1),
            false => 0.0,
        };
        keys.push(end(class) - from);
        weights.push((sum(end(class)) - sum(from)) / sum(all));
    }
    (keys, weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_all_keys_and_all_writes() {
        for skew in [0.3, 0.9, 1.0, 1.3] {
            let (keys, weights) = classes(1e6, skew);
            assert!((keys.iter().sum::<f64>() - 1e6).abs() < 1.0);
            assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            // The smaller a class, the oftener each of its keys is written.
            let often = keys
                .iter()
                .zip(&weights)
                .map(|(keys, weight)| weight / keys);
            let often: Vec<f64> = often.collect();
            assert!(often.is_sorted(), "{skew}: {often:?}");
        }
    }
}
