//! Chains that go on behind their zones.

use super::*;

/// Each takes two thirds of a zone. An open finds the zone as wide as it became, and the walk all that lies there.
#[test]
fn items_that_lie_across_zones_are_found_again() {
    let mut f = Fixture::new();
    let items: Vec<PmOff> = (0..9).map(|n| f.item(1, 11_000, n)).collect();
    let bytes = 9 * (items[1].0 - items[0].0);
    assert_eq!(f.zones, f.writer.zones());
    assert_eq!(f.zones.len(), 1, "{:?}", f.zones);
    let taken = f.zones[0].end.0 - f.zones[0].data.0;
    assert!(taken < bytes + (16 << 10), "{taken} for {bytes}");
    let spec = RegionSpec {
        env: Env::real(),
        place: Place::Sim(f.sim.clone()),
        demand: RegionDemand::Any,
        capacity: PM,
        emulation: Emulation::None,
        read_only: false,
    };
    let space_spec = SpaceSpec {
        part_bytes_first: 256 << 10,
        pm: PM,
    };
    let region = Region::open(&spec).unwrap();
    let (_, zones) = Space::open(region, &[9; 16], space_spec, |owner| owner == 1).unwrap();
    assert_eq!(zones, f.zones);
    let walk = f.walk().unwrap();
    assert_eq!(walk.last_seqno, 9);
    let found: Vec<PmOff> = walk.chains[0].items[0].iter().map(|item| item.at).collect();
    assert_eq!(found, items);
}
