#!/usr/bin/env python3
"""Decoding and reading a prompt, kvtune beside llama.cpp, on one GGUF file and one number of threads.

    pip install xllamacpp==2026.10.11549     # llama.cpp, prebuilt
    cargo build --release
    python3 benches/llama_cpp.py model.gguf [--threads 2] [--rounds 3] [--out llama-cpp.csv]

Both take turns, round after round, and the medians are printed. llama.cpp computes with the weights as they are in
the file, kvtune with f32, so besides tokens a second look at `slowdown`: what a step at the longer context takes
relative to one at the shorter, which is the cache's doing. `prompt_slowdown` is the time of a prompt relative to the
same program's with its plain cache. llama.cpp attends with flash attention, as its low-bit caches demand.
"""

import argparse
import csv
import io
import json
import statistics
import subprocess
import sys

SHORT, LONG = 128, 4096
# Tokens generated after a prompt.
NEW = 48
LLAMA = {"f16": "GGML_TYPE_F16", "q8_0": "GGML_TYPE_Q8_0", "q4_0": "GGML_TYPE_Q4_0"}
KVTUNE = ["KV8", "KV4", "K4V2"]


def llama(model, threads, cache):
    """Milliseconds a step after each context, and tokens a second of the longer prompt."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx, params.n_parallel = LONG + 2 * NEW, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cache_type_k = params.cache_type_v = getattr(xllamacpp.ggml_type, LLAMA[cache])
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    server = xllamacpp.Server(params)
    steps, prompt = [], None
    for context in (SHORT, LONG):
        # Any tokens do; the prompt's cache is not reused, so all of it is read.
        tokens = [100 + i * 7919 % 40_000 for i in range(context)]
        request = {"prompt": tokens, "n_predict": NEW, "max_tokens": NEW, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
        timings = server.handle_completions(request)["timings"]
        steps.append(timings["predicted_ms"] / timings["predicted_n"])
        prompt = timings["prompt_per_second"]
    return steps, prompt


def kvtune(program, model, threads):
    """The same of each cache, by name."""
    command = [program, "bench", "-m", model, "-j", str(threads), "--cells", f"1x{SHORT},1x{LONG}",
               "--uniform", ",".join(KVTUNE), "--prompt", str(LONG), "--steps", "16", "--rounds", "1",
               "--format", "csv"]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    found = {}
    for row in csv.DictReader(io.StringIO(text)):
        steps, prompts = found.setdefault(row["configuration"], ([], []))
        steps.append(float(row["step_ms"]))
        prompts.append(float(row["prefill_tokens_per_s"]))
    return {name: (steps, prompts[-1]) for name, (steps, prompts) in found.items()}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", help="GGUF file")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--kvtune", default="target/release/kvtune", help="the program")
    options.add_argument("--out", help="CSV to write; standard output unless it is said")
    options.add_argument("--one", help=argparse.SUPPRESS)
    typed = options.parse_args()
    if typed.one:
        print(json.dumps(llama(typed.model, typed.threads, typed.one)))
        return
    runs = {}
    for _ in range(typed.rounds):
        # A process of its own for each cache, so that none meets what another left behind.
        for cache in LLAMA:
            command = [sys.executable, __file__, typed.model, "--threads", str(typed.threads), "--one", cache]
            text = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
            runs.setdefault(("llama.cpp", cache), []).append(json.loads(text.splitlines()[-1]))
        for cache, run in kvtune(typed.kvtune, typed.model, typed.threads).items():
            runs.setdefault(("kvtune", cache), []).append(run)
    rows, plain = [], {}
    for (program, cache), found in runs.items():
        short, long = (statistics.median(steps[i] for steps, _ in found) for i in (0, 1))
        prompt = statistics.median(rate for _, rate in found)
        rows.append({
            "program": program, "cache": cache, "threads": typed.threads,
            f"tokens_per_s_{SHORT}": round(1e3 / short, 1), f"tokens_per_s_{LONG}": round(1e3 / long, 1),
            "slowdown": round(long / short, 2),
            "prompt_tokens_per_s": round(prompt, 1),
            "prompt_slowdown": round(plain.setdefault(program, prompt) / prompt, 2),
        })
    with open(typed.out, "w", newline="") if typed.out else sys.stdout as file:
        table = csv.DictWriter(file, rows[0].keys())
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
