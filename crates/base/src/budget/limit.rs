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

/// What a limit leaves to those who may use so much of it.
pub(super) fn room(limit: u64, spare: Spare) -> u64 {
    match spare {
        Spare::Keep => limit - limit / 16,
        Spare::Use => limit,
    }
}
