//! Values of options, and their places: a row keeps every value as a number, which is the number itself, or the place of
//! a word among those of its unit ([`Unit`](crate::options::Unit)).

use crate::async_io::AsyncIo;
use crate::codec::Codec;
use crate::index_kind::IndexKind;
use crate::options::shape::Shape;
use crate::scheduler::Scheduler;

/// The type of an option's value.
pub(in crate::options) trait Value: Copy {
    /// Its place.
    fn place(self) -> u64;

    /// The value in a place. The row has checked the place.
    fn at(place: u64) -> Self;
}

impl Value for u64 {
    fn place(self) -> u64 {
        self
    }

    fn at(place: u64) -> u64 {
        place
    }
}

impl Value for bool {
    fn place(self) -> u64 {
        self.into()
    }

    fn at(place: u64) -> bool {
        place != 0
    }
}

/// The element of `all` that has this place.
pub(in crate::options) fn nth<T: Copy>(all: &[T], place: u64) -> T {
    let place = usize::try_from(place).unwrap_or(usize::MAX);
    all[place.min(all.len() - 1)]
}

impl Value for Codec {
    fn place(self) -> u64 {
        self as u64
    }

    fn at(place: u64) -> Codec {
        nth(&Codec::ALL, place)
    }
}

impl Value for AsyncIo {
    fn place(self) -> u64 {
        self as u64
    }

    fn at(place: u64) -> AsyncIo {
        nth(&AsyncIo::ALL, place)
    }
}

impl Value for Scheduler {
    fn place(self) -> u64 {
        self as u64
    }

    fn at(place: u64) -> Scheduler {
        nth(&Scheduler::ALL, place)
    }
}

impl Value for IndexKind {
    fn place(self) -> u64 {
        self as u64
    }

    fn at(place: u64) -> IndexKind {
        nth(&IndexKind::ALL, place)
    }
}

/// `None` leaves the shape to the region, and stands behind all shapes.
impl Value for Option<Shape> {
    fn place(self) -> u64 {
        place_of_shape(self)
    }

    fn at(place: u64) -> Option<Shape> {
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        Shape::ALL.get(place).copied()
    }
}

/// As [`Value::place`], for tables.
pub(in crate::options) const fn place_of_shape(shape: Option<Shape>) -> u64 {
    match shape {
        Some(shape) => shape as u64,
        None => Shape::ALL.len() as u64,
    }
}
