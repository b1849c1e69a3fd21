//! The types of fields.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use uuid::Uuid;

use client::schedule::PhaseKind;

/// A value of a field.
#[derive(Debug)]
pub enum FieldValue<'r> {
    Absent,
    Int(u64),
    /// A number that lines lack if it is 0.
    Count(u32),
    Bool(bool),
    Text(Cow<'r, str>),
    /// A text that is the ID of something.
    Id(Uuid),
    List(Vec<f64>),
    /// Numbers by name; lines lack them if there are none.
    Times(BTreeMap<&'r str, f64>),
}

/// The form of a field's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Int,
    Count,
    Bool,
    Text,
    List,
    Times,
}

/// A type of fields.
pub trait FieldType<'r>: Sized {
    /// The type that is read from lines.
    type Read;
    const FORM: Form;
    /// Whether lines always contain the field.
    const IS_REQUIRED: bool;

    /// Returns the value of the field.
    fn value(self) -> FieldValue<'r>;

    fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema;
}

/// Implements [`FieldType`] for types: the form of their values, what is read from lines, what has
/// the same schema, whether every line has them, and their values.
macro_rules! field_types {
    ($r:lifetime; $($type:ty: $form:ident, $read:ty, $schema:ty, $is_required:literal, $value:expr;)*) => {$(
        impl<$r> FieldType<$r> for $type {
            type Read = $read;
            const FORM: Form = Form::$form;
            const IS_REQUIRED: bool = $is_required;

            fn value(self) -> FieldValue<$r> {
                let value: fn(Self) -> FieldValue<$r> = $value;
                value(self)
            }

            fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                <$schema as schemars::JsonSchema>::json_schema(generator)
            }
        }
    )*};
}

field_types! { 'r;
    u32: Int, u32, u32, true, |number| FieldValue::Int(number.into());
    u64: Int, u64, u64, true, FieldValue::Int;
    usize: Int, usize, usize, true, |number| FieldValue::Int(number as u64);
    Count: Count, u32, u32, false, |count| FieldValue::Count(count.0);
    bool: Bool, bool, bool, true, FieldValue::Bool;
    Text<'r>: Text, Text<'r>, String, true, |text| FieldValue::Text(text.0);
    PhaseKind: Text, PhaseKind, String, true, |kind| FieldValue::Text(kind.as_str().into());
    Id: Text, Id, String, true, |id| FieldValue::Id(id.0);
    Vec<f64>: List, IgnoredAny, Vec<f64>, true, FieldValue::List;
    Times<'r>: Times, IgnoredAny, BTreeMap<String, f64>, false, |times| FieldValue::Times(times.0);
}

impl<'r, T: FieldType<'r>> FieldType<'r> for Option<T> {
    type Read = T::Read;
    const FORM: Form = T::FORM;
    const IS_REQUIRED: bool = false;

    fn value(self) -> FieldValue<'r> {
        self.map_or(FieldValue::Absent, T::value)
    }

    fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        T::schema(generator)
    }
}

/// A number that lines lack if it is 0.
pub struct Count(pub u32);

/// A text.
#[derive(Debug, Deserialize)]
pub struct Text<'r>(#[serde(borrow)] pub Cow<'r, str>);

impl<'r> From<&'r str> for Text<'r> {
    fn from(text: &'r str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

/// An ID; nil if what is read is not a UUID.
#[derive(Debug, Clone, Copy)]
pub struct Id(pub Uuid);

impl Id {
    /// Returns the ID, unless it is nil.
    pub fn known(self) -> Option<Uuid> {
        Some(self.0).filter(|id| !id.is_nil())
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(text) = Text::deserialize(deserializer)?;
        Ok(Self(Uuid::parse_str(&text).unwrap_or_default()))
    }
}

/// Times by name, in milliseconds.
pub struct Times<'r>(BTreeMap<&'r str, f64>);

impl<'r> Times<'r> {
    /// Returns `times`, which are in nanoseconds.
    pub fn from_nanos(times: &'r [(String, f64)]) -> Self {
        Self(times.iter().map(|(name, nanos)| (name.as_str(), nanos / 1e6)).collect())
    }
}
