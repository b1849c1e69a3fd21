//! The identity of a request in distributed tracing, following W3C Trace Context.
//!
//! It is derived from UUIDs that the files have: the trace ID is that of the request, or of the
//! conversation that its session began with, and the span ID is derived from that of the request.

use uuid::Uuid;

use super::RequestRecord;

/// Number of bits of a trace ID that decide on sampling: the last seven bytes, which W3C Trace
/// Context Level 2 and OpenTelemetry's probability sampling take to be random. In a random UUID
/// they are random.
const RANDOM_BITS: u32 = 56;

/// Position of a request, or of another operation with a UUID, in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// A UUID. It is never all zero, since a UUID has a version.
    pub trace_id: [u8; 16],
    /// Span ID of the whole operation; never all zero.
    pub span_id: [u8; 8],
}

impl TraceContext {
    /// Returns the context of the operation `id` as the root of a trace of its own.
    #[must_use]
    pub fn from_request_id(id: Uuid) -> Self {
        Self::within(id, id)
    }

    /// Returns the context of the operation `id` in the trace `trace_id`.
    #[must_use]
    pub fn within(trace_id: Uuid, id: Uuid) -> Self {
        let (high, low) = id.as_u64_pair();
        Self { trace_id: *trace_id.as_bytes(), span_id: span_id(mixed(high) ^ low) }
    }

    /// Returns the context of a request.
    #[must_use]
    pub fn of_request(record: &RequestRecord) -> Self {
        Self::within(record.trace_id, record.request_id)
    }

    /// Returns the span ID of the operation's child span number `index`.
    #[must_use]
    pub fn child(&self, index: u8) -> [u8; 8] {
        let own = u64::from_be_bytes(self.span_id);
        span_id(own ^ mixed(u64::from(index) + 1))
    }

    /// Returns the value of the header `traceparent`, version 00.
    #[must_use]
    pub fn traceparent(&self, flags: TraceFlags) -> [u8; 55] {
        let mut value = *b"00-00000000000000000000000000000000-0000000000000000-00";
        hex(&self.trace_id, &mut value[3..35]);
        hex(&self.span_id, &mut value[36..52]);
        value[54] += flags.bits();
        value
    }
}

/// The flags of a trace context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceFlags {
    /// Whether the trace is recorded.
    pub is_sampled: bool,
    /// Whether it is stated that the last 56 bits of the trace ID are random.
    pub is_random: bool,
}

impl TraceFlags {
    /// Returns the flags as W3C Trace Context Level 2 encodes them.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.is_sampled as u8 | (self.is_random as u8) << 1
    }
}

fn span_id(seed: u64) -> [u8; 8] {
    mixed(seed).max(1).to_be_bytes()
}

/// The finaliser of `SplitMix64` (Steele, Lea, Flood 2014). It is a bijection, and each bit of the
/// input changes about half of the bits of the output.
const fn mixed(seed: u64) -> u64 {
    let mut bits = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Writes `bytes` as lower-case hexadecimal digits, two per byte.
fn hex(bytes: &[u8], to: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (byte, pair) in bytes.iter().zip(to.chunks_exact_mut(2)) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
}

/// The fraction of traces that is sampled regardless of the outcome of the request.
///
/// The trace ID alone decides, as in OpenTelemetry's consistent probability sampling: its last 56
/// bits are compared with a threshold. The flag that the server receives in `traceparent` therefore
/// matches what is exported, and any other sampler with the same probability decides the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceShare {
    /// Trace IDs below the threshold are not sampled.
    threshold: u64,
}

impl TraceShare {
    /// Samples no trace.
    pub const NONE: Self = Self { threshold: 1 << RANDOM_BITS };

    /// Creates a share of `percent` of all traces; values below 0 count as 0, and above 100 as 100.
    #[must_use]
    pub fn of_percent(percent: f64) -> Self {
        let rejected = (1.0 - percent / 100.0).clamp(0.0, 1.0);
        Self { threshold: (rejected * (1_u64 << RANDOM_BITS) as f64).round() as u64 }
    }

    /// Returns whether the trace with this ID is sampled.
    #[must_use]
    pub fn covers(self, trace_id: Uuid) -> bool {
        let random = trace_id.as_u64_pair().1 & ((1 << RANDOM_BITS) - 1);
        random >= self.threshold
    }

    /// Returns the `tracestate` of the traces that the share covers: the threshold, from which a
    /// backend computes how many requests a sampled one stands for, as OpenTelemetry's specification of
    /// probability sampling has it. `None` if it covers none.
    #[must_use]
    pub fn tracestate(self) -> Option<String> {
        if self == Self::NONE {
            return None;
        }
        let digits = format!("{:014x}", self.threshold);
        // Trailing zeros are omitted, except that a threshold of zero is one digit.
        let short = digits.trim_end_matches('0');
        Some(format!("ot=th:{}", if short.is_empty() { "0" } else { short }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_header_has_the_form_of_the_w3c() {
        let id = Uuid::from_u128(0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        let context = TraceContext {
            span_id: 0xb7ad_6b71_6920_3331_u64.to_be_bytes(),
            ..TraceContext::from_request_id(id)
        };
        // The example in section 3.2.2.5 of the specification.
        assert_eq!(
            &context.traceparent(TraceFlags { is_sampled: true, is_random: false }),
            b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        );
        assert_eq!(
            &context.traceparent(TraceFlags::default()),
            b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
        );
        // Section 3.2.2.5.2 of Level 2: the second bit is the random flag.
        let random = |is_sampled| context.traceparent(TraceFlags { is_sampled, is_random: true });
        assert!(random(true).ends_with(b"-03") && random(false).ends_with(b"-02"));
    }

    #[test]
    fn the_threshold_is_told_as_the_specification_writes_it() {
        // The examples of "TraceState: Probability Sampling": 25%, 50%, 100% and one in 256.
        let tracestate = |percent| TraceShare::of_percent(percent).tracestate();
        assert_eq!(tracestate(25.0).as_deref(), Some("ot=th:c"));
        assert_eq!(tracestate(50.0).as_deref(), Some("ot=th:8"));
        assert_eq!(tracestate(100.0).as_deref(), Some("ot=th:0"));
        assert_eq!(tracestate(100.0 / 256.0).as_deref(), Some("ot=th:ff"));
        assert_eq!((tracestate(0.0), TraceShare::NONE.tracestate()), (None, None));
    }

    #[test]
    fn the_mixing_is_splitmix64() {
        // The first numbers of the reference implementation for the seed 1234567.
        let step = 0x9e37_79b9_7f4a_7c15_u64;
        let numbers: Vec<_> =
            (0..3).map(|n| mixed(1_234_567_u64.wrapping_add(step.wrapping_mul(n)))).collect();
        let expected =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(numbers, expected);
    }

    #[test]
    fn a_share_is_had_in_random_ids_and_its_ends_are_exact() {
        let ids: Vec<_> = (0..40_000).map(|_| Uuid::new_v4()).collect();
        let count = |share: TraceShare| ids.iter().filter(|id| share.covers(**id)).count();
        assert_eq!(count(TraceShare::NONE), 0);
        assert_eq!(count(TraceShare::of_percent(0.0)), 0);
        assert_eq!(count(TraceShare::of_percent(100.0)), ids.len());
        // The standard deviation of the binomial distribution is 44 here; ten of them never occur.
        let of_five = count(TraceShare::of_percent(5.0));
        assert!(of_five.abs_diff(2_000) < 440, "{of_five}");
    }

    #[test]
    fn the_threshold_is_that_of_consistent_probability_sampling() {
        // A quarter: IDs whose last 56 bits are at least c0000000000000.
        let share = TraceShare::of_percent(25.0);
        assert!(share.covers(Uuid::from_u128(0x00c0_0000_0000_0000)));
        assert!(!share.covers(Uuid::from_u128(0x00bf_ffff_ffff_ffff)));
        assert!(!share.covers(Uuid::from_u128(0xffbf_ffff_ffff_ffff)));
    }

    proptest! {
        #[test]
        fn spans_are_told_apart(id: u128, indices in proptest::collection::hash_set(0_u8.., 8)) {
            let context = TraceContext::from_request_id(Uuid::from_u128(id));
            let mut spans: Vec<_> = indices.iter().map(|index| context.child(*index)).collect();
            spans.push(context.span_id);
            prop_assert!(!spans.contains(&[0; 8]));
            spans.sort_unstable();
            spans.dedup();
            prop_assert_eq!(spans.len(), 9);
        }

        #[test]
        fn the_threshold_told_decides_as_the_share_does(id: u128, percent in 0.001..=100.0) {
            let share = TraceShare::of_percent(percent);
            let state = share.tracestate().unwrap();
            let digits = state.strip_prefix("ot=th:").unwrap();
            let threshold = u64::from_str_radix(&format!("{digits:0<14}"), 16).unwrap();
            let random = (id & ((1 << 56) - 1)) as u64;
            prop_assert_eq!(share.covers(Uuid::from_u128(id)), random >= threshold);
        }

        #[test]
        fn a_larger_share_covers_what_a_smaller_does(id: u128, a in 0.0..100.0, b in 0.0..100.0) {
            let (small, large) = if a < b { (a, b) } else { (b, a) };
            let id = Uuid::from_u128(id);
            let covers = |percent| TraceShare::of_percent(percent).covers(id);
            prop_assert!(covers(large) || !covers(small));
        }
    }
}
