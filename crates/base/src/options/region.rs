//! A user's demands on the region of persistent memory for one opening.

use crate::error::{Error, Result};

/// What kind of region a user demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RegionDemand {
    /// Any kind that the place of the region gives.
    #[default]
    Any,
    /// A DAX mapping: real persistent memory.
    Dax,
    /// An ordinary file, made durable by the operating system.
    File,
    /// A file on tmpfs: survives the process, not the machine.
    Shm,
}

impl RegionDemand {
    /// The demand with this name.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an unknown name.
    pub fn parse(name: &str) -> Result<RegionDemand> {
        match name {
            "any" => Ok(RegionDemand::Any),
            "dax" => Ok(RegionDemand::Dax),
            "file" => Ok(RegionDemand::File),
            "shm" => Ok(RegionDemand::Shm),
            _ => Err(Error::InvalidArgument(format!(
                "there is no region kind '{name}'; the kinds are any, dax, file and shm"
            ))),
        }
    }
}

/// How a region on DRAM is slowed down to behave like other media, for experiments only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Emulation {
    /// As fast as the memory is.
    #[default]
    None,
    /// Like Optane DCPMM.
    Optane,
    /// Like memory behind CXL.
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
}
