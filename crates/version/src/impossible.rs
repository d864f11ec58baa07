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

/// No database lives to give out half of all numbers of chains, memtables or files: a larger one to be given out next is
/// damage, and to reserve some behind it would overflow, or give none for ever.
pub(crate) fn possible_next(next: u64, what: &'static str) -> Result<(), Impossible> {
    must(next < 1 << 63, what, "below 2^63", next)
}

/// The number after `id`, which may be given out.
pub(crate) fn next_of(id: u64, what: &'static str) -> Result<u64, Impossible> {
    let next = id.saturating_add(1);
    possible_next(next, what).map(|()| next)
}
