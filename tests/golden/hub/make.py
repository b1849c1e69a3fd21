"""Makes the Parquet files, as the library `datasets` writes them: python make.py (pyarrow 21)."""

import base64
import pathlib

import pyarrow
import pyarrow.parquet

HERE = pathlib.Path(__file__).parent
GIF = base64.b64decode("R0lGODlhAQABAAAAACw=")


def write(name, rows, schema=None):
    table = pyarrow.Table.from_pylist(rows, schema=schema)
    pyarrow.parquet.write_table(table, HERE / name, compression="snappy")


def message(role, content):
    return {"role": role, "content": content}


write(
    "chat.parquet",
    [
        {
            "id": 1,
            "messages": [
                message("system", "Be brief."),
                message("user", "Name a colour."),
                message("assistant", "Blue."),
                message("user", "Another one."),
            ],
        },
        {"id": 2, "messages": [message("user", "Hello, world!"), message("assistant", "Hi!")]},
    ],
)
write(
    "gsm8k.parquet",
    [
        {"question": "How many legs have 3 cats?", "answer": "12"},
        {"question": "What is 6 times 7?", "answer": "42"},
    ],
)
write(
    "baseten.parquet",
    [
        {
            "timestamp_start_unix_ms": 1_700_000_000_250,
            "prompt": "Two and three",
            "input_tokens": 3,
            "output_tokens": 0,
            "total_hashes": [],
            "block_size": 64,
            "provided_session_id": "s",
            "duration_e2e_ms": 40,
        },
        {
            "timestamp_start_unix_ms": 1_700_000_000_050,
            "prompt": "Two",
            "input_tokens": 1,
            "output_tokens": 4,
            "total_hashes": [11, 12],
            "block_size": 64,
            "provided_session_id": "s",
            "duration_e2e_ms": 50,
        },
        {
            "timestamp_start_unix_ms": 1_700_000_000_000,
            "prompt": "One",
            "input_tokens": 1,
            "output_tokens": 2,
            "total_hashes": None,
            "block_size": None,
            "provided_session_id": None,
            "duration_e2e_ms": None,
        },
    ],
)
image = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
write(
    "mmstar.parquet",
    [{"index": 0, "question": "What is this?", "image": {"bytes": GIF, "path": None}}],
    pyarrow.schema([("index", pyarrow.int64()), ("question", pyarrow.string()), ("image", image)]),
)
