//! The trace context that aiperf was started with: `TRACEPARENT` and `TRACESTATE`, as OpenTelemetry's
//! "Environment Variables as Context Propagation Carriers" names them.

use base::redact;

/// Maximum length of a `tracestate`, from W3C Trace Context.
const LONGEST_STATE: usize = 512;

/// A span of another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parent {
    pub(super) trace_id: [u8; 16],
    pub(super) span_id: [u8; 8],
    /// Its `tracestate`.
    pub(super) state: String,
}

impl Parent {
    /// Parses `traceparent` and `tracestate` as W3C Trace Context specifies. `None` if the first is
    /// not valid, and without the second if that is not.
    pub(super) fn parse(traceparent: &str, state: Option<&str>) -> Option<Self> {
        let mut parts = traceparent.split('-');
        let version = hex::<1>(parts.next()?)?;
        let trace_id = hex::<16>(parts.next()?)?;
        let span_id = hex::<8>(parts.next()?)?;
        hex::<1>(parts.next()?)?;
        // Later versions may append parts.
        let is_known = version != [0xff] && (version != [0] || parts.next().is_none());
        if !is_known || trace_id == [0; 16] || span_id == [0; 8] {
            return None;
        }
        let fits = |state: &&str| state.len() <= LONGEST_STATE && state.is_ascii();
        let state = state.filter(fits).unwrap_or_default().to_owned();
        Some(Self { trace_id, span_id, state })
    }

    /// Like [`Parent::parse`]; a value that is not valid is ignored with a warning, as the
    /// specification requires.
    pub(crate) fn given(traceparent: &str, state: Option<&str>) -> Option<Self> {
        let parent = Self::parse(traceparent, state);
        if parent.is_none() {
            tracing::warn!(
                "TRACEPARENT {:?} is not a valid W3C traceparent and is ignored; the run starts a \
                 trace of its own",
                redact::printable(traceparent)
            );
        }
        parent
    }
}

/// Parses lower-case hexadecimal digits.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N || digits.iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        // `from_str_radix` accepts a sign.
        *byte = u8::from_str_radix(pair, 16).ok().filter(|_| !pair.starts_with('+'))?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_valid_parent_is_read() {
        // The example in section 3.2.2.5 of the specification.
        let parent = Parent::parse(VALID, Some("a=b")).unwrap();
        assert_eq!(u128::from_be_bytes(parent.trace_id), 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!(u64::from_be_bytes(parent.span_id), 0xb7ad_6b71_6920_3331);
        assert_eq!(parent.state, "a=b");
        // Flags of Level 2, and a later version with more parts.
        assert!(Parent::parse(&VALID.replace("-01", "-03"), None).is_some());
        assert!(Parent::parse(&VALID.replacen("00-", "cc-", 1), None).is_some());
        assert!(Parent::parse(&format!("cc-{}-what", &VALID[3..]), None).is_some());
        let long = "x".repeat(513);
        assert_eq!(Parent::parse(VALID, Some(&long)).unwrap().state, "");
    }

    #[test]
    fn a_malformed_parent_is_refused() {
        for wrong in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
            "00-0af7651916cd43dd8448eb211c80319é-b7ad6b7169203331-01",
        ] {
            assert_eq!(Parent::parse(wrong, None), None, "{wrong}");
        }
    }
}
