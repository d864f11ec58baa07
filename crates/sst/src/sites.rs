//! The places where tables and blob files become durable.

thermocline_base::sites! {
    /// A table's bytes are durable.
    TABLE_WRITTEN = "sst: table written";
    /// A blob file's records up to here are durable.
    BLOBS_WRITTEN = "sst: blobs written";
    /// The name of a table or blob file is durable. For callers: see the crate's documentation.
    FILE_NAMED = "sst: file named";
}
