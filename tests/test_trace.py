"""Traces: they record the computation of the model, and survive saving and loading."""

import json
import subprocess
import sys

import numpy as np
import pytest

import seqloom
from seqloom import Trace
from seqloom.errors import InputError

PAIRS = [(a + b + c, c + b + a) for a in "abcd" for b in "efgh" for c in "ijkl"]
OVERRIDES = {
    "train.updates": 5,
    "train.batch_sentences": 16,
    "data.source_tokenizer": "character",
    "data.target_tokenizer": "character",
}


@pytest.fixture(scope="module", params=["recurrent", "bahdanau", "transformer"])
def run(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("traced") / request.param
    seqloom.fit(PAIRS, preset=request.param, hidden_size=16, overrides=OVERRIDES, out=out, quiet=True)
    return out


@pytest.fixture(scope="module")
def model(run):
    return seqloom.load(run)


@pytest.mark.parametrize(
    "search", ["greedy", {"name": "beam", "beam_size": 3, "n_best": 3}, {"name": "sample", "samples": 2}]
)
def test_tracing_does_not_change_results(model, search):
    trace, predictions = model.trace("aei", search=search), model.generate("aei", search=search)
    assert trace.source == list("aei")
    assert [(h.text, h.tokens, h.finished) for h in trace.hypotheses] == [
        (a.text, a.tokens, a.finished) for a in predictions
    ]
    for hypothesis, prediction in zip(trace.hypotheses, predictions, strict=True):
        np.testing.assert_allclose(hypothesis.token_log_probs, prediction.token_log_probs, atol=1e-4)


def test_history_contains_every_hypothesis(model):
    trace = model.trace("bfk", search={"name": "beam", "beam_size": 4, "n_best": 4})
    paths = set()
    for last, step in enumerate(trace.steps):
        for candidate in range(len(step.tokens)):
            path, at = [], candidate
            for t in range(last, -1, -1):
                path.append((trace.steps[t].tokens[at], trace.steps[t].rows[at]))
                at = trace.steps[t].parents[at]
            paths.add(tuple(reversed(path)))
    for h in trace.hypotheses:
        tokens = [*h.tokens, *["</s>"] * h.finished]
        assert tuple(zip(tokens, h.rows, strict=True)) in paths


def test_rows_give_the_attention_of_a_hypothesis(model):
    search = {"name": "beam", "beam_size": 4, "n_best": 4}
    trace, predictions = model.trace("dhl", search=search), model.generate("dhl", search=search)
    names = {name.split("[")[0] for name in trace.activations if name.startswith("decoder") and "attention[" in name}
    layer = max(name for name in names if "self" not in name)  # predictions show the last layer
    for h, prediction in zip(trace.hypotheses, predictions, strict=True):
        for t, row in enumerate(h.rows):
            seen = trace.activations[f"{layer}[{t}]"]
            weights = seen[0, row] if seen.ndim == 3 else seen[0, :, row].mean(0)  # averaged over the heads
            np.testing.assert_allclose(weights, prediction.attention[t].numpy(), atol=1e-5)


def test_trace_survives_saving_and_loading(model, tmp_path):
    trace = model.trace("aei")
    trace.save(tmp_path / "trace.json")
    again = Trace.load(tmp_path / "trace.json")
    assert (again.source, again.hypotheses, again.steps) == (trace.source, trace.hypotheses, trace.steps)
    assert again.activations.keys() == trace.activations.keys()
    for name, array in trace.activations.items():
        assert again.activations[name].dtype == array.dtype
        np.testing.assert_array_equal(again.activations[name], array)


def test_command_output_equals_python(run, model):
    command = [sys.executable, "-m", "seqloom", "trace", str(run), "--text", "aei", "--search", "greedy"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    written = Trace.from_json(json.loads(ran.stdout))
    assert written.hypotheses[0].tokens == model.trace("aei", search="greedy").hypotheses[0].tokens


def test_command_accepts_a_json_object(run, model):
    command = [
        sys.executable,
        "-m",
        "seqloom",
        "trace",
        str(run),
        "--search",
        "greedy",
        "--format",
        "jsonl",
        "--text",
    ]
    request = json.dumps({"source": "aei", "prefix": "i"})
    ran = subprocess.run([*command, request], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    written = Trace.from_json(json.loads(ran.stdout))
    assert written.hypotheses[0].tokens == model.trace("aei", search="greedy", prefix="i").hypotheses[0].tokens
    for invalid, message in (
        ([*command, "aei"], "--text: invalid JSON"),
        ([*command, request, "--format", "xml"], "'xml'"),
    ):
        ran = subprocess.run(invalid, capture_output=True, text=True)
        assert (ran.returncode, message in ran.stderr) == (2, True)


@pytest.mark.parametrize(("content", "says"), [("{}", "not a trace"), ("[", "not a trace"), (None, "can't be read")])
def test_invalid_trace_file_raises_error(content, says, tmp_path):
    path = tmp_path / "trace.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=says):
        Trace.load(path)


def test_trace_of_another_version_raises_error():
    with pytest.raises(InputError, match="has version 99"):
        Trace.from_json({"format": "seqloom trace", "version": 99})


def test_blank_source_raises_error(model):
    with pytest.raises(InputError, match="nothing to trace"):
        model.trace(" ")
