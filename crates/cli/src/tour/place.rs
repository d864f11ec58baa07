//! Codes for places on earth that sort so that neighbours mostly lie side by side.
//!
//! Longitude and latitude are halved in turn, one bit for each half, longitude first; five bits
//! make one character. That is the geohash of G. Niemeyer (2008): a longer code lies within the
//! cell of every code that it begins with, and the characters ascend in ASCII, so all places of a
//! cell are one range of keys.

use std::collections::BTreeSet;

/// The characters, ascending.
const DIGITS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

/// Characters of a full code: 30 bits for each axis, cells of a few centimetres.
const CODE_LEN: u32 = 12;

/// Mean radius of the earth.
const EARTH_KM: f64 = 6371.0;

/// A place, in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Place {
    pub lat: f64,
    pub lon: f64,
}

impl Place {
    /// Its code.
    pub fn code(self) -> String {
        let (mut lat, mut lon) = ((-90.0, 90.0), (-180.0, 180.0));
        let mut code = String::new();
        let mut even = true;
        for _ in 0..CODE_LEN {
            let mut digit = 0;
            for _ in 0..5 {
                let (value, range): (f64, &mut (f64, f64)) = if even {
                    (self.lon, &mut lon)
                } else {
                    (self.lat, &mut lat)
                };
                let middle = f64::midpoint(range.0, range.1);
                digit <<= 1;
                if value >= middle {
                    digit |= 1;
                    range.0 = middle;
                } else {
                    range.1 = middle;
                }
                even = !even;
            }
            code.push(char::from(DIGITS[digit]));
        }
        code
    }

    /// The distance to `other`, by the haversine formula.
    pub fn km_to(self, other: Place) -> f64 {
        let half = |a: f64, b: f64| ((b - a).to_radians() / 2.0).sin().powi(2);
        let along = half(self.lat, other.lat);
        let across = half(self.lon, other.lon);
        let cosines = self.lat.to_radians().cos() * other.lat.to_radians().cos();
        2.0 * EARTH_KM * (along + cosines * across).sqrt().asin()
    }

    /// The codes with `len` characters of the cell around this place and of the cells beside it.
    /// Everything nearer than the width and height of a cell lies in one of them.
    pub fn cells_around(self, len: u32) -> BTreeSet<String> {
        let bits = 5 * len;
        let width = 360.0 / f64::from(1u32 << bits.div_ceil(2));
        let height = 180.0 / f64::from(1u32 << (bits / 2));
        let mut cells = BTreeSet::new();
        for across in [-1.0, 0.0, 1.0] {
            for along in [-1.0, 0.0, 1.0] {
                let place = Place {
                    lat: (self.lat + along * height).clamp(-90.0, 90.0),
                    lon: (self.lon + across * width + 540.0).rem_euclid(360.0) - 180.0,
                };
                cells.insert(place.code().chars().take(len as usize).collect());
            }
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_geohashes() {
        for (lat, lon, code) in [
            (42.605, -5.603, "ezs42"),
            (57.64911, 10.40744, "u4pruydqqvj"),
            (-90.0, -180.0, "000000000000"),
        ] {
            let got = Place { lat, lon }.code();
            assert!(got.starts_with(code), "{got} is not {code}");
            assert_eq!(got.len(), 12);
        }
    }

    #[test]
    fn what_is_near_lies_in_a_cell_around() {
        let centre = Place {
            lat: 47.37,
            lon: 8.55,
        };
        let cells = centre.cells_around(4);
        assert_eq!(cells.len(), 9);
        for step in 0..360 {
            let angle = f64::from(step).to_radians();
            let place = Place {
                lat: centre.lat + 0.17 * angle.sin(),
                lon: centre.lon + 0.35 * angle.cos(),
            };
            assert!(cells.contains(&place.code()[..4]), "{place:?}");
        }
    }

    #[test]
    fn distances_are_those_of_the_earth() {
        let zurich = Place {
            lat: 47.36667,
            lon: 8.55,
        };
        let geneva = Place {
            lat: 46.20222,
            lon: 6.14569,
        };
        let km = zurich.km_to(geneva);
        assert!((km - 224.0).abs() < 3.0, "{km}");
        assert!(zurich.km_to(zurich) < 1e-9);
    }
}
