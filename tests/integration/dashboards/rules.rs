//! Rules for all dashboards. Each error is a sentence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;

use promql_parser::label::{MatchOp, Matcher};
use promql_parser::parser::{self, Expr, LabelModifier, VectorSelector};
use promql_parser::util::{ExprVisitor, walk_expr};
use regex_automata::meta::Regex;
use serde_json::{Value, json};

use super::names::Names;

/// Values for the interval of rates, and for the dashboard's range and the time between two points.
const RATE: (&str, Duration) = ("61s", Duration::from_secs(61));
const RANGE: (&str, Duration) = ("907s", Duration::from_secs(907));

/// Panels that are included in Grafana.
const KINDS: [&str; 6] = ["timeseries", "stat", "bargauge", "heatmap", "table", "xychart"];

/// A variable's query: its function, the argument, and a label.
static ASKED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(label_values|label_names|query_result)\((.*?)(, *[\w$]+)?\)$").unwrap()
});
/// `$name` or `${name}`, but not a group `$1` of a pattern.
static VARIABLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\$(?:\{([A-Za-z]\w*)\}|([A-Za-z]\w*))").unwrap());
/// `{{label}}` in a legend.
static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\{\{\s*(\w+)\s*\}\}").unwrap());

/// Returns all errors in the dashboards.
pub(super) fn faults(dashboards: &[Value], names: &Names) -> Vec<String> {
    let mut faults = Vec::new();
    let uids: Vec<&str> = dashboards.iter().filter_map(|each| each["uid"].as_str()).collect();
    if uids.iter().collect::<BTreeSet<_>>().len() != dashboards.len() {
        faults.push("uids are missing or not unique".to_owned());
    }
    for dashboard in dashboards {
        let title = text(&dashboard["title"]);
        let mut found = whole(dashboard, &uids);
        found.extend(layout(&panels_at(&dashboard["panels"])));
        found.extend(variables(dashboard, names));
        for panel in panels(dashboard) {
            let of_panel = self::panel(panel, names);
            found.extend(
                of_panel.into_iter().map(|fault| format!("{}: {fault}", text(&panel["title"]))),
            );
        }
        faults.extend(found.into_iter().map(|fault| format!("{title}: {fault}")));
    }
    faults
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn panels_at(panels: &Value) -> Vec<&Value> {
    list(panels).iter().collect()
}

/// Returns all panels with data, including those in collapsed rows.
pub(super) fn panels(dashboard: &Value) -> Vec<&Value> {
    let of_row = |panel| if panel_kind(panel) == "row" { list(&panel["panels"]) } else { &[] };
    let all = list(&dashboard["panels"]);
    let inner = all.iter().flat_map(of_row);
    all.iter().filter(|panel| panel_kind(panel) != "row").chain(inner).collect()
}

fn panel_kind(panel: &Value) -> &str {
    text(&panel["type"])
}

/// Checks the settings of a dashboard.
fn whole(dashboard: &Value, uids: &[&str]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut expect = |holds: bool, fault: &str| {
        if !holds {
            faults.push(fault.to_owned());
        }
    };
    expect(dashboard["schemaVersion"] == 42, "schemaVersion is not 42");
    // The history covers weeks; the others follow a run.
    let is_history = dashboard["uid"] == "aiperf-history";
    let (since, refresh) = if is_history { ("now-30d", "5m") } else { ("now-15m", "5s") };
    expect(dashboard["time"] == json!({"from": since, "to": "now"}), "time is another");
    expect(dashboard["refresh"] == refresh, "refresh is another");
    expect(list(&dashboard["tags"]).contains(&json!("aiperf")), "lacks the tag aiperf");
    expect(dashboard.get("id").is_none(), "has an id, which an import would have to change");
    let links = list(&dashboard["links"]);
    expect(links.len() == uids.len() - 1, "does not link to each of the others");
    for link in links {
        let to = text(&link["url"]).trim_start_matches("/d/");
        expect(uids.contains(&to) && dashboard["uid"] != to, "links to what is not there");
        expect(
            link["includeVars"] == true && link["keepTime"] == true,
            "a link drops variables or time",
        );
    }
    expect(only_variable_datasources(dashboard), "names a data source that is not the variable");
    let ids: Vec<u64> = ids(&dashboard["panels"]);
    expect(ids.iter().collect::<BTreeSet<_>>().len() == ids.len(), "panel ids are not unique");
    faults
}

fn ids(panels: &Value) -> Vec<u64> {
    let own = list(panels).iter().map(|panel| panel["id"].as_u64().unwrap_or_default());
    own.chain(list(panels).iter().flat_map(|panel| ids(&panel["panels"]))).collect()
}

/// Returns whether each `datasource` in the tree is the variable.
fn only_variable_datasources(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.iter().all(|(key, value)| match key.as_str() {
            "datasource" => *value == json!({"type": "prometheus", "uid": "${datasource}"}),
            _ => only_variable_datasources(value),
        }),
        Value::Array(values) => values.iter().all(only_variable_datasources),
        _ => true,
    }
}

/// Checks that panels lie within 24 columns and do not overlap.
fn layout(panels: &[&Value]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut taken = BTreeMap::new();
    for panel in panels {
        let title = text(&panel["title"]);
        let of = |key: &str| panel["gridPos"][key].as_u64();
        let (Some(x), Some(y), Some(w), Some(h)) = (of("x"), of("y"), of("w"), of("h")) else {
            faults.push(format!("{title}: lacks a position"));
            continue;
        };
        if w == 0 || h == 0 || x + w > 24 {
            faults.push(format!("{title}: does not fit in 24 columns"));
        }
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            if let Some(other) = taken.insert(cell, title) {
                faults.push(format!("{title}: lies on {other}"));
                break;
            }
        }
        faults.extend(layout(&panels_at(&panel["panels"])));
    }
    faults
}

/// Checks that variables are used, and defined before their use.
fn variables(dashboard: &Value, names: &Names) -> Vec<String> {
    let mut faults = Vec::new();
    let mut defined: BTreeSet<&str> = BTreeSet::new();
    let mut used: BTreeSet<String> = BTreeSet::new();
    for variable in list(&dashboard["templating"]["list"]) {
        let name = text(&variable["name"]);
        let asked = text(&variable["query"]["query"]);
        for wanted in variables_in(asked) {
            if !defined.contains(wanted.as_str()) {
                faults.push(format!("${name} uses ${wanted}, which is not defined before it"));
            }
            used.insert(wanted);
        }
        if !asked.is_empty() {
            let mut groups = ASKED.create_captures();
            ASKED.captures(asked, &mut groups);
            match groups.get_group(2) {
                Some(span) => faults.extend(query(&asked[span.range()], "", names)),
                None => faults.push(format!("${name} has an invalid query: {asked}")),
            }
        }
        if !defined.insert(name) {
            faults.push(format!("${name} is defined twice"));
        }
        if text(&variable["label"]).is_empty() || text(&variable["description"]).is_empty() {
            faults.push(format!("${name} lacks a label or a description"));
        }
    }
    let in_panels = variables_in(&dashboard["panels"].to_string());
    faults.extend(
        in_panels
            .iter()
            .filter(|name| !defined.contains(name.as_str()))
            .map(|name| format!("${name} is used but not defined")),
    );
    used.extend(in_panels);
    faults.extend(
        defined
            .iter()
            .filter(|name| !used.contains(**name))
            .map(|name| format!("${name} is defined but not used")),
    );
    faults
}

/// Returns the names of the variables in a text, without those of Grafana and groups of patterns.
fn variables_in(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for groups in VARIABLE.captures_iter(text) {
        let name = groups.get_group(1).or(groups.get_group(2)).unwrap();
        found.push(text[name.range()].to_owned());
    }
    found
}

/// Checks that a panel has a description and valid queries.
fn panel(panel: &Value, names: &Names) -> Vec<String> {
    let mut faults = Vec::new();
    let mut expect = |holds: bool, fault: &str| {
        if !holds {
            faults.push(fault.to_owned());
        }
    };
    expect(KINDS.contains(&panel_kind(panel)), "is not a panel included in Grafana");
    expect(panel.get("libraryPanel").is_none(), "is a library panel");
    expect(!text(&panel["title"]).is_empty(), "lacks a title");
    expect(text(&panel["description"]).ends_with('.'), "lacks a description");
    expect(!text(&panel["fieldConfig"]["defaults"]["unit"]).is_empty(), "lacks a unit");
    expect(!list(&panel["targets"]).is_empty(), "lacks a query");
    for target in list(&panel["targets"]) {
        let legend = text(&target["legendFormat"]);
        expect(!legend.is_empty(), "a query lacks a legend");
        for fault in query(text(&target["expr"]), legend, names) {
            expect(false, &fault);
        }
    }
    faults
}

/// Checks that a query can be parsed and uses existing metrics and labels.
fn query(raw: &str, legend: &str, names: &Names) -> Vec<String> {
    query_with(raw, legend, Visit::new(names))
}

/// Likewise for a query outside of the dashboards, which may use any range.
pub(super) fn query_of_its_own(raw: &str, names: &Names) -> Vec<String> {
    query_with(raw, "", Visit { any_range: true, ..Visit::new(names) })
}

fn query_with(raw: &str, legend: &str, mut visit: Visit<'_>) -> Vec<String> {
    let expr = match parser::parse(&without_variables(raw)) {
        Ok(expr) => expr,
        Err(error) => return vec![format!("{error}: {raw}")],
    };
    visit.of(&expr);
    let Visit { mut faults, grouped, left_out, made, labels, aggregates, .. } = visit;
    let is_missing = |label: &&String| !labels.contains(*label) && !made.contains(*label);
    for label in grouped.iter().chain(&left_out).filter(is_missing) {
        faults.push(format!("groups by {label}, which none of its metrics has: {raw}"));
    }
    for groups in PLACEHOLDER.captures_iter(legend) {
        let label = &legend[groups.get_group(1).unwrap().range()];
        let kept = if aggregates { &grouped } else { &labels };
        if !kept.contains(label) && !made.contains(label) {
            faults.push(format!("the legend's {label} is not kept: {raw}"));
        }
    }
    faults
}

/// Substitutes a value for each variable.
fn without_variables(raw: &str) -> String {
    let known = raw
        .replace("$__rate_interval", RATE.0)
        .replace("$__range", RANGE.0)
        .replace("$__interval", RANGE.0)
        .replace("$attribute", "service_name")
        .replace("${shift}", "5");
    let mut out = String::new();
    let mut end = 0;
    for found in VARIABLE.find_iter(&known) {
        out += &known[end..found.start()];
        out += "x";
        end = found.end();
    }
    out + &known[end..]
}

/// The names in a query.
struct Visit<'a> {
    names: &'a Names,
    faults: Vec<String>,
    /// Labels of the queried metrics.
    labels: BTreeSet<String>,
    grouped: BTreeSet<String>,
    /// Labels in `without`.
    left_out: BTreeSet<String>,
    /// Labels that the query itself creates.
    made: BTreeSet<String>,
    aggregates: bool,
    /// Whether ranges may differ from the dashboard's.
    any_range: bool,
}

impl<'a> Visit<'a> {
    fn new(names: &'a Names) -> Self {
        let (faults, aggregates, any_range) = (Vec::new(), false, false);
        let [labels, grouped, left_out, made] = [const { BTreeSet::new() }; 4];
        Self { names, faults, labels, grouped, left_out, made, aggregates, any_range }
    }

    fn of(&mut self, expr: &Expr) {
        let _ = walk_expr(self, expr);
    }

    fn selector(&mut self, selector: &VectorSelector) {
        let (by_name, others): (Vec<&Matcher>, Vec<&Matcher>) =
            selector.matchers.matchers.iter().partition(|matcher| matcher.name == "__name__");
        let pattern = by_name.first().map(|matcher| matcher.value.as_str());
        let asked = selector.name.as_deref().or(pattern).unwrap_or_default();
        let mut labels = BTreeSet::new();
        for name in asked.split('|') {
            let optional = name.strip_suffix("(_total)?");
            let both = optional.map_or(vec![name.to_owned()], |base| {
                vec![base.to_owned(), format!("{base}_total")]
            });
            for name in both {
                match self.names.get(&name) {
                    Some(found) => labels.extend(found.iter().cloned()),
                    None => self.faults.push(format!("unknown metric {name}")),
                }
            }
        }
        for matcher in others {
            if !labels.contains(&matcher.name) {
                self.faults.push(format!("{asked} does not have a label {}", matcher.name));
            }
            self.value(asked, matcher);
        }
        self.labels.extend(labels);
    }

    /// Checks that literal values exist.
    fn value(&mut self, asked: &str, matcher: &Matcher) {
        let known: &[&str] = match matcher.name.as_str() {
            "gen_ai_token_type" => &["input", "output"],
            "aiperf_percentile" => &["1", "5", "10", "25", "50", "75", "90", "95", "99"],
            "aiperf_benchmark_phase" => &["warmup", "profiling", "x"],
            _ => return,
        };
        let negative = matches!(matcher.op, MatchOp::NotEqual | MatchOp::NotRe(_));
        for value in matcher.value.split('|').filter(|value| negative || !known.contains(value)) {
            self.faults.push(format!("{asked} never has {} {value}", matcher.name));
        }
    }

    fn range(&mut self, function: &str, expr: &Expr) {
        let Expr::MatrixSelector(matrix) = expr else { return };
        let wanted = match function {
            "rate" | "increase" | "irate" => RATE,
            _ => RANGE,
        };
        if !self.any_range && matrix.range != wanted.1 {
            self.faults.push(format!("{function} over a range of its own"));
        }
    }
}

impl ExprVisitor for Visit<'_> {
    type Error = ();

    fn pre_visit(&mut self, expr: &Expr) -> Result<bool, ()> {
        match expr {
            Expr::VectorSelector(selector) => self.selector(selector),
            Expr::MatrixSelector(matrix) => self.selector(&matrix.vs),
            Expr::Aggregate(aggregate) => {
                self.aggregates = true;
                match &aggregate.modifier {
                    Some(LabelModifier::Include(labels)) => {
                        self.grouped.extend(labels.labels.iter().cloned());
                    }
                    Some(LabelModifier::Exclude(labels)) => {
                        self.left_out.extend(labels.labels.iter().cloned());
                    }
                    None => {}
                }
            }
            Expr::Call(call) => {
                if matches!(call.func.name, "label_replace" | "label_join")
                    && let Expr::StringLiteral(made) = &*call.args.args[1]
                {
                    self.made.insert(made.val.clone());
                }
                for argument in &call.args.args {
                    self.range(call.func.name, argument);
                }
            }
            _ => {}
        }
        Ok(true)
    }
}
