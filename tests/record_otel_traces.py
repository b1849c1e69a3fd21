"""Records an agent with an instrumentation of OpenAI's client, as the Collector's file exporter would.

    python record_otel_traces.py INSTRUMENTATION FILE

The agent asks a model, which calls a tool, and asks again with the result; the second response is
streamed. The server is scripted, since the responses must contain a tool call. The exit code is 77 if
the instrumentation is not installed.
"""

import importlib
import json
import os
import sys
import threading
from base64 import b64decode
from http.server import BaseHTTPRequestHandler, HTTPServer

# The module of each instrumentation.
INSTRUMENTATIONS = {
    "genai": "opentelemetry.instrumentation.genai.openai",
    "openllmetry": "opentelemetry.instrumentation.openai",
    "openinference": "openinference.instrumentation.openai",
}

# What makes OpenTelemetry's own record messages; the others do by default.
os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "span_only"

try:
    import openai
    from google.protobuf.json_format import MessageToDict
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    instrumentor = importlib.import_module(INSTRUMENTATIONS[sys.argv[1]]).OpenAIInstrumentor()
except ImportError as missing:
    print(missing, file=sys.stderr)
    sys.exit(77)

USAGE = {"prompt_tokens": 31, "completion_tokens": 9, "total_tokens": 40}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"location": "Paris"}'},
}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a place",
        "parameters": {
            "type": "object",
            "properties": {"location": {"type": "string"}},
            "required": ["location"],
        },
    },
}
MESSAGES = [
    {"role": "system", "content": "Answer briefly."},
    {"role": "user", "content": "What is the weather in Paris?"},
]


def response(kind, choices, **more):
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": "m-1", "choices": choices, **more}


class Scripted(BaseHTTPRequestHandler):
    """Calls the tool, or answers in a stream."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if body.get("stream"):
            self.stream()
            return
        message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
        choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
        self.send("application/json", json.dumps(response("chat.completion", [choice], usage=USAGE)))

    def stream(self):
        deltas = [({"role": "assistant", "content": "It is "}, None), ({"content": "raining."}, "stop")]
        chunks = [
            response("chat.completion.chunk", [{"index": 0, "delta": delta, "finish_reason": reason}])
            for delta, reason in deltas
        ]
        chunks.append(response("chat.completion.chunk", [], usage=USAGE))
        events = [json.dumps(chunk) for chunk in chunks] + ["[DONE]"]
        self.send("text/event-stream", "".join(f"data: {event}\n\n" for event in events))

    def send(self, kind, text):
        data = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def run_agent(url):
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none")
    tracer = trace.get_tracer("test")
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "conv_1"}
    settings = {"model": "mock-model", "max_tokens": 64, "tools": [TOOL]}
    with tracer.start_as_current_span("invoke_agent weather", attributes=agent):
        client.chat.completions.create(messages=MESSAGES, temperature=0.2, **settings)
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "call_1"}
        with tracer.start_as_current_span("execute_tool get_weather", attributes=tool):
            pass
        said = [
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "rain, 14 degrees"},
        ]
        stream = client.chat.completions.create(
            messages=MESSAGES + said, stream=True, stream_options={"include_usage": True}, **settings
        )
        for _ in stream:
            pass


def with_hexadecimal_ids(value):
    """OTLP has IDs in hexadecimal digits, unlike other bytes in protobuf's JSON."""
    if isinstance(value, list):
        return [with_hexadecimal_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {
        name: b64decode(item).hex() if name in ids else with_hexadecimal_ids(item)
        for name, item in value.items()
    }


def main(path):
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    instrumentor.instrument()

    server = HTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    run_agent(f"http://127.0.0.1:{server.server_port}")
    server.shutdown()

    with open(path, "w") as file:
        for span in spans.get_finished_spans():
            message = MessageToDict(encode_spans([span]))
            file.write(json.dumps(with_hexadecimal_ids(message)) + "\n")


main(sys.argv[2])
