"""Installs clients that `aiperf referee` describes, in the versions that the descriptions are tested with.

    python3.12 tests/bench/referee/install.py DIR [CLIENT ...]
    PATH=DIR/bin:$PATH aiperf referee vllm

Each has a directory in DIR, with a virtual environment if it is written in Python, and its program is
linked in DIR/bin. Without CLIENT, all are installed: about 12 GB. Some need PyTorch (5 GB) to start at
all; they share one, in DIR/torch. What else their packages need in order to run models is left out.

A client that cannot be installed does not keep the others from being installed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

TORCH = "torch==2.14.0"
VLLM = "vllm==0.33.0"
# What vLLM requires only to run models on a GPU.
VLLM_GPU = {
    "apache-tvm-ffi", "fastsafetensors", "flashinfer-python", "humming-kernels", "instanttensor", "numba",
    "nvidia-cudnn-frontend", "nvidia-cutlass-dsl", "nvtx", "pynvvideocodec", "quack-kernels", "tilelang",
    "tokenspeed-mla", "torch", "torchaudio", "torchcodec", "torchvision",
}  # fmt: skip
# What SGLang's client imports, of what SGLang requires.
SGLANG = [
    "IPython", "aiohttp", "apache-tvm-ffi==0.1.11", "datasets", "fastapi", "loguru", "msgspec", "numpy",
    "orjson", "packaging", "pillow", "psutil", "pybase64", "pydantic", "pyzmq", "requests",
    "sentencepiece==0.2.1", "tqdm", "transformers==5.19.0", "uvloop",
]  # fmt: skip
# The same, without what these require in turn.
SGLANG_ALONE = ["sglang==0.5.23", "compressed-tensors==0.18.0", "gguf", "torchvision==0.29.0"]
SGLANG_PROGRAM = """\
#!/bin/sh
exec "$(dirname "$(readlink -f "$0")")/python" -m sglang.bench_serving "$@"
"""


def run(*command: str | Path, **environment: str) -> None:
    print("+", *command, flush=True)
    subprocess.run(command, check=True, env={**os.environ, **environment})


class Directory:
    """The directory DIR."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "bin").mkdir(parents=True, exist_ok=True)

    def link(self, program: Path, name: str | None = None) -> None:
        """Links a program, below DIR or somewhere else, in DIR/bin."""
        link = self.path / "bin" / (name or program.name)
        link.unlink(missing_ok=True)
        if program.is_relative_to(self.path):
            program = Path("..") / program.relative_to(self.path)
        link.symlink_to(program)

    def venv(self, client: str, *, torch: bool = False) -> "Venv":
        """A new virtual environment for the client, which sees the shared PyTorch if it needs it."""
        path = self.path / client
        venv.create(path, with_pip=True, clear=True)
        if torch:
            shared = self.path / "torch"
            if not shared.exists():
                run(path / "bin/pip", "install", "--target", shared, TORCH)
            site_packages = next(path.glob("lib/python*/site-packages"))
            (site_packages / "torch.pth").write_text(f"{shared}\n")
        return Venv(path)


class Venv:
    """A virtual environment."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def install(self, *requirements: str | Path) -> None:
        run(self.path / "bin/pip", "install", "--quiet", *requirements)

    def program(self, name: str) -> Path:
        return self.path / "bin" / name


def package(requirement: str, *, torch: bool = False) -> Callable[[Directory, str], None]:
    """A client whose package has a program of its name, without the version."""

    def install(directory: Directory, client: str) -> None:
        environment = directory.venv(client, torch=torch)
        environment.install(requirement)
        directory.link(environment.program(requirement.split("==")[0]), client)

    return install


def download_vllm(into: str) -> Path:
    run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", into, VLLM)
    return next(Path(into).glob("*.whl"))


def vllm(directory: Directory, client: str) -> None:
    environment = directory.venv(client, torch=True)
    with tempfile.TemporaryDirectory() as temporary:
        wheel = download_vllm(temporary)
        with zipfile.ZipFile(wheel) as archive:
            metadata = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
            lines = archive.read(metadata).decode().splitlines()
        required = [
            line.removeprefix("Requires-Dist: ")
            for line in lines
            if line.startswith("Requires-Dist: ") and "extra ==" not in line
        ]
        needed = [r for r in required if re.split(r"[^\w.-]", r)[0].lower() not in VLLM_GPU]
        requirements = Path(temporary) / "requirements.txt"
        requirements.write_text("\n".join(needed))
        environment.install("--requirement", requirements)
        environment.install("--no-deps", wheel)
    directory.link(environment.program("vllm"))


def vllm_rs(directory: Directory, client: str) -> None:
    program = directory.path / client / "bin/vllm-rs"
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, zipfile.ZipFile(download_vllm(temporary)) as archive:
        program.write_bytes(archive.read("vllm/vllm-rs"))
    program.chmod(0o755)
    directory.link(program)


def sglang(directory: Directory, client: str) -> None:
    environment = directory.venv(client, torch=True)
    environment.install(*SGLANG)
    environment.install("--no-deps", *SGLANG_ALONE)
    program = environment.program("sglang-bench-serving")
    program.write_text(SGLANG_PROGRAM)
    program.chmod(0o755)
    directory.link(program)


def oha(directory: Directory, client: str) -> None:
    root = directory.path / client
    run("cargo", "install", "--locked", "--version", "1.16.0", "--root", root, "oha")
    directory.link(root / "bin/oha")


def k6(directory: Directory, client: str) -> None:
    programs = directory.path / client / "bin"
    run("go", "install", "go.k6.io/k6@v1.8.1", GOBIN=str(programs))
    directory.link(programs / "k6")


def wrk(directory: Directory, client: str) -> None:
    program = shutil.which("wrk", path=os.environ.get("PATH"))
    if program is None:
        raise FileNotFoundError("wrk was not found; install it first, on Debian with `apt-get install wrk`")
    if Path(program).parent != directory.path / "bin":
        directory.link(Path(program))


CLIENTS: dict[str, Callable[[Directory, str], None]] = {
    "vllm": vllm,
    "vllm-rs": vllm_rs,
    "aiperf-python": package("aiperf==0.13.0"),
    "guidellm": package("guidellm==0.8.1", torch=True),
    "genai-bench": package("genai-bench==0.0.5"),
    "inference-perf": package("inference-perf==0.7.0"),
    "sglang": sglang,
    "oha": oha,
    "k6": k6,
    "wrk": wrk,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Installs clients for `aiperf referee`.")
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=", ".join(CLIENTS))
    given = parser.parse_args()
    if unknown := [client for client in given.clients if client not in CLIENTS]:
        parser.error(f"{unknown[0]} is not a known client; known are {', '.join(CLIENTS)}")
    if sys.version_info[:2] != (3, 12):
        parser.error("run this with Python 3.12, which all the clients support")
    directory = Directory(given.directory.resolve())
    failed = []
    for client in given.clients or CLIENTS:
        try:
            CLIENTS[client](directory, client)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"{client} could not be installed: {error}", file=sys.stderr)
            failed.append(client)
    if failed:
        raise SystemExit(f"not installed: {', '.join(failed)}")
    print(f"Installed; the programs are in {directory.path / 'bin'}.")


if __name__ == "__main__":
    main()
