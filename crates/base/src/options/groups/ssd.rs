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
    }
}
