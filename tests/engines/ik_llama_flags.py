"""Reads the flags that `kvtune export --to ik-llama` writes as ik_llama.cpp's own command line does.

    git clone --depth 1 https://github.com/ikawrakow/ik_llama.cpp
    python3 tests/engines/ik_llama_flags.py path/to/kvtune precision.yaml ik_llama.cpp/common/common.cpp

Not part of CI: it needs the source. Nothing is built: which flags there are, whether one takes a value, and the names
of the types are taken from the parser's text.
"""

import re
import shlex
import subprocess
import sys


def takes_value(source, flag):
    """Whether the branch of a flag asks for the next argument."""
    branch = re.search(r'if \(arg == "%s"[^{]*\{(.*?)return true;' % re.escape(flag), source, re.S)
    assert branch, f"ik_llama.cpp has no {flag}"
    return "CHECK_ARG" in branch[1]


def types(source):
    body = re.search(r"ggml_type kv_cache_type_from_str\(.*?\n\}", source, re.S)[0]
    return re.findall(r's == "(\w+)"', body)


def main(program, precision, parser):
    text = subprocess.run([program, "export", "-p", precision, "--to", "ik-llama", "-qq"], check=True,
                          capture_output=True, text=True).stdout
    source = open(parser).read()
    words = shlex.split(text)
    while words:
        flag = words.pop(0)
        if not takes_value(source, flag):
            continue
        assert words and not words[0].startswith("-"), f"{flag} lacks its value"
        kind, *count = words.pop(0).split(",")
        assert kind in ("on", "off", "auto") if flag == "-fa" else kind in types(source), f"{flag} {kind}"
        assert all(n.isdigit() for n in count), f"{flag} {count}"
    print(text.strip(), "-> read")


if __name__ == "__main__":
    main(*sys.argv[1:])
