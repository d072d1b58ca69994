"""Runs a model with the flags that `kvtune export --to llama.cpp` writes, in the xllamacpp wheel.

    python3 -m venv venv && venv/bin/pip install xllamacpp==2026.10.11549
    venv/bin/python tests/engines/llama_cpp_flags.py path/to/kvtune precision.yaml model.gguf

Not part of CI: it needs the wheel. The flags are read as llama.cpp's own command line names them; an unknown type,
or values of a type that needs flash attention without it, fails when the context is made.
"""

import shlex
import subprocess
import sys

import xllamacpp


def parameters(flags, model):
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_gpu_layers = model, 512, 0
    given = dict(zip(flags[::2], flags[1::2], strict=True))
    types = {name.removeprefix("GGML_TYPE_").lower(): value for name, value in vars(xllamacpp.ggml_type).items()
             if name.startswith("GGML_TYPE_")}
    params.cache_type_k, params.cache_type_v = types[given.pop("--cache-type-k")], types[given.pop("--cache-type-v")]
    attention = {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO"}[given.pop("--flash-attn")]
    params.flash_attn_type = getattr(xllamacpp.llama_flash_attn_type, f"LLAMA_FLASH_ATTN_TYPE_{attention}")
    assert not given, f"flags that llama.cpp is not asked for: {given}"
    return params


def main(program, precision, model):
    text = subprocess.run([program, "export", "-p", precision, "--to", "llama.cpp", "-qq"], check=True,
                          capture_output=True, text=True).stdout
    server = xllamacpp.Server(parameters(shlex.split(text), model))
    answer = server.handle_completions({"prompt": "The capital of France is", "max_tokens": 8, "temperature": 0})
    print(text.strip(), "->", answer["choices"][0]["text"])
    assert answer["choices"][0]["text"].strip()


if __name__ == "__main__":
    main(*sys.argv[1:])
