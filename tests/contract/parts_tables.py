"""Every way to put a model together, as factors and rules; the names come from the registries themselves.

A factor that does not apply has the value ``-``: there is no score where nothing attends.
"""

from functools import cache
from typing import Any, get_args, get_type_hints

from seqloom import build_model, parts
from seqloom.errors import SizeError
from seqloom.models.decoders.wiring import Context, Into
from seqloom.models.encoders.recurrent import RecurrentEncoder
from seqloom.nn.transformer import FeedForwardActivation, Norm
from seqloom.registry import find
from tests.contract.covering import Row, Rule, covering
from tests.variants import variants

V = 7
SIZE = 4
OTHER = 6
"""The size of the encoder's values where it is not the decoder's."""

ATTENDS = ("previous", "current", "past")
YES_NO = (False, True)


def names(kind: str) -> tuple[str, ...]:
    return tuple(parts(kind))


def needs_one_size(score: str) -> bool:
    try:
        find("score", score)(2, 3)
    except SizeError:
        return True
    return False


def feature_size(readout: str, context: str, width: int, embedding: int) -> int:
    size = 0 if context == "none" else SIZE if context == "past" else width
    return find("readout", readout)(embedding, SIZE, size).output_size


def same_state(bridge: str, encoder_cell: str, cell: str) -> bool:
    if bridge != "state" or encoder_cell == "-":
        return True
    return encoder_cell == cell


def reads_context(readout: str) -> bool:
    return find("readout", readout).uses_context


def reads_state(readout: str) -> bool:
    return find("readout", readout).uses_state


def hands_on(bridge: str) -> frozenset[str]:
    """What of the source a bridge brings to the decoder's first state."""
    return find("bridge", bridge).reads


def hard(normaliser: str) -> bool:
    return normaliser != "-" and not find("normaliser", normaliser).differentiable


def static(score: str) -> bool:
    return score != "-" and find("score", score).static


def carries(kind: str, name: str) -> bool:
    return name != "-" and find(kind, name).carries


DECODER: dict[str, tuple[Any, ...]] = {
    "context": get_args(Context),
    "into": ("-", *get_args(Into)),
    "layers": (1, 2),
    "readout": names("readout"),
    "score": ("-", *names("score")),
    "normaliser": ("-", *names("normaliser")),
    "keys": ("-", "given", "linear", "tanh"),
    "cell": names("cell"),
    "feeding": YES_NO,
    "current": YES_NO,
    "initial": ("zero", "learned"),
    "tied": YES_NO,
}

ENCODER: dict[str, tuple[Any, ...]] = {
    "bridge": names("bridge"),
    "encoder": names("encoder"),
    "encoder_cell": ("-", *names("cell")),
    "directions": ("-", "one", "both"),
    "summary": ("-", *get_args(get_type_hints(RecurrentEncoder.__init__)["summary"])),
    "width": (SIZE, OTHER),
    "reverse": YES_NO,
}

# What is refused when a model is made, and a word of the error that says so.
WIRING_REFUSED = [
    Rule(("into", "context"), lambda i, c: i != "cell" or c in ("summary", "previous"), "into='cell' needs"),
    Rule(("into", "context"), lambda i, c: i != "above" or c not in ("none", "previous"), "into='above' passes"),
    Rule(("into", "layers"), lambda i, n: i != "above" or n > 1, "into='above' passes"),
    Rule(("context", "into"), lambda c, i: c != "previous" or i == "cell", "set into='cell'"),
    Rule(("readout", "context"), lambda r, c: c != "none" or not reads_context(r), "reads a context"),
    Rule(
        ("readout", "context", "into"),
        lambda r, c, i: c == "none" or i != "-" or reads_context(r),
        "nothing reads the context",
    ),
    Rule(("current", "context"), lambda x, c: not x or c == "past", "include_current"),
    Rule(("score", "context"), lambda s, c: s == "-" or c in ATTENDS, "does not attend"),
    Rule(
        ("normaliser", "score"),
        lambda n, s: "-" in (n, s) or s in (find("normaliser", n).scores or (s,)),
        "works with the score",
    ),
    Rule(("score", "keys"), lambda s, k: not static(s) or k in ("-", "given"), "reads no key or query"),
    *(
        Rule((kind, "context"), lambda part, c, kind=kind: c != "past" or not carries(kind, part), "keeps a past")
        for kind in ("score", "normaliser")
        if any(carries(kind, part) for part in names(kind))
    ),
]
SOURCE_REFUSED = [
    Rule(
        ("score", "width", "keys", "context"),
        lambda s, w, k, c: s == "-" or c == "past" or w == SIZE or k != "given" or not needs_one_size(s),
        "project both to one size",
    ),
    Rule(("bridge", "encoder"), lambda b, e: b != "state" or e == "recurrent", "bridge 'state' hands"),
    Rule(("bridge", "width"), lambda b, w: b != "state" or w == SIZE, "bridge 'state' hands"),
    Rule(("bridge", "encoder_cell", "cell"), same_state, "bridge 'state' hands"),
    Rule(("summary", "directions"), lambda s, d: s != "backward" or d == "both", "bidirectional"),
    Rule(
        ("summary", "bridge", "context"),
        lambda s, b, c: s in ("-", "final") or "summary" in hands_on(b) or c == "summary",
        "nothing reads a summary",
    ),
    Rule(
        ("tied", "readout", "context", "width"),
        lambda t, r, c, w: not t or feature_size(r, c, w, SIZE) == SIZE,
        "tied embeddings",
    ),
]
NO_SOURCE_REFUSED = [
    Rule(("context",), lambda c: c in ("none", "past"), "a language model has none"),
    Rule(
        ("tied", "readout", "context"),
        lambda t, r, c: not t or feature_size(r, c, 0, SIZE) == SIZE,
        "tied embeddings",
    ),
]

# What leaves parameters that nothing reads: refused, or named by the model as inert.
UNREAD = [
    Rule(
        ("readout", "context", "into"),
        lambda r, c, i: reads_state(r) or c != "summary",
        "features that are the summary alone: the decoder's cells are for nothing",
    ),
    Rule(
        ("readout", "into"),
        lambda r, i: reads_state(r) or i != "above",
        "features that are what the first layer sees: the layers above are for nothing",
    ),
    Rule(
        ("readout", "context", "score", "normaliser"),
        lambda r, c, s, n: reads_state(r) or c not in ("previous", "current") or not (hard(n) or static(s)),
        "features that are a context whose weights don't depend on the state, so neither do they",
    ),
]
SOURCE_UNREAD = [
    Rule(
        ("bridge", "context"),
        lambda b, c: bool(hands_on(b)) or c not in ("none", "past"),
        "a source that the decoder never hears of",
    ),
    Rule(
        ("bridge", "initial"), lambda b, i: not hands_on(b) or i == "zero", "a learned state that the bridge replaces"
    ),
    Rule(
        ("summary", "bridge", "context"),
        lambda s, b, c: s != "backward" or "final" in hands_on(b) or c in ("previous", "current"),
        "of two directions, one that nothing reads",
    ),
]

# What does not apply is "-".
DECODER_APPLIES = [
    Rule(("score", "context"), lambda s, c: s != "-" or c not in ATTENDS),
    Rule(("score", "normaliser"), lambda s, n: (s == "-") == (n == "-")),
    Rule(("score", "keys"), lambda s, k: (s == "-") == (k == "-")),
]
ENCODER_APPLIES = [
    Rule(("encoder", other), lambda e, x: (e == "recurrent") == (x != "-"))
    for other in ("encoder_cell", "directions", "summary")
]


def recurrent_decoder(row: Row) -> dict[str, Any]:
    decoder: dict[str, Any] = {
        "name": "recurrent",
        "cell": {"name": row["cell"], **row.get("cell options", {})},
        "layers": row["layers"],
        "context": row["context"],
        "into": None if row["into"] == "-" else row["into"],
        "readout": row["readout"],
        "input_feeding": row["feeding"],
        "include_current": row["current"],
        "initial": row["initial"],
    }
    if row["score"] != "-":
        decoder["attention"] = {
            "score": {"name": row["score"], **row.get("score options", {})},
            "normaliser": {"name": row["normaliser"], **row.get("normaliser options", {})},
        }
        if row["keys"] in ("linear", "tanh"):
            decoder["attention"] |= {"key_layers": 1, "query_layers": 1, "size": 3}
        if row["keys"] == "tanh":
            decoder["attention"] |= {"key_activation": "tanh", "query_activation": "tanh"}
    return decoder


def output(row: Row) -> dict[str, Any]:
    return {"name": "tokens", "tied": row["tied"], "size": SIZE if row["tied"] else 3}


def recurrent_model(row: Row) -> dict[str, Any]:
    encoder: dict[str, Any] = {"name": row["encoder"], "size": row["width"]}
    if row["encoder"] == "recurrent":
        both = row["directions"] == "both"
        encoder |= {
            "cell": {"name": row["encoder_cell"], **row.get("encoder_cell options", {})},
            "size": row["width"] // 2 if both else row["width"],
            "bidirectional": both,
            "summary": row["summary"],
            "layers": row["layers"],
            "initial": "learned" if row["reverse"] else "zero",
        }
    elif row["encoder"] == "transformer":
        encoder |= {"layers": 1, "heads": 2}
    return {
        "model": "encoder_decoder",
        "source": {"name": "tokens", "size": 3, "reverse": row["reverse"]},
        "encoder": encoder,
        "bridge": row["bridge"],
        "decoder": recurrent_decoder(row),
        "output": output(row),
    }


def recurrent_language_model(row: Row) -> dict[str, Any]:
    return {"model": "language_model", "decoder": recurrent_decoder(row), "output": output(row)}


STACK: dict[str, tuple[Any, ...]] = {
    "norm": get_args(Norm),
    "positions": names("positions"),
    "activation": get_args(FeedForwardActivation),
    "tied": YES_NO,
    "layers": (1, 2),
}


def transformer_stack(row: Row) -> dict[str, Any]:
    chosen = {option: row[option] for option in ("norm", "positions", "activation", "layers")}
    return {"name": "transformer", "size": SIZE, "heads": 2, "feed_forward": 5, **chosen}


def transformer_model(row: Row) -> dict[str, Any]:
    if row["encoder"] == "transformer":
        encoder = {**transformer_stack(row), "size": row["width"]}
    else:
        encoder = {"name": row["encoder"], "size": row["width"]}
    return {
        "model": "encoder_decoder",
        "source": {"name": "tokens", "size": 3, "reverse": row["reverse"]},
        "encoder": encoder,
        "bridge": row["bridge"],
        "decoder": transformer_stack(row),
        "output": output(row),
    }


def transformer_language_model(row: Row) -> dict[str, Any]:
    return {"model": "language_model", "decoder": transformer_stack(row), "output": output(row)}


NO_STATE = [Rule(("bridge",), lambda b: not hands_on(b), "use bridge 'none'")]


class Family:
    """One kind of model: its factors, what is refused, what leaves something unread, what does not apply."""

    def __init__(self, describe, factors, refused=(), unread=(), applies=()) -> None:
        self.describe = describe
        self.factors = factors
        self.refused = list(refused)
        self.unread = list(unread)
        self.applies = list(applies)

    @property
    def rules(self) -> list[Rule]:
        return [*self.refused, *self.unread, *self.applies]

    def build(self, row: Row):
        return build_model(self.describe(row), sizes={"source": V, "target": V}, size=SIZE)

    @cache  # noqa: B019
    def rows(self) -> list[Row]:
        """The covering, with the options of every part dealt out over the rows that have it."""
        rows = covering(self.factors, self.rules)
        seen: dict[tuple[str, str], int] = {}
        for row in rows:
            for factor in ("cell", "encoder_cell", "score", "normaliser"):
                if row.get(factor, "-") != "-":
                    choices = variants(factor.removeprefix("encoder_"), row[factor])
                    n = seen[factor, row[factor]] = seen.get((factor, row[factor]), -1) + 1
                    row[f"{factor} options"] = choices[n % len(choices)]
        return rows


FAMILIES = {
    "recurrent": Family(
        recurrent_model,
        DECODER | ENCODER,
        WIRING_REFUSED + SOURCE_REFUSED,
        UNREAD + SOURCE_UNREAD,
        DECODER_APPLIES + ENCODER_APPLIES,
    ),
    "recurrent-lm": Family(
        recurrent_language_model, DECODER, WIRING_REFUSED + NO_SOURCE_REFUSED, UNREAD, DECODER_APPLIES
    ),
    "transformer": Family(
        transformer_model,
        STACK | {key: ENCODER[key] for key in ("encoder", "bridge", "width", "reverse")},
        NO_STATE,
    ),
    "transformer-lm": Family(transformer_language_model, STACK),
}


def label(row: Row) -> str:
    words = []
    for factor, value in row.items():
        if factor.endswith(" options"):
            words += [f"{option}={v}" for option, v in value.items()]
        elif value is True:
            words.append(factor)
        elif isinstance(value, int) and value is not False:
            words.append(f"{factor}={value}")
        elif value not in ("-", False):
            words.append(value if factor not in ("encoder_cell", "bridge", "readout") else f"{factor}={value}")
    return "-".join(words)
