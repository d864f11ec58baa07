//! Numbers of reading: how far cursors read ahead, and what they note of what they step over.

// ---------------------------------------------------------------------------------------------------------------------
// Cursors over memtables (`readahead`).

/// Entries of a cursor's first chunk from each memtable, before it is known how many are used between two seeks. *Chosen* (commit 53a96f6).
pub const CHUNK_FIRST: usize = 16;

/// A first chunk has so many at least. *Chosen* (commit 64a2222): a seek costs more than some entries that are not used.
pub const CHUNK_MIN: usize = 4;

/// And one part in so many more than cursors usually use. *Chosen* (commit 64a2222): a seek for few more costs more than some that are not
/// used.
pub const CHUNK_SPARE_PARTS: usize = 4;

/// How many times longer each further chunk is than the one before, up to the option. *Chosen* (commit 53a96f6).
pub const CHUNK_GROWTH: usize = 2;

/// Records that a scan asks for whole ahead of the one that is read. *Chosen* (commit 0229729): their headers, which say how long they
/// are, have arrived by then.
pub const RECORDS_AHEAD: usize = 2;

/// Headers of records that a scan asks for ahead of the record that it reads, at most. *Chosen* (commit 1f1622a): each may be the first of its page,
/// whose address is to be translated.
pub const HEADERS_AHEAD: usize = 8;

/// Headers that a scan asks for at once. *Chosen*: where each is the first of its page, the processor translates their addresses beside each
/// other, and waits once. They are the last of the [`HEADERS_AHEAD`] ahead: each has two records at least to arrive in.
pub const HEADERS_AT_ONCE: usize = 4;

/// Entries for which a scan asks memory at once, at most. *Chosen* (commit 1f1622a): it may be told to go on for ever.
pub const SCAN_RESERVED: usize = 64;

/// The cost of a seek in a memtable, in lookups of single keys. *Chosen* (commit 9da1ac5): a chunk of entries is collected.
pub const SEEK_ASKS: u64 = 4;

/// So many memtables a read asks before the others count as asked in vain. *Derived*: the active one and one that is sealed, which no merge of
/// indexes would spare.
pub const READ_MEMTABLES: usize = 2;

// ---------------------------------------------------------------------------------------------------------------------
// Gaps: what a cursor has stepped over, and notes for the next one.

/// Adjacent keys without a value that are worth a gap. *Chosen* (commit 92dc4be): fewer are stepped over in microseconds.
pub const GAP_KEYS: u64 = 32;

/// A gap that is passed counts as one key more than one part in so many of these. *Chosen* (commit 92dc4be): so a few gaps become one.
pub const GAP_PASSED_PARTS: u64 = 4;

/// Bytes of the gaps of a family in a memtable, at most. *Chosen* (commit 92dc4be): they are gone through by writes of that family.
pub const GAPS_BYTES_MAX: usize = 8 << 10;

/// Bytes of DRAM that are charged for them. *Derived*: a cut makes new ones before the old ones go.
pub const GAPS_CHARGE: u64 = 2 * GAPS_BYTES_MAX as u64;

/// One gap has no more than one part in so many of these. *Chosen* (commit 92dc4be).
pub const GAP_BYTES_PARTS: usize = 4;

// ---------------------------------------------------------------------------------------------------------------------
// About how large a range of keys is (the engine's `approximate`).

/// Keys from one mark of a ruler to the next. *Chosen* (commit 6c292d7): fewer are counted one by one.
pub const RULER_KEYS: usize = 1024;

/// Of a range of no more than so many steps of a ruler the keys are counted, and as many at each end of a longer one. *Chosen* (commit 6c292d7): a
/// shorter range may have no mark within, and an end has less than a step unless the memtable has grown since.
pub const RULER_COUNTED_STEPS: usize = 2;

/// A ruler is made anew when its memtable has grown by more than one part in so many. *Chosen* (commit 6c292d7): so far a size may be
/// wrong.
pub const RULER_GROWTH_PARTS: u64 = 8;

// ---------------------------------------------------------------------------------------------------------------------
// Cursors over tables, and values in blob files (the crate `tables`).

/// A cursor changes the mean of how far cursors go by one part in so many. *Chosen* (commit ec2d73a): the last eight or so count.
pub const HABIT_PARTS: u64 = 8;

/// A cursor over tables is ready for one part in so many more than cursors usually go. *Chosen* (commit ec2d73a).
pub const HABIT_SPARE_PARTS: u64 = 2;

/// A cursor over memtables that goes on for more than so many times the mean counts as that. *Chosen* (commit 4d9b156): one long scan among short
/// ones is soon forgotten.
pub const HABIT_TIMES_MAX: u64 = 2;

/// How many times longer each piece of a file that a cursor reads is than the one before. *Chosen* (commit 09d31ff): a long scan soon reads
/// as much at a time as it may.
pub const PIECE_GROWTH: u64 = 4;

/// A first piece that was expected to be enough, and was not, counts for one part in so many when the next one is made longer. *Chosen* (commit
/// 52bd7d1): what was expected is not multiplied at once.
pub const PIECE_EXPECTED_PARTS: u64 = 2;

/// Bytes between two blocks of data that still follow each other, at most: zeros, or a block of the index. *Chosen* (commit 09d31ff).
pub const BLOCK_GAP_BYTES: u64 = 32 << 10;

/// First pieces of a cursor's tables that are read at once, at most. *Chosen* (commit 9f3ba4b): each is an open file.
pub const FIRST_READS: usize = 16;

/// Values of blob files that a cursor reads at once, at most. *Chosen* (commit ec2d73a): each may be of another file, which is open meanwhile.
pub const VALUE_READS: usize = 64;

/// Units of what devices transfer between two values that are read, too, rather than asked for twice. *Chosen* (commit 52bd7d1).
pub const VALUE_GAP_UNITS: u64 = 2;

/// A cursor is ready for one part in so many more of values than is usual. *Chosen* (commit 74a10b0): unlike blocks, values mostly are not
/// where the last one ends.
pub const VALUE_SPARE_PARTS: u64 = 8;

/// Bytes of which the pieces of all blob files have their shares that a job reads in the order of keys. *Chosen* (commit 74a10b0).
pub const VALUES_IN_ORDER_BYTES: u64 = 4 << 20;

/// Bytes of one such piece, at most. *Chosen* (commit 74a10b0): the device's rate is reached with less.
pub const VALUES_PIECE_BYTES: u64 = 256 << 10;

/// Searches that go on together: so many blocks may lie in buffers, and so many files be open for them. *Chosen* (commit 05754a6).
pub const SEARCHES_TOGETHER: usize = 32;

// ---------------------------------------------------------------------------------------------------------------------
// Tables in persistent memory (the crate `level0`).

/// Entries whose values a cursor asks for ahead of the one at hand. *Chosen* (commit 0229729).
pub const VALUES_AHEAD: usize = 2;

/// Pages with values of which a cursor asks for a line at once, when it goes on to another group. *Chosen*: the processor translates the
/// addresses of several pages beside each other, and a group of values of 1 KiB lies on four.
pub const PAGES_AT_ONCE: usize = 4;

/// Bytes of a page, whose address the processor translates by itself. Where pages are larger, lines are asked for that come a little
/// later. *Chosen*: the smallest page of the processors that there are.
pub const TRANSLATED_BYTES: u64 = 4096;

/// Bytes of a group that are asked for at first. *Chosen* (commit 0fc161a): most groups have no more.
pub const GROUP_GUESS: usize = 512;

/// Blocks of the prefixes of a run that are asked for at once, at most. *Chosen* (commit b0f4a7f): a bisection would wait for one after the
/// other.
pub const BLOCKS_ASKED: u32 = 4;

/// Bytes that a key has, about: memory for the keys of a group is asked for at once. *Chosen* (commit f5d1884).
pub const KEY_GUESS: usize = 32;
