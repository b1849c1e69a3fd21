//! The keys of the mappings of which something is read, from the schemas of the versions 1.0 and 1.1
//! (<https://github.com/open-telemetry/opentelemetry-configuration>). A test compares them.

use super::part::Keys;

pub(super) const RESOURCE: Keys =
    Keys::Of("attributes attributes_list detection/development schema_url");
pub(super) const ATTRIBUTE: Keys = Keys::Of("name value type");
pub(super) const METER_PROVIDER: Keys =
    Keys::Of("readers views exemplar_filter meter_configurator/development");
pub(super) const PERIODIC: Keys = Keys::Of(
    "interval timeout max_export_batch_size/development exporter producers cardinality_limits",
);
pub(super) const TRACER_PROVIDER: Keys =
    Keys::Of("processors limits sampler id_generator tracer_configurator/development");
pub(super) const LOGGER_PROVIDER: Keys =
    Keys::Of("processors limits logger_configurator/development");
pub(super) const BATCH: Keys =
    Keys::Of("schedule_delay export_timeout max_queue_size max_export_batch_size exporter");
pub(super) const GRPC: Keys = Keys::Of("endpoint tls headers headers_list compression timeout");
pub(super) const HTTP: Keys =
    Keys::Of("endpoint tls headers headers_list compression timeout encoding");
pub(super) const FILE: Keys = Keys::Of("output_stream");
pub(super) const METRIC_GRPC: Keys = Keys::Of(
    "endpoint tls headers headers_list compression timeout temporality_preference \
     default_histogram_aggregation",
);
pub(super) const METRIC_HTTP: Keys = Keys::Of(
    "endpoint tls headers headers_list compression timeout encoding temporality_preference \
     default_histogram_aggregation",
);
pub(super) const METRIC_FILE: Keys =
    Keys::Of("output_stream temporality_preference default_histogram_aggregation");
pub(super) const GRPC_TLS: Keys = Keys::Of("ca_file key_file cert_file insecure");
pub(super) const HTTP_TLS: Keys = Keys::Of("ca_file key_file cert_file");
pub(super) const PARENT_BASED: Keys = Keys::Of(
    "root remote_parent_sampled remote_parent_not_sampled local_parent_sampled \
     local_parent_not_sampled",
);
pub(super) const PROPAGATOR: Keys = Keys::Of("composite composite_list");
pub(super) const GENERAL: Keys =
    Keys::Of("http code db gen_ai messaging rpc sanitization stability_opt_in_list");
pub(super) const SEMCONV: Keys = Keys::Of("version experimental dual_emit");
