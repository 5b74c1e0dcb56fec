"""Bucketing: examples of similar length are batched together."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from seqloom.batch import Batch
from seqloom.data.batchers.base import BatchSize
from seqloom.errors import ConfigError
from seqloom.registry import register

POOL_SIZE = 1 << 20
JITTER = 1 / 3
"""Probability that an example is sorted as if it were one step longer."""
Indices = npt.NDArray[np.int32]
Lengths = npt.NDArray[np.integer[Any]]


class Encoded(Protocol):
    """The part of a corpus that a batcher needs."""

    lengths: Mapping[str, Lengths]

    def batch(self, indices: Indices) -> Batch: ...


@register("batcher", "bucketed")
class Bucketed:
    """Bucketing by length: examples of similar length are batched together, so that there is little padding.

    Every epoch, all examples are shuffled and divided into large pools. Each pool is sorted by length, with a little
    random jitter, and split into batches; examples of equal length stay in shuffled order. Finally the batches of the
    epoch are shuffled. Batches and their order depend only on the seed and the epoch number.

    corpus: corpus to split into batches.
    size: batch size. ``tokens`` is the maximum number of steps of any field, padding included; a longer example forms
        a batch by itself. ``sentences`` is the maximum number of examples; if it is given alone, every batch except
        the last has exactly this number.
    seed: random seed of all epochs.
    """

    def __init__(self, corpus: Encoded, size: BatchSize, seed: int) -> None:
        tokens, sentences = size
        if tokens is None and sentences is None:
            raise ConfigError("the batch size is not set: set tokens, sentences, or both")
        for name, limit in (("tokens", tokens), ("sentences", sentences)):
            if limit is not None and limit < 1:
                raise ConfigError(f"{name}={limit} is invalid: it must be at least 1")
        lengths = {field: np.asarray(steps, dtype=np.int32) for field, steps in corpus.lengths.items()}
        self._target = lengths.pop("target")
        others = [*lengths.values()] or [np.zeros_like(self._target)]
        self._source = np.maximum.reduce(others)
        self.corpus = corpus
        self.tokens = tokens
        self.sentences = sentences
        self.seed = seed
        self._last: tuple[int, list[Indices]] = (-1, [])

    def plan(self, epoch: int) -> list[Indices]:
        """The batches of an epoch, as indices of examples; every example occurs once."""
        if self._last[0] != epoch:
            self._last = epoch, self._plan(epoch)
        return self._last[1]

    def _plan(self, epoch: int) -> list[Indices]:
        generator = np.random.default_rng([self.seed, epoch])
        count = len(self._source)
        size = POOL_SIZE if self.sentences is None else max(POOL_SIZE // self.sentences, 1) * self.sentences
        # Pools are drawn first, then shuffled one by one: a pool fits into the CPU cache.
        pool_of = generator.integers(count // size + 1, size=count, dtype=np.uint16)
        order = np.argsort(pool_of, kind="stable").astype(np.int32)
        pools = [order[begin : begin + size] for begin in range(0, count, size)]
        with ThreadPoolExecutor() as threads:  # training waits for this, and numpy releases the GIL
            split = threads.map(self._batch_pool, pools, generator.spawn(len(pools)))
            batches = [batch for pool in split for batch in pool]
        return [batches[n] for n in generator.permutation(len(batches))]

    def target_steps(self, item: Indices) -> int:
        """Number of non-padding target steps of these examples."""
        return int(self._target[item].sum())

    def collate(self, item: Indices) -> Batch:
        """Collate these examples into a batch."""
        return self.corpus.batch(item)

    def padding_share(self, plan: Sequence[Indices]) -> float:
        """Share of padding among all steps of both sides."""
        real = sum(int(side[batch].sum()) for batch in plan for side in (self._source, self._target))
        padded = sum(len(batch) * int(side[batch].max()) for batch in plan for side in (self._source, self._target))
        return 1 - real / padded

    def _batch_pool(self, pool: Indices, generator: np.random.Generator) -> list[Indices]:
        """Shuffle and sort a pool, and split it into batches."""
        pool = generator.permutation(pool)
        source, target = self._source[pool], self._target[pool]
        order = self._order(source, target, generator)
        return self._split(pool[order], np.maximum(source, target)[order])

    @staticmethod
    def _order(source: Lengths, target: Lengths, generator: np.random.Generator) -> npt.NDArray[np.int64]:
        """Sort by target length, then by source length, alternately up and down: neighbors are similar in both."""
        # Without jitter, in a small corpus half of an example's neighbors would be the same in every epoch.
        source, target = (
            side + (generator.random(len(side), dtype=np.float32) < JITTER) for side in (source, target)
        )
        width = int(source.max()) + 1
        zigzag = np.where(target % 2, source, width - 1 - source)
        key = target.astype(np.int64) * width + zigzag
        return np.argsort(key.astype(np.min_scalar_type(key.max())), kind="stable")  # 16 bits sort fastest

    def _split(self, pool: Indices, longest: Lengths) -> list[Indices]:
        """Split a sorted pool into batches, each as large as allowed; longest: the longer side of each example."""
        batches, begin = [], 0
        while begin < len(pool):
            count = len(pool) - begin if self.sentences is None else self.sentences
            if self.tokens is not None:
                count = self._count_fitting(
                    longest[begin : begin + min(count, max(self.tokens // int(longest[begin]), 1))]
                )
            batches.append(pool[begin : begin + count])
            begin += count
        return batches

    def _count_fitting(self, longest: Lengths) -> int:
        """Number of leading examples that fit into a batch: at least one, whatever its length."""
        assert self.tokens is not None
        max_steps = int(longest.max())
        count = min(self.tokens // max_steps, len(longest))
        if count and int(longest[:count].max()) == max_steps:  # nearly always: one more example would not fit
            return count
        area = np.maximum.accumulate(longest, dtype=np.int64) * np.arange(1, len(longest) + 1)
        return max(int(np.searchsorted(area, self.tokens, side="right")), 1)
