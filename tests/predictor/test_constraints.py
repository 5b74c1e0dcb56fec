"""Constraints in words: per source, as tokens, and by grammar."""

from datetime import date

import pytest

from seqloom.batch import EOS
from seqloom.errors import ConfigError, InputError, ShapeError, UnknownNameError
from seqloom.predictor import Constraints
from seqloom.predictor.grammar import token_grammar, token_texts
from seqloom.registry import build, get_class, validate_options

TEXTS = ["2024-02-29", "1999-12-31", "2000-01-15", "1967-08-04", "a b", "3 5-6", "ü"] * 3
KINDS = ["character", "byte", "word", {"name": "bpe", "vocab_size": 60}, {"name": "unigram", "vocab_size": 60}]


def tokenizer(spec):
    return build("tokenizer", spec).train(iter(TEXTS))


def test_one_value_for_all_sources_or_one_per_source():
    characters = tokenizer("character")
    one, two = characters.encode(["20", "1"])
    for_all = Constraints(prefix="20", require=["20", "1"], forbid="1").to_tokens([4, 7], characters)
    assert (for_all.prefix, for_all.required, for_all.forbidden) == ([one] * 2, [[one, two]] * 2, [two])
    for_each = Constraints(prefix=["20", "", "1"], require=[["1"], [], ["20"]]).to_tokens([2, 0], characters)
    assert (for_each.prefix, for_each.required) == ([two, one], [[one], [two]])


def test_unset_constraints_are_empty():
    constraints = Constraints(no_repeat_ngram_size=2).to_tokens([0, 1], tokenizer("character"))
    assert (constraints.prefix, list(constraints.forbidden), constraints.requires, constraints.grammar) == (
        [[], []],
        [],
        False,
        None,
    )


def test_lists_must_match_the_sources():
    Constraints(prefix=["a", "b"], require=[["a"], []]).check_sources(2)
    for invalid in (Constraints(prefix=["a", "b"]), Constraints(require=[["a"], ["b"]])):
        with pytest.raises(ShapeError, match="2 entries for 3 sources"):
            invalid.check_sources(3)


def test_out_of_vocabulary_phrases():
    characters = tokenizer("character")
    for option in ("prefix", "require"):
        with pytest.raises(InputError, match=f"{option}='x' can't be generated"):
            Constraints(**{option: "x"}).to_tokens([0], characters)
    assert list(Constraints(forbid=["x", "1"]).to_tokens([0], characters).forbidden) == characters.encode(["1"])


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"no_repeat_ngram_size": 0}, ConfigError, "no_repeat_ngram_size=0"),
        ({"repetition_penalty": 0}, ConfigError, "repetition_penalty=0"),
        ({"prefix": 7}, ConfigError, "prefix=7"),
        ({"require": ["a", ["b"]]}, ConfigError, "require="),
        ({"grammar": 7}, ConfigError, "grammar=7"),
        ({"grammar": "date"}, UnknownNameError, "did you mean 'dates'"),
    ],
)
def test_invalid_values_raise_errors(given, error, says):
    with pytest.raises(error) as raised:
        Constraints(**validate_options("constraints", Constraints, given))
    assert says in str(raised.value)


@pytest.mark.parametrize("spec", KINDS, ids=str)
def test_token_texts_join_to_the_text(spec):
    trained = tokenizer(spec)
    texts = token_texts(trained)
    for text in ("2024-02-29", "a b", "1999"):
        (ids,) = trained.encode([text])
        assert "".join(texts[id_] for id_ in ids).removeprefix(" ") == text


def allowed(grammar, ids: list[int]) -> bool:
    """Whether a grammar allows these tokens, followed by EOS."""
    import torch

    return all(bool(grammar(torch.tensor([ids[:t]], dtype=torch.long))[0, id_]) for t, id_ in enumerate([*ids, EOS]))


@pytest.mark.parametrize("spec", KINDS, ids=str)
@pytest.mark.parametrize(
    "text", ["2024-02-29", "1999-12-31", "2000-02-29", "2024-02-31", "1999-02-29", "1999-12", "a"]
)
def test_grammar_of_dates_allows_exactly_the_calendar(spec, text):
    trained = tokenizer(spec)
    try:
        right = len(text) == 10 and bool(date.fromisoformat(text))
    except ValueError:
        right = False
    assert allowed(token_grammar(get_class("task", "dates").grammar, trained), trained.encode([text])[0]) == right
