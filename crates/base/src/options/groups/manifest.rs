//! Options of the manifest.

use crate::options::group::option_group;

option_group! {
    /// Options of the manifest.
    ManifestOptions, "manifest" {
        /// The manifest is rewritten as a snapshot in a new file when its log exceeds this.
        bytes_max: Bytes = 1 << 20, 512 => 1 << 30;
    }
}
