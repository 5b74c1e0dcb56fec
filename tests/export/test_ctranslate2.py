"""CTranslate2 engine: its results equal those of the same Transformer in PyTorch."""

import pytest
import torch

from seqloom import Batch, build_model
from seqloom.batch import BOS, PAD, UNK
from seqloom.decode.beam import Beam
from seqloom.decode.constraints import TokenConstraints
from seqloom.decode.greedy import Greedy
from seqloom.decode.sample import Sample
from seqloom.errors import ConfigError
from seqloom.export import export_model, load_engine
from seqloom.export.ctranslate2 import MAX_BATCH

LEARNED = {"name": "learned", "max_positions": 90}
MODELS = {
    "pre-norm": {},
    "post-norm, gelu": {
        f"{part}.{option}": value
        for part in ("encoder", "decoder")
        for option, value in (("layer_norm", "post"), ("activation", "gelu"))
    },
    "learned positions": {"encoder.positional_encoding": LEARNED, "decoder.positional_encoding": LEARNED},
    "no positions": {"encoder.positional_encoding": "none", "decoder.positional_encoding": "none"},
    "other embedding sizes, not tied": {
        "source_embedder.embedding_size": 12,
        "output.embedding_size": 10,
        "output.tie_output_embeddings": False,
    },
    "encoder and decoder differ": {"encoder.layers": 1, "encoder.heads": 2, "decoder.layers": 2, "decoder.heads": 8},
}


def trained_model(settings, *, updates=120):
    """A Transformer trained on a toy task, so that its predictions are clear and its outputs differ in length.

    A source repeats one token, which determines the length and the tokens of the target.
    """
    torch.manual_seed(0)
    settings = {"encoder.layers": 3, "encoder.heads": 4, "decoder.layers": 3, "decoder.heads": 4} | settings
    model = build_model("transformer", sizes={"source": 23, "target": 19}, hidden_size=16, overrides=settings)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for seed in range(updates):
        sources = [source[:1] * len(source) for source in random_sources(32, seed)]
        targets = [[4 + (source[0] + t) % 15 for t in range(1 + source[0] % 6)] for source in sources]
        model.loss(Batch.from_lists(targets, sources)).mean.backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        # CTranslate2 renormalizes probabilities after masking these tokens; here their probability is negligible.
        model.output.bias[[PAD, BOS, UNK]] = -30.0
    return model.eval()


def random_sources(count, seed):
    """Sources of different lengths."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 15, (count,), generator=generator).tolist()
    return [torch.randint(4, 23, (n,), generator=generator).tolist() for n in lengths]


def exported(model, run, engine="ctranslate2"):
    (run / "model.safetensors").write_bytes(b"weights")
    export_model(model, run, engine)
    return load_engine(run, engine)


DEFAULT_MODELS = ("pre-norm", "post-norm, gelu", "encoder and decoder differ")


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=() if name in DEFAULT_MODELS else pytest.mark.slow) for name in MODELS],
)  # training one takes ten seconds
def both(request, tmp_path_factory):
    """A model, and its export to CTranslate2."""
    model = trained_model(MODELS[request.param])
    return model, exported(model, tmp_path_factory.mktemp("run"))


def sentences(count):
    """Sources that are not in the training data."""
    return Batch.from_lists(sources=random_sources(count, 1_000_000))


@pytest.mark.parametrize(
    "search",
    [
        Greedy(),
        Greedy(min_length=2, allow_unk=False),
        Beam(beam_size=5, refill=True),
        Beam(beam_size=4, refill=True, n_best=4),
        Beam(beam_size=9, refill=True, n_best=2, max_length=30),
        Beam(beam_size=1),
        Beam(beam_size=1, length_penalty="wu", min_length=3),
    ],
    ids=lambda search: f"{type(search).__name__} {getattr(search, 'beam_size', '')} {search.scorer.length_penalty}",
)
def test_hypotheses_equal_those_of_pytorch(both, search):
    model, engine = both
    batch = sentences(2 * MAX_BATCH + 3)
    lengths, compared = set(), 0
    for ours, theirs in zip(search(model, batch), search(engine, batch), strict=True):
        assert theirs[0].truncated == ours[0].truncated
        if any(h.truncated for h in ours):
            continue  # at the maximum length we allow only EOS; CTranslate2 takes the most likely token
        compared += 1
        assert [h.tokens for h in theirs] == [h.tokens for h in ours]
        for a, b in zip(ours, theirs, strict=True):
            lengths.add(len(a.tokens))
            assert (b.finished, b.truncated) == (True, False)
            assert b.score_formula == a.score_formula
            assert b.score == pytest.approx(a.score, rel=1e-3, abs=1e-3)
            assert b.token_log_probs == pytest.approx(a.token_log_probs, rel=1e-3, abs=1e-3)
    assert compared > MAX_BATCH, "too few hypotheses to compare"
    assert len(lengths) > 2


def test_truncated_hypotheses_equal_those_of_pytorch(both):
    """Including finished ones, which CTranslate2 and our search reach in different ways."""
    model, engine = both
    for search in (Greedy(max_length=4), Beam(beam_size=5, refill=True, max_length=4)):
        ours, theirs = ([found[0].truncated for found in search(m, sentences(40))] for m in (model, engine))
        assert theirs == ours
        assert set(ours) == {True, False}


def test_refill_is_the_default(both):
    _, engine = both
    batch = sentences(20)
    refill, default = (Beam(beam_size=4, n_best=4, refill=refill)(engine, batch) for refill in (True, None))
    assert [[h.tokens for h in found] for found in default] == [[h.tokens for h in found] for found in refill]


def test_maximum_length_applies_per_sentence(both):
    """In a batch with longer sentences, and without EOS."""
    _, engine = both
    batch = sentences(20)
    for (hypothesis,), length in zip(
        Greedy(max_length_ratio=1.0, min_length_ratio=1.0)(engine, batch),
        batch.source.mask.sum(1).tolist(),
        strict=True,
    ):
        assert len(hypothesis.tokens) == length


def test_truncated_hypothesis_is_not_finished(tmp_path):
    engine = exported(trained_model({}, updates=0), tmp_path)
    for search in (Greedy(max_length=4), Beam(beam_size=3, refill=True, max_length=4)):
        for (hypothesis,) in search(engine, sentences(5)):
            assert not hypothesis.finished
            assert len(hypothesis.tokens) == len(hypothesis.token_log_probs) == 4


def test_int8_results_are_close(tmp_path):
    model = trained_model({})
    before = {name: parameter.clone() for name, parameter in model.state_dict().items()}
    engine = exported(model, tmp_path, "ctranslate2-int8")
    for name, parameter in model.state_dict().items():
        assert torch.equal(parameter, before[name]), "export must not change the model"
    weights = 4 * sum(parameter.numel() for parameter in model.parameters())
    assert (tmp_path / "ctranslate2-int8" / "model.bin").stat().st_size - 2 * 4 * 4096 * 16 < 0.7 * weights
    batch = sentences(30)
    close = 0
    for (ours,), (theirs,) in zip(Greedy()(model, batch), Greedy()(engine, batch), strict=True):
        close += ours.tokens == theirs.tokens
    assert close > 15


@pytest.mark.parametrize(
    ("search", "constraints", "message"),
    [
        (Beam(beam_size=3, refill=False), TokenConstraints(), "remove refill=false"),
        (Beam(beam_size=1, coverage_penalty=0.2), TokenConstraints(), "does not support coverage_penalty"),
        (
            Beam(beam_size=3, refill=True, min_length=2),
            TokenConstraints(),
            "without min_length",
        ),
        (
            Beam(beam_size=3, refill=True, length_penalty="wu"),
            TokenConstraints(),
            "only length_penalty=average",
        ),
        (Sample(), TokenConstraints(), "supports only searches greedy and beam"),
        (Greedy(), TokenConstraints(no_repeat_ngram_size=2), "does not support constraints"),
    ],
    ids=["refill", "coverage_penalty", "min_length", "length_penalty", "sample", "constraints"],
)
def test_unsupported_search_options_are_errors(both, search, constraints, message):
    with pytest.raises(ConfigError, match=message):
        search(both[1], sentences(2), constraints=constraints)


@pytest.mark.parametrize(
    ("preset", "settings"),
    [("recurrent", {}), ("transformer", {"source_embedder.reverse": True})],
    ids=["recurrent", "reversed"],
)
def test_unsupported_models_are_errors(preset, settings, tmp_path):
    model = build_model(preset, sizes={"source": 9, "target": 9}, hidden_size=8, overrides=settings)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    with pytest.raises(ConfigError, match="export this model to onnx"):
        export_model(model, tmp_path, "ctranslate2")
