//! How far a limit may be used up, and which one is in the way.

/// How far a limit may be used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spare {
    /// The last sixteenth stays free.
    Keep,
    /// For writes that only delete.
    Use,
}

/// Which limit has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The account's own.
    Account,
    /// The one of all accounts together.
    Budget,
}

/// The part of a limit that may be used, with this much spare.
pub(super) fn room(limit: u64, spare: Spare) -> u64 {
    match spare {
        Spare::Keep => limit - limit / 16,
        Spare::Use => limit,
    }
}
