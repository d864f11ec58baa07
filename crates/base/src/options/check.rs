//! Which options fit together.

use crate::error::{Error, Result};
use crate::options::all::{Options, check_place};
use crate::options::derived::{DRAM_MAX, DRAM_MIN, PM_MAX, PM_MIN};
use crate::options::region::{Emulation, RegionDemand};
use crate::options::shape::Shape;
use crate::size::{format_given, format_size};

impl Options {
    /// Checks every value and how they fit together.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] naming the option, its value and the limit it breaks.
    pub fn validate(&self) -> Result<()> {
        for (name, bytes, least, most) in [
            ("dram", self.dram, DRAM_MIN, DRAM_MAX),
            ("pm", self.pm, PM_MIN, PM_MAX),
        ] {
            if !(least..=most).contains(&bytes) {
                return Err(Error::InvalidArgument(format!(
                    "{name} lies between {} and {}; {} was given",
                    format_size(least),
                    format_size(most),
                    format_given(bytes)
                )));
            }
        }
        for (row, (_, value)) in Self::rows().zip(self.effective().into_iter().skip(3)) {
            row.parse(&value)?;
        }
        self.validate_first_part()?;
        self.validate_partitions()?;
        self.validate_places()
    }

    /// Both options have been found within their limits.
    fn validate_first_part(&self) -> Result<()> {
        let part = self.pm_region.part_bytes_first;
        if !part.is_power_of_two() {
            return Err(Error::InvalidArgument(format!(
                "pm.part_bytes_first must be a power of two; {} was given",
                format_given(part)
            )));
        }
        if part <= self.pm {
            return Ok(());
        }
        let fits = 1u64 << self.pm.ilog2();
        Err(Error::InvalidArgument(format!(
            "pm is at least {} here, as large as the first part of a region; {} was given: give more, or set \
             pm.part_bytes_first to {}",
            format_size(part),
            format_given(self.pm),
            format_size(fits)
        )))
    }

    fn validate_places(&self) -> Result<()> {
        for (name, place) in [("pm_path", &self.pm_path), ("wal_path", &self.wal_path)] {
            place
                .as_deref()
                .map_or(Ok(()), |it| check_place(name, it))?;
        }
        let refused = match self.in_dram() {
            false if self.wal_path.is_some() => "wal_path is for presets 'leveled' and 'trident'",
            true if self.pm_path.is_some() => {
                "presets 'leveled' and 'trident' have no persistent memory, and pm_path says where that lies; \
                 wal_path says where logs lie"
            }
            true if self.region != RegionDemand::Any || self.emulate != Emulation::None => {
                "presets 'leveled' and 'trident' have no persistent memory: a kind of region or an emulation profile \
                 cannot be asked for"
            }
            true if self.level0.shape.is_some_and(|shape| shape != Shape::Ssd) => {
                "presets 'leveled' and 'trident' have their level 0 on the SSD: level0.shape is ssd there"
            }
            _ => return Ok(()),
        };
        Err(Error::InvalidArgument(refused.to_string()))
    }
}
