//! What tells a database's folder from others, and one kind of database from the other.

/// The file that is locked while the database is open.
pub const LOCK_NAME: &str = "LOCK";

/// The id of the region of a database that has none: its records lie in DRAM and in logs.
pub const NO_REGION: [u8; 16] = [0; 16];
