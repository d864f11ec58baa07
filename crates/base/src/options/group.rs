//! A group of options, made from its table.
//!
//! A row of a table makes the field, its documentation, default, range, parser (`--set
//! group.option=value`), printer and the random value for tests. A new option touches one place.

/// Declares a group of options from its table.
macro_rules! option_group {
    (
        $(#[$meta:meta])* $group:ident, $prefix:literal {
            $($(#[doc = $doc:literal])+
              $field:ident: $unit:ident = $default:expr, $min:expr => $max:expr;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $group { $($(#[doc = $doc])+ pub $field: u64,)* }

        impl Default for $group {
            fn default() -> Self { $group { $($field: $default,)* } }
        }

        impl $group {
            /// The table of this group.
            pub const ROWS: &'static [$crate::options::OptionRow] = &[$($crate::options::OptionRow {
                name: concat!($prefix, ".", stringify!($field)),
                doc: concat!($($doc,)+).trim_ascii(),
                unit: $crate::options::Unit::$unit,
                default: $default,
                min: $min,
                max: $max,
            },)*];

            pub(in crate::options) fn values(&self) -> Vec<u64> { vec![$(self.$field,)*] }

            pub(in crate::options) fn field_mut(&mut self, name: &str) -> Option<&mut u64> {
                match name {
                    $(concat!($prefix, ".", stringify!($field)) => Some(&mut self.$field),)*
                    _ => None,
                }
            }
        }
    };
}

pub(in crate::options) use option_group;
