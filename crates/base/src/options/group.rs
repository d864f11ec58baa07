//! A group of options, made from its table.
//!
//! A row of a table makes the field, its documentation, default, range, parser (`--set
//! group.option=value`), printer and the random value for tests. A new option touches one place.

/// The type of the field of an option.
macro_rules! type_of {
    (Flag) => { bool };
    (Codec) => { $crate::codec::Codec };
    (Shape) => { Option<$crate::options::shape::Shape> };
    (Division) => { $crate::options::partition_by::PartitionBy };
    (Costs) => { $crate::options::costs::Costs };
    (Index) => { $crate::index_kind::IndexKind };
    (AsyncIo) => { $crate::async_io::AsyncIo };
    (Scheduler) => { $crate::scheduler::Scheduler };
    ($number:ident) => { u64 };
}

/// The place of a default, which is constant ([`Value::place`](crate::options::word::Value::place)).
macro_rules! place_of {
    (Flag, $value:expr) => {
        $value as u64
    };
    (Codec, $value:expr) => {
        $value as u64
    };
    (Shape, $value:expr) => {
        $crate::options::word::place_of_shape($value)
    };
    (Division, $value:expr) => {
        $value as u64
    };
    (Costs, $value:expr) => {
        $value as u64
    };
    (Index, $value:expr) => {
        $value as u64
    };
    (AsyncIo, $value:expr) => {
        $value as u64
    };
    (Scheduler, $value:expr) => {
        $value as u64
    };
    ($number:ident, $value:expr) => {
        $value
    };
}

/// Declares a group of options from its table. A number has a range.
macro_rules! option_group {
    (
        $(#[$meta:meta])* $group:ident, $prefix:literal {
            $($(#[doc = $doc:literal])+
              $field:ident: $unit:ident = $default:expr $(, $min:expr => $max:expr)?;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $group { $($(#[doc = $doc])+ pub $field: $crate::options::group::type_of!($unit),)* }

        impl Default for $group {
            fn default() -> Self { $group { $($field: $default,)* } }
        }

        impl $group {
            /// The table of this group.
            pub const ROWS: &'static [$crate::options::OptionRow] = &[$($crate::options::OptionRow {
                name: concat!($prefix, ".", stringify!($field)),
                doc: concat!($($doc,)+).trim_ascii(),
                unit: $crate::options::Unit::$unit,
                default: $crate::options::group::place_of!($unit, $default),
                min: [$($min,)? 0][0],
                max: [$($max,)? $crate::options::Unit::$unit.last_place()][0],
            },)*];

            pub(in crate::options) fn values(&self) -> Vec<u64> {
                vec![$($crate::options::word::Value::place(self.$field),)*]
            }

            /// Sets the value in this place; returns whether this group has such an option.
            pub(in crate::options) fn set_place(&mut self, name: &str, place: u64) -> bool {
                match name {
                    $(concat!($prefix, ".", stringify!($field)) => {
                        self.$field = $crate::options::word::Value::at(place);
                    })*
                    _ => return false,
                }
                true
            }
        }
    };
}

pub(in crate::options) use {option_group, place_of, type_of};
