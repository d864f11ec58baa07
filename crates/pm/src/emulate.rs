//! Emulation profiles: DRAM made to behave like slower persistent media, for experiments only.

use thermocline_base::{Error, Result};

/// How a region on DRAM is slowed down. Never on unless asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Emulation {
    /// As fast as the memory is.
    #[default]
    None,
    /// Like Optane DCPMM: 300 ns to first byte of a read and 2.3 GB/s of writes to one module
    /// (Yang et al., FAST '20), over DRAM at about 90 ns.
    Optane,
    /// Like a CXL 2.0 expander: about 170 ns more than local DRAM, 10 GB/s of writes (Sun et al.,
    /// MICRO '23).
    Cxl,
}

impl Emulation {
    /// The profile with this name.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an unknown name.
    pub fn parse(name: &str) -> Result<Emulation> {
        match name {
            "none" => Ok(Emulation::None),
            "optane" => Ok(Emulation::Optane),
            "cxl" => Ok(Emulation::Cxl),
            _ => Err(Error::InvalidArgument(format!(
                "there is no emulation profile '{name}'; the profiles are none, optane and cxl"
            ))),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Emulation::None => "none",
            Emulation::Optane => "optane",
            Emulation::Cxl => "cxl",
        }
    }

    /// Nanoseconds added to a read of `len` bytes at one place.
    pub(crate) fn read_ns(self) -> u64 {
        match self {
            Emulation::None => 0,
            Emulation::Optane => 210,
            Emulation::Cxl => 170,
        }
    }

    /// Nanoseconds that writing back `len` bytes takes at least.
    pub(crate) fn write_ns(self, len: u64) -> u64 {
        match self {
            Emulation::None => 0,
            // The module writes whole 256-byte units.
            Emulation::Optane => len.next_multiple_of(256) * 10 / 23,
            Emulation::Cxl => len / 10,
        }
    }
}
