//! The tour's data: cities of the world, from GeoNames (see `data/README.md`).

use std::collections::HashMap;

use serde_json::json;

use crate::fail::{Failure, Outcome};
use crate::tour::place::Place;

static COMPRESSED: &[u8] = include_bytes!("../../data/cities1000.csv.zst");

/// Cities in one batch; each has two entries.
pub(super) const BATCH_CITIES: usize = 500;

/// A city and the two entries that the tour writes for it.
#[derive(Debug, Clone)]
pub(crate) struct City {
    pub name: String,
    pub country: String,
    pub place: Place,
    /// `name/COUNTRY/NAME/N`, N counting cities of one name.
    pub name_key: String,
    /// The row as a JSON object.
    pub row: String,
    /// `place/CODE/N`; its value is the name key.
    pub place_key: String,
}

/// Unpacks and reads all cities.
pub(crate) fn cities() -> Outcome<Vec<City>> {
    let broken = |what: String| Failure::Failed(format!("the built-in list of cities: {what}"));
    let text = zstd::decode_all(COMPRESSED).map_err(|e| broken(e.to_string()))?;
    let mut reader = csv::Reader::from_reader(text.as_slice());
    let mut seen: HashMap<String, u32> = HashMap::new();
    let mut numbered = |stem: String| {
        let count = seen.entry(stem.clone()).or_default();
        let key = format!("{stem}/{count:02}");
        *count += 1;
        key
    };
    let mut all = Vec::new();
    for row in reader.deserialize() {
        type Columns = (f64, f64, String, String, String, String);
        let (lat, lon, name, admin1, admin2, country): Columns =
            row.map_err(|e| broken(e.to_string()))?;
        let place = Place { lat, lon };
        all.push(City {
            name_key: numbered(format!("name/{country}/{name}")),
            place_key: numbered(format!("place/{}", place.code())),
            row: json!({
                "lat": lat, "lon": lon, "name": name,
                "admin1": admin1, "admin2": admin2, "cc": country,
            })
            .to_string(),
            name,
            country,
            place,
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_list_is_whole_and_its_keys_are_distinct() {
        let cities = cities().unwrap();
        assert_eq!(cities.len(), 144_563);
        let keys: BTreeSet<&str> = cities
            .iter()
            .flat_map(|city| [city.name_key.as_str(), city.place_key.as_str()])
            .collect();
        assert_eq!(keys.len(), 2 * cities.len());
        assert!(keys.contains("name/CH/Zurich/00"));
    }
}
