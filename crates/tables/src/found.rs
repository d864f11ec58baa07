//! Where reads of tables find values, to be counted.

/// Where point reads found their values. One whose newest entry is an operand has found it there, wherever what it is on lies.
#[derive(Debug, Clone, Copy)]
pub enum FoundIn {
    /// Every block was in the cache; or the value, if it lies in a blob file.
    Cache,
    /// A block was read, or the value.
    File,
    /// It lies in persistent memory.
    Pm,
}

impl FoundIn {
    /// Of a value of which a part was `read`, or nothing.
    pub(crate) fn of(read: bool) -> FoundIn {
        match read {
            true => FoundIn::File,
            false => FoundIn::Cache,
        }
    }
}
