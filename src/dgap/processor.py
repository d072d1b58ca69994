"""Repairs the likeliest tokens of a model whose key-value cache is held in few bits.

Written by `kvtune dgap export`; needs numpy, and transformers only for `DgapLogitsProcessor`. The heads below are for
one model and one way to hold its cache, which `ABOUT` names; with any other they do harm.
"""

import numpy as np

ABOUT = {}

# float32, little-endian, as hexadecimal digits.
WEIGHTS = {}


def _load(shape, digits):
    return np.frombuffer(bytes.fromhex(digits), dtype="<f4").reshape(shape)


class Dgap:
    """The heads for one sequence: it remembers the steps before, so each sequence needs its own."""

    CLOSE = (0.05, 0.1, 0.25, 0.5, 1.0)

    def __init__(self, threshold=None):
        self.weights = {name: _load(*value) for name, value in WEIGHTS.items()}
        self.threshold = ABOUT["threshold"] if threshold is None else threshold
        self.sums = np.zeros(6)
        self.steps = 0

    def features(self, margins, log_sum, entropy, length):
        gaps = margins[:-1] - margins[1:]
        p = np.exp(margins.astype(np.float64) - log_sum)
        inside = p.sum()
        shares = p / inside
        own = -(shares[shares > 0] * np.log(shares[shares > 0])).sum()
        summary = np.array([p[0], p[0] - p[1], own, entropy, max(0.0, 1.0 - inside), gaps[0]])
        means = summary if self.steps == 0 else self.sums / self.steps
        self.sums += summary.astype(np.float32)
        self.steps += 1
        close = [float((gaps < limit).sum()) for limit in self.CLOSE]
        parts = [-margins[1:], gaps, close, summary, means, [np.log1p(length)]]
        return np.concatenate([np.asarray(part, dtype=np.float32) for part in parts])

    def risk(self, features):
        w = {name[9:]: value for name, value in self.weights.items() if name.startswith("detector.")}
        if ABOUT["detector"] == "logistic":
            odds = features @ w["w"] + w["b"]
        else:
            x = np.maximum(features @ w["w1"] + w["b1"], 0)
            x = np.maximum(x @ w["w2"] + w["b2"], 0)
            odds = x @ w["w3"] + w["b3"]
        return 1.0 / (1.0 + np.exp(-float(odds.reshape(-1)[0])))

    def correction(self, margins, ids, features):
        w = {name[10:]: value for name, value in self.weights.items() if name.startswith("corrector.")}
        kind = ABOUT["corrector"]
        if kind == "temperature":
            raw = margins * (np.exp(w["log_factor"][0, 0]) - 1)
        elif kind == "token-bias":
            raw = w["bias"][ids, 0]
        elif kind == "c0":
            raw = (features[: len(margins) - 1] @ w["w"] + w["b"]).reshape(-1)
        else:
            raw = self._over_set(w, margins, features)
        delta = np.tanh(raw / ABOUT["clip"]) * ABOUT["clip"]
        if ABOUT["keep_mass"]:
            delta = delta - (np.log(np.exp(margins + delta).sum()) - np.log(np.exp(margins).sum()))
        return delta

    @staticmethod
    def _over_set(w, margins, features):
        odds = np.exp(margins)
        share = odds / odds.sum()
        each = np.stack([margins * 0.25, odds, share], axis=1)
        own = np.maximum(each @ w["candidate"] + features @ w["context"] + w["b1"], 0)
        pooled = np.concatenate([own.mean(axis=0), (own * share[:, None]).sum(axis=0)])
        pooled = pooled @ w["pooled"] + w["b2"]
        return (np.maximum(own @ w["own"] + pooled, 0) @ w["out"]).reshape(-1)

    def __call__(self, logits, length):
        """Logits of one step over the vocabulary, repaired; `length` tokens stand in the cache."""
        logits = np.asarray(logits, dtype=np.float32)
        k = ABOUT["top_k"]
        ids = np.lexsort((np.arange(len(logits)), -logits))[:k]
        margins = logits[ids] - logits[ids[0]]
        relative = (logits - logits[ids[0]]).astype(np.float64)
        odds = np.exp(relative)
        log_sum = np.log(odds.sum())
        entropy = log_sum - (odds * relative).sum() / odds.sum()
        features = self.features(margins, log_sum, entropy, length)
        standard = (features - self.weights["features.mean"][0]) / self.weights["features.deviation"][0]
        standard = np.clip(standard, -8, 8)
        if self.risk(standard) < self.threshold:
            return logits
        repaired = logits.copy()
        repaired[ids] += self.correction(margins, ids, standard)
        return repaired


class DgapLogitsProcessor:
    """For `generate(logits_processor=LogitsProcessorList([DgapLogitsProcessor()]))`; one a call of `generate`."""

    def __init__(self, threshold=None):
        self.threshold = threshold
        self.sequences = []

    def __call__(self, input_ids, scores):
        import torch

        while len(self.sequences) < scores.shape[0]:
            self.sequences.append(Dgap(self.threshold))
        length = input_ids.shape[1]
        rows = [dgap(row, length) for dgap, row in zip(self.sequences, scores.float().cpu().numpy())]
        return torch.from_numpy(np.stack(rows)).to(device=scores.device, dtype=scores.dtype)
