//! Names as people give them.

/// Names of some 5,000 real cities, each once, in the order of their bytes (see `data/README.md`).
pub fn cities() -> impl Iterator<Item = &'static str> {
    include_str!("../data/cities.txt").lines()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_ascend_and_none_is_empty() {
        let names: Vec<&str> = cities().collect();
        assert!(names.len() > 4000 && names[0].len() > 1);
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
