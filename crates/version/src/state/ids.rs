//! The smallest ids that were never used.

use crate::edit::NextIds;
use crate::impossible::{Impossible, at_least, must, possible_next};

/// Raises them; none goes back.
pub(super) fn raise(next: &mut NextIds, to: NextIds) -> Result<(), Impossible> {
    let from = *next;
    let most = 1 << 16;
    must(
        to.chain >= from.chain,
        "next chain id",
        at_least(from.chain),
        to.chain,
    )?;
    must(
        to.memtable >= from.memtable,
        "next memtable id",
        at_least(from.memtable),
        to.memtable,
    )?;
    let what = "next column family id";
    must(to.cf >= from.cf, what, at_least(from.cf), to.cf)?;
    must(to.cf <= most, what, format!("at most {most}"), to.cf)?;
    must(
        to.incarnation >= from.incarnation,
        "next incarnation",
        at_least(from.incarnation),
        to.incarnation,
    )?;
    let (least, file) = (from.file, to.file);
    must(file >= least, "next file id", at_least(least), file)?;
    possible_next(to.chain, "next chain id")?;
    possible_next(to.memtable, "next memtable id")?;
    possible_next(file, "next file id")?;
    *next = to;
    Ok(())
}
