"""Alignment: from the weights of attention to pairs of source and target, by token or by word."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from seqloom.data.tokenizers.base import WORD_START

Links = list[tuple[int, int]]
"""What belongs together: the numbers, from 0, of a source token and of a target token."""


def links(weights_TS: Tensor) -> Links:
    """For every target token the source token with the greatest weight: of equals the first; of zeros none."""
    if not weights_TS.numel():
        return []
    greatest = weights_TS.max(1)
    found = zip(greatest.indices.tolist(), greatest.values.tolist(), strict=True)
    return [(s, t) for t, (s, weight) in enumerate(found) if weight > 0]


def pharaoh(pairs: Iterable[tuple[int, int]]) -> str:
    """Links as alignment tools write them: ``0-0 1-2``, the source's number first."""
    return " ".join(f"{source}-{target}" for source, target in pairs)


def word_numbers(pieces: Iterable[str]) -> list[int]:
    """For every piece of a text the number of its word, ▁ being a space: words as ``str.split`` finds them.

    Further spaces belong to the word that follows; at the end, to the last; where there is no word, to none (−1).
    """
    numbers: list[int] = []
    number, word = 0, ""
    for piece in pieces:
        text = piece.replace(WORD_START, " ")
        if text[:1].isspace() and word.strip():
            number, word = number + 1, ""
        word += text
        numbers.append(number)
    last = number if word.strip() else number - 1
    return [min(n, last) for n in numbers]


def joined(tokens: Sequence[str], numbers: Sequence[int]) -> list[str]:
    """The words that tokens make up, without ▁."""
    words = [""] * (max(numbers, default=-1) + 1)
    for token, number in zip(tokens, numbers, strict=True):
        if number >= 0:
            words[number] += token
    return [word.replace(WORD_START, " ").strip() or word for word in words]


def merged(weights_TS: Tensor, target: Sequence[int], source: Sequence[int]) -> Tensor:
    """The weights of words: what the pieces of a target word give to all pieces of a source word, on average.

        w[i, j] = mean over t in word i of  Σ over s in word j of  weights[t, s]

    target, source: for every token the number of its word.
    """
    in_target_TI, in_source_SJ = (_membership(numbers).to(weights_TS) for numbers in (target, source))
    return (in_target_TI / in_target_TI.sum(0)).T @ weights_TS @ in_source_SJ


def _membership(numbers: Sequence[int]) -> Tensor:
    """Tokens × words, True where a token is of a word."""
    return torch.tensor(numbers)[:, None] == torch.arange(max(numbers, default=-1) + 1)
