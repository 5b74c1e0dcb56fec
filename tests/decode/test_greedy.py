"""Greedy search and what all searches share: lengths, forbidden tokens, sentences that are done."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom import Batch, build_model, registry
from seqloom.batch import END, START, pad
from seqloom.decode.beam import Beam
from seqloom.decode.diverse import Diverse
from seqloom.decode.exhaustive import Exhaustive
from seqloom.decode.greedy import Greedy
from seqloom.decode.lengths import Lengths
from seqloom.decode.mbr import Mbr
from seqloom.decode.sample import Sample
from seqloom.decode.stochastic import Stochastic
from seqloom.errors import OptionError, SeqloomError, UnknownNameError
from tests.decode.plain import BY_HAND, TableModel, batch_for, drawn, log_probs, real_model

SEARCHES = [
    Greedy(),
    Beam(width=3, n_best=3),
    Sample(samples=3, seed=5),
    Sample(top_p=0.8, temperature=1.5),
    Sample(typical_p=0.7, min_p=0.1),
    Diverse(width=4, groups=2),
    Stochastic(width=4, seed=3),
    Mbr(samples=7, n_best=2, seed=1),
    Exhaustive(n_best=4, max_length=3),
]
KINDS = [Greedy, Beam, Sample, Diverse, Stochastic, Mbr]
PRESETS = ["attention-lm", "bahdanau", "luong", "sutskever", "transformer"]
SOURCES = [[3, 8, 4, 5, 7, 3, 3], [7], [6, 6], [5, 4, 3, 8], [8, 7, 6]]


def plain_greedy(table, most: int) -> tuple[list[int], bool]:
    tokens: list[int] = []
    for t in range(most + 1):
        p = table[t % len(table), tokens[-1] if tokens else START].tolist()
        token = max(range(2, len(p)), key=lambda v: p[v])
        if token == END:
            return tokens, True
        tokens.append(token)
    return tokens[:most], False


@settings(max_examples=40, deadline=None)
@given(seeds=st.lists(st.integers(0, 10_000), min_size=1, max_size=6), most=st.integers(1, 9))
def test_greedy_takes_the_likeliest(seeds, most):
    tables = [drawn(seed, sharpness=2.0) for seed in seeds]
    found = Greedy(max_length=most)(TableModel(*tables), Batch.of(None, [[n] for n in range(len(tables))]))
    for (one,), table in zip(found, tables, strict=True):
        assert (one.tokens, one.finished) == plain_greedy(table, most)
        expected = log_probs(table, [*one.tokens, END] if one.finished else one.tokens)
        assert one.token_log_probs == pytest.approx(expected, abs=1e-12)
        assert (one.log_prob, one.value) == pytest.approx((sum(expected), sum(expected)), abs=1e-12)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("search", SEARCHES, ids=lambda s: type(s).__name__)
def test_a_sentence_alone_is_what_it_is_in_a_batch(preset, search):
    model = real_model(preset, seed=3, vocabulary=9)
    together = search(model, batch_for(model, SOURCES))
    for source, in_batch in zip(SOURCES, together, strict=True):
        (alone,) = search(model, batch_for(model, [source]))
        assert [h.tokens for h in in_batch] == [h.tokens for h in alone]
        for one, other in zip(in_batch, alone, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-10)
            assert one.log_prob == pytest.approx(other.log_prob, abs=1e-10)
            assert one.value == pytest.approx(other.value, abs=1e-10)
            assert one.finished == other.finished
            if one.weights is None:
                assert other.weights is None
            else:
                torch.testing.assert_close(one.weights, other.weights, rtol=0, atol=1e-10)


@pytest.mark.parametrize("preset", ["bahdanau", "transformer"])
@pytest.mark.parametrize("search", [Greedy, Beam, Sample, Diverse, Stochastic])
def test_and_nearly_so_in_single_precision(preset, search):
    search = search(max_length=4)  # longer answers of a small model are too often equally likely
    model = real_model(preset, seed=3, vocabulary=9).float()
    together = search(model, batch_for(model, SOURCES))
    for source, in_batch in zip(SOURCES, together, strict=True):
        (alone,) = search(model, batch_for(model, [source]))
        assert [h.tokens for h in in_batch] == [h.tokens for h in alone]
        for one, other in zip(in_batch, alone, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-4)


@pytest.mark.parametrize("preset", ["bahdanau", "sutskever", "transformer"])
def test_a_source_far_longer_than_others(preset):
    model = real_model(preset, vocabulary=9)
    long = [3 + n % 6 for n in range(700)]
    together = Beam(max_length=5)(model, batch_for(model, [[4], long]))
    for source, (in_batch,) in zip([[4], long], together, strict=True):
        ((alone,),) = Beam(max_length=5)(model, batch_for(model, [source]))
        assert (in_batch.tokens, in_batch.finished) == (alone.tokens, alone.finished)
        assert in_batch.log_prob == pytest.approx(alone.log_prob, abs=1e-10)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("search", [SEARCHES[n] for n in (0, 1, 2, 6)], ids=lambda s: type(s).__name__)
def test_weights_are_those_of_the_winning_path(preset, search):
    model = real_model(preset, seed=4, vocabulary=9)
    found = search(model, batch_for(model, SOURCES))
    for source, answers in zip(SOURCES, found, strict=True):
        for h in answers:
            batch = batch_for(model, [source])
            with torch.no_grad():
                fed = torch.tensor([[START, *h.tokens]])[:, : len(h.token_log_probs)]
                expected = model(fed, model.encode(batch), attention=True).attention
            if preset == "sutskever":
                assert h.weights is None
                continue
            torch.testing.assert_close(h.weights, expected[0], rtol=0, atol=1e-10)
            assert not h.weights.is_inference()
    assert all(h.weights is None for one in search(model, batch_for(model, SOURCES), weights=False) for h in one)


@pytest.mark.parametrize("search", KINDS)
def test_a_model_that_never_ends_is_cut_and_that_is_said(search):
    table = torch.tensor(BY_HAND, dtype=torch.float64)
    table[:, END] = 0
    for most in (1, 7):
        (found,) = search(max_length=most)(TableModel(table), Batch.of(None, [[0, 9]]))
        assert not found[0].finished
        assert len(found[0].tokens) == len(found[0].token_log_probs) == len(found[0].weights) == most
    (found,) = search()(TableModel(table), Batch.of(None, [[0, 9, 9]]))
    assert len(found[0].tokens) == 2 * 3 + 20


@pytest.mark.parametrize("search", KINDS)
def test_nothing_may_follow(search):
    """Four symbols, UNKNOWN not wanted, and END too soon: there is nothing to say."""
    model = TableModel(drawn(0, symbols=4))
    (one, *_), (other, *_) = search(min_length=2, unknown=False)(model, Batch.of(None, [[0], [0]]))
    assert (one.tokens, one.token_log_probs, one.log_prob, one.finished) == ([], [], 0.0, False)
    assert other.tokens == []


def test_a_dead_end_leaves_its_place_to_others():
    """a is likelier, but nothing follows it."""
    table = torch.zeros(6, 6, dtype=torch.float64)
    table[START, 3], table[START, 4] = 0.9, 0.1
    table[4, 5], table[5, END] = 1.0, 1.0
    (found,) = Beam(width=2, n_best=2)(TableModel(table), Batch.of(None, [[0]]))
    assert [(h.tokens, h.finished) for h in found] == [([4, 5], True), ([3], False)]


@pytest.mark.parametrize("search", KINDS)
def test_pad_and_start_are_never_said_and_unknown_only_where_allowed(search):
    table = torch.full((6, 6), 0.02, dtype=torch.float64)
    table[:, :2], table[:, 3] = 0.4, 0.14
    for unknown in (True, False):
        many = search(min_length=8, unknown=unknown)(TableModel(table), Batch.of(None, [[0]]))
        said = set(many[0][0].tokens)
        assert said
        assert not said & {0, 1}
        assert (3 in said) == unknown


@pytest.mark.parametrize(
    ("options", "least", "most"),
    [
        ((0, None, 0.0, None), [0, 0, 0], [22, 24, 40]),
        ((3, 9, 0.0, None), [3, 3, 3], [9, 9, 9]),
        ((0, None, 0.5, 1.5), [0, 1, 5], [2, 3, 15]),
        ((2, 12, 0.5, 1.5), [2, 2, 5], [2, 3, 12]),
        ((4, None, 0.0, 1.0), [1, 2, 4], [1, 2, 10]),
    ],
)
def test_lengths(options, least, most):
    source = pad([[5] * length for length in (1, 2, 10)])
    bounds = Lengths(*options).bounds(source, 3, torch.device("cpu"))
    assert [bound.tolist() for bound in bounds] == [least, most]


@pytest.mark.parametrize("search", KINDS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), bounds=st.tuples(st.integers(0, 6), st.integers(1, 6)))
def test_answers_are_as_long_as_they_may_be(search, seed, bounds):
    least, most = min(bounds), max(bounds)
    model = TableModel(drawn(seed, sharpness=2.0), drawn(seed + 1, sharpness=2.0))
    for h, *_ in search(min_length=least, max_length=most)(model, Batch.of(None, [[0], [1, 4]])):
        assert least <= len(h.tokens) <= most
        assert h.finished or len(h.tokens) == most


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=2, max_size=7),
    ratios=st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([1.0, 1.5, None])),
    kind=st.sampled_from(KINDS),
)
def test_lengths_relative_to_the_source_in_a_batch_as_alone(lengths, ratios, kind):
    """Sentences leave at different times, and take their bounds along."""
    search = kind(min_ratio=ratios[0], max_ratio=ratios[1])
    model = TableModel(*[drawn(seed, sharpness=2.0) for seed in range(len(lengths))])
    sources = [[number, *[5] * (length - 1)] for number, length in enumerate(lengths)]
    for source, (in_batch, *_) in zip(sources, search(model, Batch.of(None, sources)), strict=True):
        ((alone, *_),) = search(model, Batch.of(None, [source]))
        assert (in_batch.tokens, in_batch.finished) == (alone.tokens, alone.finished)
        assert in_batch.value == pytest.approx(alone.value, abs=1e-12)
        assert len(in_batch.tokens) >= round(ratios[0] * len(source))


@pytest.mark.parametrize("search", [Greedy, Beam])
def test_one_who_would_rather_end_ends_at_the_least_length_of_each(search):
    table = torch.zeros(6, 6, dtype=torch.float64)
    table[:, END], table[:, 3] = 0.9, 0.1
    lengths = [1, 2, 2, 7, 1, 5, 1, 3]
    found = search(min_ratio=1.0, max_ratio=1.0)(TableModel(table), Batch.of(None, [[0] * n for n in lengths]))
    assert [len(one[0].tokens) for one in found] == lengths
    assert all(one[0].finished for one in found)


def test_sentences_that_are_done_cost_no_more_work():
    """Whenever they leave: the answers are those of each sentence alone, for little more work than all of these."""
    ends, goes_on = torch.zeros(6, 6), torch.zeros(6, 6)
    ends[:, END] = goes_on[:, 3] = 1.0
    sources = [*[[0]] * 30, [1], [1, *[5] * 19]]
    model = TableModel(ends, goes_on)
    together = Greedy(max_ratio=2.0)(model, Batch.of(None, sources))
    rows_together, steps = sum(rows for rows, _ in model.seen), len(model.seen)
    model.seen.clear()
    alone = [Greedy(max_ratio=2.0)(model, Batch.of(None, [source]))[0] for source in sources]
    rows_alone = sum(rows for rows, _ in model.seen)
    assert [one[0].tokens for one in together] == [one[0].tokens for one in alone]
    assert [len(one[0].tokens) for one in together] == [*[0] * 30, 2, 40]
    assert rows_alone <= rows_together <= 2 * rows_alone
    assert rows_together < 0.2 * steps * len(sources)


def test_beams_share_the_memory_of_their_sentence():
    model = TableModel(drawn(1), drawn(2))
    Beam(width=4, n_best=4)(model, Batch.of(None, [[0], [1], [0], [0], [1, 5, 5, 5]]))
    assert max(rows for rows, _ in model.seen) > 5
    assert all(sentences <= 5 and rows <= 4 * sentences for rows, sentences in model.seen)


def test_registered_by_name_with_checked_options():
    search = registry.build("search", {"name": "beam", "width": 3, "normalisation": "wu", "alpha": 1.0})
    (found,) = search(TableModel(BY_HAND), Batch.of(None, [[0]]))
    assert found[0].formula == "log_prob / ((5 + n) / 6)^1"


@pytest.mark.parametrize(
    ("spec", "error", "says"),
    [
        ({"name": "beam", "n_best": 6}, OptionError, "n_best=6 answers need a beam of at least that width; it is 5"),
        ({"name": "beam", "alpha": 0.5}, OptionError, "alpha=0.5 belongs to normalisation='wu'"),
        ({"name": "beam", "normalisation": "wu", "alpha": -1}, OptionError, "greater than or equal to 0"),
        ({"name": "beam", "normalisation": "mean"}, OptionError, "'none', 'average' or 'wu'"),
        ({"name": "beam", "width": 0}, OptionError, "width=0"),
        ({"name": "greedy", "min_length": 5, "max_length": 4}, OptionError, "min_length=5 is more than max_length=4"),
        ({"name": "greedy", "min_ratio": 2, "max_ratio": 1}, OptionError, "min_ratio=2.0 is more than max_ratio=1.0"),
        ({"name": "beam", "coverage": -1}, OptionError, "greater than or equal to 0"),
        ({"name": "diverse", "width": 5, "groups": 2}, OptionError, "groups=2 can't share a width of 5 equally"),
        ({"name": "diverse", "n_best": 7}, OptionError, "n_best=7 answers need a beam"),
        ({"name": "mbr", "samples": 2, "n_best": 3}, OptionError, "at least that many samples; there are 2"),
        ({"name": "mbr", "metric": "perplexity"}, OptionError, "perplexity does not compare texts"),
        ({"name": "mbr", "metric": "chrff"}, UnknownNameError, "did you mean 'chrf'?"),
        ({"name": "sample", "min_p": 1.5}, OptionError, "min_p=1.5"),
        ({"name": "sample", "temperature": 0}, OptionError, "temperature=0"),
        ({"name": "sample", "top_q": 1}, UnknownNameError, "did you mean 'top_p'?"),
    ],
)
def test_what_makes_no_sense_is_refused(spec, error, says):
    with pytest.raises(error) as raised:
        registry.build("search", spec)
    assert says in str(raised.value)


def test_ratios_need_a_source():
    model = real_model("attention-lm")
    for options in ({"max_ratio": 1.5}, {"min_ratio": 0.5}):
        with pytest.raises(OptionError, match="this model has none"):
            Greedy(**options)(model, batch_for(model, [[]]))
    assert len(Greedy(min_length=100)(model, batch_for(model, [[]]))[0][0].tokens) == 100


def test_a_model_in_training_is_refused():
    model = real_model("bahdanau").train()
    with pytest.raises(SeqloomError, match=r"call model.eval\(\) first"):
        Greedy()(model, batch_for(model, [[4]]))


@pytest.mark.parametrize("search", KINDS)
def test_a_broken_model_is_named(search):
    table = drawn(0)
    table[:, 4:] = torch.nan
    with pytest.raises(SeqloomError, match="not numbers"):
        search(min_length=9)(TableModel(table, drawn(1)), Batch.of(None, [[1], [0]]))


def test_learned_positions_bound_an_answer():
    """A model that does not end was an error behind its last position."""
    model = build_model(
        "transformer", sizes={"source": 9, "target": 9}, size=8,
        settings={"decoder.heads": 2, "encoder.heads": 2, "decoder.positions": {"name": "learned", "longest": 6}},
    ).eval()  # fmt: skip
    with torch.no_grad():
        model.output.bias[END] = -1e4
    ((best,),) = Greedy()(model, Batch.of(None, [[4, 5]]))
    assert len(best.tokens) == 5
    assert not best.finished


def test_a_least_length_lifts_the_maximum_that_nobody_set():
    model = TableModel(BY_HAND)
    ((best,),) = Greedy(min_length=90)(model, Batch.of(None, [[0]]))
    assert len(best.tokens) == 90
    ((best,),) = Greedy(min_length=90, max_ratio=30.0)(model, Batch.of(None, [[0]]))
    assert len(best.tokens) == 30, "a maximum that was set holds"
