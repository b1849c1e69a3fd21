//! Serialisation of the parts of a record that serde does not support, or only slowly. For binary
//! formats only: the output contains no names.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use super::{ErrorKind, RequestError};

/// A shared text.
pub(super) mod text {
    use super::{Arc, Deserialize, Deserializer, Serializer};

    pub(in crate::record) fn serialize<S: Serializer>(
        text: &str,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_str(text)
    }

    pub(in crate::record) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Arc<str>, D::Error> {
        String::deserialize(from).map(Arc::from)
    }
}

/// A shared text that may be absent.
pub(super) mod text_if_any {
    use super::{Arc, Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde gives it so")]
    pub(in crate::record) fn serialize<S: Serializer>(
        text: &Option<Arc<str>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        text.as_deref().serialize(to)
    }

    pub(in crate::record) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Arc<str>>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.map(Arc::from))
    }
}

/// A list of shared texts, any of which may be absent.
pub(super) mod texts {
    use super::{Arc, Deserialize, Deserializer, Serializer};

    pub(in crate::record) fn serialize<S: Serializer>(
        texts: &[Option<Arc<str>>],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(texts.iter().map(Option::as_deref))
    }

    pub(in crate::record) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Option<Arc<str>>>, D::Error> {
        let texts = Vec::<Option<String>>::deserialize(from)?;
        Ok(texts.into_iter().map(|text| text.map(Arc::from)).collect())
    }
}

/// A UUID, as its 128 bits.
pub(super) mod id {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Uuid};

    pub(in crate::record) fn serialize<S: Serializer>(id: &Uuid, to: S) -> Result<S::Ok, S::Error> {
        id.as_u64_pair().serialize(to)
    }

    pub(in crate::record) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Uuid, D::Error> {
        let (high, low) = <(u64, u64)>::deserialize(from)?;
        Ok(Uuid::from_u64_pair(high, low))
    }
}

/// Bytes in one piece; by default serde writes them one by one.
pub(super) mod bytes {
    use std::fmt;

    use super::{Deserializer, Serializer};
    use serde::de::{Error, Visitor};

    pub(in crate::record) fn serialize<S: Serializer>(
        bytes: &[u8],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub(in crate::record) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<u8>, D::Error> {
        from.deserialize_byte_buf(Whole)
    }

    struct Whole;

    impl Visitor<'_> for Whole {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }

        fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
            Ok(bytes)
        }
    }
}

/// An error. Its own serialisation leaves members out, which binary formats do not allow.
pub(super) mod error {
    use super::{Deserialize, Deserializer, ErrorKind, RequestError, Serialize, Serializer};

    type Whole<T> = (Option<u16>, T, T, Option<T>, ErrorKind);

    #[expect(clippy::ref_option, reason = "serde gives it so")]
    pub(in crate::record) fn serialize<S: Serializer>(
        error: &Option<RequestError>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let whole = error.as_ref().map(|error| -> Whole<&str> {
            (error.code, &error.name, &error.message, error.cause.as_deref(), error.kind)
        });
        whole.serialize(to)
    }

    pub(in crate::record) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<RequestError>, D::Error> {
        let whole = Option::<Whole<String>>::deserialize(from)?;
        Ok(whole.map(|(code, name, message, cause, kind)| RequestError {
            code,
            name,
            message,
            cause,
            kind,
        }))
    }
}
