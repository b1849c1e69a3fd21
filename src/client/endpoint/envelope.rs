//! Members that the responses of most dialects have in common, under the same names.

use serde_json::value::RawValue;

use super::reports::Members;
use super::text::Text;

/// The model, the usage, the error in either of its formats, and reports of times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Envelope<'e> {
    pub(super) model: &'e Text<'e>,
    pub(super) usage: Option<&'e RawValue>,
    pub(super) error: Option<&'e RawValue>,
    /// The message of an error without a wrapper: `{"object":"error","message":…,"code":…}`.
    pub(super) message: &'e Text<'e>,
    /// What the server reports about its times.
    pub(super) reports: Members<'e>,
}

/// Declares a response, or an event of one, with the members of an [`Envelope`] in addition to its
/// own.
macro_rules! enveloped {
    (
        $(#[$attribute:meta])*
        struct $name:ident<$a:lifetime> {
            $($(#[$member_attribute:meta])* $member:ident: $type:ty,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Default, ::serde::Deserialize)]
        struct $name<$a> {
            $($(#[$member_attribute])* $member: $type,)*
            #[serde(borrow, default)]
            model: $crate::endpoint::text::Text<$a>,
            #[serde(borrow, default)]
            usage: Option<&$a ::serde_json::value::RawValue>,
            #[serde(borrow, default)]
            error: Option<&$a ::serde_json::value::RawValue>,
            #[serde(borrow, default)]
            errors: Option<&$a ::serde_json::value::RawValue>,
            #[serde(borrow, default)]
            message: $crate::endpoint::text::Text<$a>,
            #[serde(borrow, default)]
            metrics: Option<&$a ::serde_json::value::RawValue>,
            #[serde(borrow, default)]
            nvext: Option<&$a ::serde_json::value::RawValue>,
            #[serde(borrow, default)]
            timings: Option<&$a ::serde_json::value::RawValue>,
            #[serde(borrow, default)]
            meta_info: Option<&$a ::serde_json::value::RawValue>,
            #[serde(borrow, default)]
            stats: Option<&$a ::serde_json::value::RawValue>,
            #[serde(borrow, default)]
            time_info: Option<&$a ::serde_json::value::RawValue>,
            #[serde(borrow, default)]
            perf_metrics: Option<&$a ::serde_json::value::RawValue>,
            #[serde(borrow, default)]
            x_groq: Option<&$a ::serde_json::value::RawValue>,
            #[serde(borrow, default)]
            sglext: Option<&$a ::serde_json::value::RawValue>,
        }

        impl $name<'_> {
            fn envelope(&self) -> $crate::endpoint::envelope::Envelope<'_> {
                $crate::endpoint::envelope::Envelope {
                    model: &self.model,
                    usage: self.usage,
                    error: self.error.or(self.errors),
                    message: &self.message,
                    // In the order of `server_family::MEMBERS`.
                    reports: [
                        self.metrics,
                        self.nvext,
                        self.timings,
                        self.meta_info,
                        self.stats,
                        self.time_info,
                        self.perf_metrics,
                        self.x_groq,
                        self.sglext,
                    ],
                }
            }
        }
    };
}
pub(super) use enveloped;

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    enveloped! {
        struct Reply<'a> {
            #[serde(borrow, default)]
            id: Text<'a>,
        }
    }

    #[test]
    fn members_are_found_between_the_dialects_own_and_borrow_from_the_response() {
        let json = r#"{"usage":{"a":1},"id":"i","model":"m","x":[{}],"error":null,"message":"no"}"#;
        let reply: Reply<'_> = serde_json::from_str(json).unwrap();
        let envelope = reply.envelope();
        assert!(matches!(reply.id.0, Cow::Borrowed("i")));
        assert!(matches!(envelope.model.0, Cow::Borrowed("m")));
        assert_eq!(envelope.usage.map(RawValue::get), Some(r#"{"a":1}"#));
        assert!(envelope.error.is_none());
        assert_eq!(envelope.message.0, "no");
    }

    #[test]
    fn reports_are_in_the_order_of_their_readers() {
        for (at, member) in crate::server_family::MEMBERS.iter().enumerate() {
            let json = format!("{{\"{}\":{{\"at\":{at}}}}}", member.name);
            let reply: Reply<'_> = serde_json::from_str(&json).unwrap();
            for (other, raw) in reply.envelope().reports.iter().enumerate() {
                let expected = (other == at).then(|| format!("{{\"at\":{at}}}"));
                assert_eq!(raw.map(RawValue::get), expected.as_deref(), "{}", member.name);
            }
        }
    }

    #[test]
    fn each_member_may_be_missing() {
        let reply: Reply<'_> = serde_json::from_str("{}").unwrap();
        let Envelope { model, usage, error, message, reports } = reply.envelope();
        assert!(reports.iter().all(Option::is_none));
        assert!(model.0.is_empty() && usage.is_none() && error.is_none() && message.0.is_empty());
    }
}
