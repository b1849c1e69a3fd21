"""The flags of the runs."""

from pathlib import Path

from aiperf import TINY_MODEL, MockServer

SCHEDULE = Path(__file__).with_name("schedule.jsonl")

CHAT = ["--streaming", "--isl", "60", "--isl-stddev", "20", "--osl", "12"]
DYNAMO = ["--model", "tiny", "--tokenizer", TINY_MODEL, *CHAT]
MOCK = ["--model", MockServer.model, "--tokenizer", "builtin"]

# Everything in a record that is compared with its trace.
TRACED = ["--export-http-trace", "--trace-sample"]

# Gates that hold: on a latency, a rate and a server's metric.
GATES = ["--gate", "time_to_first_token:p90<=30s", "--gate", "request_error_rate<=50%",
         "--gate", "server:vllm:num_requests_waiting:max<=1000"]

# Runs against Dynamo: closed loop, a rate, conversations of several turns.
DYNAMO_RUNS = {
    "dynamo-closed": ["--concurrency", "4", "--request-count", "240", "--warmup-request-count", "8",
                      "--use-server-token-count", "--gpus", "2", "--gpu-hour-price", "2.5"],
    "dynamo-rate": ["--run-name", "at a rate", "--request-rate", "25", "--request-count", "250", "--warmup-request-count", "8",
                    "--arrival-pattern", "constant", "--goodput", "time_to_first_token:200", *GATES[:4]],
    "dynamo-turns": ["--concurrency", "3", "--num-sessions", "8", "--session-turns-mean", "3",
                     "--session-turns-stddev", "1", "--num-warmup-sessions", "2",
                     *TRACED, "50%,slowest:3,errors"],
}  # fmt: skip

# Runs against the mock server: the server's flags, then aiperf's.
PACED = ["--ttft", "20ms", "--itl", "2ms"]
MOCK_RUNS = {
    "mock-streaming": ([*PACED, "--reasoning-tokens", "3"],
                       [*CHAT, "--concurrency", "8", "--request-count", "80",
                        "--warmup-request-count", "10", "--network-latency-automatic",
                        *GATES, *TRACED, "100%"]),
    "mock-faults": ([*PACED, "--reasoning-tokens", "3", "--fault", "every=9:status=500",
                     "--fault", "every=11:status=404", "--fault", "every=13:cut=3"],
                    [*CHAT, "--request-rate", "15", "--request-count", "90",
                     "--warmup-request-count", "20", "--request-cancellation-rate", "10",
                     *TRACED, "5%,slowest:20,errors"]),
    # Later turns lack the responses of failed ones.
    "mock-turns": ([*PACED, "--fault", "every=5:status=500"],
                   [*CHAT, "--concurrency", "3", "--num-sessions", "12",
                    "--session-turns-mean", "3", "--goodput", "request_latency:60000"]),
    "mock-whole": ([], ["--isl", "60", "--osl", "12", "--concurrency", "4",
                        "--request-count", "60", "--warmup-request-count", "4"]),
    "mock-completions": (PACED, [*CHAT, "--endpoint-type", "completions", "--request-rate", "40",
                                 "--request-count", "40"]),
    "mock-embeddings": ([], ["--endpoint-type", "embeddings", "--isl", "40", "--concurrency", "2",
                             "--batch-size", "3", "--request-count", "40"]),
    "mock-media": (PACED, [*CHAT, "--concurrency", "4", "--request-count", "40",
                           "--image-width-mean", "32", "--image-height-mean", "32",
                           "--image-batch-size", "2", "--audio-length-mean", "1",
                           "--audio-length-stddev", "0.3"]),
    "mock-video": (["--ttft", "150ms", "--jitter", "20%"],
                   ["--endpoint-type", "video_generation", "--isl", "40", "--concurrency", "2",
                    "--request-count", "20"]),
    "mock-schedule": (PACED, ["--streaming", "--input-file", SCHEDULE, "--fixed-schedule",
                              "--custom-dataset-type", "mooncake-trace"]),
}  # fmt: skip

# Prometheus 2 does not scrape native histograms if others have the same names.
EXPONENTIAL_RUN = (PACED, [*CHAT, "--concurrency", "4", "--request-count", "60",
                           "--otel-histograms", "exponential"])  # fmt: skip

# Schedules that several processes share, started together, with the time to prepare.
SHARDS, GET_READY_SECONDS = 3, 8
DYNAMO_SHARED = ["--concurrency", "4", "--request-count", "150", "--warmup-request-count", "10"]
MOCK_SHARED = [*CHAT, "--request-rate", "30", "--request-count", "180",
               "--warmup-request-count", "10"]  # fmt: skip

# Long enough for a Collector to be killed and restarted during the run, once Prometheus has data of it.
INTERRUPTED = ["--request-rate", "12", "--request-count", "300", "--arrival-pattern", "constant"]
