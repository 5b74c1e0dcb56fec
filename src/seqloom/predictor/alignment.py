"""Alignment: from attention weights to pairs of source and target, by token or by word."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from seqloom.data.tokenizers.base import WORD_START

Links = list[tuple[int, int]]
"""Pairs of aligned tokens: the indices, from 0, of a source token and of a target token."""


def links(attention_TS: Tensor) -> Links:
    """Link every target token to the source token with the greatest weight: the first of ties; none if all are 0."""
    if not attention_TS.numel():
        return []
    greatest = attention_TS.max(1)
    pairs = zip(greatest.indices.tolist(), greatest.values.tolist(), strict=True)
    return [(s, t) for t, (s, weight) in enumerate(pairs) if weight > 0]


def pharaoh(pairs: Iterable[tuple[int, int]]) -> str:
    """Links in the Pharaoh format of alignment tools: ``0-0 1-2``, the source index first."""
    return " ".join(f"{source}-{target}" for source, target in pairs)


def word_ids(tokens: Iterable[str]) -> list[int]:
    """The index of the word of every token, with words as in ``str.split`` (▁ is a space).

    Additional spaces belong to the following word; at the end, to the last word. Without any word, the index is −1.
    """
    ids: list[int] = []
    index, word = 0, ""
    for token in tokens:
        text = token.replace(WORD_START, " ")
        if text[:1].isspace() and word.strip():
            index, word = index + 1, ""
        word += text
        ids.append(index)
    last = index if word.strip() else index - 1
    return [min(n, last) for n in ids]


def join_words(tokens: Sequence[str], ids: Sequence[int]) -> list[str]:
    """The words that consist of these tokens, without ▁."""
    words = [""] * (max(ids, default=-1) + 1)
    for token, index in zip(tokens, ids, strict=True):
        if index >= 0:
            words[index] += token
    return [word.replace(WORD_START, " ").strip() or word for word in words]


def word_attention(attention_TS: Tensor, target: Sequence[int], source: Sequence[int]) -> Tensor:
    """Attention weights by word: summed over the tokens of a source word, averaged over those of a target word.

        w[i, j] = mean over t in word i of  Σ over s in word j of  attention[t, s]

    target, source: the index of the word of every token.
    """
    in_target_TI, in_source_SJ = (_membership(ids).to(attention_TS) for ids in (target, source))
    return (in_target_TI / in_target_TI.sum(0)).T @ attention_TS @ in_source_SJ


def _membership(ids: Sequence[int]) -> Tensor:
    """Tokens × words, True where a token belongs to a word."""
    return torch.tensor(ids)[:, None] == torch.arange(max(ids, default=-1) + 1)
