"""Training under bfloat16 autocast: loss and gradients of the presets, compared with float32.

The models run in a separate process, in which oneDNN does not use AMX: a virtual machine may report AMX and still
crash with an illegal instruction at the first matrix multiplication.
"""

import json
import os
import subprocess
import sys

import pytest

TWO_LAYERS = {"encoder.layers": 2, "decoder.layers": 2}
MODELS = {
    "bahdanau": {},
    "luong": TWO_LAYERS,
    "sutskever": TWO_LAYERS,
    "transformer": TWO_LAYERS,
    "attention-lm": {},
    "luong with GRU": TWO_LAYERS
    | {"encoder.cell": {"name": "gru", "reset_after": True}, "decoder.cell": {"name": "gru"}},
    "luong with Elman": TWO_LAYERS | {"encoder.cell": "elman", "decoder.cell": "elman"},
    "luong with MUT2": TWO_LAYERS | {"encoder.cell": "mut2", "decoder.cell": "mut2"},
}

SCRIPT = """
import json, sys, torch
from seqloom import Batch, build_model
from seqloom.presets import load_preset
from seqloom.train.objectives.scheduled_sampling import scheduled_loss

torch.set_num_threads(1)
results = {}
for name, overrides in json.loads(sys.argv[1]).items():
    preset = name.split()[0]
    torch.manual_seed(0)
    has_source = load_preset(preset)["type"] == "encoder_decoder"
    sizes = {"source": 30, "target": 30}
    model = build_model(preset, sizes=sizes, hidden_size=16, dropout=0.0, overrides=overrides)
    targets, sources = [[5, 6, 7, 8], [9, 10]], [[4, 5, 6], [7, 8, 9, 10, 11]]
    batch = Batch.from_lists(targets, sources if has_source else None)
    parameters = list(model.parameters())
    full_loss = model.loss(batch).mean
    full = torch.autograd.grad(full_loss, parameters)
    with torch.autocast("cpu", torch.bfloat16):
        low_loss = model.loss(batch).mean
        stepped_loss = scheduled_loss(model, batch, 1 - 1e-12).mean
    low = torch.autograd.grad(low_loss, parameters, allow_unused=True)
    stepped = torch.autograd.grad(stepped_loss, parameters, allow_unused=True)
    def flat(gradients):
        return torch.cat([g.flatten() for g in gradients])
    results[name] = {
        "losses": [full_loss.item(), low_loss.item(), stepped_loss.item()],
        "missing": [n for (n, _), *gs in zip(model.named_parameters(), low, stepped) if None in gs],
        "dtypes": sorted({str(g.dtype) for g in (*low, *stepped) if g is not None}),
        "cosines": [torch.cosine_similarity(flat(full), flat(g), dim=0).item() for g in (low, stepped)],
        "norm_ratios": [(flat(g).norm() / flat(full).norm()).item() for g in (low, stepped)],
        "differs": low_loss.item() != full_loss.item(),
    }
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def results():
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", "-c", SCRIPT, json.dumps(MODELS)]
    process = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@pytest.mark.parametrize("name", MODELS)
def test_bfloat16_loss_and_gradients_are_close_to_float32(results, name):
    """Each list has a value for whole targets and one for single steps."""
    result = results[name]
    full, *low = result["losses"]
    assert low == pytest.approx([full, full], rel=0.02)
    assert result["missing"] == []
    assert result["dtypes"] == ["torch.float32"]
    assert min(result["cosines"]) > 0.99
    assert result["norm_ratios"] == pytest.approx([1, 1], rel=0.05)


def test_autocast_is_active(results):
    assert any(result["differs"] for result in results.values())
