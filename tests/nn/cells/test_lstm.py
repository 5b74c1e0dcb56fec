"""The LSTM and its ablations against their equations."""

from itertools import product

import numpy as np
import pytest
import torch

from seqloom.registry import build
from tests.nn.helpers import (
    assert_equal,
    check_equations,
    input_matrix,
    sigmoid,
    split_blocks,
    step_with_forced_values,
    to_numpy,
)
from tests.variants import label

ABLATIONS = [
    {"name": "lstm", "forget_gate": forget, "input_gate": inp, "output_gate": out}
    for forget, inp, out in product((True, False), repeat=3)
]
every_ablation = pytest.mark.parametrize("spec", ABLATIONS, ids=label)


@every_ablation
def test_equations(spec):
    def equations(cell, x, h, c):
        W, U, b = (split_blocks(cell, a) for a in (input_matrix(cell), to_numpy(cell.recurrent), to_numpy(cell.bias)))

        def gate(name):
            return sigmoid(W[name] @ x + U[name] @ h + b[name]) if spec[f"{name}_gate"] else 1.0

        g = np.tanh(W["candidate"] @ x + U["candidate"] @ h + b["candidate"])
        c = gate("forget") * c + gate("input") * g
        return gate("output") * np.tanh(c), c

    check_equations(spec, equations)


@every_ablation
def test_gates_forced_open_or_closed(spec):
    if spec["forget_gate"] and spec["input_gate"]:
        _, (_, c), (_, new_c), seen = step_with_forced_values(spec, forget=1.0, input=0.0)
        assert_equal(new_c, c)
        _, _, (_, new_c), seen = step_with_forced_values(spec, forget=0.0, input=1.0)
        assert_equal(new_c, seen["candidate"])
    if spec["output_gate"]:
        _, _, (h, _), _ = step_with_forced_values(spec, output=0.0)
        assert_equal(h, torch.zeros_like(h))
    _, _, (h, c), _ = step_with_forced_values(spec, output=1.0)
    assert_equal(h, torch.tanh(c))


@every_ablation
def test_removed_gate_has_no_parameters(spec):
    cell = build("cell", spec, 3, 4)
    blocks = 1 + spec["forget_gate"] + spec["input_gate"] + spec["output_gate"]
    assert sum(p.numel() for p in cell.parameters()) == blocks * 4 * (3 + 4 + 1)
    assert len(cell.blocks) == blocks


@pytest.mark.parametrize("bias", [None, 0.0, 2.5])
def test_forget_bias_initializes_only_the_forget_gate(bias):
    cell = build("cell", {"name": "lstm"} if bias is None else {"name": "lstm", "forget_bias": bias}, 3, 4)
    for name, b in cell.named_blocks(cell.bias).items():
        assert_equal(b, torch.full_like(b, (1.0 if bias is None else bias) if name == "forget" else 0.0))
