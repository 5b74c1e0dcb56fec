"""Models as ONNX give what they give as they are."""

import errno
import logging

import pytest
import torch

from seqloom import Batch, build_model
from seqloom.decode.beam import Beam
from seqloom.decode.greedy import Greedy
from seqloom.decode.masks import Masks
from seqloom.decode.sample import Sample
from seqloom.decode.score import score
from seqloom.errors import OptionError, SeqloomError, SizeError, WriteError
from seqloom.export import ENGINES, export_model, load_engine
from seqloom.export.onnx import OnnxModel

MODELS = {
    "recurrent": ("recurrent", {}),
    "gru, context into the cell": (
        "bahdanau",
        {"encoder.cell": {"name": "gru", "reset": "after"}, "decoder.cell": {"name": "gru", "reset": "after"}},
    ),
    "elman, summary into the cell": ("cho", {"encoder.cell": "elman", "decoder.cell": "elman"}),
    "deep and reversed": ("sutskever", {}),
    "transformer": ("transformer", {"encoder.layers": 2, "decoder.layers": 2}),
    "transformer, learned positions": (
        "transformer",
        {
            "encoder.layers": 1,
            "decoder.layers": 1,
            "encoder.positions": {"name": "learned", "longest": 9},
            "decoder.positions": {"name": "learned", "longest": 9},
        },
    ),
}
BATCHES = [
    Batch.of(sources=[[4, 5, 6, 7, 8, 9, 10], [8, 9]]),
    Batch.of(sources=[[4, 5, 6], [7, 8, 9], [10, 11, 12]]),
    Batch.of(sources=[[4]]),
]


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.slow if name == "deep and reversed" else ()) for name in MODELS],
)  # to export a model takes ten seconds
def both(request, tmp_path_factory):
    """A model, and the same as ONNX."""
    torch.manual_seed(0)
    preset, settings = MODELS[request.param]
    model = build_model(preset, sizes={"source": 13, "target": 17}, size=8, settings=settings).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # so that there is something to choose
    run = tmp_path_factory.mktemp("run")
    (run / "model.safetensors").write_bytes(b"weights")
    export_model(model, run, "onnx")
    return model, load_engine(run, "onnx")


@pytest.mark.parametrize(
    "search",
    [Greedy(max_length=8), Beam(width=4, n_best=3, max_length=8), Sample(samples=2, seed=1, max_length=8)],
    ids=lambda search: type(search).__name__,
)
def test_answers_are_the_same(both, search):
    model, exported = both
    for batch in BATCHES:
        for ours, theirs in zip(search(model, batch), search(exported, batch), strict=True):
            assert [h.tokens for h in theirs] == [h.tokens for h in ours]
            for a, b in zip(ours, theirs, strict=True):
                # With weights three times as large rounding is seen: some 4e-4 on a processor without AVX-512.
                assert b.log_prob == pytest.approx(a.log_prob, rel=1e-3, abs=1e-3)
                assert (a.weights is None) == (b.weights is None)
                if a.weights is not None:
                    torch.testing.assert_close(b.weights, a.weights, atol=2e-3, rtol=1e-3)


def test_constraints_hold(both):
    _, exported = both
    masks = Masks(prefix=[[5, 6], [7]], no_repeat=1)
    for answers in Beam(width=3, max_length=6)(exported, BATCHES[0], masks=masks):
        tokens = answers[0].tokens
        assert len(set(tokens)) == len(tokens)
    first, second = (a[0].tokens for a in Beam(width=3, max_length=6)(exported, BATCHES[0], masks=masks))
    assert (first[:2], second[:1]) == ([5, 6], [7])


def test_scores_are_the_same(both):
    model, exported = both
    batch = Batch.of([[4, 5, 6], [7]], [[4, 5, 6, 7], [8, 9]])
    torch.testing.assert_close(score(exported, batch).total, score(model, batch).total, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("both", ["transformer, learned positions"], indirect=True)
def test_nothing_is_longer_than_the_positions_that_were_learned(both):
    model, exported = both
    free = Greedy(min_length=20)  # without a greatest length
    for batch in BATCHES:
        ours, theirs = ([h.tokens for (h,) in free(network, batch)] for network in (model, exported))
        assert theirs == ours
        assert {len(tokens) for tokens in theirs} == {8}
    for network in (model, exported):
        with pytest.raises(SizeError, match="10"):
            free(network, Batch.of(sources=[[4] * 10]))
        with pytest.raises(SizeError, match="9"):
            score(network, Batch.of([[4] * 9], [[4, 5]]))


def test_eight_bits_are_close(tmp_path):
    torch.manual_seed(0)
    model = build_model("recurrent", sizes={"source": 13, "target": 17}, size=64)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    filters = list(logging.getLogger().filters)
    assert export_model(model, tmp_path, "onnx-int8") == tmp_path / "onnx-int8"
    assert logging.getLogger().filters == filters
    assert model.training, "the model that is exported stays as it is"
    model.eval()
    assert not (tmp_path / "onnx").exists()  # what it is made from is not left behind
    weights = 4 * sum(p.numel() for p in (*model.decoder.parameters(), model.output.output_weight))
    assert (tmp_path / "onnx-int8" / "step.onnx").stat().st_size < 0.4 * weights
    batch = Batch.of([[4, 5, 6], [7]], [[4, 5, 6, 7], [8, 9]])
    off = (score(OnnxModel(tmp_path / "onnx-int8"), batch).total - score(model, batch).total).abs()
    assert 0 < off.max() < 0.1
    load_engine(tmp_path, "onnx-int8")
    (tmp_path / "model.safetensors").write_bytes(b"others")
    with pytest.raises(OptionError, match="has learned since it was exported"):
        load_engine(tmp_path, "onnx-int8")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")], ids=repr)
def test_an_export_that_is_stopped_leaves_the_one_before(engine, error, tmp_path, monkeypatch):
    def half(network, folder, **options):
        (folder / "encoder.onnx").write_bytes(b"new")
        raise error

    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / engine).mkdir()
    (tmp_path / engine / "encoder.onnx").write_bytes(b"old")
    for kind in ("onnx", "ctranslate2"):
        monkeypatch.setattr(f"seqloom.export.{kind}.export", half)
    with pytest.raises(WriteError if isinstance(error, OSError) else KeyboardInterrupt):
        export_model(None, tmp_path, engine)
    assert (tmp_path / engine / "encoder.onnx").read_bytes() == b"old"
    assert {path.name for path in tmp_path.iterdir()} == {"model.safetensors", engine}


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(OptionError, match="has not been exported for engine 'onnx'"):
        load_engine(tmp_path, "onnx")
    with pytest.raises(SeqloomError, match="did you mean 'onnx'"):
        load_engine(tmp_path, "onx")


def test_a_language_model_is_refused(tmp_path):
    model = build_model("attention-lm", sizes={"target": 9}, size=8)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    with pytest.raises(OptionError, match="only an encoder–decoder"):
        export_model(model, tmp_path, "onnx")
