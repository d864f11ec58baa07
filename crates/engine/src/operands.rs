//! Reading a key whose newest record is an operand ([`thermocline_base::merge`]).
//!
//! A read stops at the newest record or entry of a key: it hides all older ones. An operand does not; so a read that meets one
//! comes here, and collects what there is from the newest operand down to the first record, entry or range tombstone that is
//! none, the *base*. A read that meets none pays nothing, and a family without an operator never has one.
//!
//! # Why all operands are found, each once
//! 1. *The reader is registered* at a moment s, and the view is loaded after that (`snapshot`, 1). So writers, jobs and
//!    whoever drops memtables keep what he needs, in each view that there is from then on.
//! 2. *What he needs* is every operand at or below s above the newest base b at or below s, and b. Nobody takes one of them
//!    for hidden, since only a base hides:
//!
//! | who leaves entries out | what it must not take for hiding |
//! |---|---|
//! | the tree of a memtable, when a record is added | `art::splice`: the next newer version that is a base |
//! | replay and staged batches, which keep the newest record alone | `memtable::insert`: where there is an operand, all that the tree keeps |
//! | a memtable that is dropped whole | `memtable::needed`: a newer base, in whichever memtable; operands between do not count |
//! | a merge of indexes | `memtable::merge`: memtables with operands are no inputs |
//! | flushes, compactions, inside persistent memory too, evacuation, copies | `compaction::retain`: a write is a base unless it is an operand; `jobs::folding` says what becomes of operands |
//! | a copy of what lives in memtables | `memtable::scan`: of a key the newest record, and what that is on |
//! | cursors | they show the newest of a key and ask here for its value |
//! | filters | they know keys and not versions |
//!
//! 3. *In order.* Along one key each layer is newer than the layers below (the law of age), and within one, versions come newest
//!    first. Seqnos therefore descend strictly over all that is collected. That is checked: the same operand in two places
//!    would count twice, so that is an error and no value.
//! 4. *Folded ones.* A job puts one entry with the seqno of the newest in place of operands that every reader sees together
//!    (`jobs::folding`). So at s either all of them are seen or none, in views before and behind the job alike.
//!
//! # After a crash
//! Records come back with the memtables that the manifest names, and each is found once by the walk. A memtable that was
//! flushed comes back into no view (`flush`), so what is in its tables is not seen twice. A write that was in flight is whole or
//! gone; group commit and staged batches retry before they are granted, never behind.

use thermocline_base::{CfId, Error, Kind, Result, SeqNo, merge};
use thermocline_catalog::View;
use thermocline_memtable::{Lookup, RecordRef};
use thermocline_tables::TableOperand;

use crate::store::Common;

/// The value that a registered reader at `seqno` sees of a key of family `cf` whose newest version is an operand.
///
/// # Errors
/// Those of reading; [`Error::InvalidArgument`] if the family's operator fails on what there is.
pub(crate) fn folded(
    common: &Common,
    view: &View,
    (cf, key): (CfId, &[u8]),
    seqno: SeqNo,
) -> Result<Option<Vec<u8>>> {
    let verify = common.options.read.verify_checksums;
    let mut records: Vec<RecordRef<'_>> = Vec::new();
    let mut end = Lookup::Absent;
    for memtable in view.asked_for(cf, key) {
        end = memtable.stack(cf, key, seqno, verify, &mut records)?;
        if !matches!(end, Lookup::Absent) {
            break;
        }
    }
    let mut entries: Vec<TableOperand> = Vec::new();
    let base = match end {
        Lookup::Absent => view.tables.stack(cf, key, seqno, &mut entries)?,
        Lookup::Record(record) => value_of(common, cf, &record)?,
        Lookup::Covered => None,
    };
    // What could not be read looked like zeros.
    common.space.region().check_media()?;
    let seqnos = records.iter().map(|record| record.seqno);
    let seqnos = seqnos.chain(entries.iter().map(|entry| entry.seqno));
    check_order(&common.dir, seqnos)?;
    if records.is_empty() && entries.is_empty() {
        return Ok(base);
    }
    let operator = common.families.checked_operator(cf)?;
    let newest_first = records.iter().map(|record| record.value);
    let newest_first = newest_first.chain(entries.iter().map(AsRef::as_ref));
    let newest_first: Vec<&[u8]> = newest_first.collect();
    merge::fold(&*operator, key, base.as_deref(), &newest_first).map(Some)
}

/// The value of a record, if it has one.
fn value_of(common: &Common, cf: CfId, record: &RecordRef<'_>) -> Result<Option<Vec<u8>>> {
    let blob = match (record.kind, record.blob()) {
        (Kind::Put, _) => return Ok(Some(record.value.to_vec())),
        (_, Some(blob)) => blob,
        _ => return Ok(None),
    };
    // Before the reference is believed.
    common.space.region().check_media()?;
    let files = &common.catalog.table_files;
    files.read_blob(cf, record.key, blob).map(Some)
}

/// Argument 3.
fn check_order(dir: &std::path::Path, newest_first: impl Iterator<Item = SeqNo>) -> Result<()> {
    let mut above = None;
    for seqno in newest_first {
        if let Some(above) = above.replace(seqno)
            && seqno >= above
        {
            return Err(Error::corruption(
                "an operand of a key is in two places",
                dir.display().to_string(),
                0,
                format!("operands older than seqno {above}"),
                format!("one of seqno {seqno}"),
            ));
        }
    }
    Ok(())
}
