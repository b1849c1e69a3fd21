use proptest::prelude::*;

use super::*;

fixed_struct! {
    /// A time and a number, as a struct of fixed values.
    #[derive(Debug, Clone, Copy, Default, PartialEq)]
    struct Pair {
        time: u64,
        number: f64,
    }
}

/// A store without room in memory.
fn file_only() -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::spilling_to(directory.path().to_owned(), 0);
    (directory, store)
}

#[test]
fn blocks_beyond_the_limit_are_read_from_the_file() {
    let directory = tempfile::tempdir().unwrap();
    // Room for two blocks.
    let store = Store::spilling_to(directory.path().to_owned(), 2 * BLOCK * 8);
    let values = || (0..5 * BLOCK + 3).map(|value| value as f64 / 8.0);
    let column = Column::from_values(store.clone(), values());
    assert_eq!(store.sizes(), (2 * BLOCK * 8, 3 * BLOCK as u64 * 8));
    assert_eq!(column.len(), 5 * BLOCK + 3);
    assert!(column.iter().eq(values()));
    // The file does not have a name.
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    drop(column);
    assert_eq!(store.sizes().0, 0);
}

#[test]
fn parts_may_cross_blocks() {
    let (_directory, store) = file_only();
    let column = Column::from_values(store, (0..2 * BLOCK + 10).map(|value| value as u32));
    let part = |range: Range<usize>| column.at(range);
    assert_eq!(part(BLOCK - 1..BLOCK + 1), [4095, 4096]);
    assert_eq!(part(2 * BLOCK - 1..2 * BLOCK + 1), [8191, 8192]);
    assert_eq!(part(0..column.len()).len(), column.len());
    assert_eq!(part(column.len() - 1..column.len() + 9), [8201]);
    assert_eq!(part(column.len() + 1..column.len() + 9), [0_u32; 0]);
}

#[test]
fn values_stay_in_memory_if_the_file_cannot_be_created() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::spilling_to(directory.path().join("missing"), 0);
    let values = || (0..=2 * BLOCK).map(|value| value as u64);
    let column = Column::from_values(store.clone(), values());
    assert!(column.iter().eq(values()));
    assert_eq!(store.sizes(), (2 * BLOCK * 8, 0));
}

#[test]
fn values_of_equal_keys_keep_their_order_over_runs() {
    let (_directory, store) = file_only();
    // More than two runs.
    let count = (1_u32 << 18) + 5;
    let pairs = (0..count).map(|at| Pair { time: u64::from(at * 7 % 10), number: f64::from(at) });
    let sorted = Sorted::new(pairs.clone(), |pair| pair.time, &store);
    let mut expected: Vec<Pair> = pairs.collect();
    expected.sort_by_key(|pair| pair.time);
    assert!(sorted.iter().eq(expected));
    assert_eq!(Sorted::new(std::iter::empty(), |time: &u64| *time, &store).iter().count(), 0);
}

proptest! {
    #[test]
    fn encoding_loses_nothing(time: u64, number in any::<f64>().prop_filter("", |f| !f.is_nan())) {
        let mut bytes = Vec::new();
        let pair = Pair { time, number };
        pair.encode(&mut bytes);
        prop_assert_eq!(bytes.len(), Pair::SIZE);
        prop_assert_eq!(Pair::decode(&bytes), pair);
    }
}
