"""The loop: batches in, updates out, and a state that can be put down and taken up at any update."""

import math
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seqloom.batch import Batch
from seqloom.config import TrainConfig
from seqloom.data.batchers import Batcher, BatchSize
from seqloom.data.corpus import Corpus
from seqloom.data.prefetch import Prefetch
from seqloom.errors import OptionError, TrainingError
from seqloom.models.base import Autoregressive
from seqloom.registry import build
from seqloom.train.averaging import MovingAverage
from seqloom.train.checkpoint import (
    distinct,
    load_checkpoint,
    load_weights,
    put_weights,
    save_checkpoint,
    save_weights,
)
from seqloom.train.clipping import clip
from seqloom.train.clock import Clock
from seqloom.train.display import Display, Judged, Progress
from seqloom.train.folder import Lines, RunFolder
from seqloom.train.interrupt import Interrupts
from seqloom.train.judge import Judge
from seqloom.train.objectives import Objective

DIVERGED = 2.0
"""A loss so many times that of guessing all symbols alike will not come back."""
STUCK = 4
"""After so many validations with one value, a metric is reported as constant."""
FLOOR = 1.0
"""Of a metric that should rise, whatever is below counts as 0."""


class Portion(NamedTuple):
    """What one update learns from: its batches, how many target tokens they have, and what comes after it."""

    batches: list[Batch]
    tokens: int
    epoch: int
    batch: int


@dataclass
class Standing:
    """All of a run's state that is plain numbers, and the digest of the corpus that it learns from.

    losses: the validation loss of the weights that are kept, by their update.
    unmoved: for how many validations the metric has had its first value; 0 once it has moved.
    """

    corpus: str = ""
    update: int = 0
    epoch: int = 0
    batch: int = 0
    loss: float = 0.0
    plain_loss: float = 0.0
    tokens: int = 0
    evaluated: int = 0
    best: list[tuple[float, int]] = field(default_factory=list)
    losses: dict[int, float] = field(default_factory=dict)
    unmoved: int = 0
    without_best: int = 0
    metrics_length: int = 0
    timing_length: int = 0


class Loop:
    """Trains a network; every update depends on the configuration and the seed alone, never on time."""

    def __init__(
        self,
        network: Autoregressive,
        batcher: Batcher,
        judge: Judge,
        *,
        config: TrainConfig,
        folder: RunFolder,
        display: Display,
    ) -> None:
        self.network, self.batcher, self.judge = network, batcher, judge
        self.config, self.folder, self.display = config, folder, display
        self.device = next(network.parameters()).device
        check_precision(config, self.device)
        assert config.updates is not None
        self.updates = config.updates
        self.optimiser: torch.optim.Optimizer = build("optimiser", config.optimiser or "adam").build(network)
        self.rates = [group["lr"] for group in self.optimiser.param_groups]
        self.schedule = build("schedule", config.schedule or "constant", self.updates)
        self.objective = objective_of(config)
        self.moving = MovingAverage(network, decay=config.moving_average) if config.moving_average else None
        if config.compile:
            compile_loss(network)
        self.carry: Any = None
        self.standing = Standing()
        self.metrics, self.timing = Lines(folder.metrics), Lines(folder.timing)
        self.board: Any = None
        self.saved_at = time.monotonic()

    # -- running

    def run(self, interrupts: Interrupts) -> bool:
        """Train to the end; False if interrupted, with everything saved."""
        self.cut_back()
        if self.config.tensorboard:
            self.board = open_tensorboard(self.folder, self.standing.update)
        clock = Clock(self.standing.update)
        with Prefetch(self.portions()) as portions:
            while True:
                if self.evaluation_is_due():
                    with clock.stopped():
                        if not self.evaluate(interrupts):
                            break
                if self.is_done() or interrupts.asked:
                    break
                portion = next(portions)
                self.learn(portion)
                clock.tokens += portion.tokens
                if self.standing.update % self.config.log_every == 0:
                    self.log(clock, portions.waited)
                if time.monotonic() - self.saved_at > self.config.checkpoint_seconds:
                    self.save()
        self.save()
        return self.is_done() and not self.evaluation_is_due()

    def portions(self) -> Iterator[Portion]:
        """What every update learns from, from where the run stands, without end."""
        epoch, start, together = self.standing.epoch, self.standing.batch, self.config.accumulate
        while True:
            plan = self.batcher.plan(epoch)
            for number in range(start, len(plan), together):
                items = plan[number : number + together]
                tokens = sum(map(self.batcher.target_steps, items))
                after = (epoch, number + together) if number + together < len(plan) else (epoch + 1, 0)
                yield Portion([self.batcher.collate(item) for item in items], tokens, *after)
            epoch, start = epoch + 1, 0

    def learn(self, portion: Portion) -> None:
        """One update: the loss is the mean over all target tokens of the portion."""
        standing = self.standing
        self.network.train()
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * self.schedule.factor(standing.update + 1)
        total = plain = 0.0
        for batch in portion.batches:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bfloat16"):
                loss, self.carry = self.objective(
                    self.network, batch.to(self.device), update=standing.update + 1, carry=self.carry
                )
            (loss.total / portion.tokens).backward()  # type: ignore[no-untyped-call]
            total, plain = total + float(loss.total.detach()), plain + float(loss.shown)
        norm = clip(self.network.parameters(), self.config.clip or math.inf)
        self._check(total / portion.tokens, norm)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        if self.moving is not None:
            self.moving.update(self.network)
        standing.update += 1
        standing.epoch, standing.batch = portion.epoch, portion.batch
        if not portion.batch:  # nothing is carried over into another epoch
            self.carry = None
        standing.loss, standing.plain_loss = standing.loss + total, standing.plain_loss + plain
        standing.tokens += portion.tokens

    def _check(self, loss: float, norm: Tensor) -> None:
        guessing = math.inf if self.judge.symbols is None else math.log(self.judge.symbols)
        if not math.isfinite(loss):
            what = "is not a number"
        elif not bool(torch.isfinite(norm)):
            what = "has a gradient that is not a number"
        elif loss > DIVERGED * guessing + 1:
            what = f"diverges: it is {loss:.1f}, and guessing gives {guessing:.1f}"
        else:
            return
        raise TrainingError(
            f"the loss of update {self.standing.update + 1} {what}. Try a lower train.optimiser.rate, a longer "
            f"train.schedule.warmup or a lower train.clip; what was saved before it is in {self.folder.path}"
        )

    # -- judging

    def evaluation_is_due(self) -> bool:
        """Whether this update is to be judged, and has not been."""
        update, every = self.standing.update, self.config.evaluate_every or 1
        return update > self.standing.evaluated and (update % every == 0 or update >= self.updates)

    def evaluate(self, interrupts: Interrupts) -> bool:
        """Judge the network on dev, keep it if it is among the best; False if interrupted."""
        standing = self.standing
        with self.moving.swapped(self.network) if self.moving is not None else nullcontext():
            judgement = self.judge(self.network, standing.update, interrupts)
            if judgement is None:
                return False
            value = judgement.metrics[self.judge.decides]
            if not math.isfinite(value):
                value = -math.inf if self.judge.higher_is_better else math.inf
            self._notice(value)
            standing.losses[standing.update] = judgement.metrics.get("loss", math.inf)
            is_best = not standing.best or self._rank((value, standing.update)) < self._rank(standing.best[0])
            kept = sorted([*standing.best, (value, standing.update)], key=self._rank)[: self.config.keep or 1]
            if (value, standing.update) in kept:
                save_weights(self.folder.kept(standing.update), distinct(self.network))
        standing.best = kept
        standing.losses = {update: standing.losses[update] for _, update in kept if update in standing.losses}
        standing.without_best = 0 if is_best else standing.without_best + 1
        standing.evaluated = standing.update
        self.schedule.observe(-value if self.judge.higher_is_better else value)  # it takes the lower as better
        record: dict[str, Any] = {
            "update": standing.update,
            "epoch": standing.epoch,
            "dev": dict(judgement.metrics),
            "best": is_best,
        }
        if judgement.truncated:
            record["truncated"] = judgement.truncated
        self.metrics.append(record)
        self._board({f"dev/{name}": number for name, number in judgement.metrics.items()})
        self.display.judged(
            Judged(
                standing.update,
                judgement.metrics,
                self.judge.decides,
                is_best,
                judgement.truncated,
                *judgement.sample,
            )
        )
        self.save()
        self._forget_the_others()
        return True

    def _rank(self, kept: tuple[float, int]) -> tuple[float, float, int]:
        """Best first: by the metric, then by the validation loss, then the earlier.

        So the loss decides while the metric is constant or at its floor.
        """
        value, update = kept
        level = self._level(value)
        loss = self.standing.losses.get(update, math.inf)
        return (-level if self.judge.higher_is_better else level, loss, update)

    @property
    def is_stuck(self) -> bool:
        """Whether the metric has had one value so often that people should know."""
        return self.standing.unmoved >= STUCK

    def _notice(self, value: float) -> None:
        """Whether the metric has moved since the first validation: say so if it starts or stops being stuck."""
        standing, name = self.standing, self.judge.decides
        if name == "loss" or (standing.best and not standing.unmoved):
            return
        was_stuck, level = self.is_stuck, self._level(value)
        moved = bool(standing.best) and level != self._level(standing.best[0][0])
        standing.unmoved = 0 if moved else standing.unmoved + 1
        if self.is_stuck and not was_stuck:
            self.display.say(
                f"{name} was {value:.2f} in all of the first {STUCK} validations: until it changes, the validation "
                f"loss selects the best weights. To choose another metric: --set train.metric=…"
            )
        elif was_stuck and moved:
            self.display.say(f"{name} changes now and selects the best weights again")

    def _level(self, value: float) -> float:
        return 0.0 if self.judge.higher_is_better and value < FLOOR else value

    def _forget_the_others(self) -> None:
        """Remove kept weights that are no longer among the best: only now that the checkpoint does without them."""
        keep = {self.folder.kept(update) for _, update in self.standing.best}
        for path in self.folder.checkpoint.parent.glob("*.safetensors"):
            if path not in keep:
                path.unlink(missing_ok=True)

    def is_done(self) -> bool:
        """Whether there is nothing left to train."""
        patience = self.config.patience
        return self.standing.update >= self.updates or bool(patience and self.standing.without_best >= patience)

    def best_weights(self) -> Iterator[dict[str, Tensor]]:
        """The weights that were kept, the best first, each loaded in its turn; the present ones if none were."""
        if not self.standing.best:
            yield distinct(self.network)
        for _, update in self.standing.best:
            yield load_weights(self.folder.kept(update))

    # -- logging

    def log(self, clock: Clock, waited: float) -> None:
        """A line of what was learned, a line of how fast, and the display."""
        standing = self.standing
        loss, plain_loss = standing.loss / standing.tokens, standing.plain_loss / standing.tokens
        rate = self.optimiser.param_groups[0]["lr"]
        record = {"update": standing.update, "epoch": standing.epoch, "loss": loss, "rate": rate}
        self.metrics.append(record | self.objective.logged(standing.update))
        lap = clock.lap(standing.update, waited)
        speed, left = lap.tokens / lap.seconds, (self.updates - standing.update) * clock.per_update
        self.timing.append(
            {
                "update": standing.update,
                "seconds": round(lap.seconds, 4),
                "target_tokens": lap.tokens,
                "waited_for_batches": round(lap.waited, 6),
            }
        )
        self._board({"train/loss": loss, "train/rate": rate, "train/tokens_per_second": speed})
        self.display.progress(
            Progress(standing.epoch, standing.update, self.updates, loss, plain_loss, rate, speed, left)
        )
        standing.loss, standing.plain_loss, standing.tokens = 0.0, 0.0, 0

    def _board(self, numbers: dict[str, float]) -> None:
        if self.board is not None:
            for name, number in numbers.items():
                self.board.add_scalar(name, number, self.standing.update)

    # -- state

    def save(self) -> None:
        """Put everything down."""
        self.standing.metrics_length = self.metrics.length()
        self.standing.timing_length = self.timing.length()
        save_checkpoint(
            self.folder.checkpoint,
            {
                "network": distinct(self.network),
                "optimiser": self.optimiser.state_dict(),
                "schedule": self.schedule.state(),
                "moving": None if self.moving is None else self.moving.state(),
                "carry": self.carry,
                "standing": asdict(self.standing),
            },
        )
        self.saved_at = time.monotonic()

    def cut_back(self) -> None:
        """Forget what was written after this state: it will be written again."""
        self.metrics.cut(self.standing.metrics_length)
        self.timing.cut(self.standing.timing_length)

    def wait_anew(self) -> None:
        """Count evaluations without a new best from here on: a run that has lost patience can then be lengthened."""
        self.cut_back()
        self.standing.without_best = 0
        self.save()

    def restore(self) -> bool:
        """Take everything up again; False if there is no checkpoint yet, and so everything is to begin anew."""
        if not self.folder.checkpoint.exists():
            return False
        state = load_checkpoint(self.folder.checkpoint)
        put_weights(self.network, state["network"], self.folder.checkpoint)
        self.optimiser.load_state_dict(state["optimiser"])
        self.schedule.restore(state["schedule"])
        if self.moving is not None:
            self.moving.restore(state["moving"])
        self.carry = state.get("carry")  # runs of older versions carry nothing
        standing = state["standing"]
        standing["best"] = [tuple(kept) for kept in standing["best"]]
        self.standing = Standing(**standing)
        return True


def batcher_for(corpus: Corpus, config: TrainConfig, seed: int) -> Batcher:
    """How a corpus is cut into batches."""
    if (config.batch_tokens is None) == (config.batch_sentences is None):
        raise OptionError("give train.batch_tokens or train.batch_sentences, not both")
    size = BatchSize(config.batch_tokens, config.batch_sentences)
    batcher: Batcher = build("batcher", config.batcher, corpus, size, seed)
    return batcher


def objective_of(config: TrainConfig) -> Objective:
    """How a batch becomes a loss: as said, or by scheduled sampling, or by teacher forcing."""
    if config.objective is not None and config.sampling is not None:
        raise OptionError(
            "train.sampling chooses the objective scheduled_sampling, and train.objective another: set only one"
        )
    scheduled = None if config.sampling is None else {"name": "scheduled_sampling", "decay": config.sampling}
    objective: Objective = build("objective", config.objective or scheduled or "teacher_forcing")
    return objective


def compile_loss(network: Autoregressive) -> None:
    """Compile a network's loss, but for what takes longer to compile than it ever saves."""
    # Said here and not where the methods are: PyTorch's decorator imports its compiler, which takes a second.
    for part in network.modules():
        for method in getattr(part, "uncompiled", ()):
            setattr(part, method, torch.compiler.disable(getattr(part, method)))  # type: ignore[no-untyped-call]
    network.loss = torch.compile(network.loss, dynamic=True)  # type: ignore[method-assign]


def check_precision(config: TrainConfig, device: torch.device) -> None:
    """Refuse bfloat16 where it would kill the process: some machines claim instructions that they do not have."""
    if config.precision == "bfloat16" and device.type == "cpu":
        product = "import torch; a = torch.ones(256, 256, dtype=torch.bfloat16); a @ a"
        if subprocess.run([sys.executable, "-c", product], capture_output=True).returncode != 0:
            raise OptionError(
                "train.precision=bfloat16 does not work on this machine, whose processor refuses its instructions; "
                "use float32, or try it with ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment"
            )


def open_tensorboard(folder: RunFolder, update: int) -> Any:
    """A writer of TensorBoard events into the run, which hides those after an update: they are made again."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise OptionError("train.tensorboard needs TensorBoard: pip install 'seqloom[tensorboard]'") from None
    return SummaryWriter(folder.path / "tensorboard", purge_step=update + 1 if update else None)
