#!/bin/sh
# Makes the pictures in docs/pictures from runs against the mock server:
#
#     docs/pictures.sh [AIPERF]
#
# AIPERF is the program, by default the one on the PATH. The pictures of the page and of the live
# view need chromium, and the latter tmux and Python.
set -eu

aiperf=$(command -v "${1:-aiperf}")
docs=$(cd "$(dirname "$0")" && pwd)
pictures=$docs/pictures
work=$(mktemp -d)
server=
trap 'kill $server; tmux -S "$work/tmux" kill-server 2> "$work/log" || true; rm -rf "$work"' EXIT

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
profile --concurrency 1,2,4,8,12,16,24 --request-count 120 --artifact-dir sweep \
  --search-sla 'time_to_first_token:p99<=200ms'

"$aiperf" plot run > log
"$aiperf" plot sweep > log
cp run/plots/request_latency_histogram.png run/plots/ttft_timeline.png \
  sweep/plots/output_throughput_by_latency.png \
  sweep/plots/time_to_first_token_by_throughput.png "$pictures"

for program in chromium tmux python3; do
  command -v "$program" > log || {
    echo "$program is not installed: page.png and live-view.png stay as they are" >&2
    exit
  }
done

# picture NAME FILE WIDTH,HEIGHT
picture() {
  chromium --headless --no-sandbox --hide-scrollbars --window-size="$3" \
    --virtual-time-budget=5000 --screenshot="$pictures/$1.png" "file://$work/$2" 2> log
}

picture page run/report.html 1280,1020

tmux -u -S tmux -f /dev/null new-session -d -x 100 -y 40 \
  "'$aiperf' profile --model mock-model --tokenizer builtin --url $(cat url) --streaming \
  --isl 60 --osl 24 --request-rate 55 --benchmark-duration 90 --artifact-dir live"
: > screen
until grep -q ' 7[0-9]%' screen; do
  sleep 1
  tmux -S tmux capture-pane -e -p > screen
done
python3 "$docs/screen.py" < screen > screen.html
picture live-view screen.html 932,708
