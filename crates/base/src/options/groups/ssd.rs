//! Options of the files on SSD.

use crate::index_kind::IndexKind;
use crate::options::group::option_group;

option_group! {
    /// Options of the files on SSD.
    SsdOptions, "ssd" {
        /// Tables are read and written past the page cache of the operating system, where the file
        /// system allows.
        direct: Flag = true;
        /// Which index new tables have. `binary` keeps a key for each data block. `learned` computes the
        /// block from the key (TridentKV §3.2): an index that is much smaller where keys are spread evenly, and smaller
        /// elsewhere. A table that it does not fit has a binary one. Versions that do not know
        /// it cannot read such tables.
        index: Index = IndexKind::Binary;
        /// With `ssd.index=learned`: a flush trains while it writes if fewer threads than this have written since the flush before
        /// (TridentKV §3.2, algorithm 1; N_w is 8 there, §4.3). Otherwise its tables of level 0 have a binary index.
        /// What is written into deeper levels is trained, however many write. 0 has no flush train. More than 16 threads
        /// are not told apart: with 17 or more every flush trains.
        train_writers: Count = 8, 0 => 1 << 10;
    }
}
