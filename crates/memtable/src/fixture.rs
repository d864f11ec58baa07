//! What the unit tests of this crate are made in.

use std::sync::Arc;

use thermocline_base::Steps;
use thermocline_base::options::{Emulation, RegionDemand};
use thermocline_env::Env;
use thermocline_halloc::{Space, SpaceSpec};
use thermocline_pm::{Place, Region, RegionSpec, SimPm};

/// A simulated region that may grow to `pm` bytes, with a first part of `part_bytes_first`.
pub(crate) fn space(pm: u64, part_bytes_first: u64) -> Arc<Space> {
    let spec = RegionSpec {
        env: Env::real(),
        place: Place::Sim(SimPm::new(pm, Steps::new())),
        demand: RegionDemand::Any,
        capacity: pm,
        emulation: Emulation::None,
        read_only: false,
    };
    let space_spec = SpaceSpec {
        part_bytes_first,
        pm,
    };
    let region = Region::create(&spec, Space::first_part_bytes(&space_spec)).unwrap();
    Arc::new(Space::create(region, &[9; 16], space_spec).unwrap())
}
