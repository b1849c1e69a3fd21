"""Recomputes profile_export.jsonl from the responses in profile_export_raw.jsonl.

    python3 tests/check_raw_records.py DIR

An independent implementation: each body is parsed by Python's `json`, times are those of its
events, and formulas those of the metric reference. All metrics of all records are compared,
and additional ones are errors. Times of the HTTP exchange are compared with `trace_data`
(`--export-http-trace`). Tokens are counted by the tokenizers package if `--tokenizer` is a
directory; for other tokenizers, the records' own counts are assumed to be correct, and the
metrics computed from them are checked.

Prints each difference and exits with 1 if there are any, or with 2 if the files cannot be
read.
"""

import base64
import json
import re
import struct
import sys
from pathlib import Path

from tokenizers import Tokenizer

TOLERANCE = 1e-9

# Endpoints whose responses do not contain text, and those whose requests do not.
NO_TOKENS = {
    "embeddings", "chat_embeddings", "nim_embeddings", "image_retrieval",
    "cohere_rankings", "hf_tei_rankings", "nim_rankings",
    "image_generation", "image_edit", "video_generation",
}  # fmt: skip
NO_INPUT = {"audio_transcription", "image_retrieval"}

UNITS = (
    (r"image_latency", "ms/image"),
    (r"image_throughput", "images/sec"),
    (r"(.*_latency|(effective_)?time_to_.*|(full_)?decode_duration|video_inference_time)", "ms"),
    (r"(.*_throughput|.*_throughput_per_user)", "tokens/sec/user"),
    (r".*_pct", "%"),
    (r"(usage_.*_tokens|.*_token_count|.*_sequence_length|error_[io]sl|requested_osl)", "tokens"),
    (r"(audio_duration|usage_prompt_audio_seconds)", "sec"),
    (r"num_images", "images"),
    (r"((invalid_)?tool_call|(coalesced_)?chunk)_count", "count"),
    (r"end_token_time", "ms"),
    (r"video_peak_memory", "MB"),
    (r"(rtfx|thinking_efficiency|http_req_connection_reused)", "ratio"),
    (r"good_request_count", "requests"),
    (r"http_req_chunks_.*", "count"),
    (r"http_req_data_.*", "KB"),
    (r"replay_send_schedule_offset", "ns"),
    (r"http_req_.*", "ms"),
)
LARGER_IS_BETTER = re.compile(r".*(throughput.*|token_count|sequence_length|rtfx)|usage_.*")


def unit_of(tag):
    return next((unit for pattern, unit in UNITS if re.fullmatch(pattern, tag)), None)


def text_of(value):
    """A text, or the joined texts of a list of parts."""
    if isinstance(value, list):
        return "".join(part.get("text", "") for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""


def reasons_of(said):
    """The finish reasons in an event of any dialect."""
    if isinstance(said, dict):
        for name, value in said.items():
            if name in ("finish_reason", "stop_reason", "finishReason"):
                if isinstance(value, str) and value:
                    yield value
            elif name == "response" and str(said.get("type")).startswith("response."):
                incomplete = (value.get("incomplete_details") or {}).get("reason")
                status = value.get("status")
                if incomplete or status in ("completed", "incomplete", "failed", "cancelled"):
                    yield incomplete or status
            else:
                yield from reasons_of(value)
    elif isinstance(said, list):
        for value in said:
            yield from reasons_of(value)


class Answer:
    """The contents of a response: content events (instant, is output), texts, usage."""

    def __init__(self):
        self.pieces = []
        self.finished = None
        self.reasons = []
        self.output = ""
        self.reasoning = ""
        self.usage = {}
        self.job = {}
        # The arguments of each tool call.
        self.calls = {}

    def piece(self, at, output="", reasoning=""):
        self.output += output
        self.reasoning += reasoning
        if output or reasoning:
            self.pieces.append((at, bool(output)))

    def call(self, key, arguments):
        self.calls[key] = self.calls.get(key, "") + (arguments or "")

    def take_usage(self, *found):
        for usage in found:
            self.usage |= {k: v for k, v in (usage or {}).items() if v is not None}


def openai(answer, at, said):
    answer.take_usage(said.get("usage"))
    output = reasoning = ""
    for at_choice, choice in enumerate(said.get("choices") or []):
        message = choice.get("delta") or choice.get("message") or {}
        output += text_of(choice.get("text")) + text_of(message.get("content"))
        output += text_of(message.get("refusal"))
        calls = [call.get("function") for call in message.get("tool_calls") or []]
        place = choice.get("index", at_choice)
        for position, call in enumerate(message.get("tool_calls") or []):
            if call.get("function"):
                key = (place, call.get("index", position))
                answer.call(key, call["function"].get("arguments"))
        if message.get("function_call"):
            answer.call((place, "function"), message["function_call"].get("arguments"))
        for call in [*calls, message.get("function_call")]:
            output += (call or {}).get("name") or ""
            output += (call or {}).get("arguments") or ""
        reasoning += message.get("reasoning_content") or message.get("reasoning") or ""
    answer.piece(at, output, reasoning)


def responses(answer, at, said):
    kind = said.get("type", "")
    whole = said.get("response") or (said if "output" in said else {})
    answer.take_usage(whole.get("usage"))
    if kind in ("response.output_text.delta", "response.refusal.delta"):
        answer.piece(at, output=said["delta"])
    elif kind == "response.function_call_arguments.delta":
        answer.piece(at, output=said["delta"])
    elif kind in ("response.reasoning_text.delta", "response.reasoning_summary_text.delta"):
        answer.piece(at, reasoning=said["delta"])
    elif kind == "response.output_item.added" and said["item"].get("type") == "function_call":
        answer.piece(at, output=said["item"].get("name", ""))
    elif kind == "response.output_item.done" and said["item"].get("type") == "function_call":
        answer.call(len(answer.calls), said["item"].get("arguments"))
    elif not kind:
        output = reasoning = ""
        for item in whole.get("output") or []:
            if item.get("type") == "function_call":
                answer.call(len(answer.calls), item.get("arguments"))
            output += (item.get("name") or "") + (item.get("arguments") or "")
            parts = (item.get("content") or []) + (item.get("summary") or [])
            for part in parts:
                text = part.get("text") or part.get("refusal") or ""
                if item["type"] == "reasoning":
                    reasoning += text
                else:
                    output += text
        answer.piece(at, output, reasoning)


def messages(answer, at, said):
    answer.take_usage(said.get("usage"), (said.get("message") or {}).get("usage"))
    delta = said.get("delta") or {}
    block = said.get("content_block") or {}
    if block.get("type") == "tool_use":
        answer.call(len(answer.calls), "")
    if delta.get("partial_json"):
        answer.call(len(answer.calls) - 1, delta["partial_json"])
    output = delta.get("text", "") + delta.get("partial_json", "")
    output += block.get("name", "") + block.get("text", "")
    reasoning = delta.get("thinking", "") + block.get("thinking", "")
    for part in said.get("content") or []:
        if part.get("type") == "tool_use":
            answer.call(len(answer.calls), json.dumps(part.get("input")))
        output += part.get("text", "") + part.get("name", "")
        output += json.dumps(part["input"]) if "input" in part else ""
        reasoning += part.get("thinking", "")
    answer.piece(at, output, reasoning)


def gemini(answer, at, said):
    answer.take_usage(said.get("usageMetadata"))
    output = reasoning = ""
    for candidate in said.get("candidates") or []:
        for part in (candidate.get("content") or {}).get("parts") or []:
            if "functionCall" in part:
                answer.call(len(answer.calls), json.dumps(part["functionCall"].get("args", {})))
            if part.get("thought"):
                reasoning += part.get("text", "")
            else:
                output += part.get("text", "")
    answer.piece(at, output, reasoning)


def huggingface_generate(answer, at, said):
    found = said[0] if isinstance(said, list) else said
    details = found.get("details") or {}
    tokens = details.get("generated_tokens")
    answer.take_usage({"completion_tokens": tokens, "prompt_tokens": details.get("input_length")})
    token = found.get("token")
    if token is None:
        answer.piece(at, found.get("generated_text") or "")
    elif not token.get("special"):
        answer.piece(at, token["text"])


def transcription(answer, at, said):
    answer.take_usage(said.get("usage"))
    if said.get("type") == "transcript.text.delta":
        answer.piece(at, said["delta"])
    elif "type" not in said:
        answer.piece(at, said.get("text") or "")


def solido_rag(answer, at, said):
    answer.piece(at, said.get("content") or "")


def without_text(answer, at, said):
    """Any body of an endpoint without text is one content event; its images arrive with the
    last."""
    if isinstance(said, dict):
        answer.take_usage(said.get("usage"), (said.get("meta") or {}).get("tokens"))
        answer.job = said
        if "partial_image" in said.get("type", ""):
            return
    answer.pieces.append((at, True))


READERS = {
    "chat": openai,
    "completions": openai,
    "raw": openai,
    "template": openai,
    "responses": responses,
    "messages": messages,
    "gemini": gemini,
    "huggingface_generate": huggingface_generate,
    "audio_transcription": transcription,
    "solido_rag": solido_rag,
}


def read_answer(raw, endpoint):
    answer = Answer()
    reader = READERS.get(endpoint, without_text)
    for response in raw["responses"]:
        if "packets" in response:
            lines = [p["value"] for p in response["packets"] if p["name"] == "data"]
            text = "\n".join(lines)
        else:
            text = response["text"]
        if text.strip() not in ("", "[DONE]"):
            try:
                said = json.loads(text)
            except ValueError:
                # An event that was cut.
                continue
            reader(answer, response["perf_ns"], said)
            reasons = list(reasons_of(said))
            if reasons and answer.finished is None:
                answer.finished = response["perf_ns"]
            answer.reasons += reasons
    return answer


def first_of(usage, *paths):
    """The value at the first of `paths` that exists."""
    for path in paths:
        value = usage
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None:
            return value
    return None


def usage_metrics(usage, endpoint):
    """Maps each vendor's names, as in the metric reference."""
    read = "cache_read_input_tokens"
    write = "cache_creation_input_tokens"
    prompt = first_of(usage, "prompt_tokens", "input_tokens", "promptTokenCount")
    if endpoint == "messages" and prompt is not None:
        prompt += usage.get(read, 0) + usage.get(write, 0)
    completion = first_of(usage, "completion_tokens", "output_tokens")
    if "candidatesTokenCount" in usage:
        completion = usage["candidatesTokenCount"] + usage.get("thoughtsTokenCount", 0)
    total = first_of(usage, "total_tokens", "totalTokenCount")

    def detail(of, name):
        return first_of(usage, *(f"{name_of}_tokens_details.{name}" for name_of in of))

    into, out = ("prompt", "input"), ("completion", "output")
    cached = detail(into, "cached_tokens")
    if cached is None:
        cached = first_of(usage, read, "prompt_cache_hit_tokens", "cachedContentTokenCount")
    reasoning = detail(out, "reasoning_tokens")
    if reasoning is None:
        reasoning = usage.get("thoughtsTokenCount")
    return {
        "usage_prompt_tokens": prompt,
        "usage_completion_tokens": completion,
        "usage_total_tokens": total,
        "usage_reasoning_tokens": reasoning,
        "usage_prompt_cache_read_tokens": cached,
        "usage_prompt_cache_write_tokens": usage.get(write),
        "usage_prompt_cache_miss_tokens": usage.get("prompt_cache_miss_tokens"),
        "usage_prompt_audio_tokens": detail(into, "audio_tokens"),
        "usage_completion_audio_tokens": detail(out, "audio_tokens"),
        "usage_prompt_audio_seconds": usage.get("prompt_audio_seconds"),
        "usage_tool_use_prompt_tokens": usage.get("toolUsePromptTokenCount"),
        "usage_accepted_prediction_tokens": detail(out, "accepted_prediction_tokens"),
        "usage_rejected_prediction_tokens": detail(out, "rejected_prediction_tokens"),
    }


def texts_of(payload):
    """The texts of a body, in order, and its media: images, and audio as bytes."""
    texts, images, sounds = [], 0, []
    # The files of a form are objects, in a list if a name is repeated.
    fields = [v for value in payload.values() for v in (value if isinstance(value, list) else [value])]
    files = [v["filename"] for v in fields if isinstance(v, dict) and "filename" in v]
    images = sum(name.startswith("image") for name in files)
    if any(name.startswith("audio") for name in files):
        sounds = None
    for name in ("system", "instructions", "prompt", "inputs", "query"):
        value = payload.get(name)
        value = value.get("text") if isinstance(value, dict) else value
        texts += value if isinstance(value, list) else [value] if value else []
    system = payload.get("systemInstruction") or {}
    texts += [part["text"] for part in system.get("parts", [])]
    inputs = payload.get("input")
    if isinstance(inputs, str) or (inputs and isinstance(inputs[0], str)):
        texts += [inputs] if isinstance(inputs, str) else inputs
        inputs = None
    passages = payload.get("documents") or payload.get("passages") or payload.get("texts") or []
    texts += [p["text"] if isinstance(p, dict) else p for p in passages]
    turns = payload.get("messages") or inputs or payload.get("contents") or []
    for turn in turns:
        content = turn.get("content", turn.get("parts"))
        for part in [{"text": content}] if isinstance(content, str) else content:
            kind = part.get("type", "")
            inline = part.get("inlineData") or {}
            if "text" in part:
                texts.append(part["text"])
            elif "image" in kind or inline.get("mimeType", "").startswith("image/"):
                images += 1
            elif kind == "input_audio":
                sounds.append(base64.b64decode(part["input_audio"]["data"]))
            elif inline.get("mimeType", "").startswith("audio/"):
                sounds.append(base64.b64decode(inline["data"]))
    return texts, images, sounds


def wav_seconds(sound):
    """The duration, from the rate of the format and the length of the data."""
    rate = struct.unpack_from("<I", sound, sound.index(b"fmt ") + 16)[0]
    return struct.unpack_from("<I", sound, sound.index(b"data") + 4)[0] / rate


class Checker:
    def __init__(self, config, count_tokens):
        self.endpoint = config["endpoint"]["type"]
        self.is_streamed = config["endpoint"].get("streaming", False)
        self.counts_by_server = config["endpoint"].get("use_server_token_count", False)
        self.objectives = config.get("slos") or {}
        self.is_scheduled = any(p.get("type") == "fixed_schedule" for p in config["phases"])
        self.count = count_tokens

    def tokens(self, text, record, tag):
        if not text:
            return None
        if self.count is None:
            return record["metrics"].get(tag, {}).get("value")
        return self.count(text)

    def input_tokens(self, raw, record, tag):
        texts, _, _ = texts_of(raw.get("payload", {}))
        if self.endpoint in NO_INPUT or not texts:
            return None
        if self.count is None:
            return record["metrics"].get(tag, {}).get("value")
        return sum(self.count(text) for text in texts)

    def expected(self, raw, record):
        """All metrics of a request."""
        if record.get("error"):
            failed = {}
            if not self.counts_by_server:
                failed["error_isl"] = self.input_tokens(raw, record, "error_isl")
            if "error_osl" in record["metrics"]:
                arrived = self.lengths(raw, record, read_answer(raw, self.endpoint))
                failed["error_osl"] = arrived.get("output_sequence_length")
            if "trace_data" in record:
                failed |= reached(record["trace_data"])
            return failed
        answer = read_answer(raw, self.endpoint)
        found = self.lengths(raw, record, answer)
        self.times(found, raw, record, answer)
        self.rates(found)
        self.tools(found, answer)
        self.media(found, raw, answer)
        found |= http_trace(record["trace_data"]) if "trace_data" in record else {}
        if self.objectives:
            good = all(self.meets(found, *objective) for objective in self.objectives.items())
            found["good_request_count"] = 1 if good else None
        return found

    def meets(self, found, tag, bound):
        value = found.get(tag)
        if value is None:
            return False
        return value >= bound if LARGER_IS_BETTER.fullmatch(tag) else value <= bound

    def lengths(self, raw, record, answer):
        found = usage_metrics(answer.usage, self.endpoint)
        has_tokens = self.endpoint not in NO_TOKENS
        if not has_tokens:
            kept = {tag for tag in found if "_prompt_" in tag or tag == "usage_total_tokens"}
            found = {tag: found[tag] for tag in kept}
        if self.endpoint in NO_INPUT:
            found.pop("usage_prompt_tokens", None)
        if self.counts_by_server:
            found["input_sequence_length"] = found.get("usage_prompt_tokens")
            reasoning = found["reasoning_token_count"] = found.get("usage_reasoning_tokens")
            if found.get("usage_completion_tokens") is not None:
                found["output_token_count"] = found["usage_completion_tokens"] - (reasoning or 0)
        else:
            own = "input_sequence_length"
            found[own] = self.input_tokens(raw, record, own)
            if has_tokens:
                for tag, text in (
                    ("output_token_count", answer.output),
                    ("reasoning_token_count", answer.reasoning),
                ):
                    found[tag] = self.tokens(text, record, tag)
        parts = [found.get("output_token_count"), found.get("reasoning_token_count")]
        if any(part is not None for part in parts):
            found["output_sequence_length"] = sum(part or 0 for part in parts)
        if not self.counts_by_server:
            for kind, counted in (
                ("prompt", "input_sequence_length"),
                ("completion", "output_sequence_length"),
                ("reasoning", "reasoning_token_count"),
            ):
                said, ours = found.get(f"usage_{kind}_tokens"), found.get(counted)
                if said is not None and ours:
                    found[f"usage_{kind}_tokens_diff_pct"] = abs((said - ours) / ours) * 100
        asked = record["metadata"].get("requested_output_tokens")
        if asked and has_tokens and found.get("output_sequence_length") is not None:
            found["osl_mismatch_diff_pct"] = (found["output_sequence_length"] - asked) / asked * 100
        return found

    def times(self, found, raw, record, answer):
        start = raw["start_perf_ns"]
        at = [instant - start for instant, _ in answer.pieces]
        if not at:
            return
        metadata = record["metadata"]
        latency = found["request_latency"] = at[-1] / 1e6
        wanted = metadata.get("request_due_ns", metadata["credit_issued_ns"])
        waited = found["credit_to_start_latency"] = (metadata["request_start_ns"] - wanted) / 1e6
        found["effective_latency"] = waited + latency
        if not self.is_streamed or self.endpoint in NO_TOKENS:
            return
        found["time_to_first_token"] = at[0] / 1e6
        found["chunk_count"] = len(at)
        limits = ("length", "max_tokens", "max_output_tokens", "MAX_TOKENS", "model_length")
        if answer.finished is not None and not set(answer.reasons) & set(limits):
            found["end_token_time"] = max(answer.finished - start - at[-1], 0) / 1e6
        found["coalesced_chunk_count"] = sum(b - a <= 50_000 for a, b in zip(at, at[1:]))
        found["effective_time_to_first_token"] = waited + at[0] / 1e6
        found["decode_duration"] = (at[-1] - at[0]) / 1e6
        whole = metadata["request_end_ns"] - metadata["request_start_ns"]
        found["full_decode_duration"] = (whole - at[0]) / 1e6
        tokens = found.get("output_sequence_length") or 0
        if tokens >= 2:
            found["full_response_inter_token_latency"] = found["full_decode_duration"] / (tokens - 1)
        first = next((instant for instant, is_output in answer.pieces if is_output), None)
        if first is not None:
            found["time_to_first_output_token"] = (first - start) / 1e6
        if len(at) < 2:
            return
        found["time_to_second_token"] = (at[1] - at[0]) / 1e6
        found["inter_chunk_latency"] = [(b - a) / 1e6 for a, b in zip(at, at[1:])]
        if tokens >= 2:
            found["inter_token_latency"] = (at[-1] - at[0]) / 1e6 / (tokens - 1)

    def rates(self, found):
        def per_second(tag, amount, millis):
            if found.get(amount) is not None and found.get(millis):
                found[tag] = found[amount] / (found[millis] / 1e3)

        if found.get("inter_token_latency"):
            found["output_token_throughput_per_user"] = 1 / (found["inter_token_latency"] / 1e3)
        if found.get("full_response_inter_token_latency"):
            found["full_response_output_token_throughput_per_user"] = 1 / (
                found["full_response_inter_token_latency"] / 1e3
            )
        per_second("prefill_throughput_per_user", "input_sequence_length", "time_to_first_token")
        if self.endpoint not in NO_TOKENS:
            per_second("e2e_output_token_throughput", "output_sequence_length", "request_latency")

    def tools(self, found, answer):
        def is_object(arguments):
            if not arguments and self.endpoint == "messages":
                return True
            try:
                return isinstance(json.loads(arguments), dict)
            except ValueError:
                return False

        if answer.calls and self.endpoint not in NO_TOKENS:
            found["tool_call_count"] = len(answer.calls)
            found["invalid_tool_call_count"] = sum(
                not is_object(arguments) for arguments in answer.calls.values()
            )

    def media(self, found, raw, answer):
        _, images, sounds = texts_of(raw.get("payload", {}))
        seconds = found["request_latency"] / 1e3
        if images:
            found["num_images"] = images
            found["image_throughput"] = images / seconds
            found["image_latency"] = seconds * 1e3 / images
        if sounds:
            found["audio_duration"] = sum(wav_seconds(sound) for sound in sounds)
        elif sounds is None:
            found["audio_duration"] = FILE_SECONDS
        if "audio_duration" in found:
            found["rtfx"] = found["audio_duration"] / seconds
        if self.endpoint == "video_generation":
            if "inference_time_s" in answer.job:
                found["video_inference_time"] = answer.job["inference_time_s"] * 1e3
            found["video_peak_memory"] = answer.job.get("peak_memory_mb")


# Bytes of multipart forms are not preserved in text; this is the duration of the tests' file.
FILE_SECONDS = 0.5


def http_trace(trace):
    """The timing metrics of k6, from the instants of the exchange."""

    def between(a, b):
        a, b = trace.get(f"{a}_ns"), trace.get(f"{b}_ns")
        return 0 if a is None or b is None else (b - a) / 1e6

    blocked = between("connection_pool_wait_start", "connection_pool_wait_end")
    dns = between("dns_lookup_start", "dns_lookup_end")
    connecting = between("tcp_connect_start", "tcp_connect_end")
    sending = between("request_send_start", "request_send_end")
    waiting = between("request_send_end", "response_receive_start")
    receiving = between("response_receive_start", "response_receive_end")
    return {
        "http_req_blocked": blocked,
        "http_req_dns_lookup": dns,
        "http_req_connecting": connecting,
        "http_req_tls_handshaking": between("tls_handshake_start", "tls_handshake_end"),
        "http_req_sending": sending,
        "http_req_waiting": waiting,
        "http_req_receiving": receiving,
        "http_req_connection_reused": int("connection_reused_ns" in trace),
        "http_req_data_sent": trace["request_bytes_total"] / 1024,
        "http_req_chunks_sent": trace["request_chunks_count"],
        "http_req_data_received": trace["response_bytes_total"] / 1024,
        "http_req_chunks_received": trace["response_chunks_count"],
        "http_req_connection_overhead": blocked + dns + connecting,
        "http_req_duration": between("request_send_start", "response_receive_end"),
        "http_req_total": blocked + dns + connecting + sending + waiting + receiving,
    }


def reached(trace):
    """The same for a failed exchange: only the steps that it completed."""
    has = lambda name: f"{name}_ns" in trace
    connected = has("connection_reused") or has("tcp_connect_end")
    resolved = connected or has("dns_lookup_end") or has("tcp_connect_start")
    unblocked = resolved or has("dns_lookup_start") or has("connection_pool_wait_end")
    sent, begun = has("request_send_start"), has("response_receive_start")
    passed = {
        "blocked": unblocked,
        "dns_lookup": resolved,
        "connecting": connected,
        "tls_handshaking": connected,
        "connection_overhead": connected,
        "connection_reused": connected,
        "sending": has("request_send_end"),
        "waiting": has("request_send_end") and begun,
        "receiving": begun,
        "duration": sent,
        "total": has("request_send_end") and begun,
        "data_sent": sent,
        "data_received": sent,
        "chunks_sent": sent,
        "chunks_received": sent,
    }
    return {tag: v for tag, v in http_trace(trace).items() if passed[tag.removeprefix("http_req_")]}


# Only with AIPERF_DEV_MODE.
def developers(record, raw, found):
    metadata = record["metadata"]
    start = metadata["request_start_ns"]
    more = {"credit_drop_latency": (start - metadata["credit_issued_ns"]) / 1e6}
    asked = metadata.get("requested_output_tokens")
    if "output_sequence_length" in found:
        more["requested_osl"] = asked
    if "time_to_first_token" in found:
        setup = (metadata["request_ack_ns"] - start) / 1e6
        more["stream_setup_latency"] = setup
        more["stream_prefill_latency"] = found["time_to_first_token"] - setup
    reasoning, output = found.get("reasoning_token_count"), found.get("output_token_count")
    if reasoning is not None and output:
        more["thinking_efficiency"] = reasoning / output
    return more


def near(a, b):
    return abs(a - b) <= TOLERANCE * max(abs(a), abs(b), 1e-3)


def same(expected, got):
    if isinstance(expected, list) or isinstance(got, list):
        both = isinstance(expected, list) and isinstance(got, list)
        return both and len(expected) == len(got) and all(map(near, expected, got))
    return near(expected, got)


def compare(where, expected, metrics):
    differences = []
    for tag, value in expected.items():
        got = metrics.get(tag)
        if value is None:
            if got is not None:
                differences.append(f"{where} {tag}: is {got['value']}, should be absent")
        elif got is None:
            differences.append(f"{where} {tag}: missing, should be {value}")
        elif not same(value, got["value"]):
            differences.append(f"{where} {tag}: is {got['value']}, should be {value}")
        elif got["unit"] != unit_of(tag):
            differences.append(f"{where} {tag}: in {got['unit']}, should be in {unit_of(tag)}")
    for tag in sorted(set(metrics) - set(expected)):
        differences.append(f"{where} {tag}: is {metrics[tag]['value']}, should not be there")
    return differences


def lines(path):
    with open(path, encoding="utf-8") as text:
        return [json.loads(line) for line in text if line.strip()]


def counter_of(config):
    """Counts tokens with the tokenizer of the run."""
    file = Path(config.get("tokenizer", {}).get("name", "")) / "tokenizer.json"
    if not file.is_file():
        return None
    encoder = Tokenizer.from_file(str(file))
    return lambda text: len(encoder.encode(text, add_special_tokens=False).ids)


def main(directory):
    config = json.loads((directory / "profile_export_aiperf.json").read_text())["input_config"]
    checker = Checker(config, counter_of(config))
    records = lines(directory / "profile_export.jsonl")
    raws = {r["metadata"]["x_request_id"]: r for r in lines(directory / "profile_export_raw.jsonl")}
    differences, values = [], 0
    if len(raws) != len(records):
        differences.append(f"{len(raws)} answers, {len(records)} records")
    is_developed = any("credit_drop_latency" in record["metrics"] for record in records)
    for number, record in enumerate(records):
        raw = raws[record["metadata"]["x_request_id"]]
        found = checker.expected(raw, record)
        if is_developed and not record.get("error"):
            found |= developers(record, raw, found)
        differences += compare(f"record {number}", found, record["metrics"])
        values += len(record["metrics"])
    print(f"{len(records)} records, {values} values, {len(differences)} differences", file=sys.stderr)
    print("\n".join(differences[:30]))
    return 1 if differences else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    try:
        sys.exit(main(Path(sys.argv[1])))
    except (OSError, ValueError, KeyError, IndexError, struct.error) as error:
        print(f"{sys.argv[1]}: cannot be checked: {error!r}")
        sys.exit(2)
