"""Transformers in CTranslate2 give the answers that they give as they are."""

import pytest
import torch

from seqloom import Batch, build_model
from seqloom.batch import PAD, START, UNKNOWN
from seqloom.decode.beam import Beam
from seqloom.decode.greedy import Greedy
from seqloom.decode.masks import Masks
from seqloom.decode.sample import Sample
from seqloom.errors import OptionError
from seqloom.export import export_model, load_engine
from seqloom.export.ctranslate2 import TOGETHER

LEARNED = {"name": "learned", "longest": 90}
MODELS = {
    "norm before": {},
    "norm after, gelu": {
        f"{part}.{option}": value
        for part in ("encoder", "decoder")
        for option, value in (("norm", "after"), ("activation", "gelu"))
    },
    "learned positions": {"encoder.positions": LEARNED, "decoder.positions": LEARNED},
    "no positions": {"encoder.positions": "none", "decoder.positions": "none"},
    "embeddings of other sizes, not tied": {"source.size": 12, "output.size": 10, "output.tied": False},
    "encoder and decoder differ": {"encoder.layers": 1, "encoder.heads": 2, "decoder.layers": 2, "decoder.heads": 8},
}


def built(settings, *, updates=120):
    """A Transformer that has learned something: it has opinions, and ends its answers, some sooner than others.

    A source says one token again and again, which decides how many follow upon it in the answer.
    """
    torch.manual_seed(0)
    model = build_model("transformer", sizes={"source": 23, "target": 19}, size=16, settings=settings)
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    for seed in range(updates):
        sources = [source[:1] * len(source) for source in some(32, seed)]
        targets = [[4 + (source[0] + t) % 15 for t in range(1 + source[0] % 6)] for source in sources]
        model.loss(Batch.of(targets, sources)).mean.backward()
        optimiser.step()
        optimiser.zero_grad()
    with torch.no_grad():
        # What they have, which training makes ever less, CTranslate2 divides among the others: it counts here only.
        model.output.bias[[PAD, START, UNKNOWN]] = -30.0
    return model.eval()


def some(count, seed):
    """Sources of all lengths."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 15, (count,), generator=generator).tolist()
    return [torch.randint(4, 23, (n,), generator=generator).tolist() for n in lengths]


def exported(model, run, engine="ctranslate2"):
    (run / "model.safetensors").write_bytes(b"weights")
    export_model(model, run, engine)
    return load_engine(run, engine)


@pytest.fixture(scope="module", params=MODELS)
def both(request, tmp_path_factory):
    """A model, and the same in CTranslate2."""
    model = built(MODELS[request.param])
    return model, exported(model, tmp_path_factory.mktemp("run"))


def sentences(count):
    """Some that were not learned from."""
    return Batch.of(sources=some(count, 1_000_000))


@pytest.mark.parametrize(
    "search",
    [
        Greedy(),
        Greedy(min_length=2, unknown=False),
        Beam(width=5, refill=True),
        Beam(width=4, refill=True, n_best=4),
        Beam(width=9, refill=True, n_best=2, max_length=30),
        Beam(width=1),
        Beam(width=1, normalisation="wu", min_length=3),
    ],
    ids=lambda search: f"{type(search).__name__} {getattr(search, 'width', '')} {search.ranking.normalisation}",
)
def test_answers_are_the_same(both, search):
    model, engine = both
    batch = sentences(2 * TOGETHER + 3)
    lengths, ended = set(), 0
    for ours, theirs in zip(search(model, batch), search(engine, batch), strict=True):
        assert theirs[0].truncated == ours[0].truncated
        if any(h.truncated for h in ours):
            continue  # where we let END alone follow, it takes what is likeliest and cuts the answer
        ended += 1
        assert [h.tokens for h in theirs] == [h.tokens for h in ours]
        for a, b in zip(ours, theirs, strict=True):
            lengths.add(len(a.tokens))
            assert (b.finished, b.truncated) == (True, False)
            assert b.formula == a.formula
            assert b.value == pytest.approx(a.value, rel=1e-3, abs=1e-3)
            assert b.token_log_probs == pytest.approx(a.token_log_probs, rel=1e-3, abs=1e-3)
    assert ended > TOGETHER, "there must be something to compare"
    assert len(lengths) > 2


def test_the_same_answers_are_truncated(both):
    """Also those that have an end, which CTranslate2 and our search reach in their own ways."""
    model, engine = both
    for search in (Greedy(max_length=4), Beam(width=5, refill=True, max_length=4)):
        found = search(model, sentences(40)), search(engine, sentences(40))
        ours, theirs = ([answers[0].truncated for answers in every] for every in found)
        assert theirs == ours
        assert set(ours) == {True, False}


def test_without_a_word_on_it_places_are_filled_again(both):
    _, engine = both
    batch = sentences(20)
    as_said, unsaid = (Beam(width=4, n_best=4, refill=refill)(engine, batch) for refill in (True, None))
    assert [[h.tokens for h in answers] for answers in unsaid] == [[h.tokens for h in answers] for answers in as_said]


def test_a_sentence_has_its_own_greatest_length(both):
    """Though it is in one batch with longer ones, and END never comes."""
    _, engine = both
    batch = sentences(20)
    for (answer,), steps in zip(
        Greedy(max_ratio=1.0, min_ratio=1.0)(engine, batch), batch.source.mask.sum(1).tolist(), strict=True
    ):
        assert len(answer.tokens) == steps


def test_an_answer_that_is_cut_says_so(tmp_path):
    engine = exported(built({}, updates=0), tmp_path)
    for search in (Greedy(max_length=4), Beam(width=3, refill=True, max_length=4)):
        for (answer,) in search(engine, sentences(5)):
            assert not answer.finished
            assert len(answer.tokens) == len(answer.token_log_probs) == 4


def test_eight_bits_are_close(tmp_path):
    model = built({})
    before = {name: parameter.clone() for name, parameter in model.state_dict().items()}
    engine = exported(model, tmp_path, "ctranslate2-int8")
    for name, parameter in model.state_dict().items():
        assert torch.equal(parameter, before[name]), "the model that is exported stays as it is"
    weights = 4 * sum(parameter.numel() for parameter in model.parameters())
    assert (tmp_path / "ctranslate2-int8" / "model.bin").stat().st_size - 2 * 4 * 4096 * 16 < 0.7 * weights
    batch = sentences(30)
    close = 0
    for (ours,), (theirs,) in zip(Greedy()(model, batch), Greedy()(engine, batch), strict=True):
        close += ours.tokens == theirs.tokens
    assert close > 15


@pytest.mark.parametrize(
    ("search", "masks", "why"),
    [
        (Beam(width=3, refill=False), Masks(), "leave out refill"),
        (Beam(width=1, coverage=0.2), Masks(), "leave out coverage"),
        (Beam(width=3, refill=True, min_length=2), Masks(), "leave out normalisation, min_length"),
        (Beam(width=3, refill=True, normalisation="wu"), Masks(), "leave out normalisation"),
        (Sample(), Masks(), "greedy or beam alone"),
        (Greedy(), Masks(no_repeat=2), "knows no constraints"),
    ],
    ids=["beam", "coverage", "length", "ranking", "sample", "masks"],
)
def test_what_it_does_otherwise_is_refused(both, search, masks, why):
    with pytest.raises(OptionError, match=why):
        search(both[1], sentences(2), masks=masks)


@pytest.mark.parametrize(
    ("preset", "settings"),
    [("recurrent", {}), ("transformer", {"source.reverse": True})],
    ids=["recurrent", "reversed"],
)
def test_models_that_it_can_t_run_are_refused(preset, settings, tmp_path):
    model = build_model(preset, sizes={"source": 9, "target": 9}, size=8, settings=settings)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    with pytest.raises(OptionError, match="export it to onnx"):
        export_model(model, tmp_path, "ctranslate2")
