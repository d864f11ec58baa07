//! How much of their time compactions work while clients read (`compaction.rate_adapts`).
//!
//! A compaction and a client ask one device. Held to a fixed rate, compactions are too slow where nobody else asks, and too fast where
//! somebody does. So here a job gives way: having worked for a while, it rests as much longer as [`share`] says. Rates follow: a share
//! of a half is half of what jobs do at full speed, which the user's own limit (`compaction.rate_bytes`) may bound. Nobody has to know what the
//! device can carry, and where clients slow jobs down these rest the longer.
//!
//! Two numbers decide. *Clients*: how many of their reads are under way at the device, on average over the last moments
//! ([`clients_at`]). *Need*: how far what waits for jobs is on its way to where writers would be delayed ([`need`]).
//!
//! # Invariants
//! 1. Where no client reads there is no rest.
//! 2. Where a writer would be delayed there is no rest, whoever reads.
//! 3. **Monotone and continuous.** More reads never mean a larger share, more debt never a smaller one, and a little more of
//!    either changes it a little.
//! 4. **Bounded.** Jobs work for [`JOBS_SHARE_MIN`] of their time at least. What waits grows until the share is what writers need, and
//!    that is before they are delayed, where jobs have time to spare. Where they have none, writers are delayed anyway, and by the same
//!    slope.
//!
//! # Rejected
//! - *How long reads take.* A read is found in memtables, in the cache or at the device, by turns; so the time changes with what is
//!   read, and one in some is timed. And what it would be without jobs is only known while there are none.
//! - *A rate in bytes*, from the limit down, as RocksDB has it: it asks for a limit that somebody has measured.

use crate::pressure::{Debt, Due, Limits, Slope};
use crate::tuning::{
    CLIENTS_BUSY, CLIENTS_HALF_LIFE_NS, JOBS_SHARE_MIN, MAJOR_PERCENT, PACE_PENDING_BASES,
    PACE_PM_PERCENT,
};

/// What a store may let wait, beside what [`Slope`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowed {
    /// When work is due.
    pub due: Due,
    /// Bytes of the base level.
    pub base_bytes: u64,
    /// Bytes that tables in persistent memory may have; 0 if there are to be none.
    pub table_bytes: u64,
}

/// How much what waits needs jobs, 0 to 1: 1 where a writer would be delayed, and before that where level 0, levels, or tables in
/// persistent memory are half of the way there. The disk and garbage need nothing before they come near to where they delay
/// writers. `table_bytes` are those of tables in persistent memory.
///
/// ```
/// use thermocline_policy::pace::{Allowed, need};
/// use thermocline_policy::pressure::{Debt, Due, Slope};
/// let due = Due { level0_tables: 4, pm_percent: 40 };
/// let allowed = Allowed { due, base_bytes: 256 << 20, table_bytes: 1 << 30 };
/// let slope = Slope::new(4 << 30, allowed.base_bytes, 100 << 30);
/// let runs = |level0_tables| Debt { level0_tables, ..Debt::default() };
/// assert_eq!(need(&runs(4), &slope, &allowed, 0), 0.0);
/// assert_eq!(need(&runs(8), &slope, &allowed, 0), 0.5);
/// assert_eq!(need(&runs(12), &slope, &allowed, 0), 1.0);
/// ```
pub fn need(debt: &Debt, slope: &Slope, allowed: &Allowed, table_bytes: u64) -> f64 {
    if slope.delay(debt).is_some() {
        return 1.0;
    }
    let runs = half_way(allowed.due.level0_tables, slope.level0.soft);
    let most = allowed.base_bytes.saturating_mul(PACE_PENDING_BASES);
    let pending = between(0, most.min(slope.pending.soft));
    let pm = between(slope.pm.soft / 100 * PACE_PM_PERCENT, slope.pm.soft);
    let tables = match allowed.table_bytes {
        0 => 0.0,
        most => half_way(most / 100 * MAJOR_PERCENT, most).way(table_bytes),
    };
    let ways = [
        runs.way(debt.level0_tables),
        pending.way(debt.pending_bytes),
        pm.way(debt.pm_bytes),
        ahead(slope.disk).way(debt.disk_bytes),
        ahead(slope.garbage).way(debt.garbage_bytes),
        tables,
    ];
    ways.into_iter().fold(0.0, f64::max)
}

/// From where on a debt counts, to where it counts in full.
fn between(from: u64, to: u64) -> Limits {
    Limits {
        soft: from,
        hard: to.max(from.saturating_add(1)),
    }
}

/// The first half of what lies between two debts.
fn half_way(from: u64, to: u64) -> Limits {
    between(from, from.midpoint(to))
}

/// What lies before the soft limit of a debt, as wide as what lies between its limits. A disk may be mostly full for years, and garbage
/// stay about where its collection ends; so they count later than from half of the way on.
fn ahead(limits: Limits) -> Limits {
    let wide = limits.hard.saturating_sub(limits.soft);
    between(limits.soft.saturating_sub(wide), limits.soft)
}

/// How many reads of clients are under way on average, where there were `mean` before, and after so many nanoseconds there are
/// so many `now`.
pub fn clients_at(mean: f64, now: usize, elapsed_ns: u64) -> f64 {
    let age = elapsed_ns as f64 / CLIENTS_HALF_LIFE_NS as f64;
    let left = 0.5f64.powf(age);
    mean * left + now as f64 * (1.0 - left)
}

/// The part of their time that jobs work, where so many reads of clients are under way on average, and what waits has such a
/// [`need`].
///
/// ```
/// use thermocline_policy::pace::share;
/// assert_eq!(share(0.0, 0.0), 1.0);
/// assert_eq!(share(8.0, 1.0), 1.0);
/// assert!(share(8.0, 0.0) < share(8.0, 0.2));
/// assert!(share(8.0, 0.0) < share(0.2, 0.0));
/// ```
pub fn share(clients: f64, need: f64) -> f64 {
    let busy = (clients / CLIENTS_BUSY).clamp(0.0, 1.0);
    let given_up = (1.0 - JOBS_SHARE_MIN) * busy * (1.0 - need.clamp(0.0, 1.0));
    1.0 - given_up
}

/// Nanoseconds for which a job rests that has worked for so many, so that this is its share.
pub fn rest_ns(worked_ns: u64, share: f64) -> u64 {
    let rest = worked_ns as f64 * (1.0 / share.clamp(JOBS_SHARE_MIN, 1.0) - 1.0);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is not negative, and parts of 1 ns are nothing"
    )]
    let rest = rest as u64;
    rest
}

/// A share as `stat` has it.
pub fn percent(share: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a share lies between 0 and 1"
    )]
    let percent = (share * 100.0).round() as u64;
    percent
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tuning::{LEVEL0_HARD, PENDING_BASES_SOFT};

    const BASE: u64 = 256 << 20;
    const PM: u64 = 4 << 30;

    fn due() -> impl Strategy<Value = Due> {
        (1u64..1024, 0u64..100).prop_map(|(level0_tables, pm_percent)| Due {
            level0_tables,
            pm_percent,
        })
    }

    fn debts() -> impl Strategy<Value = Debt> {
        let pending = 0..BASE * PENDING_BASES_SOFT;
        (0..PM, 0..2 * LEVEL0_HARD, pending).prop_map(|(pm_bytes, level0_tables, pending_bytes)| {
            Debt {
                pm_bytes,
                level0_tables,
                pending_bytes,
                ..Debt::default()
            }
        })
    }

    fn setting(due: Due) -> (Slope, Allowed) {
        let allowed = Allowed {
            due,
            base_bytes: BASE,
            table_bytes: PM / 2,
        };
        (
            Slope::new(PM, BASE, u64::MAX).behind(PM, &allowed.due),
            allowed,
        )
    }

    proptest! {
        #[test]
        fn nobody_rests_beside_idle_clients_or_delayed_writers(
            due in due(),
            debt in debts(),
            tables in 0..PM,
            clients in 0f64..100.0,
        ) {
            let (slope, allowed) = setting(due);
            let need = need(&debt, &slope, &allowed, tables);
            prop_assert!((0.0..=1.0).contains(&need));
            prop_assert_eq!(share(0.0, need), 1.0);
            let share = share(clients, need);
            prop_assert!((JOBS_SHARE_MIN - 1e-9..=1.0).contains(&share));
            if slope.delay(&debt).is_some() {
                prop_assert_eq!(share, 1.0);
                prop_assert_eq!(rest_ns(u64::MAX, share), 0);
            }
        }

        #[test]
        fn more_debt_speeds_jobs_up_and_more_reads_slow_them_down(
            due in due(),
            debt in debts(),
            more in debts(),
            tables in (0..PM, 0..PM),
            clients in (0f64..3.0, 0f64..3.0),
        ) {
            let (slope, allowed) = setting(due);
            let more = Debt {
                pm_bytes: debt.pm_bytes + more.pm_bytes,
                level0_tables: debt.level0_tables + more.level0_tables,
                pending_bytes: debt.pending_bytes + more.pending_bytes,
                ..debt
            };
            let less = need(&debt, &slope, &allowed, tables.0);
            let more = need(&more, &slope, &allowed, tables.0 + tables.1);
            prop_assert!(less <= more);
            let busier = clients.0 + clients.1;
            prop_assert!(share(clients.0, less) <= share(clients.0, more));
            prop_assert!(share(busier, less) <= share(clients.0, less));
        }

        #[test]
        fn what_is_known_of_clients_lies_between_what_was_and_what_is(
            mean in 0f64..50.0,
            now in 0usize..50,
            elapsed in 0u64..10_000_000_000,
        ) {
            let seen = clients_at(mean, now, elapsed);
            let (low, high) = (mean.min(now as f64), mean.max(now as f64));
            prop_assert!((low - 1e-9..=high + 1e-9).contains(&seen));
        }
    }

    /// One debt after the other grows in small steps to where it delays writers. One without a slope would ask for nothing up to there,
    /// and for everything one byte later.
    #[test]
    fn need_rises_in_small_steps_whatever_waits() {
        let due = Due {
            level0_tables: 1024,
            pm_percent: 40,
        };
        let (usual, allowed) = setting(due);
        let slope = Slope {
            disk: Limits::percent(100 << 30, 90, 99),
            garbage: Limits {
                soft: 3 << 30,
                hard: 4 << 30,
            },
            ..usual
        };
        type Set = fn(&mut Debt, u64);
        let debts: [(Limits, Set); 5] = [
            (slope.pm, |debt, n| debt.pm_bytes = n),
            (slope.level0, |debt, n| debt.level0_tables = n),
            (slope.pending, |debt, n| debt.pending_bytes = n),
            (slope.disk, |debt, n| debt.disk_bytes = n),
            (slope.garbage, |debt, n| debt.garbage_bytes = n),
        ];
        for (limits, set) in debts {
            let at = |part: u64| {
                let mut debt = Debt::default();
                set(&mut debt, limits.soft / 1000 * part);
                need(&debt, &slope, &allowed, 0)
            };
            let mut last = at(0);
            assert!(last <= 0.0, "{limits:?}");
            for part in 1..=1100 {
                let now = at(part);
                assert!(last <= now && now - last <= 0.02, "{limits:?}: {part}");
                last = now;
            }
            assert!(last >= 1.0, "{limits:?}");
        }
        // What never delays anybody needs nothing.
        assert!(ahead(Limits::NONE).way(1 << 60) <= 0.0);
    }

    #[test]
    fn a_job_works_for_its_share_of_the_time() {
        for worked in [1_000_000, 7_654_321, 100_000_000] {
            for percent in [5, 20, 50, 99] {
                let share = f64::from(percent) / 100.0;
                let all = (worked + rest_ns(worked, share)) as f64;
                assert!((worked as f64 / all - share).abs() < 1e-6);
            }
            assert_eq!(rest_ns(worked, 1.0), 0);
        }
        let half = clients_at(1.0, 0, CLIENTS_HALF_LIFE_NS);
        assert!((half - 0.5).abs() < 1e-9);
    }
}
