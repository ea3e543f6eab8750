# Shared by the scripts of this folder: packages, Pythons, virtual environments. Source it from the repository root.
# shellcheck shell=bash

say() { printf '\n== %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# logged LOG COMMAND...: runs a command with its output in a file, and shows the end of it only where it fails.
logged() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 || { tail -n 60 "$log"; printf 'error: this failed, see %s: %s\n' "$log" "$*" >&2; return 1; }
}

# Debian packages that the build and the tests need; installs what is missing.
build_packages=(g++ cmake ninja-build pkg-config ccache binutils libasmjit-dev libsleef-dev python3-dev python3-venv)
test_packages=(libgtest-dev clang-format)

need_packages() {
  local missing=() p
  for p in "$@"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing+=("$p")
  done
  [ ${#missing[@]} -eq 0 ] && return
  command -v apt-get >/dev/null || die "these packages are missing and there is no apt-get: ${missing[*]}"
  say "installing ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "run as root, or install yourself: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  mkdir -p build
  logged build/apt.log "${as_root[@]}" apt-get update -q
  logged build/apt.log "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${missing[@]}"
}

# Prints "3.11 /path/to/python" for each supported CPython found on PATH or under pyenv, one of each version.
find_pythons() {
  local v exe
  for v in 3.11 3.12 3.13; do
    for exe in "$(command -v "python$v" || true)" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$v".*/bin/python \
               "$(command -v python3 || true)"; do
      if [ -x "$exe" ] && "$exe" - "$v" 2>/dev/null <<'PY'
import ensurepip, os, sys, sysconfig
good = sys.implementation.name == "cpython" and "%d.%d" % sys.version_info[:2] == sys.argv[1]
sys.exit(not (good and os.path.exists(sysconfig.get_path("include") + "/Python.h")))
PY
      then
        echo "$v $exe"
        break
      fi
    done
  done
}

# venv DIR PYTHON REQUIREMENT...: makes the environment once for a set of requirements.
venv() {
  local dir=$1 python=$2 stamp
  shift 2
  stamp="$dir/.requirements"
  if [ ! -x "$dir/bin/python" ] || [ "$(cat "$stamp" 2>/dev/null)" != "$*" ]; then
    say "making $dir"
    "$python" -m venv "$dir"
    "$dir/bin/python" -m pip install -q --disable-pip-version-check --upgrade pip
    "$dir/bin/python" -m pip install -q --disable-pip-version-check "$@"
    echo "$*" >"$stamp"
  fi
}

# Extras of pyproject.toml as requirements, one a line: extra_requirements PYTHON test lint
extra_requirements() {
  local python=$1
  shift
  "$python" - "$@" <<'PY'
import sys, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))
wanted = list(project["build-system"]["requires"]) + list(project["project"]["dependencies"])
for extra in sys.argv[1:]:
    wanted += project["project"]["optional-dependencies"][extra]
print("\n".join(dict.fromkeys(wanted)))
PY
}

# build_in_place PYTHON BUILD_DIR [CMAKE_ARGUMENT...]: the extension, next to the package's sources.
build_in_place() {
  local python=$1 build=$2
  shift 2
  mkdir -p build
  # The build folder's name is no part of what ccache compares: three Pythons share what does not see Python's headers.
  # It takes precompiled headers for equal that were made of equal text.
  # Comments count: a precompiled header knows the headers in it by all of their text.
  APPY_BUILD_DIR=$build CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$PWD CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_COMMENTS=1 CMAKE_ARGS="$*" \
    logged "$build.log" "$python" setup.py -q build_ext --inplace
}
