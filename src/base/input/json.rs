//! JSON documents that are read entry by entry, so that a large one is never in memory as a whole.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::de::IoRead;

use super::{Input, Meter};

/// Returns a reader of the documents of `input`.
pub fn documents(input: Input<'_>) -> serde_json::Deserializer<IoRead<Input<'_>>> {
    serde_json::Deserializer::from_reader(input)
}

/// A list whose elements are passed on one by one; each is a part.
pub struct Each<'a, T, F> {
    meter: &'a Meter,
    expected: &'static str,
    take: F,
    element: PhantomData<T>,
}

impl<'a, T, F: FnMut(T) -> Result<(), String>> Each<'a, T, F> {
    /// Passes the elements to `take`, whose error is that of the document. `expected` describes the list.
    pub const fn new(meter: &'a Meter, expected: &'static str, take: F) -> Self {
        Self { meter, expected, take, element: PhantomData }
    }
}

impl<'de, T, F> DeserializeSeed<'de> for Each<'_, T, F>
where
    T: Deserialize<'de>,
    F: FnMut(T) -> Result<(), String>,
{
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T, F> Visitor<'de> for Each<'_, T, F>
where
    T: Deserialize<'de>,
    F: FnMut(T) -> Result<(), String>,
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(element) = list.next_element()? {
            self.meter.part().map_err(Error::custom)?;
            (self.take)(element).map_err(Error::custom)?;
        }
        Ok(())
    }
}

/// A value that is ignored, whatever its size; each text in it is limited like a part.
pub struct Skipped<'a>(pub &'a Meter);

impl<'de> DeserializeSeed<'de> for Skipped<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Skipped<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Skipped(self.0))?.is_some() {
            self.0.renew();
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while members.next_key::<String>()?.is_some() {
            members.next_value_seed(Skipped(self.0))?;
            self.0.renew();
        }
        Ok(())
    }
}
