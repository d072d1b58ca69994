#!/usr/bin/env bash
# KVTuner's throughput table, batch × input length of 64×128, 16×512 and 8×1024, at the shape of Llama-3.1-8B's
# attention: 8 KV heads of 128 channels with 4 query heads each. Attention alone, on random numbers: what a cache of
# each width costs in a step, as milliseconds and as a share of f32's.
#
#   benches/table8.sh          on the CPU
#   benches/table8.sh cuda     on a CUDA device; `vulkan`: on any Vulkan device
set -euo pipefail
cd "$(dirname "$0")/.."

device=${1:-cpu}
case $device in
  cpu)
    # Keys and values of 512 MiB whatever the length, so that nothing is read from a cache of the processor.
    cargo bench --bench attention -- 128 512 1024 | awk 'NR < 5 || ($2 == 128 && $3 == 4)'
    ;;
  cuda | vulkan)
    for cell in "64 128" "16 512" "8 1024"; do
      # shellcheck disable=SC2086 # two arguments
      CARGO_TARGET_DIR=target/$device cargo bench -p kvtune-kernels --features "$device" --bench gpu -- $cell
    done
    ;;
  *)
    echo "unknown device \`$device\`, expected cpu, cuda or vulkan" >&2
    exit 2
    ;;
esac
