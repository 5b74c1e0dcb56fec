"""Greedy search, and features of all searches: lengths, suppressed tokens, removal of finished sentences."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom import Batch, build_model, registry
from seqloom.batch import BOS, EOS, pad
from seqloom.decode.beam import Beam
from seqloom.decode.diverse_beam import DiverseBeam
from seqloom.decode.exhaustive import Exhaustive
from seqloom.decode.greedy import Greedy
from seqloom.decode.lengths import LengthLimits
from seqloom.decode.mbr import Mbr
from seqloom.decode.sample import Sample
from seqloom.decode.stochastic_beam import StochasticBeam
from seqloom.errors import ConfigError, SeqloomError, UnknownNameError
from tests.decode.reference import BY_HAND, TableModel, batch_for, log_probs, random_table, real_model

SEARCHES = [
    Greedy(),
    Beam(beam_size=3, n_best=3),
    Sample(samples=3, seed=5),
    Sample(top_p=0.8, temperature=1.5),
    Sample(typical_p=0.7, min_p=0.1),
    DiverseBeam(beam_size=4, groups=2),
    StochasticBeam(beam_size=4, seed=3),
    Mbr(samples=7, n_best=2, seed=1),
    Exhaustive(n_best=4, max_length=3),
]
KINDS = [Greedy, Beam, Sample, DiverseBeam, StochasticBeam, Mbr]
PRESETS = ["attention-lm", "bahdanau", "luong", "sutskever", "transformer"]
SOURCES = [[3, 8, 4, 5, 7, 3, 3], [7], [6, 6], [5, 4, 3, 8], [8, 7, 6]]


def reference_greedy(table, max_length: int) -> tuple[list[int], bool]:
    tokens: list[int] = []
    for t in range(max_length + 1):
        p = table[t % len(table), tokens[-1] if tokens else BOS].tolist()
        token = max(range(2, len(p)), key=lambda v: p[v])
        if token == EOS:
            return tokens, True
        tokens.append(token)
    return tokens[:max_length], False


@settings(max_examples=40, deadline=None)
@given(seeds=st.lists(st.integers(0, 10_000), min_size=1, max_size=6), max_length=st.integers(1, 9))
def test_greedy_search_equals_reference(seeds, max_length):
    tables = [random_table(seed, sharpness=2.0) for seed in seeds]
    found = Greedy(max_length=max_length)(
        TableModel(*tables), Batch.from_lists(None, [[n] for n in range(len(tables))])
    )
    for (one,), table in zip(found, tables, strict=True):
        assert (one.tokens, one.finished) == reference_greedy(table, max_length)
        expected = log_probs(table, [*one.tokens, EOS] if one.finished else one.tokens)
        assert one.token_log_probs == pytest.approx(expected, abs=1e-12)
        assert (one.log_prob, one.score) == pytest.approx((sum(expected), sum(expected)), abs=1e-12)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("search", SEARCHES, ids=lambda s: type(s).__name__)
def test_hypotheses_are_independent_of_the_batch(preset, search):
    model = real_model(preset, seed=3, vocabulary=9)
    together = search(model, batch_for(model, SOURCES))
    for source, in_batch in zip(SOURCES, together, strict=True):
        (alone,) = search(model, batch_for(model, [source]))
        assert [h.tokens for h in in_batch] == [h.tokens for h in alone]
        for one, other in zip(in_batch, alone, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-10)
            assert one.log_prob == pytest.approx(other.log_prob, abs=1e-10)
            assert one.score == pytest.approx(other.score, abs=1e-10)
            assert one.finished == other.finished
            if one.attention is None:
                assert other.attention is None
            else:
                torch.testing.assert_close(one.attention, other.attention, rtol=0, atol=1e-10)


@pytest.mark.parametrize("preset", ["bahdanau", "transformer"])
@pytest.mark.parametrize("search", [Greedy, Beam, Sample, DiverseBeam, StochasticBeam])
def test_hypotheses_are_nearly_independent_of_the_batch_in_float32(preset, search):
    search = search(max_length=4)  # longer hypotheses of a small model have too many ties
    model = real_model(preset, seed=3, vocabulary=9).float()
    together = search(model, batch_for(model, SOURCES))
    for source, in_batch in zip(SOURCES, together, strict=True):
        (alone,) = search(model, batch_for(model, [source]))
        assert [h.tokens for h in in_batch] == [h.tokens for h in alone]
        for one, other in zip(in_batch, alone, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-4)


@pytest.mark.parametrize("preset", ["bahdanau", "sutskever", "transformer"])
def test_hypotheses_are_independent_of_much_longer_sources(preset):
    model = real_model(preset, vocabulary=9)
    long = [3 + n % 6 for n in range(700)]
    together = Beam(max_length=5)(model, batch_for(model, [[4], long]))
    for source, (in_batch,) in zip([[4], long], together, strict=True):
        ((alone,),) = Beam(max_length=5)(model, batch_for(model, [source]))
        assert (in_batch.tokens, in_batch.finished) == (alone.tokens, alone.finished)
        assert in_batch.log_prob == pytest.approx(alone.log_prob, abs=1e-10)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("search", [SEARCHES[n] for n in (0, 1, 2, 6)], ids=lambda s: type(s).__name__)
def test_attention_is_that_of_the_hypothesis(preset, search):
    model = real_model(preset, seed=4, vocabulary=9)
    found = search(model, batch_for(model, SOURCES))
    for source, hypotheses in zip(SOURCES, found, strict=True):
        for h in hypotheses:
            batch = batch_for(model, [source])
            with torch.no_grad():
                fed = torch.tensor([[BOS, *h.tokens]])[:, : len(h.token_log_probs)]
                expected = model(fed, model.encode(batch), attention=True).attention
            if preset == "sutskever":
                assert h.attention is None
                continue
            torch.testing.assert_close(h.attention, expected[0], rtol=0, atol=1e-10)
            assert not h.attention.is_inference()
    assert all(
        h.attention is None for one in search(model, batch_for(model, SOURCES), return_attention=False) for h in one
    )


@pytest.mark.parametrize("search", KINDS)
def test_hypotheses_without_eos_are_truncated_and_not_finished(search):
    table = torch.tensor(BY_HAND, dtype=torch.float64)
    table[:, EOS] = 0
    for max_length in (1, 7):
        (found,) = search(max_length=max_length)(TableModel(table), Batch.from_lists(None, [[0, 9]]))
        assert not found[0].finished
        assert len(found[0].tokens) == len(found[0].token_log_probs) == len(found[0].attention) == max_length
    (found,) = search()(TableModel(table), Batch.from_lists(None, [[0, 9, 9]]))
    assert len(found[0].tokens) == 2 * 3 + 20


@pytest.mark.parametrize("search", KINDS)
def test_hypotheses_are_empty_if_no_token_is_allowed(search):
    """Four tokens, UNK not allowed, and EOS below the minimum length: no token is left."""
    model = TableModel(random_table(0, symbols=4))
    (one, *_), (other, *_) = search(min_length=2, allow_unk=False)(model, Batch.from_lists(None, [[0], [0]]))
    assert (one.tokens, one.token_log_probs, one.log_prob, one.finished) == ([], [], 0.0, False)
    assert other.tokens == []


def test_dead_end_frees_its_slot():
    """a is more likely, but no token can follow it."""
    table = torch.zeros(6, 6, dtype=torch.float64)
    table[BOS, 3], table[BOS, 4] = 0.9, 0.1
    table[4, 5], table[5, EOS] = 1.0, 1.0
    (found,) = Beam(beam_size=2, n_best=2)(TableModel(table), Batch.from_lists(None, [[0]]))
    assert [(h.tokens, h.finished) for h in found] == [([4, 5], True), ([3], False)]


@pytest.mark.parametrize("search", KINDS)
def test_pad_and_bos_are_suppressed_and_unk_if_not_allowed(search):
    table = torch.full((6, 6), 0.02, dtype=torch.float64)
    table[:, :2], table[:, 3] = 0.4, 0.14
    for allow_unk in (True, False):
        many = search(min_length=8, allow_unk=allow_unk)(TableModel(table), Batch.from_lists(None, [[0]]))
        tokens = set(many[0][0].tokens)
        assert tokens
        assert not tokens & {0, 1}
        assert (3 in tokens) == allow_unk


@pytest.mark.parametrize(
    ("options", "min_length", "max_length"),
    [
        ((0, None, 0.0, None), [0, 0, 0], [22, 24, 40]),
        ((3, 9, 0.0, None), [3, 3, 3], [9, 9, 9]),
        ((0, None, 0.5, 1.5), [0, 1, 5], [2, 3, 15]),
        ((2, 12, 0.5, 1.5), [2, 2, 5], [2, 3, 12]),
        ((4, None, 0.0, 1.0), [1, 2, 4], [1, 2, 10]),
    ],
)
def test_length_bounds(options, min_length, max_length):
    source = pad([[5] * length for length in (1, 2, 10)])
    bounds = LengthLimits(*options).bounds(source, 3, torch.device("cpu"))
    assert [bound.tolist() for bound in bounds] == [min_length, max_length]


@pytest.mark.parametrize("search", KINDS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), bounds=st.tuples(st.integers(0, 6), st.integers(1, 6)))
def test_hypotheses_respect_length_limits(search, seed, bounds):
    min_length, max_length = min(bounds), max(bounds)
    model = TableModel(random_table(seed, sharpness=2.0), random_table(seed + 1, sharpness=2.0))
    for h, *_ in search(min_length=min_length, max_length=max_length)(model, Batch.from_lists(None, [[0], [1, 4]])):
        assert min_length <= len(h.tokens) <= max_length
        assert h.finished or len(h.tokens) == max_length


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=2, max_size=7),
    ratios=st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([1.0, 1.5, None])),
    kind=st.sampled_from(KINDS),
)
def test_length_ratios_are_independent_of_the_batch(lengths, ratios, kind):
    """Also when finished sentences are removed from the batch."""
    search = kind(min_length_ratio=ratios[0], max_length_ratio=ratios[1])
    model = TableModel(*[random_table(seed, sharpness=2.0) for seed in range(len(lengths))])
    sources = [[number, *[5] * (length - 1)] for number, length in enumerate(lengths)]
    for source, (in_batch, *_) in zip(sources, search(model, Batch.from_lists(None, sources)), strict=True):
        ((alone, *_),) = search(model, Batch.from_lists(None, [source]))
        assert (in_batch.tokens, in_batch.finished) == (alone.tokens, alone.finished)
        assert in_batch.score == pytest.approx(alone.score, abs=1e-12)
        assert len(in_batch.tokens) >= round(ratios[0] * len(source))


@pytest.mark.parametrize("search", [Greedy, Beam])
def test_early_eos_waits_for_the_minimum_length_of_each_sentence(search):
    table = torch.zeros(6, 6, dtype=torch.float64)
    table[:, EOS], table[:, 3] = 0.9, 0.1
    lengths = [1, 2, 2, 7, 1, 5, 1, 3]
    found = search(min_length_ratio=1.0, max_length_ratio=1.0)(
        TableModel(table), Batch.from_lists(None, [[0] * n for n in lengths])
    )
    assert [len(one[0].tokens) for one in found] == lengths
    assert all(one[0].finished for one in found)


def test_finished_sentences_are_removed_from_the_batch():
    """The hypotheses equal those of each sentence alone, and the number of rows is not much greater."""
    ends, continues = torch.zeros(6, 6), torch.zeros(6, 6)
    ends[:, EOS] = continues[:, 3] = 1.0
    sources = [*[[0]] * 30, [1], [1, *[5] * 19]]
    model = TableModel(ends, continues)
    together = Greedy(max_length_ratio=2.0)(model, Batch.from_lists(None, sources))
    rows_together, steps = sum(rows for rows, _ in model.calls), len(model.calls)
    model.calls.clear()
    alone = [Greedy(max_length_ratio=2.0)(model, Batch.from_lists(None, [source]))[0] for source in sources]
    rows_alone = sum(rows for rows, _ in model.calls)
    assert [one[0].tokens for one in together] == [one[0].tokens for one in alone]
    assert [len(one[0].tokens) for one in together] == [*[0] * 30, 2, 40]
    assert rows_alone <= rows_together <= 2 * rows_alone
    assert rows_together < 0.2 * steps * len(sources)


def test_rows_of_a_beam_share_the_memory_of_their_sentence():
    model = TableModel(random_table(1), random_table(2))
    Beam(beam_size=4, n_best=4)(model, Batch.from_lists(None, [[0], [1], [0], [0], [1, 5, 5, 5]]))
    assert max(rows for rows, _ in model.calls) > 5
    assert all(sentences <= 5 and rows <= 4 * sentences for rows, sentences in model.calls)


def test_search_is_built_by_name_with_options():
    search = registry.build("search", {"name": "beam", "beam_size": 3, "length_penalty": "wu", "alpha": 1.0})
    (found,) = search(TableModel(BY_HAND), Batch.from_lists(None, [[0]]))
    assert found[0].score_formula == "log_prob / ((5 + n) / 6)^1"


@pytest.mark.parametrize(
    ("spec", "error", "says"),
    [
        ({"name": "beam", "n_best": 6}, ConfigError, "n_best=6 is greater than beam_size=5"),
        ({"name": "beam", "alpha": 0.5}, ConfigError, "alpha=0.5 has no effect with length_penalty='average'"),
        ({"name": "beam", "length_penalty": "wu", "alpha": -1}, ConfigError, "it must be at least 0"),
        ({"name": "beam", "length_penalty": "mean"}, ConfigError, "'none', 'average' or 'wu'"),
        ({"name": "beam", "beam_size": 0}, ConfigError, "beam_size=0"),
        (
            {"name": "greedy", "min_length": 5, "max_length": 4},
            ConfigError,
            "min_length=5 is greater than max_length=4",
        ),
        (
            {"name": "greedy", "min_length_ratio": 2, "max_length_ratio": 1},
            ConfigError,
            "min_length_ratio=2.0 is greater than max_length_ratio=1.0",
        ),
        ({"name": "beam", "coverage_penalty": -1}, ConfigError, "it must be at least 0"),
        (
            {"name": "diverse_beam", "beam_size": 5, "groups": 2},
            ConfigError,
            "beam_size=5 can't be divided into groups=2",
        ),
        ({"name": "diverse_beam", "n_best": 7}, ConfigError, "n_best=7 is greater than beam_size=6"),
        ({"name": "mbr", "samples": 2, "n_best": 3}, ConfigError, "n_best=3 is greater than samples=2"),
        ({"name": "mbr", "metric": "perplexity"}, ConfigError, "compares texts, and perplexity does not"),
        ({"name": "mbr", "metric": "chrff"}, UnknownNameError, "did you mean 'chrf'?"),
        ({"name": "sample", "min_p": 1.5}, ConfigError, "min_p=1.5"),
        ({"name": "sample", "temperature": 0}, ConfigError, "temperature=0"),
        ({"name": "sample", "top_q": 1}, UnknownNameError, "did you mean 'top_p'?"),
    ],
)
def test_invalid_options_raise_errors(spec, error, says):
    with pytest.raises(error) as raised:
        registry.build("search", spec)
    assert says in str(raised.value)


def test_length_ratios_need_a_source():
    model = real_model("attention-lm")
    for options in ({"max_length_ratio": 1.5}, {"min_length_ratio": 0.5}):
        with pytest.raises(ConfigError, match="this model has no source"):
            Greedy(**options)(model, batch_for(model, [[]]))
    assert len(Greedy(min_length=100)(model, batch_for(model, [[]]))[0][0].tokens) == 100


def test_model_in_training_mode_raises_error():
    model = real_model("bahdanau").train()
    with pytest.raises(SeqloomError, match=r"call model.eval\(\) first"):
        Greedy()(model, batch_for(model, [[4]]))


@pytest.mark.parametrize("search", KINDS)
def test_nan_log_probabilities_raise_error(search):
    table = random_table(0)
    table[:, 4:] = torch.nan
    with pytest.raises(SeqloomError, match="are NaN"):
        search(min_length=9)(TableModel(table, random_table(1)), Batch.from_lists(None, [[1], [0]]))


def test_learned_positions_limit_the_output_length():
    """A model that never predicts EOS stops at its last position."""
    model = build_model(
        "transformer",
        sizes={"source": 9, "target": 9},
        hidden_size=8,
        overrides={
            "decoder.heads": 2,
            "encoder.heads": 2,
            "decoder.positional_encoding": {"name": "learned", "max_positions": 6},
        },
    ).eval()
    with torch.no_grad():
        model.output.bias[EOS] = -1e4
    ((best,),) = Greedy()(model, Batch.from_lists(None, [[4, 5]]))
    assert len(best.tokens) == 5
    assert not best.finished


def test_min_length_raises_the_default_maximum_length():
    model = TableModel(BY_HAND)
    ((best,),) = Greedy(min_length=90)(model, Batch.from_lists(None, [[0]]))
    assert len(best.tokens) == 90
    ((best,),) = Greedy(min_length=90, max_length_ratio=30.0)(model, Batch.from_lists(None, [[0]]))
    assert len(best.tokens) == 30, "an explicit maximum takes precedence"
