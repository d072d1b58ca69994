#!/usr/bin/env python3
"""Reading a prompt of 512 tokens, kvtune beside transformers on PyTorch, both in f32 on one number of threads.

    pip install torch transformers
    cargo build --release
    python3 benches/transformers_prefill.py [--model smollm2-135m] [--threads 2] [--rounds 5]

Both take turns, round after round, and the medians are printed. transformers runs a model of the same shape with
random weights, since time does not depend on them; both compute the logits of the last position only.
"""

import argparse
import csv
import io
import statistics
import subprocess
import time

TOKENS = 512
# What SmolLM2-135M and Qwen2.5-Coder-0.5B are made of.
SHAPES = {
    "smollm2-135m": ("LlamaForCausalLM", "LlamaConfig", dict(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
        num_attention_heads=9, num_key_value_heads=3, tie_word_embeddings=True)),
    "qwen2.5-coder-0.5b": ("Qwen2ForCausalLM", "Qwen2Config", dict(
        vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
        num_attention_heads=14, num_key_value_heads=2, tie_word_embeddings=True)),
}


def peer(model, threads):
    """A function that reads a prompt in transformers and returns tokens a second."""
    import torch
    import transformers

    torch.set_num_threads(threads)
    kind, config, shape = SHAPES[model]
    config = getattr(transformers, config)(**shape, max_position_embeddings=8192)
    net = getattr(transformers, kind)(config).float().eval()
    tokens = torch.tensor([[100 + i * 7919 % 40_000 for i in range(TOKENS)]])

    def run():
        with torch.inference_mode():
            begin = time.perf_counter()
            net(tokens, use_cache=True, logits_to_keep=1)
            return TOKENS / (time.perf_counter() - begin)

    run()
    return run


def ours(program, model, path, threads):
    command = [program, "bench", "-m", path or model, "-j", str(threads), "--cells", f"1x{TOKENS}",
               "--prompt", str(TOKENS), "--steps", "1", "--rounds", "7", "--uniform", "KV8", "--format", "csv"]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return float(next(csv.DictReader(io.StringIO(text)))["prefill_tokens_per_s"])


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", choices=SHAPES, default="smollm2-135m")
    options.add_argument("--path", help="where that model is, if kvtune does not find it by name")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--kvtune", default="target/release/kvtune", help="the program")
    typed = options.parse_args()
    theirs = peer(typed.model, typed.threads)
    rounds = [(ours(typed.kvtune, typed.model, typed.path, typed.threads), statistics.median(theirs() for _ in range(7)))
              for _ in range(typed.rounds)]
    kvtune, transformers = (statistics.median(column) for column in zip(*rounds))
    ratios = sorted(a / b for a, b in rounds)
    print("program,tokens_per_s")
    print(f"kvtune,{kvtune:.0f}")
    print(f"transformers,{transformers:.0f}")
    print(f"# {typed.threads} threads, {typed.rounds} rounds; "
          f"kvtune / transformers: median {statistics.median(ratios):.2f}, {ratios[0]:.2f} to {ratios[-1]:.2f}")


if __name__ == "__main__":
    main()
