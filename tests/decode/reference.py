"""References for the tests of search: a model given by a table, and searches in plain Python."""

import itertools
from typing import NamedTuple

import torch
from torch.nn import functional as F

from seqloom import Batch, EncoderDecoder, build_model
from seqloom.batch import BOS, EOS
from seqloom.nn.memory import DecoderState, Memory, NextStep
from seqloom.nn.probe import no_probe

CONTENT = (3, 4, 5)
BY_HAND = [
    # PAD BOS EOS   a     b     c
    [0.00, 0.00, 0.00, 0.00, 0.00, 1.00],  # PAD, never fed
    [0.00, 0.00, 0.11, 0.41, 0.29, 0.19],  # BOS
    [0.00, 0.00, 0.00, 0.00, 0.00, 1.00],  # EOS, never fed
    [0.00, 0.00, 0.13, 0.07, 0.43, 0.37],  # a
    [0.00, 0.00, 0.53, 0.09, 0.06, 0.32],  # b
    [0.00, 0.00, 0.31, 0.47, 0.17, 0.05],  # c
]
"""p(next | previous). Greedy search starts with a; but b alone is the most likely output."""


def random_table(seed: int, *, sharpness: float = 1.0, symbols: int = 6) -> torch.Tensor:
    """A random table for each of 10 steps, in which PAD and BOS have probability too.

    With one table for all steps, strings with the same bigrams would be equally likely.
    """
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(10, symbols, symbols, generator=generator, dtype=torch.float64) * sharpness).softmax(-1)


class TableModel:
    """A model whose next token depends on the step and the previous token; a source's first id selects the table.

    Step t uses table t and attends to source position t, both modulo their number.
    """

    training = False
    max_length = None
    attends_to = "source"

    def __init__(self, *tables) -> None:
        tables = [torch.as_tensor(table, dtype=torch.float64) for table in tables]
        self.tables = torch.stack([table if table.dim() == 3 else table[None] for table in tables])
        self.calls: list[tuple[int, int]] = []  # rows and sentences of every step

    def encode(self, batch: Batch, *, probe=no_probe) -> Memory:
        return Memory({"mask": batch.source.mask, "source": batch.source.values})

    def initial_state(self, memory: Memory) -> DecoderState:
        return DecoderState(t=torch.zeros(memory.rows, dtype=torch.long))

    def next_log_probs(self, prev_token, state: DecoderState, memory: Memory, *, probe=no_probe) -> NextStep:
        self.calls.append((len(prev_token), memory.rows))
        K = len(prev_token) // memory.rows
        assert len(prev_token) == len(state["t"]) == K * memory.rows
        which_R, length_R = memory["source"][:, 0].repeat_interleave(K), memory.mask.sum(1).repeat_interleave(K)
        attention_RS = F.one_hot(state["t"] % length_R, memory.mask.shape[1]).double()
        p_RV = self.tables[which_R, state["t"] % self.tables.shape[1], prev_token]
        return NextStep(probe("p", p_RV).log(), attention_RS, DecoderState(t=state["t"] + 1))


DIVISORS = {"none": lambda n: 1.0, "average": lambda n: n, "wu": lambda n: ((5 + n) / 6) ** 0.6}


class ReferenceHypothesis(NamedTuple):
    tokens: tuple[int, ...]
    log_prob: float
    score: float


def log_probs(table, tokens) -> list[float]:
    """Log-probability of every token, given the previous one."""
    steps = table if table.dim() == 3 else table[None]
    pairs = itertools.pairwise([BOS, *tokens])
    return [steps[t % len(steps), a, b].log().item() for t, (a, b) in enumerate(pairs)]


def all_hypotheses(table, length_penalty: str, min_length: int, max_length: int) -> list[ReferenceHypothesis]:
    """All hypotheses, best first, by enumerating all strings."""
    found = []
    for length in range(min_length, max_length + 1):
        for tokens in itertools.product(CONTENT, repeat=length):
            log_prob = sum(log_probs(table, (*tokens, EOS)))
            found.append(ReferenceHypothesis(tokens, log_prob, log_prob / DIVISORS[length_penalty](length + 1)))
    return sorted(found, key=lambda h: -h.score)


def has(tokens, phrase) -> bool:
    """Whether the tokens contain a phrase."""
    return any(tuple(tokens[i : i + len(phrase)]) == tuple(phrase) for i in range(len(tokens) - len(phrase) + 1))


def repeats(tokens, n: int) -> bool:
    """Whether an n-gram occurs twice."""
    grams = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
    return len(set(grams)) < len(grams)


def reference_beam_search(
    table, beam_size: int, length_penalty: str, min_length: int, max_length: int, *, refill: bool = False
) -> tuple[list[ReferenceHypothesis], list[ReferenceHypothesis]]:
    """Beam search with lists, without early stopping: finished and truncated hypotheses, best first."""
    beam: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    finished, truncated = [], []
    for t in range(max_length + 1):
        candidates = []
        for tokens, total in beam:
            follow = (*CONTENT, EOS) if t >= min_length else CONTENT
            options = [((*tokens, token), total + log_probs(table, (*tokens, token))[-1]) for token in follow]
            options = sorted(options, key=lambda c: -c[1])[: 2 * beam_size if refill else beam_size]
            if t == max_length:
                options = [c for c in options[:beam_size] if c[0][-1] == EOS]
                if not options:
                    truncated.append(ReferenceHypothesis(tokens, total, total / DIVISORS[length_penalty](t)))
            candidates += options
        candidates = sorted(candidates, key=lambda c: -c[1])[: 2 * beam_size if refill else beam_size - len(finished)]
        ended = [c for c in candidates[:beam_size] if c[0][-1] == EOS]
        finished += [
            ReferenceHypothesis(tokens[:-1], total, total / DIVISORS[length_penalty](t + 1))
            for tokens, total in ended
        ]
        beam = [c for c in candidates if c[0][-1] != EOS][:beam_size]
        if refill and len(finished) >= beam_size:
            break
    return sorted(finished, key=lambda a: -a.score), sorted(truncated, key=lambda a: -a.score)


SMALL = {
    "luong": {"source_embedder.reverse": False, "encoder.layers": 2, "decoder.layers": 2},
    "sutskever": {"encoder.cell": "lstm", "decoder.cell": "lstm"},
    "transformer": {"encoder.layers": 3, "encoder.heads": 4, "decoder.layers": 3, "decoder.heads": 4},
}
"""Overrides that make presets small enough for tests."""


def real_model(preset: str, *, seed: int = 0, vocabulary: int = 6, **overrides):
    """A small float64 model whose parameters are all random, so that its distributions are not uniform."""
    sizes = {"source": 9, "target": vocabulary}
    overrides = SMALL.get(preset, {}) | overrides
    model = build_model(preset, sizes=sizes, hidden_size=8, overrides=overrides).double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.7)
    return model


def batch_for(model, sources: list[list[int]]) -> Batch:
    """A batch of these sources; for a language model, of as many empty targets."""
    if isinstance(model, EncoderDecoder | TableModel):
        return Batch.from_lists(None, sources)
    return Batch.from_lists([[] for _ in sources])
