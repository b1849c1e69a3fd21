//! The formats of the files in `/proc` and `/sys`.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use crate::platform::machine::CoreTime;

/// A route that is up (`RTF_UP`).
const UP: u32 = 0x1;
/// A route that rejects packets (`RTF_REJECT`).
const REJECT: u32 = 0x200;

/// Returns the time of `cores` by `/proc/stat`, proc(5): the times of a core are those of user, nice,
/// system, idle, iowait, irq, softirq and steal. `None` if no core is in it.
pub(super) fn core_time(stat: &str, cores: &[usize]) -> Option<CoreTime> {
    let mut sum = CoreTime::default();
    for line in stat.lines() {
        let mut words = line.split_ascii_whitespace();
        let core = words.next().and_then(|word| word.strip_prefix("cpu")?.parse::<usize>().ok());
        if core.is_none_or(|core| !cores.contains(&core)) {
            continue;
        }
        let times: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
        sum.cores += 1;
        sum.all = times.iter().fold(sum.all, |all, time| all.saturating_add(*time));
        sum.stolen = sum.stolen.saturating_add(times.get(7).copied().unwrap_or(0));
    }
    (sum.cores > 0).then_some(sum)
}

/// Returns the microseconds in which some thread waited, by a file in `/proc/pressure`:
/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`.
pub(super) fn some_pressure_us(pressure: &str) -> Option<u64> {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split_ascii_whitespace().find_map(|word| word.strip_prefix("total=")?.parse().ok())
}

/// Returns the ranges of a list of cores such as `0-3,8`; whatever is not a range is left out.
pub(super) fn core_ranges(list: &str) -> Vec<RangeInclusive<usize>> {
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.parse().ok()?..=to.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).collect()
}

/// Formats numbers in ascending order as a list such as `0-3,8`.
pub(super) fn ranges(numbers: &[usize]) -> String {
    let mut list = String::new();
    let adjacent = |one: &usize, next: &usize| one.checked_add(1) == Some(*next);
    for range in numbers.chunk_by(adjacent) {
        let separator = if list.is_empty() { "" } else { "," };
        // Writing to a string does not fail.
        let _ = match range {
            [] => Ok(()),
            [only] => write!(list, "{separator}{only}"),
            [from, .., to] => write!(list, "{separator}{from}-{to}"),
        };
    }
    list
}

/// Returns the device of the most specific route to `to` by `/proc/net/route`, whose numbers are
/// hexadecimal, and addresses in the machine's order of bytes:
/// `Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT`.
pub(super) fn device_to_v4(routes: &str, to: Ipv4Addr) -> Option<String> {
    let to = u32::from_ne_bytes(to.octets());
    let routes = routes.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [device, destination, _, flags, _, _, metric, mask, ..] = words[..] else {
            return None;
        };
        let hex = |word| u32::from_str_radix(word, 16).ok();
        let (destination, mask) = (hex(destination)?, hex(mask)?);
        let is_route = is_usable(hex(flags)?) && to & mask == destination;
        is_route.then_some((mask.count_ones(), metric.parse::<u32>().ok()?, device))
    });
    most_specific(routes)
}

/// Returns the device of the most specific route to `to` by `/proc/net/ipv6_route`, whose numbers are
/// hexadecimal: destination and length of its prefix, source and length of its prefix, next hop,
/// metric, references, uses, flags, device.
pub(super) fn device_to_v6(routes: &str, to: Ipv6Addr) -> Option<String> {
    let to = u128::from(to);
    let routes = routes.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [destination, length, _, _, _, metric, _, _, flags, device] = words[..] else {
            return None;
        };
        let hex = |word| u32::from_str_radix(word, 16).ok();
        let (length, destination) = (hex(length)?, u128::from_str_radix(destination, 16).ok()?);
        let mask = u128::MAX.checked_shl(128_u32.checked_sub(length)?).unwrap_or(0);
        let is_route = is_usable(hex(flags)?) && to & mask == destination & mask;
        is_route.then_some((length, hex(metric)?, device))
    });
    most_specific(routes)
}

const fn is_usable(flags: u32) -> bool {
    flags & UP != 0 && flags & REJECT == 0
}

/// Returns the device of the route with the longest prefix, and of those with the lowest metric.
fn most_specific<'a>(routes: impl Iterator<Item = (u32, u32, &'a str)>) -> Option<String> {
    let best = routes.max_by_key(|(length, metric, _)| (*length, std::cmp::Reverse(*metric)));
    best.map(|(_, _, device)| device.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STAT: &str = "\
cpu  50 2 30 400 5 1 3 9 0 0
cpu0 10 1 10 100 1 0 1 3 7 0
cpu1 20 1 10 200 2 1 1 5 0 0
cpu10 20 0 10 100 2 0 1 1 0 0
intr 1 2 3
";

    #[test]
    fn the_time_of_the_cores_that_may_be_used() {
        // 10+1+10+100+1+0+1+3 and 20+0+10+100+2+0+1+1; guests are part of user.
        let time = CoreTime { cores: 2, all: 126 + 134, stolen: 4 };
        assert_eq!(core_time(STAT, &[0, 10]), Some(time));
        assert_eq!(core_time(STAT, &[2]), None);
        // Before Linux 2.6.11 there was no steal.
        let old = CoreTime { cores: 1, all: 28, stolen: 0 };
        assert_eq!(core_time("cpu0 1 2 3 4 5 6 7\n", &[0]), Some(old));
    }

    #[test]
    fn pressure_is_the_total_of_some() {
        let text = "some avg10=1.53 avg60=0.20 avg300=0.00 total=81234\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(some_pressure_us(text), Some(81_234));
        assert_eq!(some_pressure_us("full avg10=0.00 total=7\n"), None);
    }

    #[test]
    fn the_most_specific_route_decides() {
        let routes = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
wlan0\t00000000\t010200C0\t0003\t0\t0\t50\t00000000\t0\t0\t0
eth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0
eth2\t0001000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
eth3\t0001000A\t00000000\t0201\t0\t0\t0\t00FFFFFF\t0\t0\t0
eth4\t0101000A\t00000000\t0000\t0\t0\t0\tFFFFFFFF\t0\t0\t0
";
        let device = |to: &str| device_to_v4(routes, to.parse().unwrap());
        assert_eq!(device("192.0.2.7").as_deref(), Some("wlan0"), "the lower metric");
        assert_eq!(device("10.9.1.1").as_deref(), Some("eth1"));
        assert_eq!(device("10.0.1.1").as_deref(), Some("eth2"), "not rejected, and up");
        assert_eq!(device_to_v4("", Ipv4Addr::LOCALHOST), None);
    }

    #[test]
    fn routes_of_ipv6() {
        let zero = "0".repeat(32);
        let routes = format!(
            "{zero} 00 {zero} 00 fe800000000000000000000000000001 00000400 0 0 00000003 eth0\n\
             20010db8000000000000000000000000 20 {zero} 00 {zero} 00000100 0 0 00000001 eth1\n\
             {zero} 00 {zero} 00 {zero} ffffffff 1 0 00200200 lo\n"
        )
        .replace(" 0 0 ", " 00000000 00000000 ");
        let device = |to: &str| device_to_v6(&routes, to.parse().unwrap());
        assert_eq!(device("2001:db8::1").as_deref(), Some("eth1"));
        assert_eq!(device("2001:db9::1").as_deref(), Some("eth0"));
    }

    #[test]
    fn lists_of_cores() {
        assert_eq!(core_ranges("0-3,8,10-11\n"), [0..=3, 8..=8, 10..=11]);
        assert_eq!((core_ranges("\n").len(), ranges(&[])), (0, String::new()));
        assert_eq!(ranges(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
    }

    proptest! {
        #[test]
        fn any_text_is_read(text: String, cores: Vec<usize>, v4: Ipv4Addr, v6: Ipv6Addr) {
            let _ = (core_time(&text, &cores), some_pressure_us(&text), core_ranges(&text));
            let _ = (device_to_v4(&text, v4), device_to_v6(&text, v6));
        }

        #[test]
        fn any_words_are_read(
            lines in prop::collection::vec(prop::collection::vec("[0-9a-fx=-]{1,40}", 0..12), 0..8),
            v4: Ipv4Addr,
            v6: Ipv6Addr,
        ) {
            let text = lines.iter().map(|words| words.join(" ")).collect::<Vec<_>>().join("\n");
            let _ = (core_time(&text.replace('a', "cpu0 "), &[0]), some_pressure_us(&text));
            let _ = (device_to_v4(&text, v4), device_to_v6(&text, v6));
        }

        #[test]
        fn a_list_has_the_same_cores_again(cores in prop::collection::btree_set(0_usize..300, 0..99)) {
            let cores: Vec<usize> = cores.into_iter().collect();
            let again: Vec<usize> = core_ranges(&ranges(&cores)).into_iter().flatten().collect();
            prop_assert_eq!(again, cores);
        }

        #[test]
        fn the_longest_prefix_wins(to: Ipv4Addr, lengths in prop::collection::btree_set(0_u32..=32, 1..9)) {
            let lines = lengths.iter().map(|length| {
                let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
                let in_file = |bits: u32| u32::from_ne_bytes(bits.to_be_bytes());
                let (prefix, mask) = (in_file(u32::from(to) & mask), in_file(mask));
                format!("d{length} {prefix:08X} 0 0001 0 0 0 {mask:08X} 0 0 0\n")
            });
            let expected = lengths.last().map(|length| format!("d{length}"));
            prop_assert_eq!(device_to_v4(&lines.collect::<String>(), to), expected);
        }
    }
}
