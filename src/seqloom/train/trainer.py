"""The training loop, whose state can be saved and resumed at any update."""

import math
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seqloom.batch import Batch
from seqloom.config import TrainConfig
from seqloom.data.batchers import Batcher
from seqloom.data.prefetch import Prefetch
from seqloom.errors import TrainingError
from seqloom.models.base import Autoregressive
from seqloom.registry import build
from seqloom.train.averaging import ExponentialMovingAverage
from seqloom.train.checkpoint import (
    load_checkpoint,
    load_into,
    load_weights,
    save_checkpoint,
    save_weights,
    unique_tensors,
)
from seqloom.train.clipping import clip_grad_norm
from seqloom.train.clock import Clock
from seqloom.train.components import build_objective, check_precision, compile_loss, open_tensorboard
from seqloom.train.display import Display, Progress, ValidationEvent
from seqloom.train.folder import JsonlLog, RunFolder
from seqloom.train.interrupt import Interrupts
from seqloom.train.validator import Validator

DIVERGED = 2.0
"""Training has diverged if the loss exceeds this multiple of the loss of a uniform distribution."""
STUCK = 4
"""A metric is reported as constant after this many validations with the same value."""
FLOOR = 1.0
"""If higher is better, values of a metric below this count as 0."""


class UpdateBatches(NamedTuple):
    """The batches of one update, their number of target tokens, and the epoch and batch that come next."""

    batches: list[Batch]
    tokens: int
    epoch: int
    batch: int


@dataclass
class TrainerState:
    """The part of the training state that consists of plain values.

    corpus: digest of the training corpus.
    update: number of updates so far. epoch, batch: the next batch.
    loss, nll_loss, tokens: sums since the last log line.
    evaluated: update of the last validation.
    best: the best checkpoints, as values of the validation metric and updates. losses: their validation losses.
    unmoved: number of validations in which the metric has had its first value; 0 once it has changed.
    without_best: number of validations since the best one.
    metrics_length, timing_length: lengths of the log files in bytes.
    """

    corpus: str = ""
    update: int = 0
    epoch: int = 0
    batch: int = 0
    loss: float = 0.0
    nll_loss: float = 0.0
    tokens: int = 0
    evaluated: int = 0
    best: list[tuple[float, int]] = field(default_factory=list)
    losses: dict[int, float] = field(default_factory=dict)
    unmoved: int = 0
    without_best: int = 0
    metrics_length: int = 0
    timing_length: int = 0


class Trainer:
    """Trains a network. Every update depends only on the configuration and the seed, never on time."""

    def __init__(
        self,
        network: Autoregressive,
        batcher: Batcher,
        validator: Validator,
        *,
        config: TrainConfig,
        folder: RunFolder,
        display: Display,
    ) -> None:
        self.network, self.batcher, self.validator = network, batcher, validator
        self.config, self.folder, self.display = config, folder, display
        self.device = next(network.parameters()).device
        check_precision(config, self.device)
        assert config.updates is not None
        self.updates = config.updates
        self.optimizer: torch.optim.Optimizer = build("optimizer", config.optimizer or "adam").build(network)
        self.peak_lrs = [group["lr"] for group in self.optimizer.param_groups]
        self.schedule = build("schedule", config.schedule or "constant", self.updates)
        self.objective = build_objective(config)
        self.ema = ExponentialMovingAverage(network, decay=config.ema_decay) if config.ema_decay else None
        if config.compile:
            compile_loss(network)
        self.carry: Any = None
        self.state = TrainerState()
        self.metrics, self.timing = JsonlLog(folder.metrics), JsonlLog(folder.timing)
        self.tensorboard: Any = None
        self.saved_at = time.monotonic()

    # -- training loop

    def run(self, interrupts: Interrupts) -> bool:
        """Train until done; False if interrupted. The state is saved in both cases."""
        self.truncate_logs()
        if self.config.tensorboard:
            self.tensorboard = open_tensorboard(self.folder, self.state.update)
        clock = Clock(self.state.update)
        with Prefetch(self.update_batches()) as prefetch:
            while True:
                if self.validation_is_due():
                    with clock.paused():
                        if not self.validate(interrupts):
                            break
                if self.is_done() or interrupts.stop_requested:
                    break
                batches = next(prefetch)
                self.train_step(batches)
                clock.tokens += batches.tokens
                if self.state.update % self.config.log_every == 0:
                    self.log(clock, prefetch.waited)
                if time.monotonic() - self.saved_at > self.config.checkpoint_seconds:
                    self.save()
        self.save()
        return self.is_done() and not self.validation_is_due()

    def update_batches(self) -> Iterator[UpdateBatches]:
        """The batches of every update, from the current state on, without end."""
        epoch, start, count = self.state.epoch, self.state.batch, self.config.gradient_accumulation_steps
        while True:
            plan = self.batcher.plan(epoch)
            for number in range(start, len(plan), count):
                items = plan[number : number + count]
                tokens = sum(map(self.batcher.target_steps, items))
                following = (epoch, number + count) if number + count < len(plan) else (epoch + 1, 0)
                yield UpdateBatches([self.batcher.collate(item) for item in items], tokens, *following)
            epoch, start = epoch + 1, 0

    def train_step(self, batches: UpdateBatches) -> None:
        """One update; the loss is the mean over all target tokens of its batches."""
        state = self.state
        self.network.train()
        for group, lr in zip(self.optimizer.param_groups, self.peak_lrs, strict=True):
            group["lr"] = lr * self.schedule.factor(state.update + 1)
        total = nll = 0.0
        for batch in batches.batches:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bfloat16"):
                loss, self.carry = self.objective(
                    self.network, batch.to(self.device), update=state.update + 1, carry=self.carry
                )
            (loss.total / batches.tokens).backward()  # type: ignore[no-untyped-call]
            total, nll = total + float(loss.total.detach()), nll + float(loss.reported)
        norm = clip_grad_norm(self.network.parameters(), self.config.clip_grad_norm or math.inf)
        self._check_divergence(total / batches.tokens, norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.ema is not None:
            self.ema.update(self.network)
        state.update += 1
        state.epoch, state.batch = batches.epoch, batches.batch
        if not batches.batch:  # no state is carried over to the next epoch
            self.carry = None
        state.loss, state.nll_loss = state.loss + total, state.nll_loss + nll
        state.tokens += batches.tokens

    def _check_divergence(self, loss: float, norm: Tensor) -> None:
        """Raise an error if training has diverged."""
        uniform = math.inf if self.validator.vocab_size is None else math.log(self.validator.vocab_size)
        if not math.isfinite(loss):
            problem = "is not finite"
        elif not bool(torch.isfinite(norm)):
            problem = "has a gradient that is not finite"
        elif loss > DIVERGED * uniform + 1:
            problem = f"diverges: it is {loss:.1f}, and a uniform distribution has a loss of {uniform:.1f}"
        else:
            return
        raise TrainingError(
            f"the loss of update {self.state.update + 1} {problem}. Try a lower train.optimizer.lr, a longer "
            f"train.schedule.warmup or a lower train.clip_grad_norm. The last checkpoint is in {self.folder.path}"
        )

    # -- validation

    def validation_is_due(self) -> bool:
        """Whether the current weights must be validated, and have not been yet."""
        update, every = self.state.update, self.config.evaluate_every or 1
        return update > self.state.evaluated and (update % every == 0 or update >= self.updates)

    def validate(self, interrupts: Interrupts) -> bool:
        """Validate the network, and keep the weights if they are among the best; False if interrupted."""
        state = self.state
        with self.ema.swapped(self.network) if self.ema is not None else nullcontext():
            result = self.validator(self.network, state.update, interrupts)
            if result is None:
                return False
            value = result.metrics[self.validator.primary_metric]
            if not math.isfinite(value):
                value = -math.inf if self.validator.higher_is_better else math.inf
            self._report_stuck_metric(value)
            state.losses[state.update] = result.metrics.get("loss", math.inf)
            is_best = not state.best or self._rank((value, state.update)) < self._rank(state.best[0])
            kept = sorted([*state.best, (value, state.update)], key=self._rank)[
                : self.config.keep_best_checkpoints or 1
            ]
            if (value, state.update) in kept:
                save_weights(self.folder.best_checkpoint(state.update), unique_tensors(self.network))
        state.best = kept
        state.losses = {update: state.losses[update] for _, update in kept if update in state.losses}
        state.without_best = 0 if is_best else state.without_best + 1
        state.evaluated = state.update
        self.schedule.on_validation(-value if self.validator.higher_is_better else value)  # lower is better there
        record: dict[str, Any] = {
            "update": state.update,
            "epoch": state.epoch,
            "dev": dict(result.metrics),
            "is_best": is_best,
        }
        if result.truncated:
            record["truncated"] = result.truncated
        self.metrics.append(record)
        self._write_tensorboard({f"dev/{name}": number for name, number in result.metrics.items()})
        self.display.validated(
            ValidationEvent(
                state.update,
                result.metrics,
                self.validator.primary_metric,
                is_best,
                result.truncated,
                *result.sample,
            )
        )
        self.save()
        self._remove_other_checkpoints()
        return True

    def _rank(self, checkpoint: tuple[float, int]) -> tuple[float, float, int]:
        """Sort key with the best first: by the validation metric, then the validation loss, then the earlier update.

        So the loss decides while the metric is constant or below its floor.
        """
        value, update = checkpoint
        floored = self._floored(value)
        loss = self.state.losses.get(update, -math.inf)  # unknown in runs of format 1: then the earlier is better
        return (-floored if self.validator.higher_is_better else floored, loss, update)

    @property
    def is_stuck(self) -> bool:
        """Whether the metric has been constant for so long that it is reported."""
        return self.state.unmoved >= STUCK

    def _report_stuck_metric(self, value: float) -> None:
        """Report when the validation metric is found to be constant, and when it first changes."""
        state, name = self.state, self.validator.primary_metric
        if name == "loss" or (state.best and not state.unmoved):
            return
        was_stuck, floored = self.is_stuck, self._floored(value)
        changed = bool(state.best) and floored != self._floored(state.best[0][0])
        state.unmoved = 0 if changed else state.unmoved + 1
        if self.is_stuck and not was_stuck:
            self.display.say(
                f"{name} was {value:.2f} in all of the first {STUCK} validations. Until it changes, the validation "
                f"loss selects the best checkpoint. To use another metric: --set train.validation_metric=…"
            )
        elif was_stuck and changed:
            self.display.say(f"{name} has changed and selects the best checkpoint again")

    def _floored(self, value: float) -> float:
        """The value of the metric, or 0 if it is below the floor."""
        return 0.0 if self.validator.higher_is_better and value < FLOOR else value

    def _remove_other_checkpoints(self) -> None:
        """Remove weights that are no longer among the best, after the checkpoint that doesn't list them is saved."""
        keep = {self.folder.best_checkpoint(update) for _, update in self.state.best}
        for path in self.folder.checkpoint.parent.glob("*.safetensors"):
            if path not in keep:
                path.unlink(missing_ok=True)

    def is_done(self) -> bool:
        """Whether training has reached its limit or stops early."""
        patience = self.config.patience
        return self.state.update >= self.updates or bool(patience and self.state.without_best >= patience)

    def best_weights(self) -> Iterator[dict[str, Tensor]]:
        """The best checkpoints, best first, loaded one at a time; the current weights if there are none."""
        if not self.state.best:
            yield unique_tensors(self.network)
        for _, update in self.state.best:
            yield load_weights(self.folder.best_checkpoint(update))

    # -- logging

    def log(self, clock: Clock, data_wait_seconds: float) -> None:
        """Write loss and speed to the log files, TensorBoard and the display."""
        state = self.state
        loss, nll_loss = state.loss / state.tokens, state.nll_loss / state.tokens
        lr = self.optimizer.param_groups[0]["lr"]
        record = {"update": state.update, "epoch": state.epoch, "loss": loss, "lr": lr}
        self.metrics.append(record | self.objective.logged(state.update))
        lap = clock.lap(state.update, data_wait_seconds)
        speed, left = lap.tokens / lap.seconds, (self.updates - state.update) * clock.per_update
        self.timing.append(
            {
                "update": state.update,
                "seconds": round(lap.seconds, 4),
                "target_tokens": lap.tokens,
                "data_wait_seconds": round(lap.data_wait_seconds, 6),
            }
        )
        self._write_tensorboard({"train/loss": loss, "train/lr": lr, "train/tokens_per_second": speed})
        self.display.progress(Progress(state.epoch, state.update, self.updates, loss, nll_loss, lr, speed, left))
        state.loss, state.nll_loss, state.tokens = 0.0, 0.0, 0

    def _write_tensorboard(self, numbers: dict[str, float]) -> None:
        if self.tensorboard is not None:
            for name, number in numbers.items():
                self.tensorboard.add_scalar(name, number, self.state.update)

    # -- state

    def save(self) -> None:
        """Save a checkpoint."""
        self.state.metrics_length = self.metrics.length()
        self.state.timing_length = self.timing.length()
        save_checkpoint(
            self.folder.checkpoint,
            {
                "network": unique_tensors(self.network),
                "optimizer": self.optimizer.state_dict(),
                "schedule": self.schedule.state(),
                "ema": None if self.ema is None else self.ema.state(),
                "carry": self.carry,
                "trainer": asdict(self.state),
            },
        )
        self.saved_at = time.monotonic()

    def truncate_logs(self) -> None:
        """Remove log lines after the current state; they will be written again."""
        self.metrics.truncate(self.state.metrics_length)
        self.timing.truncate(self.state.timing_length)

    def reset_patience(self) -> None:
        """Restart early stopping, so that a run that stopped early can continue with a new limit."""
        self.truncate_logs()
        self.state.without_best = 0
        self.save()

    def restore(self) -> bool:
        """Load the last checkpoint; False if there is none yet."""
        if not self.folder.checkpoint.exists():
            return False
        saved = load_checkpoint(self.folder.checkpoint)
        load_into(self.network, saved["network"], self.folder.checkpoint)
        self.optimizer.load_state_dict(saved["optimizer"])
        self.schedule.restore(saved["schedule"])
        if self.ema is not None:
            self.ema.restore(saved["ema"])
        self.carry = saved["carry"]
        state = saved["trainer"]
        self.state = TrainerState(**{**state, "best": [tuple(kept) for kept in state["best"]]})
        return True
