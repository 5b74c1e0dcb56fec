"""The long short-term memory and its ablations against their equations."""

from itertools import product

import numpy as np
import pytest
import torch

from seqloom.registry import build
from tests.nn.helpers import array, assert_equal, by_block, check_equations, forced, input_matrix, sigmoid
from tests.variants import label

ABLATIONS = [
    {"name": "lstm", "forget_gate": forget, "input_gate": inp, "output_gate": out}
    for forget, inp, out in product((True, False), repeat=3)
]
every_ablation = pytest.mark.parametrize("spec", ABLATIONS, ids=label)


@every_ablation
def test_equations(spec):
    def equations(cell, x, h, c):
        W, U, b = (by_block(cell, a) for a in (input_matrix(cell), array(cell.recurrent), array(cell.bias)))

        def gate(name):
            return sigmoid(W[name] @ x + U[name] @ h + b[name]) if spec[f"{name}_gate"] else 1.0

        g = np.tanh(W["candidate"] @ x + U["candidate"] @ h + b["candidate"])
        c = gate("forget") * c + gate("input") * g
        return gate("output") * np.tanh(c), c

    check_equations(spec, equations)


@every_ablation
def test_forced_gates(spec):
    if spec["forget_gate"] and spec["input_gate"]:
        _, (_, c), (_, new_c), seen = forced(spec, forget=1.0, input=0.0)
        assert_equal(new_c, c)
        _, _, (_, new_c), seen = forced(spec, forget=0.0, input=1.0)
        assert_equal(new_c, seen["candidate"])
    if spec["output_gate"]:
        _, _, (h, _), _ = forced(spec, output=0.0)
        assert_equal(h, torch.zeros_like(h))
    _, _, (h, c), _ = forced(spec, output=1.0)
    assert_equal(h, torch.tanh(c))


@every_ablation
def test_a_removed_gate_has_no_parameters(spec):
    cell = build("cell", spec, 3, 4)
    blocks = 1 + spec["forget_gate"] + spec["input_gate"] + spec["output_gate"]
    assert sum(p.numel() for p in cell.parameters()) == blocks * 4 * (3 + 4 + 1)
    assert len(cell.blocks) == blocks


@pytest.mark.parametrize("bias", [None, 0.0, 2.5])
def test_only_the_forget_gate_starts_with_a_bias(bias):
    cell = build("cell", {"name": "lstm"} if bias is None else {"name": "lstm", "forget_bias": bias}, 3, 4)
    for name, b in cell.named_blocks(cell.bias).items():
        assert_equal(b, torch.full_like(b, (1.0 if bias is None else bias) if name == "forget" else 0.0))
