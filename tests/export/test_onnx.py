"""ONNX engine: its results equal those of the same model in PyTorch."""

import errno
import logging
from hashlib import sha256

import pytest
import torch

from seqloom import Batch, build_model
from seqloom.decode.beam import Beam
from seqloom.decode.constraints import TokenConstraints
from seqloom.decode.greedy import Greedy
from seqloom.decode.sample import Sample
from seqloom.decode.score import score
from seqloom.errors import ConfigError, SeqloomError, ShapeError, WriteError
from seqloom.export import ENGINES, export_model, load_engine
from seqloom.export.onnx import OnnxModel

MODELS = {
    "recurrent": ("recurrent", {}),
    "gru, context read by the first layer": (
        "bahdanau",
        {"encoder.cell": {"name": "gru", "reset_after": True}, "decoder.cell": {"name": "gru", "reset_after": True}},
    ),
    "elman, summary read by the first layer": ("cho", {"encoder.cell": "elman", "decoder.cell": "elman"}),
    "deep and reversed": ("sutskever", {"encoder.cell": "lstm", "decoder.cell": "lstm"}),
    "transformer": ("transformer", {"encoder.layers": 2, "decoder.layers": 2}),
    "transformer, learned positions": (
        "transformer",
        {
            "encoder.layers": 1,
            "decoder.layers": 1,
            "encoder.positional_encoding": {"name": "learned", "max_positions": 9},
            "decoder.positional_encoding": {"name": "learned", "max_positions": 9},
        },
    ),
}
BATCHES = [
    Batch.from_lists(sources=[[4, 5, 6, 7, 8, 9, 10], [8, 9]]),
    Batch.from_lists(sources=[[4, 5, 6], [7, 8, 9], [10, 11, 12]]),
    Batch.from_lists(sources=[[4]]),
]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=() if name in ("recurrent", "transformer") else pytest.mark.slow) for name in MODELS
    ],
)  # an export takes ten to twenty seconds
def both(request, tmp_path_factory):
    """A model, and its export to ONNX."""
    torch.manual_seed(0)
    preset, settings = MODELS[request.param]
    model = build_model(preset, sizes={"source": 13, "target": 17}, hidden_size=8, overrides=settings).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # for clear predictions
    run = tmp_path_factory.mktemp("run")
    (run / "model.safetensors").write_bytes(b"weights")
    export_model(model, run, "onnx")
    return model, load_engine(run, "onnx")


@pytest.mark.parametrize(
    "search",
    [Greedy(max_length=8), Beam(beam_size=4, n_best=3, max_length=8), Sample(samples=2, seed=1, max_length=8)],
    ids=lambda search: type(search).__name__,
)
def test_hypotheses_equal_those_of_pytorch(both, search):
    model, exported = both
    for batch in BATCHES:
        for ours, theirs in zip(search(model, batch), search(exported, batch), strict=True):
            assert [h.tokens for h in theirs] == [h.tokens for h in ours]
            for a, b in zip(ours, theirs, strict=True):
                # Tripled weights amplify rounding errors: about 4e-4 on a processor without AVX-512.
                assert b.log_prob == pytest.approx(a.log_prob, rel=1e-3, abs=1e-3)
                assert (a.attention is None) == (b.attention is None)
                if a.attention is not None:
                    torch.testing.assert_close(b.attention, a.attention, atol=2e-3, rtol=1e-3)


def test_constraints_apply(both):
    _, exported = both
    constraints = TokenConstraints(prefix=[[5, 6], [7]], no_repeat_ngram_size=1)
    for hypotheses in Beam(beam_size=3, max_length=6)(exported, BATCHES[0], constraints=constraints):
        tokens = hypotheses[0].tokens
        assert len(set(tokens)) == len(tokens)
    first, second = (
        found[0].tokens for found in Beam(beam_size=3, max_length=6)(exported, BATCHES[0], constraints=constraints)
    )
    assert (first[:2], second[:1]) == ([5, 6], [7])


def test_target_scores_equal_those_of_pytorch(both):
    model, exported = both
    batch = Batch.from_lists([[4, 5, 6], [7]], [[4, 5, 6, 7], [8, 9]])
    torch.testing.assert_close(score(exported, batch).total, score(model, batch).total, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("both", ["transformer, learned positions"], indirect=True)
def test_learned_positions_limit_source_and_target(both):
    model, exported = both
    free = Greedy(min_length=20)  # without a maximum length
    for batch in BATCHES:
        ours, theirs = ([h.tokens for (h,) in free(network, batch)] for network in (model, exported))
        assert theirs == ours
        assert {len(tokens) for tokens in theirs} == {8}
    for network in (model, exported):
        with pytest.raises(ShapeError, match="10"):
            free(network, Batch.from_lists(sources=[[4] * 10]))
        with pytest.raises(ShapeError, match="9"):
            score(network, Batch.from_lists([[4] * 9], [[4, 5]]))


def test_int8_results_are_close(tmp_path):
    torch.manual_seed(0)
    model = build_model("recurrent", sizes={"source": 13, "target": 17}, hidden_size=64)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    filters = list(logging.getLogger().filters)
    assert export_model(model, tmp_path, "onnx-int8") == tmp_path / "onnx-int8"
    assert logging.getLogger().filters == filters
    assert model.training, "export must not change the model"
    model.eval()
    assert not (tmp_path / "onnx").exists()  # the float32 export is temporary
    weights = 4 * sum(p.numel() for p in (*model.decoder.parameters(), model.output.output_weight))
    assert (tmp_path / "onnx-int8" / "decoder_step.onnx").stat().st_size < 0.4 * weights
    batch = Batch.from_lists([[4, 5, 6], [7]], [[4, 5, 6, 7], [8, 9]])
    off = (score(OnnxModel(tmp_path / "onnx-int8"), batch).total - score(model, batch).total).abs()
    assert 0 < off.max() < 0.1
    load_engine(tmp_path, "onnx-int8")
    (tmp_path / "model.safetensors").write_bytes(b"others")
    with pytest.raises(ConfigError, match=r"weights of .* have changed since it was exported"):
        load_engine(tmp_path, "onnx-int8")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")], ids=repr)
def test_interrupted_export_keeps_previous_export(engine, error, tmp_path, monkeypatch):
    def fail_midway(network, folder, **options):
        (folder / "encoder.onnx").write_bytes(b"new")
        raise error

    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / engine).mkdir()
    (tmp_path / engine / "encoder.onnx").write_bytes(b"old")
    for kind in ("onnx", "ctranslate2"):
        monkeypatch.setattr(f"seqloom.export.{kind}.export", fail_midway)
    with pytest.raises(WriteError if isinstance(error, OSError) else KeyboardInterrupt):
        export_model(None, tmp_path, engine)
    assert (tmp_path / engine / "encoder.onnx").read_bytes() == b"old"
    assert {path.name for path in tmp_path.iterdir()} == {"model.safetensors", engine}


def test_missing_export_and_unknown_engine_are_errors(tmp_path):
    with pytest.raises(ConfigError, match="has not been exported for engine 'onnx'"):
        load_engine(tmp_path, "onnx")
    with pytest.raises(SeqloomError, match="did you mean 'onnx'"):
        load_engine(tmp_path, "onx")


def test_export_of_an_earlier_version_is_an_error(tmp_path):
    """It has other file and tensor names."""
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    for engine in ENGINES:
        (tmp_path / engine).mkdir()
        (tmp_path / engine / "limits.json").write_text('{"longest_source": null, "longest_answer": null}')
        (tmp_path / engine / "made-from.sha256").write_text(sha256(b"weights").hexdigest())
        command = f"seqloom export {tmp_path} --to {engine}"
        with pytest.raises(ConfigError, match=f"earlier version of seqloom: export the run again: {command}$"):
            load_engine(tmp_path, engine)


def test_files_and_tensors_have_documented_names(both):
    model, exported = both
    with torch.no_grad():
        memory = model.encode(BATCHES[0])
        state = model.initial_state(memory)
    encoder, step = exported.encoder, exported.decoder_step
    assert encoder.inputs == ["source", "mask"]
    assert {f"initial_state.{name}" for name in state} <= set(encoder.outputs)
    assert set(encoder.outputs) - {f"initial_state.{name}" for name in state} <= {
        "encoder_states", *(f"memory.{name}" for name in memory)
    }  # fmt: skip
    assert set(step.inputs) - {f"state.{name}" for name in state} <= {
        "prev_token", "mask", "encoder_states", *(f"memory.{name}" for name in memory)
    }  # fmt: skip
    attention = {"attention"} if model.attends_to else set()
    assert set(step.outputs) == {"log_probs", *attention, *(f"next_state.{name}" for name in state)}
    assert {"prev_token", *(f"state.{name}" for name in state)} <= set(step.inputs)


def test_language_model_is_an_error(tmp_path):
    model = build_model("attention-lm", sizes={"target": 9}, hidden_size=8)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    with pytest.raises(ConfigError, match="only encoder–decoders"):
        export_model(model, tmp_path, "onnx")
