"""Holds the exported cache class to reference logits, in transformers.

    python3 -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python tests/engines/transformers_cache.py path/to/kvtune MODELS [NAME ...]

MODELS holds folders with a model in Hugging Face layout and an `expected.json` of cases: token ids, bits by layer,
scheme and options, and the logits of the last position that the same policy gives when it is derived from scratch.
Each case is exported by the program itself, imported, and run token by token. Not part of CI: it needs torch.
"""

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

# Of two f32 programs; one rounding tie can move a code, and with it the logits by more.
LOGITS, LOGITS_AFTER_A_TIE = 5e-3, 5e-2


def scheme_yaml(spelled, options):
    side = lambda part: {
        "axis": "channel" if part["axis"] == "token_groups" else "token",
        "group": part["group"] or "head",
        "residual": part["residual"],
    }
    names = {"zero": "zero", "meta": "metadata", "one_bit": "one_bit", "sinks": "sinks", "hadamard": "hadamard",
             "prefill": "prefill"}
    chosen = {"metadata": "f32"} | {names[name]: value for name, value in options.items() if name in names}
    kivi = spelled["k"]["axis"] == "token_groups"
    return {"scheme": {"name": "kivi" if kivi else "per-token-asym", "key": side(spelled["k"]),
                       "value": side(spelled["v"]), **chosen}}


def exported(program, case, spelled, folder):
    """The module that the program writes for a case."""
    space, precision, out = (folder / name for name in ("space.json", "precision.yaml", "kvtune_cache.py"))
    space.write_text(json.dumps(scheme_yaml(spelled, case.get("options", {}))))
    precision.write_text("".join(
        f"{layer}: {{nbits_key: {key}, nbits_value: {value}}}\n" for layer, (key, value) in enumerate(case["pairs"])))
    subprocess.run([program, "export", "-p", precision, "--to", "hf", "--scheme", space, "-o", out, "-qq"], check=True,
                   stdout=subprocess.DEVNULL)
    spec = importlib.util.spec_from_file_location("kvtune_cache", out)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@torch.no_grad()
def last_logits(model, ids, prompt_len, cache):
    model(torch.tensor([ids[:prompt_len]]), past_key_values=cache, use_cache=True)
    for token in ids[prompt_len:]:
        logits = model(torch.tensor([[token]]), past_key_values=cache, use_cache=True).logits
    return logits[0, -1].float()


@torch.no_grad()
def generates(model, module, ids):
    """`generate` takes the class, and with 16 bits everywhere writes what the default cache writes."""
    ids = torch.tensor([ids])
    options = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 40, "do_sample": False, "eos_token_id": None,
               "pad_token_id": 0}
    full = module.KvtuneCache(pairs=[(16, 16)] * model.config.num_hidden_layers)
    assert torch.equal(model.generate(ids, past_key_values=full, **options), model.generate(ids, **options))
    cache = module.KvtuneCache()
    written = model.generate(ids, past_key_values=cache, num_beams=2, **options)
    assert cache.get_seq_length() == written.shape[1] - 1
    cache.reset()
    assert cache.get_seq_length() == 0


def main(program, models, names):
    folders = sorted(path.parent for path in Path(models).glob("*/expected.json"))
    checked = worst = 0
    for folder in folders:
        if names and folder.name not in names:
            continue
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        expected = json.loads((folder / "expected.json").read_text())
        for index, case in enumerate(expected["cases"]):
            if case.get("options", {}).get("key_bias") == "subtract":
                continue  # the export refuses it, and says so
            with tempfile.TemporaryDirectory() as scratch:
                module = exported(program, case, expected["schemes"][case["scheme"]], Path(scratch))
            found = last_logits(model, expected["input_ids"], case["prompt_len"], module.KvtuneCache())
            distance = (found - torch.tensor(case["logits_at_last"])).abs().max().item()
            tie = " (a rounding tie)" if distance >= LOGITS else ""
            print(f"{folder.name} case {index} {case['scheme']} {case.get('options', {})}: off by {distance:.1e}{tie}")
            assert distance < LOGITS_AFTER_A_TIE
            if index == 0:
                generates(model, module, expected["input_ids"][: case["prompt_len"]])
            checked, worst = checked + 1, max(worst, distance)
    assert checked, "no case found"
    print(f"{checked} cases, worst {worst:.1e}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
