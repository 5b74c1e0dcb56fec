"""Constraints in words: for which source, in which tokens, by which grammar."""

from datetime import date

import pytest

from seqloom.batch import END
from seqloom.errors import InputError, OptionError, SizeError, UnknownNameError
from seqloom.predictor import Constraints
from seqloom.predictor.grammar import additions, for_tokens
from seqloom.registry import build, check, find

TEXTS = ["2024-02-29", "1999-12-31", "2000-01-15", "1967-08-04", "a b", "3 5-6", "ü"] * 3
KINDS = ["character", "byte", "word", {"name": "bpe", "size": 60}, {"name": "unigram", "size": 60}]


def tokenizer(spec):
    return build("tokenizer", spec).train(iter(TEXTS))


def test_one_for_all_or_one_for_each():
    letters = tokenizer("character")
    one, two = letters.encode(["20", "1"])
    for_all = Constraints(prefix="20", require=["20", "1"], forbid="1").masks([4, 7], letters)
    assert (for_all.prefix, for_all.required, for_all.forbidden) == ([one] * 2, [[one, two]] * 2, [two])
    for_each = Constraints(prefix=["20", "", "1"], require=[["1"], [], ["20"]]).masks([2, 0], letters)
    assert (for_each.prefix, for_each.required) == ([two, one], [[one], [two]])


def test_what_is_not_said_is_free():
    masks = Constraints(no_repeat=2).masks([0, 1], tokenizer("character"))
    assert (masks.prefix, list(masks.forbidden), masks.requires, masks.grammar) == ([[], []], [], False, None)


def test_lists_fit_the_sources():
    Constraints(prefix=["a", "b"], require=[["a"], []]).check_sources(2)
    for wrong in (Constraints(prefix=["a", "b"]), Constraints(require=[["a"], ["b"]])):
        with pytest.raises(SizeError, match="2 entries for 3 sources"):
            wrong.check_sources(3)


def test_what_the_model_has_no_tokens_for():
    letters = tokenizer("character")
    for option in ("prefix", "require"):
        with pytest.raises(InputError, match=f"{option}='x' can't be written"):
            Constraints(**{option: "x"}).masks([0], letters)
    assert list(Constraints(forbid=["x", "1"]).masks([0], letters).forbidden) == letters.encode(["1"])


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"no_repeat": 0}, OptionError, "no_repeat=0"),
        ({"repetition_penalty": 0}, OptionError, "repetition_penalty=0"),
        ({"prefix": 7}, OptionError, "prefix=7"),
        ({"require": ["a", ["b"]]}, OptionError, "require="),
        ({"grammar": 7}, OptionError, "grammar=7"),
        ({"grammar": "date"}, UnknownNameError, "did you mean 'dates'"),
    ],
)
def test_values_that_make_no_sense(given, error, says):
    with pytest.raises(error) as raised:
        Constraints(**check("constraints", Constraints, given))
    assert says in str(raised.value)


@pytest.mark.parametrize("spec", KINDS, ids=str)
def test_what_tokens_add_is_the_text(spec):
    trained = tokenizer(spec)
    texts = additions(trained)
    for text in ("2024-02-29", "a b", "1999"):
        (ids,) = trained.encode([text])
        assert "".join(texts[id_] for id_ in ids).removeprefix(" ") == text


def allowed(grammar, ids: list[int]) -> bool:
    """Whether a grammar lets these tokens follow each other, and then END."""
    import torch

    return all(bool(grammar(torch.tensor([ids[:t]], dtype=torch.long))[0, id_]) for t, id_ in enumerate([*ids, END]))


@pytest.mark.parametrize("spec", KINDS, ids=str)
@pytest.mark.parametrize(
    "text", ["2024-02-29", "1999-12-31", "2000-02-29", "2024-02-31", "1999-02-29", "1999-12", "a"]
)
def test_the_grammar_of_dates_is_the_calendar(spec, text):
    trained = tokenizer(spec)
    try:
        right = len(text) == 10 and bool(date.fromisoformat(text))
    except ValueError:
        right = False
    assert allowed(for_tokens(find("task", "dates").grammar, trained), trained.encode([text])[0]) == right
