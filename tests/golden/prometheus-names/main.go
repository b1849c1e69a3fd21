// Writes names.jsonl: what Prometheus and the Collector call a metric or an
// attribute, by the library that both use. `go run . > names.jsonl`
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/otlptranslator"
)

func main() {
	kinds := map[string]otlptranslator.MetricType{"histogram": otlptranslator.MetricTypeHistogram, "counter": otlptranslator.MetricTypeMonotonicCounter,
		"updowncounter": otlptranslator.MetricTypeNonMonotonicCounter, "gauge": otlptranslator.MetricTypeGauge}
	order := []string{"histogram", "counter", "updowncounter", "gauge"}
	names := []string{"gen_ai.client.operation.duration", "aiperf.request_count", "vllm:num_requests_running", "vllm:prompt_tokens_total", "request_latency_seconds", "requests.per.second", "total.bytes", "ratio.of.hits", "9th.life", "_a__b.c-d_", "größe", "time_in_seconds_total", "per_second"}
	units := []string{"", "1", "s", "ms", "By", "{token}", "{token}/s", "By/s", "1/s", "%", "seconds", "m[H2O]", "s/m[H2O]", "{x}/{y}", "/min", "/h", " s / m ", "[", "s/[", "KiBy/d", "a/b/c"}
	n := otlptranslator.NewMetricNamer("", otlptranslator.UnderscoreEscapingWithSuffixes)
	for _, k := range order {
		few := len(names)
		if k == "histogram" || k == "updowncounter" {
			few = 3
		}
		for _, nm := range names[:few] {
			for _, u := range units {
				s, err := n.Build(otlptranslator.Metric{Name: nm, Unit: u, Type: kinds[k]})
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					continue
				}
				fmt.Printf("[%q, %q, %q, %q]\n", k, nm, u, s)
			}
		}
	}
	l := otlptranslator.LabelNamer{PreserveMultipleUnderscores: true}
	for _, nm := range strings.Fields("aiperf.benchmark.id server.address error.type 2xx a__b a.-b le größe _x url.scheme") {
		s, _ := l.Build(nm)
		fmt.Printf("[\"label\", %q, %q]\n", nm, s)
	}
}
