# A key-value cache for transformers whose layers have bit widths of their own.
#
# Written by kvtune, with the map and the scheme of one precision file inside.
# SPDX-License-Identifier: Apache-2.0 OR MIT
# SPDX-FileCopyrightText: The kvtune founders
#
#     from kvtune_cache import KvtuneCache
#     model.generate(**inputs, past_key_values=KvtuneCache())
#
# Needs torch and transformers 4.56 or later; a cache is for one batch of sequences of equal length, without
# padding. Keys and values are held as codes, packed to whole bytes along a head where the width divides eight,
# with a scale and a zero point a group; reading makes them floats again. Widths of 16 bits are held as they come.
"""Bit widths by layer: see `KvtuneCache`."""

import torch
from transformers.cache_utils import Cache, DynamicLayer

# (bits of the keys, bits of the values), layer 0 first.
PAIRS = [(4, 4), (4, 2)]

# axis: what the elements of a group share; group: its elements, None for a whole head; residual: newest tokens kept
# exact, of keys in whole blocks; sinks: first tokens kept exact.
SCHEME = {}


class KvtuneCache(Cache):
    """A cache for one model; `pairs` and `scheme` default to those that this file was written with."""

    def __init__(self, pairs=None, scheme=None):
        pairs, scheme = PAIRS if pairs is None else pairs, SCHEME if scheme is None else scheme
        super().__init__(layers=[KvtuneLayer(key, value, scheme) for key, value in pairs])


class KvtuneLayer(DynamicLayer):
    """Keys and values of one layer, each as sinks, codes and a residual."""

    is_croppable = False

    def __init__(self, key_bits, value_bits, scheme):
        super().__init__()
        self.scheme = scheme
        self.sides = (Side(key_bits, scheme["key"], scheme, True), Side(value_bits, scheme["value"], scheme, False))

    def update(self, key_states, value_states, *args, **kwargs):
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        first = self.sides[0].tokens == 0
        for side, states in zip(self.sides, (key_states, value_states)):
            side.append(states)
        if first and self.scheme["prefill"] == "exact":
            return key_states, value_states
        return self.sides[0].read(), self.sides[1].read()

    def get_seq_length(self):
        return self.sides[0].tokens

    def reset(self):
        super().reset()
        for side in self.sides:
            side.clear()

    def reorder_cache(self, beam_idx):
        self._each(lambda tensor: tensor.index_select(0, beam_idx.to(tensor.device)))

    def batch_repeat_interleave(self, repeats):
        self._each(lambda tensor: tensor.repeat_interleave(repeats, dim=0))

    def batch_select_indices(self, indices):
        self._each(lambda tensor: tensor[indices, ...])

    def crop(self, *args, **kwargs):
        raise NotImplementedError("codes cannot be taken back: this cache cannot be cropped")

    def _each(self, change):
        for side in self.sides:
            side.change(change)


class Side:
    """The keys, or the values, of one layer: `[batch, kv heads, tokens, channels]`."""

    def __init__(self, bits, spec, scheme, is_key):
        self.bits, self.spec, self.scheme = bits, spec, scheme
        self.blocks = is_key or spec["axis"] == "channel"
        self.by_token = spec["axis"] == "token"
        self.clear()

    def clear(self):
        self.tokens, self.coded = 0, 0
        self.sinks = self.residual = self.codes = self.scale = self.zero = None

    def change(self, change):
        for name in ("sinks", "residual", "codes", "scale", "zero"):
            if getattr(self, name) is not None:
                setattr(self, name, change(getattr(self, name)))

    def frozen(self, tokens):
        """How many tokens after the sinks are codes."""
        rest, residual = max(0, tokens - self.scheme["sinks"]), self.spec["residual"]
        if self.bits == 16:
            return 0
        if residual == 0:
            return rest
        return rest // residual * residual if self.blocks else max(0, rest - residual)

    def append(self, states):
        self.tokens += states.shape[-2]
        self.channels = states.shape[-1]
        missing = self.scheme["sinks"] - (0 if self.sinks is None else self.sinks.shape[-2])
        if missing > 0:
            self.sinks = join(self.sinks, states[..., :missing, :])
            states = states[..., missing:, :]
        self.residual = join(self.residual, states)
        fresh = self.frozen(self.tokens) - self.coded
        if fresh > 0:
            self.freeze(self.residual[..., :fresh, :])
            self.residual = self.residual[..., fresh:, :]
            self.coded += fresh

    def freeze(self, states):
        """Codes whole groups: a token's are its own, a channel's end where the blocks of tokens end."""
        x = states.float()
        if self.scheme["hadamard"]:
            x = x @ hadamard(x.shape[-1]).to(x.device)
        codes, scale, zero = [], [], []
        dim = -1 if self.by_token else -2
        for group in x.split(self.spec["group"] or x.shape[-1], dim=dim):
            parts = encode(group, dim, self.bits, self.scheme)
            codes.append(parts[0]), scale.append(parts[1]), zero.append(parts[2])
        self.codes = join(self.codes, pack(torch.cat(codes, dim), self.bits))
        # One column a group of channels, or one row a group of tokens: both grow along the tokens.
        self.scale = join(self.scale, torch.cat(scale, dim))
        self.zero = join(self.zero, torch.cat(zero, dim))

    def read(self):
        parts = [self.sinks, self.decode(), self.residual]
        parts = [part for part in parts if part is not None and part.shape[-2] > 0]
        return torch.cat(parts, dim=-2)

    def decode(self):
        if self.coded == 0:
            return None
        codes = unpack(self.codes, self.bits, self.channels)
        group = self.spec["group"] or self.channels
        dim, elements = (-1, self.channels) if self.by_token else (-2, self.coded)
        spread = torch.arange(elements, device=codes.device) // group
        scale, zero = self.scale.float().index_select(dim, spread), self.zero.float().index_select(dim, spread)
        x = decode(codes.float(), scale, zero, self.bits, self.scheme)
        if self.scheme["hadamard"]:
            x = x @ hadamard(self.channels).to(x.device).T
        return x.to(self.residual.dtype)


def join(old, new):
    return new.contiguous() if old is None else torch.cat([old, new], dim=-2)


def stored(x, scheme):
    return x.half() if scheme["metadata"] == "f16" else x


def encode(x, dim, bits, scheme):
    """Codes of one group along `dim`, with its scale and zero point; two levels stand in their place at one bit."""
    if bits == 1 and scheme["one_bit"] == "two-level":
        up = x >= x.mean(dim, keepdim=True)
        count = up.sum(dim, keepdim=True)
        rest = x.shape[dim] - count
        high = (x * up).sum(dim, keepdim=True) / count.clamp(min=1)
        low = torch.where(rest > 0, (x * ~up).sum(dim, keepdim=True) / rest.clamp(min=1), high)
        return up.to(torch.uint8), stored(high, scheme), stored(low, scheme)
    low, high = x.amin(dim, keepdim=True), x.amax(dim, keepdim=True)
    top = 2**bits - 1
    if scheme["zero"] == "float":
        scale, zero = stored((high - low) / top, scheme), stored(low, scheme)
        step = torch.where(scale > 0, scale, torch.ones_like(scale)).float()
        codes = torch.round((x - zero.float()) / step) * (scale > 0)
        return codes.clamp(0, top).to(torch.uint8), scale, zero
    scale = (high - low).clamp(min=1e-5) / top
    zero = torch.round(low / scale)
    codes = torch.round(x / scale - zero)
    return codes.clamp(0, top).to(torch.uint8), scale, zero


def decode(codes, scale, zero, bits, scheme):
    if bits == 1 and scheme["one_bit"] == "two-level":
        return torch.where(codes > 0, scale, zero)
    return codes * scale + zero if scheme["zero"] == "float" else (codes + zero) * scale


def pack(codes, bits):
    """Codes of one token and head, several to a byte where their width divides eight."""
    per_byte = 8 // bits if bits in (1, 2, 4) else 1
    if per_byte == 1:
        return codes
    codes = torch.nn.functional.pad(codes, (0, -codes.shape[-1] % per_byte)).unflatten(-1, (-1, per_byte))
    packed = codes[..., 0].clone()
    for place in range(1, per_byte):
        packed |= codes[..., place] << (bits * place)
    return packed


def unpack(packed, bits, channels):
    per_byte = 8 // bits if bits in (1, 2, 4) else 1
    if per_byte == 1:
        return packed
    places = [(packed >> (bits * place)) & (2**bits - 1) for place in range(per_byte)]
    return torch.stack(places, dim=-1).flatten(-2)[..., :channels]


def hadamard(size):
    """Orthonormal, of Sylvester's blocks, the largest power of two first: 80 is 64 and 16."""
    matrix, at = torch.zeros(size, size), 0
    for power in [1 << bit for bit in reversed(range(size.bit_length())) if size >> bit & 1]:
        block = torch.ones(1, 1)
        while block.shape[0] < power:
            block = torch.cat([torch.cat([block, block], 1), torch.cat([block, -block], 1)], 0)
        matrix[at : at + power, at : at + power] = block / power**0.5
        at += power
    return matrix
