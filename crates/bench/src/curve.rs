//! How long operations took, by percentile.

use hdrhistogram::Histogram;

/// Most nines of a percentile: 99.9999 %.
const NINES_MAX: f64 = 6.0;

/// Points for each nine.
const POINTS: u32 = 10;

/// The latencies of one kind of operations, from the shortest on.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The kind; empty if there is only one.
    pub name: &'static str,
    /// In the order of percentiles; none if no operation was of this kind.
    pub points: Vec<Point>,
}

/// One percentile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Its nines: 0 of 0 %, 1 of 90 %, 2 of 99 %, and so on.
    pub nines: f64,
    /// The latency, in microseconds.
    pub micros: f64,
}

impl Curve {
    /// A curve for each kind.
    pub(crate) fn all<'a>(
        kinds: impl IntoIterator<Item = (&'static str, &'a Histogram<u64>)>,
    ) -> Vec<Curve> {
        let mut curves: Vec<Curve> = kinds
            .into_iter()
            .map(|(name, nanos)| Curve {
                name,
                points: points(nanos),
            })
            .collect();
        if let [one] = curves.as_mut_slice() {
            one.name = "";
        }
        curves
    }
}

/// Points up to the percentile that one operation alone is above. That one is the last point, unless it has too many nines.
fn points(nanos: &Histogram<u64>) -> Vec<Point> {
    if nanos.is_empty() {
        return Vec::new();
    }
    let point = |nines: f64, nanos: u64| Point {
        nines,
        micros: nanos as f64 / 1000.0,
    };
    let at = |nines: f64| nanos.value_at_quantile(1.0 - 10f64.powf(-nines));
    let count = (nanos.len() as f64).log10();
    let last = count.min(NINES_MAX);
    let mut nth = 0u32;
    let steps = std::iter::from_fn(|| {
        let nines = f64::from(nth) / f64::from(POINTS);
        nth += 1;
        (nines < last).then_some(nines)
    });
    let mut points: Vec<Point> = steps.map(|nines| point(nines, at(nines))).collect();
    let longest = match count <= NINES_MAX {
        true => nanos.max(),
        false => at(last),
    };
    points.push(point(last, longest));
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 1 << 40, 3).unwrap();
        for value in values {
            histogram.record(value).unwrap();
        }
        histogram
    }

    #[test]
    fn a_curve_goes_from_the_shortest_to_the_longest() {
        let hundred = histogram((1..=100).map(|n| n * 1000));
        let curves = Curve::all([("read", &hundred)]);
        assert_eq!((curves.len(), curves[0].name), (1, ""));
        let points = &curves[0].points;
        assert_eq!((points[0].nines, points[0].micros), (0.0, 1.0));
        assert_eq!(points.len(), 21);
        let close = |n: usize, nines: f64, micros: f64| {
            let point = points[n];
            assert!((point.nines - nines).abs() < 1e-9, "{point:?}");
            assert!((point.micros / micros - 1.0).abs() < 0.02, "{point:?}");
        };
        close(10, 1.0, 90.0);
        close(20, 2.0, 100.0);
        let mut all = points.windows(2);
        assert!(all.all(|two| two[0].micros <= two[1].micros && two[0].nines < two[1].nines));
    }

    #[test]
    fn kinds_have_names_and_what_was_not_done_has_no_points() {
        let (one, none) = (histogram([5000]), histogram([]));
        let curves = Curve::all([("read", &one), ("write", &none)]);
        assert_eq!(curves[0].name, "read");
        assert_eq!(curves[0].points.len(), 1);
        let only = curves[0].points[0];
        assert_eq!(only.nines, 0.0);
        assert!((only.micros / 5.0 - 1.0).abs() < 0.001, "{only:?}");
        assert_eq!((curves[1].name, curves[1].points.len()), ("write", 0));
        assert!(Curve::all([]).is_empty());
    }

    /// However long a run is, its page is as large.
    #[test]
    fn a_curve_has_no_more_points_than_nines_can_be_read() {
        let mut many = histogram([1]);
        many.record_n(1000, 100_000_000).unwrap();
        many.record(1 << 30).unwrap();
        let points = &Curve::all([("read", &many)])[0].points;
        assert_eq!(points.len(), 61);
        // One in a hundred million lasted that long.
        assert!(points.iter().all(|point| point.micros < 2.0));
    }
}
