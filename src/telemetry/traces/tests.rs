use proptest::prelude::*;

use super::slowest::Slowest;

proptest! {
    #[test]
    fn the_slowest_are_kept_and_those_told_already_take_their_place(
        requests in proptest::collection::vec((0_u64..50, any::<bool>()), 0..60),
        count in 1_usize..10,
    ) {
        let mut slowest = Slowest::new(count);
        for (number, (latency, told)) in requests.iter().enumerate() {
            if slowest.has_place_for(*latency) {
                slowest.put(*latency, (!told).then_some(number));
            }
        }
        let mut sorted: Vec<_> = requests.iter().enumerate().collect();
        // Stable: of equals the earliest come first.
        sorted.sort_by_key(|(_, (latency, _))| std::cmp::Reverse(*latency));
        let expected: Vec<_> =
            sorted.iter().take(count).filter(|(_, (_, told))| !told).map(|(n, _)| *n).collect();
        prop_assert_eq!(slowest.untold().collect::<Vec<_>>(), expected);
    }
}
