"""What the tests hold search against: a model that is a table, and searches in plain Python."""

import itertools
from typing import NamedTuple

import torch
from torch.nn import functional as F

from seqloom import Batch, EncoderDecoder, build_model
from seqloom.batch import END, START
from seqloom.nn.memory import DecoderState, Memory, NextStep
from seqloom.nn.probe import silent

CONTENT = (3, 4, 5)
BY_HAND = [
    # PAD START END   a     b     c
    [0.00, 0.00, 0.00, 0.00, 0.00, 1.00],  # PAD, never fed
    [0.00, 0.00, 0.11, 0.41, 0.29, 0.19],  # START
    [0.00, 0.00, 0.00, 0.00, 0.00, 1.00],  # END, never fed
    [0.00, 0.00, 0.13, 0.07, 0.43, 0.37],  # a
    [0.00, 0.00, 0.53, 0.09, 0.06, 0.32],  # b
    [0.00, 0.00, 0.31, 0.47, 0.17, 0.05],  # c
]
"""p(next | last). Greedy search begins with a; but b alone is the likeliest answer."""


def drawn(seed: int, *, sharpness: float = 1.0, symbols: int = 6) -> torch.Tensor:
    """A table for each of 10 steps, drawn at random; PAD and START have their share too.

    Of one table for all steps, strings with the same pairs of neighbours would be equally likely.
    """
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(10, symbols, symbols, generator=generator, dtype=torch.float64) * sharpness).softmax(-1)


class TableModel:
    """A model whose next token depends on the step and the last token, by the tables that a source's first id names.

    At its step t it takes the t-th table and attends to step t of the source, both round and round.
    """

    training = False
    max_length = None
    attends_to = "source"

    def __init__(self, *tables) -> None:
        tables = [torch.as_tensor(table, dtype=torch.float64) for table in tables]
        self.tables = torch.stack([table if table.dim() == 3 else table[None] for table in tables])
        self.seen: list[tuple[int, int]] = []  # rows and sentences of every step

    def encode(self, batch: Batch, *, probe=silent) -> Memory:
        return Memory({"mask": batch.source.mask, "source": batch.source.values})

    def initial_state(self, memory: Memory) -> DecoderState:
        return DecoderState(t=torch.zeros(memory.rows, dtype=torch.long))

    def next_log_probs(self, last, state: DecoderState, memory: Memory, *, probe=silent) -> NextStep:
        self.seen.append((len(last), memory.rows))
        K = len(last) // memory.rows
        assert len(last) == len(state["t"]) == K * memory.rows
        which_R, length_R = memory["source"][:, 0].repeat_interleave(K), memory.mask.sum(1).repeat_interleave(K)
        weights_RS = F.one_hot(state["t"] % length_R, memory.mask.shape[1]).double()
        p_RV = self.tables[which_R, state["t"] % self.tables.shape[1], last]
        return NextStep(probe("p", p_RV).log(), weights_RS, DecoderState(t=state["t"] + 1))


DIVISORS = {"none": lambda n: 1.0, "average": lambda n: n, "wu": lambda n: ((5 + n) / 6) ** 0.6}


class Answer(NamedTuple):
    tokens: tuple[int, ...]
    log_prob: float
    value: float


def log_probs(table, tokens) -> list[float]:
    """Of every token, each after the one before."""
    steps = table if table.dim() == 3 else table[None]
    pairs = itertools.pairwise([START, *tokens])
    return [steps[t % len(steps), a, b].log().item() for t, (a, b) in enumerate(pairs)]


def every_answer(table, normalisation: str, least: int, most: int) -> list[Answer]:
    """All there are, best first, by going through all strings."""
    found = []
    for length in range(least, most + 1):
        for tokens in itertools.product(CONTENT, repeat=length):
            log_prob = sum(log_probs(table, (*tokens, END)))
            found.append(Answer(tokens, log_prob, log_prob / DIVISORS[normalisation](length + 1)))
    return sorted(found, key=lambda answer: -answer.value)


def has(tokens, phrase) -> bool:
    """Whether a phrase is in an answer, its tokens one after another."""
    return any(tuple(tokens[i : i + len(phrase)]) == tuple(phrase) for i in range(len(tokens) - len(phrase) + 1))


def repeats(tokens, n: int) -> bool:
    """Whether some n tokens come twice."""
    grams = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
    return len(set(grams)) < len(grams)


def plain_beam(
    table, width: int, normalisation: str, least: int, most: int, *, refill: bool = False
) -> tuple[list[Answer], list[Answer]]:
    """Beam search as it is told, with lists, never stopping early: finished answers and those cut, best first."""
    beam: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    finished, cut = [], []
    for t in range(most + 1):
        candidates = []
        for tokens, total in beam:
            follow = (*CONTENT, END) if t >= least else CONTENT
            options = [((*tokens, token), total + log_probs(table, (*tokens, token))[-1]) for token in follow]
            options = sorted(options, key=lambda c: -c[1])[: 2 * width if refill else width]
            if t == most:
                options = [c for c in options[:width] if c[0][-1] == END]
                if not options:
                    cut.append(Answer(tokens, total, total / DIVISORS[normalisation](t)))
            candidates += options
        candidates = sorted(candidates, key=lambda c: -c[1])[: 2 * width if refill else width - len(finished)]
        over = [c for c in candidates[:width] if c[0][-1] == END]
        finished += [Answer(tokens[:-1], total, total / DIVISORS[normalisation](t + 1)) for tokens, total in over]
        beam = [c for c in candidates if c[0][-1] != END][:width]
        if refill and len(finished) >= width:
            break
    return sorted(finished, key=lambda a: -a.value), sorted(cut, key=lambda a: -a.value)


def real_model(preset: str, *, seed: int = 0, vocabulary: int = 6, **settings):
    """A small model of float64 whose every parameter is drawn at random, so that it has opinions."""
    model = build_model(preset, sizes={"source": 9, "target": vocabulary}, size=8, settings=settings).double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.7)
    return model


def batch_for(model, sources: list[list[int]]) -> Batch:
    """A language model only needs to know how many are wanted."""
    if isinstance(model, EncoderDecoder | TableModel):
        return Batch.of(None, sources)
    return Batch.of([[] for _ in sources])
