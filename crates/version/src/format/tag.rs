//! What tells changes apart.

pub const CREATED: u8 = 0x81;
pub const OPTIONS: u8 = 0x82;
pub const CF_CREATED: u8 = 0x83;
pub const CF_DROPPED: u8 = 0x84;
pub const MEMTABLE_CREATED: u8 = 0x85;
pub const MEMTABLE_DROPPED: u8 = 0x86;
pub const CHAIN_OPENED: u8 = 0x87;
pub const CHAIN_CUT: u8 = 0x88;
pub const NEXT_IDS: u8 = 0x89;
pub const CF_OPTIONS: u8 = 0x8a;
pub const CHAIN_ADOPTED: u8 = 0x8b;
pub const NEXT_IDS_WITH_FILES: u8 = 0x8c;
pub const TABLE_ADDED: u8 = 0x8d;
pub const TABLE_REMOVED: u8 = 0x8e;
pub const BLOB_FILE_ADDED: u8 = 0x8f;
pub const BLOB_FILE_REMOVED: u8 = 0x90;
pub const PARTITION_CREATED: u8 = 0x91;
pub const FILES_INHERITED: u8 = 0x92;
pub const FLUSHED_UP_TO: u8 = 0x93;
pub const PM_TABLE_ADDED: u8 = 0x94;
pub const PM_TABLE_REMOVED: u8 = 0x95;
pub const PARTITION_REMOVED: u8 = 0x96;
pub const LONG_VALUES: u8 = 0x98;
pub const EVACUATED: u8 = 0x99;
// 0x9a is that of a pointer (`super::pointer`).
pub const PREPARED_TRANSACTIONS: u8 = 0x9b;
pub const WRITE_TIMES: u8 = 0x9c;
pub const BLOB_VALUES: u8 = 0xb0;
/// May be passed over.
pub const PARTITION_RATES: u8 = 0x01;
/// May be passed over.
pub const JOB_DONE: u8 = 0x02;
