//! Direct I/O on every kind of storage: a folder on a disk, one in memory, the simulator, and each
//! with faults.

mod contract;
mod faults;
mod places;
