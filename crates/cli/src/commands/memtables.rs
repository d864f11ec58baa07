//! Dead memtables: for whom they are still there.

use thermocline::{MemtableMetrics, Metrics};

/// The number of the oldest dead memtable that is kept for change feeds: so are all later ones.
fn kept_from(m: &Metrics) -> u64 {
    let dead = m.memtables.iter().rev().filter(|one| one.retired);
    let kept = dead.take(m.feed.kept_memtables);
    kept.last().map_or(u64::MAX, |oldest| oldest.id)
}

/// Why a dead memtable is still there.
pub(super) fn why_there(m: &Metrics, memtable: &MemtableMetrics) -> &'static str {
    match (memtable.id >= kept_from(m), memtable.views > 0) {
        (true, true) => "kept for change feeds, and still read",
        (true, false) => "kept for change feeds",
        (false, true) => "still read by somebody",
        (false, false) => "goes when nobody reads it",
    }
}

/// Bytes of the dead memtables that are kept for change feeds.
pub(super) fn kept_bytes(m: &Metrics) -> u64 {
    let from = kept_from(m);
    let dead = m.memtables.iter().filter(|one| one.retired);
    dead.filter(|one| one.id >= from).map(|one| one.bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_dead_memtables_are_those_that_are_kept_for_feeds() {
        let memtable = |id, retired, views| MemtableMetrics {
            id,
            retired,
            views,
            bytes: id * 10,
            ..MemtableMetrics::default()
        };
        let mut m = Metrics {
            memtables: vec![
                memtable(1, true, 1),
                memtable(2, true, 0),
                memtable(4, true, 0),
                memtable(5, true, 2),
                memtable(6, false, 0),
            ],
            ..Metrics::default()
        };
        let told = |m: &Metrics| -> Vec<&'static str> {
            let dead = m.memtables.iter().filter(|one| one.retired);
            dead.map(|one| why_there(m, one)).collect()
        };
        let (read, goes) = ("still read by somebody", "goes when nobody reads it");
        let all = vec![read, goes, goes, read];
        assert_eq!((told(&m), kept_bytes(&m)), (all, 0));
        m.feed.kept_memtables = 2;
        let (kept, both) = (
            "kept for change feeds",
            "kept for change feeds, and still read",
        );
        let all = vec![read, goes, kept, both];
        assert_eq!((told(&m), kept_bytes(&m)), (all, 90));
    }
}
