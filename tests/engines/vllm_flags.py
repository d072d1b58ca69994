"""Reads the flags that `kvtune export --to vllm` writes with the tables of vLLM's own command line.

    pip download --no-deps vllm==0.33.0
    python3 tests/engines/vllm_flags.py path/to/kvtune precision.yaml vllm-0.33.0-*.whl

Not part of CI: it needs the wheel, 340 MB. Nothing of it is installed or run; the names of the types and of the flags
are taken from its source, so that neither a GPU nor PyTorch is needed.
"""

import argparse
import ast
import shlex
import subprocess
import sys
import zipfile


def types(source):
    """The members of `CacheDType`."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "CacheDType":
            return [member.value for member in node.value.slice.elts]
    raise SystemExit("no `CacheDType` in vllm/config/cache.py")


def parser(wheel):
    with zipfile.ZipFile(wheel) as archive:
        known = types(archive.read("vllm/config/cache.py").decode())
        flags = archive.read("vllm/engine/arg_utils.py").decode()
    read = argparse.ArgumentParser()
    for flag, options in {"--kv-cache-dtype": {"choices": known}, "--kv-cache-dtype-skip-layers": {"nargs": "+"}}.items():
        assert f'"{flag}"' in flags, f"vLLM has no {flag}"
        read.add_argument(flag, **options)
    return read


def main(program, precision, wheel):
    text = subprocess.run([program, "export", "-p", precision, "--to", "vllm", "-qq"], check=True,
                          capture_output=True, text=True).stdout
    print(text.strip(), "->", parser(wheel).parse_args(shlex.split(text)))


if __name__ == "__main__":
    main(*sys.argv[1:])
