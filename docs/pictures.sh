#!/bin/sh
# Makes the pictures in docs/pictures from runs against the mock server:
#
#     docs/pictures.sh [AIPERF]
#
# AIPERF is the program, by default the one on the PATH. The picture of the page needs chromium.
set -eu

aiperf=$(command -v "${1:-aiperf}")
pictures=$(cd "$(dirname "$0")" && pwd)/pictures
work=$(mktemp -d)
server=
trap 'kill $server; rm -rf "$work"' EXIT

mkdir -p "$pictures"
cd "$work"
"$aiperf" mock-server --port 0 --ttft 60ms --itl 5ms --jitter 50% --max-concurrent 12 \
  --fault every=83:status=503 > url &
server=$!
until [ -s url ]; do sleep 0.1; done

profile() {
  "$aiperf" profile --model mock-model --tokenizer builtin --url "$(cat url)" --streaming \
    --isl 60 --isl-stddev 20 --osl 24 --osl-stddev 8 --random-seed 7 --ui none "$@" > log ||
    { cat log; exit 1; }
}

profile --concurrency 16 --request-count 800 --artifact-dir run --html
profile --concurrency 1,2,4,8,12,16,24 --request-count 120 --artifact-dir sweep

"$aiperf" plot run --format png > log
"$aiperf" plot sweep --format png > log
cp run/plots/request_latency_histogram.png run/plots/ttft_timeline.png \
  sweep/plots/time_to_first_token_by_throughput.png "$pictures"

if command -v chromium > log; then
  chromium --headless --no-sandbox --hide-scrollbars --window-size=1280,1020 \
    --virtual-time-budget=5000 --screenshot="$pictures/page.png" "file://$work/run/report.html" 2> log
else
  echo "chromium is not installed: page.png stays as it is" >&2
fi
