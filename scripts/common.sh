# shellcheck shell=bash
# Sourced by the scripts next to it: they stop at the first failure and run in the root of the
# repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

step() { printf '\n== %s\n' "$*"; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Installs packages of Debian or Ubuntu.
apt_install() {
  as_root apt-get update -qq && as_root apt-get install -y -qq "$@"
}

# Creates a virtual environment of Python in a directory, unless it is there.
venv() {
  [ -x "$1/bin/python" ] || python3 -m venv "$1" ||
    { apt_install python3-venv && python3 -m venv "$1"; }
}

# Prints a member of the package aiperf, such as `version`.
package() {
  cargo metadata --locked --no-deps --format-version 1 | jq -r ".packages[] | select(.name == \"aiperf\").$1"
}
