//! Emulation profiles: DRAM made to behave like slower persistent media, for experiments only.
//!
//! Optane DCPMM: about 300 ns to the first byte of a read, where DRAM takes about 90, and 2.3 GB/s of
//! writes to one module in units of 256 bytes (Yang et al., FAST '20). CXL 2.0 expander: about 170 ns
//! more than local DRAM and 10 GB/s of writes (Sun et al., MICRO '23).

use thermocline_base::options::Emulation;

/// Nanoseconds added to a read at one place.
pub(crate) fn read_ns(profile: Emulation) -> u64 {
    match profile {
        Emulation::None => 0,
        Emulation::Optane => 210,
        Emulation::Cxl => 170,
    }
}

/// Nanoseconds that writing back `len` bytes takes at least.
pub(crate) fn write_ns(profile: Emulation, len: u64) -> u64 {
    match profile {
        Emulation::None => 0,
        Emulation::Optane => len.next_multiple_of(256) * 10 / 23,
        Emulation::Cxl => len / 10,
    }
}
