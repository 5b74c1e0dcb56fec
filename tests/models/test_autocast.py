"""Training under bfloat16 autocast: every preset's loss and gradients beside those of float32.

It runs in a process of its own, in which oneDNN leaves the AMX units alone: a virtual machine may show them and yet
die of an illegal instruction at the first product.
"""

import json
import os
import subprocess
import sys

import pytest

MODELS = {
    "bahdanau": {},
    "luong": {},
    "sutskever": {},
    "transformer": {},
    "attention-lm": {},
    "luong of GRU": {"encoder.cell": {"name": "gru", "reset": "after"}, "decoder.cell": {"name": "gru"}},
    "luong of Elman": {"encoder.cell": "elman", "decoder.cell": "elman"},
    "luong of MUT2": {"encoder.cell": "mut2", "decoder.cell": "mut2"},
}

SCRIPT = """
import json, sys, torch
from seqloom import Batch, build_model
from seqloom.presets import load_preset
from seqloom.train.sampling import scheduled_loss

torch.set_num_threads(1)
found = {}
for name, settings in json.loads(sys.argv[1]).items():
    preset = name.split()[0]
    torch.manual_seed(0)
    has_source = load_preset(preset)["model"] == "encoder_decoder"
    model = build_model(preset, sizes={"source": 30, "target": 30}, size=16, dropout=0.0, settings=settings)
    targets, sources = [[5, 6, 7, 8], [9, 10]], [[4, 5, 6], [7, 8, 9, 10, 11]]
    batch = Batch.of(targets, sources if has_source else None)
    parameters = list(model.parameters())
    full = model.loss(batch).mean
    wanted = torch.autograd.grad(full, parameters)
    with torch.autocast("cpu", torch.bfloat16):
        low = model.loss(batch).mean
        stepped = scheduled_loss(model, batch, 1 - 1e-12).mean
    given = torch.autograd.grad(low, parameters, allow_unused=True)
    by_steps = torch.autograd.grad(stepped, parameters, allow_unused=True)
    def flat(gradients):
        return torch.cat([g.flatten() for g in gradients])
    found[name] = {
        "losses": [full.item(), low.item(), stepped.item()],
        "missing": [n for (n, _), *gs in zip(model.named_parameters(), given, by_steps) if None in gs],
        "types": sorted({str(g.dtype) for g in (*given, *by_steps) if g is not None}),
        "cosines": [torch.cosine_similarity(flat(wanted), flat(g), dim=0).item() for g in (given, by_steps)],
        "sizes": [(flat(g).norm() / flat(wanted).norm()).item() for g in (given, by_steps)],
        "low": low.item() != full.item(),
    }
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found():
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", "-c", SCRIPT, json.dumps(MODELS)]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("name", MODELS)
def test_bfloat16_is_near_float32(found, name):
    """Of whole targets, and of steps (the last of each pair of figures)."""
    full, *low = found[name]["losses"]
    assert low == pytest.approx([full, full], rel=0.02)
    assert found[name]["missing"] == []
    assert found[name]["types"] == ["torch.float32"]
    assert min(found[name]["cosines"]) > 0.99
    assert found[name]["sizes"] == pytest.approx([1, 1], rel=0.05)


def test_autocast_was_on(found):
    assert any(figures["low"] for figures in found.values())
