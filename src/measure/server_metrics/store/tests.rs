use std::collections::BTreeMap;

use proptest::prelude::*;

use base::redact::ShownUrl;

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

/// A scrape: the values of each series by its label, in the order of the body.
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

/// A body, or `None` for one that repeats the previous one.
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
    let mut families = [family("g", SeriesKind::Gauge), family("h", SeriesKind::Histogram)];
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

/// Returns what the store contains for the scrape with the index `scrape`.
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
        let mut store = Store::new([ShownUrl::from("http://a/metrics")]);
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

fn gauges(name: &str, labels: &[(String, String)]) -> Family<'static> {
    let point = |(name, value): &(String, String)| Point {
        labels: vec![(name.clone().into(), value.clone().into())],
        value: Value::Number(1.0),
    };
    Family {
        name: name.to_owned().into(),
        kind: SeriesKind::Gauge,
        description: None,
        unit: None,
        series: labels.iter().map(point).collect(),
    }
}

fn histogram_of(bounds: &[&'static str]) -> Family<'static> {
    let buckets = bounds.iter().map(|bound| ((*bound).into(), 1.0)).collect();
    let value = Value::Histogram { buckets, sum: 1.0, count: 1.0 };
    let series = vec![Point { labels: Vec::new(), value }];
    Family { name: "h".into(), kind: SeriesKind::Histogram, description: None, unit: None, series }
}

fn pushed(limits: Limits, scrapes: impl IntoIterator<Item = Vec<Family<'static>>>) -> Store {
    let mut store = Store::limited(["http://s/metrics".into()], limits);
    for families in scrapes {
        store.push(0, FetchTimes::default(), &Snapshot { families });
    }
    store
}

fn series_of(store: &Store) -> Vec<(&str, usize)> {
    let families = &store.endpoints()[0].families;
    families.iter().map(|family| (&*family.name, family.series.len())).collect()
}

#[test]
fn series_that_never_end_are_kept_up_to_a_limit_and_the_known_ones_go_on() {
    let scrape = |number: usize| {
        let label = |id: usize| ("id".to_owned(), id.to_string());
        let churning: Vec<_> = (0..3).map(|each| label(3 * number + each)).collect();
        // New series are before and after one that remains.
        vec![gauges("churning", &churning), gauges("steady", &[label(0)])]
    };
    let limits = Limits { series: 10, ..Limits::default() };
    let store = pushed(limits, (0..5).map(scrape));
    // A steady series leaves room for nine.
    assert_eq!(series_of(&store), [("churning", 9), ("steady", 1)]);
    let Values::Number(steady) = &store.endpoints()[0].families[1].series[0].values else {
        panic!("no number");
    };
    assert_eq!(steady.at(4), Some(1.0));
    assert_eq!(store.endpoints()[0].scrapes().len(), 5);
}

#[test]
fn as_many_as_the_limit_are_all_kept() {
    let label = |id: usize| ("id".to_owned(), id.to_string());
    let all: Vec<_> = (0..100_000).map(label).collect();
    let store = pushed(Limits::default(), [vec![gauges("f", &all)]]);
    assert_eq!(series_of(&store), [("f", 100_000)]);
    assert!(store.is_whole());
    let more: Vec<_> = (0..100_001).map(label).collect();
    assert!(!pushed(Limits::default(), [vec![gauges("f", &more)]]).is_whole());
}

#[test]
fn families_names_of_labels_and_text_are_limited_too() {
    let one = |name: String, label: String, value: String| vec![gauges(&name, &[(label, value)])];
    let families = pushed(
        Limits { series: 6, ..Limits::default() },
        (0..9).map(|number| one(format!("f{number}"), "l".to_owned(), String::new())),
    );
    assert_eq!(families.endpoints()[0].families.len(), 6);
    let names = pushed(
        Limits { label_names: 4, ..Limits::default() },
        (0..9).map(|number| one("f".to_owned(), format!("l{number}"), String::new())),
    );
    assert_eq!(series_of(&names), [("f", 4)]);
    let text = pushed(
        Limits { text: 1000, ..Limits::default() },
        (0..9).map(|number| one("f".to_owned(), "l".to_owned(), format!("{number:0>300}"))),
    );
    assert_eq!(series_of(&text), [("f", 3)]);
}

#[test]
fn a_histogram_is_kept_whole_and_takes_new_buckets_up_to_a_limit() {
    let bounds = |store: &Store| {
        let Values::Histogram(columns) = &store.endpoints()[0].families[0].series[0].values else {
            panic!("no histogram");
        };
        columns.buckets.iter().map(|(bound, _)| bound.to_string()).collect::<Vec<_>>()
    };
    let scrapes =
        || [vec![histogram_of(&["1", "+Inf"])], vec![histogram_of(&["2", "3", "4", "+Inf"])]];
    let limited = |numbers| pushed(Limits { numbers, ..Limits::default() }, scrapes());
    assert_eq!(bounds(&limited(7)), ["1", "2", "3", "4", "+Inf"]);
    assert_eq!(bounds(&limited(5)), ["1", "2", "+Inf"]);
    assert_eq!(bounds(&limited(4)), ["1", "+Inf"]);
    assert_eq!(series_of(&limited(3)), [("h", 0)]);
}

#[test]
fn an_endpoint_without_end_takes_no_room_of_another() {
    let limits = Limits { series: 5, ..Limits::default() };
    let mut store = Store::limited(["http://a".into(), "http://b".into()], limits);
    let label = |id: usize| ("id".to_owned(), id.to_string());
    let many: Vec<_> = (0..9).map(label).collect();
    for (endpoint, labels, kept) in [(0, &many[..], 5), (1, &many[..4], 4)] {
        let families = vec![gauges("f", labels)];
        store.push(endpoint, FetchTimes::default(), &Snapshot { families });
        assert_eq!(store.endpoints()[endpoint].families[0].series.len(), kept);
    }
    assert!(!store.is_whole());
}

#[test]
fn values_over_time_are_limited() {
    let scrape = |number: usize| {
        let point = Point { labels: Vec::new(), value: Value::Number(number as f64) };
        let series = vec![point];
        vec![Family {
            name: "f".into(),
            kind: SeriesKind::Gauge,
            description: None,
            unit: None,
            series,
        }]
    };
    // A change takes 16 bytes; memory is reserved for four, then for eight.
    let limits = Limits { value_bytes: 64, ..Limits::default() };
    assert!(!pushed(limits, (0..4).map(scrape)).is_too_large());
    assert!(pushed(limits, (0..5).map(scrape)).is_too_large());
}
