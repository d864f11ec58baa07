//! What cannot be, and how it is refused.

/// Why a change cannot be.
#[derive(Debug)]
pub(crate) struct Impossible {
    pub(crate) what: &'static str,
    pub(crate) expected: String,
    pub(crate) got: String,
}

/// No database lives to see half of all seqnos: larger ones are damage, and adding to them would
/// overflow.
pub(crate) fn possible_seqno(seqno: u64, what: &'static str) -> Result<(), Impossible> {
    must(seqno < 1 << 63, what, "below 2^63", seqno)
}

pub(crate) fn must(
    holds: bool,
    what: &'static str,
    expected: impl ToString,
    got: impl ToString,
) -> Result<(), Impossible> {
    if holds {
        return Ok(());
    }
    Err(Impossible {
        what,
        expected: expected.to_string(),
        got: got.to_string(),
    })
}

pub(crate) fn at_least(n: impl std::fmt::Display) -> String {
    format!("at least {n}")
}

/// The number after `id`, which must exist: the largest number of all is never given out.
pub(crate) fn next_of(id: u64, what: &'static str) -> Result<u64, Impossible> {
    match id.checked_add(1) {
        Some(next) => Ok(next),
        None => must(false, what, "below 2^64 - 1", id).map(|()| id),
    }
}
