//! The learned index: where a key lies is computed, not looked up (TridentKV §3.2).
//!
//! It stands in a table in place of the binary index, as its root, without blocks below. It stores few
//! keys. The blocks of the table are cut into **groups** of neighbours. In a group a **code** (SNBC) makes
//! a number of each user key, and **models**, straight lines, lead from that number to a block. A **top**
//! model leads from a key to its group. Where a line is not quite right, a **correction** of a few bits
//! for each block makes it so. **Handles** are an array of lengths. All arithmetic is in integers.
//!
//! | file | what |
//! |---|---|
//! | `code` | keys as numbers, and why their order stays |
//! | `line`, `model` | lines, and thresholds: lines with corrections |
//! | `top`, `group`, `search` | which group, and how a wrong guess is made right |
//! | `handles`, `bits` | where blocks lie |
//! | `lookup` | asking |
//! | `boundaries`, `work`, `grow`, `fit`, `train` | training |
//! | `format` | the bytes |
//!
//! # Why a search is never wrong
//!
//! Each block but the first of its group has a **threshold** `t`. Let `c(k)` be the code of a key `k` in
//! that group, which is monotonic on *all* keys, those of the table and any others (`code`).
//!
//! 1. *No block is skipped.* `t` is above the codes of all keys in the blocks before. So if
//!    `c(k) ≥ t`, all keys before the block are below `k`. A search takes the last block of the
//!    group whose threshold is not above `c(k)`, or else the first one. A group's lowest key is above all
//!    keys of the groups before, so a search in the last group whose lowest key is not above `k` skips nothing either.
//! 2. *A key of the table is where the search leads*, or in a block that goes on from there. `t` is not
//!    above the code of the block's first key, unless that code equals the one before. Then `t` is that
//!    code plus one: keys with equal codes, and versions of one key, form a *run* that is found from its
//!    first block.
//! 3. *A run is followed.* If a block ends below what is sought, the next one is asked if its threshold
//!    is `c(k) + 1`. Then a first key with the code `c(k)` is possible. If the threshold is greater, all keys from
//!    there on have greater codes, and are greater: a lookup is done, and a seek takes the first of them. Between groups the same
//!    is said by a lowest key that is `k` and a zero byte. That is the neighbour that a lower bound checks.
//!
//! So keys that are not in the table, keys with bytes that no key of the table has, and keys outside of all
//! need no care: they have a code, and the three rules hold for it. Seqnos play no part until a block is there.
//!
//! A run of more than [`RUN_MAX`](grow::RUN_MAX) blocks after the first is not written: the table keeps its
//! binary index then.
//!
//! # What the writer verifies
//!
//! The payload is decoded and asked, as readers will, for the first and the last key of every block. The
//! answer must be that block, or one before it that goes on up to it, at most [`RUN_MAX`](grow::RUN_MAX) blocks before. Every key between the two is covered by
//! that, since codes, thresholds and lowest keys ascend: its search leads to no block before that of the first
//! key and to none behind that of the last; and if it leads to one before its own, then its code is that
//! of the first key (the threshold of its own block is above its code, and by rule 2 at most the first
//! key's code plus one).
//!
//! # When it is written
//!
//! Training is one pass over the ends of blocks when the last block is written: blocks keep the sizes that
//! other tables have, and pages their alignment. The paper's other way, to place keys into blocks where a
//! line says, makes predictions without corrections, but blocks of uneven sizes: of three entries to a page one block in
//! three would need a second page. Corrections cost a few bits a block instead, and no read.
//!
//! Whoever writes a table says whether it is trained: a flush beside many writers leaves that to the next compaction (decision
//! 176).
//!
//! The writer falls back to the binary index if training is more work than `work` allows, if a run is
//! too long, if the index would not be smaller than the binary one, or would exceed
//! [`LEARNED_LEN_MAX`], and if it does not verify. It says so in the table's properties.

mod bits;
mod boundaries;
mod code;
mod fit;
mod format;
mod group;
mod grow;
mod handles;
mod line;
mod lookup;
mod model;
mod parts;
mod search;
mod top;
mod train;
mod work;

pub(crate) use boundaries::Boundaries;
pub(crate) use lookup::Learned;

use thermocline_base::numbers::{len_of, len32};

use crate::format::LEARNED_LEN_MAX;
use crate::format::coding::Unreadable;
use crate::handle::BlockHandle;

/// Reads the payload of a learned index of a table whose data blocks end at `data_end`.
pub(crate) fn decode(bytes: &[u8], data_end: u64) -> Result<Learned, Unreadable> {
    Learned::new(format::decode(bytes, data_end)?, data_end)
}

/// The payload of a learned index over these blocks, which end at `data_end`, if one can be made that is
/// of a length that is `worth_it`. It is verified.
pub(crate) fn build(
    bounds: &Boundaries,
    data_end: u64,
    worth_it: impl FnOnce(usize) -> bool,
) -> Option<Vec<u8>> {
    let payload = format::encode(&train::train(bounds)?);
    if payload.len() > LEARNED_LEN_MAX || !worth_it(payload.len()) {
        return None;
    }
    let learned = decode(&payload, data_end).ok()?;
    finds_all(&learned, bounds).then_some(payload)
}

/// Whether it leads to the first and last key of each block, and to where the block lies.
fn finds_all(learned: &Learned, bounds: &Boundaries) -> bool {
    let is_found = |(n, handle): (usize, BlockHandle)| {
        let (first, last) = (bounds.first(n), bounds.last(n).user_key);
        let leads = |key: &[u8]| leads_to(learned, key, len32(n));
        handle == bounds.handle(n) && leads(first) && (last == first || leads(last))
    };
    len32(bounds.len()) == learned.blocks() && learned.all_handles().enumerate().all(is_found)
}

/// Whether a search for `key` comes to block `n`, over no more blocks than are written in a row: whoever followed all that others
/// claim, for each key, would take time that squares.
pub(crate) fn leads_to(learned: &Learned, key: &[u8], n: u32) -> bool {
    let from = learned.block_of(key);
    let run = n.checked_sub(from).map(len_of);
    run.is_some_and(|run| run <= grow::RUN_MAX)
        && (from..n).all(|before| learned.goes_on(before + 1, key))
}

#[cfg(test)]
mod tests;
