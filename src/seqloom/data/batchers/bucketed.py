"""Examples of like length go together."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from seqloom.batch import Batch
from seqloom.data.batchers.base import BatchSize
from seqloom.errors import OptionError
from seqloom.registry import register

POOL = 1 << 20
BLUR = 1 / 3
"""How often an example is sorted as if it were one step longer."""
Indices = npt.NDArray[np.int32]
Lengths = npt.NDArray[np.integer[Any]]


class Encoded(Protocol):
    """What a batcher needs of a corpus."""

    lengths: Mapping[str, Lengths]

    def batch(self, indices: Indices) -> Batch: ...


@register("batcher", "bucketed")
class Bucketed:
    """Examples of like length go together, others in every epoch, in an order that only seed and epoch decide.

    All examples are shuffled, then sorted by length, with a little blur, within large pools, so that little is
    padding; examples of equal lengths stay as they were shuffled. The pools are cut into batches, and the batches of
    the epoch are shuffled.

    corpus: what is cut into batches.
    size: ``tokens`` is the most steps that any field of a batch has, padding included; a longer example is a batch of
        its own. ``sentences`` is the most examples of a batch; alone, every batch but the last has as many.
    seed: of all epochs.
    """

    def __init__(self, corpus: Encoded, size: BatchSize, seed: int) -> None:
        tokens, sentences = size
        if tokens is None and sentences is None:
            raise OptionError("a batch has a size: set tokens, sentences, or both")
        for name, limit in (("tokens", tokens), ("sentences", sentences)):
            if limit is not None and limit < 1:
                raise OptionError(f"{name}={limit} makes no batch: take at least 1")
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
        """The batches of an epoch: indices of examples, every example once."""
        if self._last[0] != epoch:
            self._last = epoch, self._plan(epoch)
        return self._last[1]

    def _plan(self, epoch: int) -> list[Indices]:
        generator = np.random.default_rng([self.seed, epoch])
        count = len(self._source)
        size = POOL if self.sentences is None else max(POOL // self.sentences, 1) * self.sentences
        # Who is in which pool is drawn first, and each is shuffled by itself: it fits into the processor's cache.
        drawn = generator.integers(count // size + 1, size=count, dtype=np.uint16)
        order = np.argsort(drawn, kind="stable").astype(np.int32)
        pools = [order[begin : begin + size] for begin in range(0, count, size)]
        with ThreadPoolExecutor() as threads:  # training waits for this, and numpy works without Python's lock
            cut = threads.map(self._pool, pools, generator.spawn(len(pools)))
            batches = [batch for pool in cut for batch in pool]
        return [batches[n] for n in generator.permutation(len(batches))]

    def target_steps(self, item: Indices) -> int:
        """How many real target steps these examples have."""
        return int(self._target[item].sum())

    def collate(self, item: Indices) -> Batch:
        """The batch of these examples."""
        return self.corpus.batch(item)

    def padding_share(self, plan: Sequence[Indices]) -> float:
        """How much of all steps, of both sides, is padding."""
        real = sum(int(side[batch].sum()) for batch in plan for side in (self._source, self._target))
        padded = sum(len(batch) * int(side[batch].max()) for batch in plan for side in (self._source, self._target))
        return 1 - real / padded

    def _pool(self, pool: Indices, generator: np.random.Generator) -> list[Indices]:
        """The batches of a pool."""
        pool = generator.permutation(pool)
        source, target = self._source[pool], self._target[pool]
        order = self._order(source, target, generator)
        return self._cut(pool[order], np.maximum(source, target)[order])

    @staticmethod
    def _order(source: Lengths, target: Lengths, generator: np.random.Generator) -> npt.NDArray[np.int64]:
        """By the target's length, then the source's: there and back, so that neighbours differ little in both."""
        # Without some blur, in a small corpus half of an example's neighbours would be its neighbours in every epoch.
        source, target = (side + (generator.random(len(side), dtype=np.float32) < BLUR) for side in (source, target))
        width = int(source.max()) + 1
        there_and_back = np.where(target % 2, source, width - 1 - source)
        key = target.astype(np.int64) * width + there_and_back
        return np.argsort(key.astype(np.min_scalar_type(key.max())), kind="stable")  # 16 bits sort fastest

    def _cut(self, pool: Indices, longest: Lengths) -> list[Indices]:
        """A sorted pool as batches, each as large as may be; longest: the longer side of every example."""
        batches, begin = [], 0
        while begin < len(pool):
            count = len(pool) - begin if self.sentences is None else self.sentences
            if self.tokens is not None:
                count = self._fitting(longest[begin : begin + min(count, max(self.tokens // int(longest[begin]), 1))])
            batches.append(pool[begin : begin + count])
            begin += count
        return batches

    def _fitting(self, longest: Lengths) -> int:
        """How many of these examples, from the first on, fit into a batch: at least one, whatever its length."""
        assert self.tokens is not None
        most = int(longest.max())
        count = min(self.tokens // most, len(longest))
        if count and int(longest[:count].max()) == most:  # nearly always: then one more is too many
            return count
        area = np.maximum.accumulate(longest, dtype=np.int64) * np.arange(1, len(longest) + 1)
        return max(int(np.searchsorted(area, self.tokens, side="right")), 1)
