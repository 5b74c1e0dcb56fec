"""Traces: what they hold is what the model did, and they survive being written."""

import json
import subprocess
import sys

import numpy as np
import pytest

import seqloom
from seqloom import Trace
from seqloom.errors import InputError

PAIRS = [(a + b + c, c + b + a) for a in "abcd" for b in "efgh" for c in "ijkl"]
SETTINGS = {"train.updates": 5, "train.batch_sentences": 16, "data.source": "character", "data.target": "character"}


@pytest.fixture(scope="module", params=["recurrent", "bahdanau", "transformer"])
def run(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("traced") / request.param
    seqloom.fit(PAIRS, preset=request.param, size=16, settings=SETTINGS, out=out, quiet=True)
    return out


@pytest.fixture(scope="module")
def model(run):
    return seqloom.load(run)


@pytest.mark.parametrize(
    "search", ["greedy", {"name": "beam", "width": 3, "n_best": 3}, {"name": "sample", "samples": 2}]
)
def test_recording_changes_no_result(model, search):
    trace, answers = model.trace("aei", search=search), model.answers("aei", search=search)
    assert trace.source == list("aei")
    assert [(h.text, h.tokens, h.finished) for h in trace.hypotheses] == [
        (a.text, a.tokens, a.finished) for a in answers
    ]
    for hypothesis, answer in zip(trace.hypotheses, answers, strict=True):
        np.testing.assert_allclose(hypothesis.token_log_probs, answer.token_log_probs, atol=1e-4)


def test_the_history_leads_to_every_hypothesis(model):
    trace = model.trace("bfk", search={"name": "beam", "width": 4, "n_best": 4})
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


def test_attention_of_a_hypothesis_is_at_its_rows(model):
    search = {"name": "beam", "width": 4, "n_best": 4}
    trace, answers = model.trace("dhl", search=search), model.answers("dhl", search=search)
    names = {name.split("[")[0] for name in trace.activations if name.startswith("decoder") and "attention[" in name}
    layer = max(name for name in names if "self" not in name)  # the last one is what answers show
    for h, answer in zip(trace.hypotheses, answers, strict=True):
        for t, row in enumerate(h.rows):
            seen = trace.activations[f"{layer}[{t}]"]
            weights = seen[0, row] if seen.ndim == 3 else seen[0, :, row].mean(0)  # averaged over the heads
            np.testing.assert_allclose(weights, answer.weights[t].numpy(), atol=1e-5)


def test_a_trace_survives_being_written(model, tmp_path):
    trace = model.trace("aei")
    trace.save(tmp_path / "trace.json")
    again = Trace.load(tmp_path / "trace.json")
    assert (again.source, again.hypotheses, again.steps) == (trace.source, trace.hypotheses, trace.steps)
    assert again.activations.keys() == trace.activations.keys()
    for name, array in trace.activations.items():
        assert again.activations[name].dtype == array.dtype
        np.testing.assert_array_equal(again.activations[name], array)


def test_the_command_writes_what_python_gives(run, model):
    command = [sys.executable, "-m", "seqloom", "trace", str(run), "--text", "aei", "--search", "greedy"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    written = Trace.from_json(json.loads(ran.stdout))
    assert written.hypotheses[0].tokens == model.trace("aei", search="greedy").hypotheses[0].tokens


def test_the_command_takes_an_object_as_predict_does(run, model):
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
    asked = json.dumps({"source": "aei", "prefix": "i"})
    ran = subprocess.run([*command, asked], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    written = Trace.from_json(json.loads(ran.stdout))
    assert written.hypotheses[0].tokens == model.trace("aei", search="greedy", prefix="i").hypotheses[0].tokens
    for wrong, said in (([*command, "aei"], "--text: not JSON"), ([*command, asked, "--format", "xml"], "'xml'")):
        ran = subprocess.run(wrong, capture_output=True, text=True)
        assert (ran.returncode, said in ran.stderr) == (2, True)


@pytest.mark.parametrize(("content", "says"), [("{}", "not a trace"), ("[", "not a trace"), (None, "can't be read")])
def test_what_is_not_a_trace_is_refused(content, says, tmp_path):
    path = tmp_path / "trace.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=says):
        Trace.load(path)


def test_a_trace_of_another_version_is_refused():
    with pytest.raises(InputError, match="has version 99"):
        Trace.from_json({"format": "seqloom trace", "version": 99})


def test_a_blank_source_can_not_be_traced(model):
    with pytest.raises(InputError, match="nothing to trace"):
        model.trace(" ")
