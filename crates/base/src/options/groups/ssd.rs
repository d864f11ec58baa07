//! Options of the files on SSD.

use crate::options::group::option_group;

option_group! {
    /// Options of the files on SSD.
    SsdOptions, "ssd" {
        /// Tables are read and written past the page cache of the operating system, where the file
        /// system allows.
        direct: Flag = true;
    }
}
