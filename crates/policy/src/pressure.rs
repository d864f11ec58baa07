//! How much writers are to be held back: a slope, not a wall.
//!
//! Where background work falls behind, something fills up: persistent memory, level 0, bytes
//! waiting for compaction, the disk, garbage in blob files. Stores that stop writers at a limit, as
//! LevelDB and early RocksDB do, answer with seconds of silence; so here each [`Debt`] slows
//! writers from a soft limit on, a little at first, until at the hard limit they are as slow as
//! they ever get. This never stops writers: where no space is left at all, that is refused
//! elsewhere.
//!
//! # Invariants
//! 1. Below all soft limits there is no delay.
//! 2. **Continuous and monotone.** More debt of any kind never means less delay, and a little more
//!    debt means a little more delay: no step at either limit, nor where another cause takes over.
//! 3. **Bounded** by [`Slope::delay_max`].
//! 4. The cause is the debt that alone asks for that delay. The delays of several are not added: a
//!    writer that waits for one gives the others time too.
//!
//! # The curve
//! Delay grows with the cube of the way from soft to hard limit. With the default bound of 1,000 ns
//! per byte a store that writes 500 MB/s feels nothing of the first tenth (1 ns per byte is 1
//! GB/s), has 8 MB/s half way, and 1 MB/s at the hard limit. It is steep where debt is dangerous
//! and flat where it is only large.

use thermocline_base::options::{Options, Shape};
use thermocline_base::{Error, Result};

use crate::tuning::{
    DELAY_NS_MAX, DELAY_NS_PER_BYTE_MAX, DELAY_PIECE_NS, DELAY_POWER, DISK_HARD_PERCENT,
    DISK_SOFT_PERCENT, LEVEL0_HARD, LEVEL0_RUNS, LEVEL0_SOFT, PENDING_BASES_HARD,
    PENDING_BASES_SOFT, PENDING_HARD, PENDING_SOFT, PM_HARD_PERCENT, PM_SOFT_PERCENT,
};

/// Why writers are held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Cause {
    /// Persistent memory fills: flushing is behind.
    PmFill,
    /// Level 0 has too many tables, which every read must ask: compaction out of it is behind.
    Level0Tables,
    /// Too many bytes wait for compaction: levels are larger than they should be.
    PendingBytes,
    /// The disk fills.
    DiskRoom,
    /// Blob files have much that nothing refers to: collection is behind.
    Garbage,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; 5] = [
        Cause::PmFill,
        Cause::Level0Tables,
        Cause::PendingBytes,
        Cause::DiskRoom,
        Cause::Garbage,
    ];

    /// Its name, as `stat` spells it.
    pub fn name(self) -> &'static str {
        match self {
            Cause::PmFill => "pm_fill",
            Cause::Level0Tables => "level0_tables",
            Cause::PendingBytes => "pending_bytes",
            Cause::DiskRoom => "disk_room",
            Cause::Garbage => "garbage",
        }
    }
}

/// What fills up, as of now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Debt {
    /// Bytes of persistent memory in use.
    pub pm_bytes: u64,
    /// Tables of level 0 on SSD.
    pub level0_tables: u64,
    /// Bytes that wait for compaction: [`crate::pick::pending_bytes`].
    pub pending_bytes: u64,
    /// Bytes used on the disk, by whomever.
    pub disk_bytes: u64,
    /// Bytes of values in blob files that no table refers to, where such files can be collected.
    pub garbage_bytes: u64,
}

/// Where a debt begins to count, and where it counts in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Up to here there is no delay.
    pub soft: u64,
    /// From here on there is the longest delay. Above `soft`.
    pub hard: u64,
}

impl Limits {
    /// Of what never delays anybody.
    pub const NONE: Limits = Limits {
        soft: u64::MAX - 1,
        hard: u64::MAX,
    };

    /// For debts that are a part of something: `soft` and `hard` in percent of `all`.
    pub fn percent(all: u64, soft: u64, hard: u64) -> Limits {
        let of = |percent: u64| (all / 100).saturating_mul(percent);
        Limits {
            soft: of(soft),
            hard: of(hard).max(of(soft).saturating_add(1)),
        }
    }

    /// How far a debt is on its way from soft to hard, 0 to 1.
    pub(crate) fn way(&self, debt: u64) -> f64 {
        let way = debt.saturating_sub(self.soft) as f64;
        (way / self.hard.saturating_sub(self.soft) as f64).min(1.0)
    }
}

/// When background work is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Tables of level 0 that a read may have to ask, from which on they are compacted.
    pub level0_tables: u64,
    /// Percent of persistent memory from which on memtables are flushed.
    pub pm_percent: u64,
}

impl Due {
    /// As options say.
    pub fn of(options: &Options) -> Due {
        let pm_percent = match options.level0.shape() {
            // Beside no tables memtables have more than a flush takes.
            Shape::Tiered => options.flush.pm_percent,
            _ => options.sealed_percent(),
        };
        Due {
            level0_tables: options.compaction.level0_tables,
            pm_percent,
        }
    }
}

/// How debts turn into delay. See the [module](self).
///
/// ```
/// use thermocline_policy::pressure::{Cause, Debt, Slope};
/// let slope = Slope::new(4 << 30, 5 << 30, 100 << 30);
/// assert_eq!(slope.delay(&Debt::default()), None);
/// let debt = Debt { pm_bytes: 15 << 28, level0_tables: 9, ..Debt::default() };
/// let delay = slope.delay(&debt).unwrap();
/// assert_eq!(delay.cause, Cause::PmFill);
/// assert!(delay.nanos(100 << 10) > 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slope {
    /// Of bytes of persistent memory.
    pub pm: Limits,
    /// Of tables in level 0.
    pub level0: Limits,
    /// Of bytes waiting for compaction.
    pub pending: Limits,
    /// Of bytes on the disk.
    pub disk: Limits,
    /// Of garbage in blob files: [`crate::collect::limits`].
    pub garbage: Limits,
    /// The longest delay, in nanoseconds for each byte that is written.
    pub delay_max: f64,
}

/// How long a writer is to wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delay {
    /// In nanoseconds for each byte that is written. Above 0.
    pub nanos_per_byte: f64,
    /// Why.
    pub cause: Cause,
}

impl Delay {
    /// For this many bytes, in nanoseconds.
    pub fn nanos(&self, bytes: u64) -> u64 {
        // A float that is too large becomes the largest number.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "saturates; parts of 1 ns are nothing"
        )]
        let nanos = (self.nanos_per_byte * bytes as f64) as u64;
        nanos
    }
}

impl Slope {
    /// The defaults for a store with these bytes of persistent memory, base level and disk: RocksDB's limits
    /// where it has the measure (20 and 36 tables, 64 and 256 GiB pending), and more of the latter where levels are large.
    pub fn new(pm_bytes: u64, base_bytes: u64, disk_bytes: u64) -> Slope {
        Slope {
            pm: Limits::percent(pm_bytes, PM_SOFT_PERCENT, PM_HARD_PERCENT),
            level0: Limits {
                soft: LEVEL0_SOFT,
                hard: LEVEL0_HARD,
            },
            pending: Limits {
                soft: PENDING_SOFT.max(base_bytes.saturating_mul(PENDING_BASES_SOFT)),
                hard: PENDING_HARD.max(base_bytes.saturating_mul(PENDING_BASES_HARD)),
            },
            disk: Limits::percent(disk_bytes, DISK_SOFT_PERCENT, DISK_HARD_PERCENT),
            garbage: Limits::NONE,
            delay_max: DELAY_NS_PER_BYTE_MAX,
        }
    }

    /// The same for a store with `pm_bytes` of persistent memory whose options say when work is due: nobody is held back before
    /// that. With the usual options that changes nothing but `pm_bytes`.
    pub fn behind(self, pm_bytes: u64, due: &Due) -> Slope {
        let times = |limit: u64| {
            let times = limit.saturating_mul(due.level0_tables) / LEVEL0_RUNS as u64;
            limit.max(times)
        };
        let soft = match due.pm_percent < PM_SOFT_PERCENT {
            true => PM_SOFT_PERCENT,
            // Flushes have half of the way to bring it down again.
            false => due.pm_percent.midpoint(PM_HARD_PERCENT),
        };
        Slope {
            pm: Limits::percent(pm_bytes, soft, PM_HARD_PERCENT),
            level0: Limits {
                soft: times(LEVEL0_SOFT),
                hard: times(LEVEL0_HARD),
            },
            ..self
        }
    }

    /// Refuses nonsense.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] naming the limit.
    pub fn validate(&self) -> Result<()> {
        for cause in Cause::ALL {
            let Limits { soft, hard } = self.limits(cause);
            if hard <= soft {
                let name = cause.name();
                let why =
                    format!("{name}: the hard limit {hard} must be above the soft one, {soft}");
                return Err(Error::InvalidArgument(why));
            }
        }
        if !(self.delay_max > 0.0 && self.delay_max.is_finite()) {
            let why = format!(
                "the longest delay, {} ns per byte, must be above 0",
                self.delay_max
            );
            return Err(Error::InvalidArgument(why));
        }
        Ok(())
    }

    fn limits(&self, cause: Cause) -> Limits {
        match cause {
            Cause::PmFill => self.pm,
            Cause::Level0Tables => self.level0,
            Cause::PendingBytes => self.pending,
            Cause::DiskRoom => self.disk,
            Cause::Garbage => self.garbage,
        }
    }

    /// The delay that a debt asks for; none below all soft limits.
    pub fn delay(&self, debt: &Debt) -> Option<Delay> {
        let way = |cause: Cause| {
            let debt = match cause {
                Cause::PmFill => debt.pm_bytes,
                Cause::Level0Tables => debt.level0_tables,
                Cause::PendingBytes => debt.pending_bytes,
                Cause::DiskRoom => debt.disk_bytes,
                Cause::Garbage => debt.garbage_bytes,
            };
            (self.limits(cause).way(debt), cause)
        };
        let (way, cause) = Cause::ALL
            .into_iter()
            .map(way)
            .reduce(|a, b| match b.0 > a.0 {
                true => b,
                false => a,
            })?;
        let nanos_per_byte = self.delay_max * way.powi(DELAY_POWER);
        (nanos_per_byte > 0.0).then_some(Delay {
            nanos_per_byte,
            cause,
        })
    }
}

/// The time until which the writes of a store have used up what the slope allows, with one more that costs `nanos`
/// nanoseconds. Writes owe together, so the time that a write takes anyway counts. What a large write owes beyond the
/// longest wait is forgotten.
#[inline]
pub fn owed_until(owed_until_ns: u64, now_ns: u64, nanos: u64) -> u64 {
    let most = now_ns.saturating_add(DELAY_NS_MAX);
    owed_until_ns.max(now_ns).saturating_add(nanos).min(most)
}

/// Whether a writer waits until then. Otherwise it owes that time on: sleeps are not shorter than a moment.
#[inline]
pub fn waits(owed_until_ns: u64, now_ns: u64) -> bool {
    owed_until_ns.saturating_sub(now_ns) >= DELAY_PIECE_NS
}

#[cfg(test)]
mod tests;
