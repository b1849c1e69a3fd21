use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::snapshot::Value;
use super::*;

fn column(changes: &[(usize, f64)]) -> Column {
    let mut column = Column::default();
    for (scrape, value) in changes {
        column.set(*scrape, *value);
    }
    column
}

#[test]
fn a_column_keeps_changes_only() {
    let column = column(&[(2, 5.0), (3, 5.0), (4, 7.0), (5, f64::NAN), (7, 7.0)]);
    assert_eq!(column.changes.len(), 4);
    let at: Vec<Option<f64>> = (0..9).map(|scrape| column.at(scrape)).collect();
    let absent = None;
    assert_eq!(
        at,
        [absent, absent, Some(5.0), Some(5.0), Some(7.0), absent, absent, Some(7.0), Some(7.0)]
    );
    let from_three: Vec<_> = column.iter(3..8).collect();
    assert_eq!(from_three, [(3, 5.0), (4, 7.0), (7, 7.0)]);
}

/// A scrape: what each series has, by its label, in the body's order.
type Body = Vec<(u8, Held)>;

#[derive(Debug, Clone, PartialEq)]
enum Held {
    Gauge(f64),
    Histogram(Vec<(u8, f64)>, f64),
}

fn held() -> impl Strategy<Value = Held> {
    let number = || (0..4u8).prop_map(f64::from);
    let buckets = prop::collection::btree_map(0..5u8, number(), 0..4);
    prop_oneof![
        number().prop_map(Held::Gauge),
        (buckets, number())
            .prop_map(|(buckets, sum)| Held::Histogram(buckets.into_iter().collect(), sum)),
    ]
}

/// A body, or `None` for one that repeats the one before.
fn bodies() -> impl Strategy<Value = Vec<Option<Body>>> {
    let body = prop::collection::hash_map(0..6u8, held(), 0..6);
    let body = body.prop_map(|series| series.into_iter().collect::<Body>()).prop_shuffle();
    prop::collection::vec(prop::option::weighted(0.7, body), 1..12)
}

fn snapshot(body: &Body) -> Snapshot<'static> {
    let family = |name: &'static str, kind| Family {
        name: name.into(),
        kind,
        description: None,
        unit: None,
        series: Vec::new(),
    };
    let mut families = [family("g", Kind::Gauge), family("h", Kind::Histogram)];
    for (label, held) in body {
        let labels = vec![("l".into(), label.to_string().into())];
        let (at, value) = match held {
            Held::Gauge(number) => (0, Value::Number(*number)),
            Held::Histogram(buckets, sum) => {
                let buckets = buckets.iter().map(|(le, n)| (le.to_string().into(), *n)).collect();
                (1, Value::Histogram { buckets, sum: *sum, count: *sum })
            }
        };
        families[at].series.push(Point { labels, value });
    }
    Snapshot { families: families.into() }
}

/// What the store has of scrape number `scrape`.
fn kept(store: &Store, scrape: usize) -> BTreeMap<u8, Held> {
    let mut all = BTreeMap::new();
    for series in store.endpoints()[0].families.iter().flat_map(|family| &family.series) {
        let held = match &series.values {
            Values::Number(column) => column.at(scrape).map(Held::Gauge),
            Values::Histogram(columns) => columns.sum.at(scrape).map(|sum| {
                assert_eq!(columns.count.at(scrape), Some(sum));
                let at = |(le, column): &(Arc<str>, Column)| {
                    Some((le.parse().unwrap(), column.at(scrape)?))
                };
                Held::Histogram(columns.buckets.iter().filter_map(at).collect(), sum)
            }),
            Values::Summary(_) => None,
        };
        if let Some(held) = held {
            let label = series.labels[0].1.parse().unwrap();
            assert!(all.insert(label, held).is_none(), "one series of a label at a time");
        }
    }
    all
}

proptest! {
    #[test]
    fn what_was_pushed_is_kept(bodies in bodies()) {
        let mut store = Store::new([Arc::from("http://a/metrics")]);
        let mut naive: Vec<Body> = Vec::new();
        for body in bodies {
            match (body, naive.last().cloned()) {
                (None, Some(before)) => {
                    store.repeat(0, FetchTimes::default());
                    naive.push(before);
                }
                (body, _) => {
                    let body = body.unwrap_or_default();
                    store.push(0, FetchTimes::default(), &snapshot(&body));
                    naive.push(body);
                }
            }
        }
        prop_assert_eq!(store.endpoints()[0].scrapes().len(), naive.len());
        for (scrape, body) in naive.into_iter().enumerate() {
            prop_assert_eq!(kept(&store, scrape), body.into_iter().collect());
        }
    }
}
