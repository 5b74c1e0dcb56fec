"""All ways to combine parts to a model, as factors and rules; the names of the parts come from the registry.

A factor that does not apply has the value ``-``, such as the score of a decoder without attention.
"""

from functools import cache
from typing import Any, get_args, get_type_hints

from seqloom import build_model, parts
from seqloom.errors import ShapeError
from seqloom.models.decoders.wiring import Context, ContextInput
from seqloom.models.encoders.recurrent import RecurrentEncoder
from seqloom.nn.transformer import FeedForwardActivation, NormPlacement
from seqloom.registry import get_class
from tests.contract.covering import Row, Rule, covering
from tests.variants import variants

V = 7
SIZE = 4
OTHER = 6
"""The size of the encoder's values, if it differs from the decoder's hidden size."""

ATTENDS = ("previous", "current", "past")
YES_NO = (False, True)


def names(kind: str) -> tuple[str, ...]:
    return tuple(parts(kind))


def needs_one_size(score: str) -> bool:
    try:
        get_class("score", score)(2, 3)
    except ShapeError:
        return True
    return False


def feature_size(readout: str, context: str, encoder_size: int, embedding: int) -> int:
    size = 0 if context == "none" else SIZE if context == "past" else encoder_size
    return get_class("readout", readout)(embedding, SIZE, size).output_size


def same_cell(bridge: str, encoder_cell: str, cell: str) -> bool:
    return bridge != "copy" or encoder_cell in ("-", cell)


def reads_context(readout: str) -> bool:
    return get_class("readout", readout).uses_context


def reads_state(readout: str) -> bool:
    return get_class("readout", readout).uses_state


def bridge_reads(bridge: str) -> frozenset[str]:
    """The memory entries that a bridge reads to set the decoder's initial state."""
    return get_class("bridge", bridge).reads


def is_hard(normalizer: str) -> bool:
    return normalizer != "-" and not get_class("normalizer", normalizer).differentiable


def is_position_only(score: str) -> bool:
    return score != "-" and get_class("score", score).position_only


def stateful(kind: str, name: str) -> bool:
    return name != "-" and get_class(kind, name).stateful


DECODER: dict[str, tuple[Any, ...]] = {
    "context": get_args(Context),
    "context_input": ("-", *get_args(ContextInput)),
    "layers": (1, 2),
    "readout": names("readout"),
    "score": ("-", *names("score")),
    "normalizer": ("-", *names("normalizer")),
    "keys": ("-", "identity", "linear", "tanh"),
    "cell": names("cell"),
    "input_feeding": YES_NO,
    "include_current": YES_NO,
    "initial_state": ("zero", "learned"),
    "tie_output_embeddings": YES_NO,
}

ENCODER: dict[str, tuple[Any, ...]] = {
    "bridge": names("bridge"),
    "encoder": names("encoder"),
    "encoder_cell": ("-", *names("cell")),
    "directions": ("-", "one", "both"),
    "summary": ("-", *get_args(get_type_hints(RecurrentEncoder.__init__)["summary"])),
    "encoder_size": (SIZE, OTHER),
    "reverse": YES_NO,
}

# What is refused when a model is built, and a part of the error message.
WIRING_REFUSED = [
    Rule(
        ("context_input", "context"),
        lambda i, c: i != "first_layer" or c in ("summary", "previous"),
        "context_input='first_layer' needs",
    ),
    Rule(
        ("context_input", "context"),
        lambda i, c: i != "second_layer" or c not in ("none", "previous"),
        "context_input='second_layer' needs",
    ),
    Rule(
        ("context_input", "layers"),
        lambda i, n: i != "second_layer" or n > 1,
        "context_input='second_layer' needs",
    ),
    Rule(
        ("context", "context_input"),
        lambda c, i: c != "previous" or i == "first_layer",
        "set context_input='first_layer'",
    ),
    Rule(("readout", "context"), lambda r, c: c != "none" or not reads_context(r), "reads a context"),
    Rule(
        ("readout", "context", "context_input"),
        lambda r, c, i: c == "none" or i != "-" or reads_context(r),
        "the context is unused",
    ),
    Rule(("include_current", "context"), lambda x, c: not x or c == "past", "include_current"),
    Rule(("score", "context"), lambda s, c: s == "-" or c in ATTENDS, "attention has no effect"),
    Rule(
        ("normalizer", "score"),
        lambda n, s: "-" in (n, s) or s in (get_class("normalizer", n).compatible_scores or (s,)),
        "supports only score",
    ),
    Rule(
        ("score", "keys"),
        lambda s, k: not is_position_only(s) or k in ("-", "identity"),
        "does not read keys or queries",
    ),
    *(
        Rule((kind, "context"), lambda part, c, kind=kind: c != "past" or not stateful(kind, part), "keeps a state")
        for kind in ("score", "normalizer")
        if any(stateful(kind, part) for part in names(kind))
    ),
]
SOURCE_REFUSED = [
    Rule(
        ("score", "encoder_size", "keys", "context"),
        lambda s, n, k, c: s == "-" or c == "past" or n == SIZE or k != "identity" or not needs_one_size(s),
        "project both to one size",
    ),
    Rule(("bridge", "encoder"), lambda b, e: b != "copy" or e == "recurrent", "bridge 'copy' copies"),
    Rule(("bridge", "encoder_size"), lambda b, n: b != "copy" or n == SIZE, "bridge 'copy' copies"),
    Rule(("bridge", "encoder_cell", "cell"), same_cell, "bridge 'copy' copies"),
    Rule(("summary", "directions"), lambda s, d: s != "backward" or d == "both", "bidirectional"),
    Rule(
        ("summary", "bridge", "context"),
        lambda s, b, c: s in ("-", "final") or "summary" in bridge_reads(b) or c == "summary",
        "has no effect, because neither",
    ),
    Rule(
        ("tie_output_embeddings", "readout", "context", "encoder_size"),
        lambda t, r, c, n: not t or feature_size(r, c, n, SIZE) == SIZE,
        "tie_output_embeddings needs",
    ),
]
NO_SOURCE_REFUSED = [
    Rule(("context",), lambda c: c in ("none", "past"), "a language model has none"),
    Rule(
        ("tie_output_embeddings", "readout", "context"),
        lambda t, r, c: not t or feature_size(r, c, 0, SIZE) == SIZE,
        "tie_output_embeddings needs",
    ),
]

# What leaves parameters unused: refused, or listed by the model in ``parameters_without_grad``.
UNREAD = [
    Rule(
        ("readout", "context", "context_input"),
        lambda r, c, i: reads_state(r) or c != "summary",
        "the features are the summary alone: the decoder's cells are unused",
    ),
    Rule(
        ("readout", "context_input"),
        lambda r, i: reads_state(r) or i != "second_layer",
        "the features are the first layer's context: the layers above are unused",
    ),
    Rule(
        ("readout", "context", "score", "normalizer"),
        lambda r, c, s, n: (
            reads_state(r) or c not in ("previous", "current") or not (is_hard(n) or is_position_only(s))
        ),
        "the features are a context whose attention weights don't depend on the state",
    ),
]
SOURCE_UNREAD = [
    Rule(
        ("bridge", "context"),
        lambda b, c: bool(bridge_reads(b)) or c not in ("none", "past"),
        "the decoder does not read the source",
    ),
    Rule(
        ("bridge", "initial_state"),
        lambda b, i: not bridge_reads(b) or i == "zero",
        "the bridge replaces a learned initial state",
    ),
    Rule(
        ("summary", "bridge", "context"),
        lambda s, b, c: s != "backward" or "final" in bridge_reads(b) or c in ("previous", "current"),
        "the forward direction is unused",
    ),
]

# Factors that do not apply are "-".
DECODER_APPLIES = [
    Rule(("score", "context"), lambda s, c: s != "-" or c not in ATTENDS),
    Rule(("score", "normalizer"), lambda s, n: (s == "-") == (n == "-")),
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
        "context_input": None if row["context_input"] == "-" else row["context_input"],
        "readout": row["readout"],
        "input_feeding": row["input_feeding"],
        "include_current": row["include_current"],
        "initial_state": row["initial_state"],
    }
    if row["score"] != "-":
        decoder["attention"] = {
            "score": {"name": row["score"], **row.get("score options", {})},
            "normalizer": {"name": row["normalizer"], **row.get("normalizer options", {})},
        }
        if row["keys"] in ("linear", "tanh"):
            decoder["attention"] |= {"key_layers": 1, "query_layers": 1, "hidden_size": 3}
        if row["keys"] == "tanh":
            decoder["attention"] |= {"key_activation": "tanh", "query_activation": "tanh"}
    return decoder


def output(row: Row) -> dict[str, Any]:
    return {
        "name": "tokens",
        "tie_output_embeddings": row["tie_output_embeddings"],
        "embedding_size": SIZE if row["tie_output_embeddings"] else 3,
    }


def recurrent_model(row: Row) -> dict[str, Any]:
    encoder: dict[str, Any] = {"name": row["encoder"], "hidden_size": row["encoder_size"]}
    if row["encoder"] == "recurrent":
        both = row["directions"] == "both"
        encoder |= {
            "cell": {"name": row["encoder_cell"], **row.get("encoder_cell options", {})},
            "hidden_size": row["encoder_size"] // 2 if both else row["encoder_size"],
            "bidirectional": both,
            "summary": row["summary"],
            "layers": row["layers"],
            "initial_state": "learned" if row["reverse"] else "zero",
        }
    elif row["encoder"] == "transformer":
        encoder |= {"layers": 1, "heads": 2}
    return {
        "type": "encoder_decoder",
        "source_embedder": {"name": "tokens", "embedding_size": 3, "reverse": row["reverse"]},
        "encoder": encoder,
        "bridge": row["bridge"],
        "decoder": recurrent_decoder(row),
        "output": output(row),
    }


def recurrent_language_model(row: Row) -> dict[str, Any]:
    return {"type": "language_model", "decoder": recurrent_decoder(row), "output": output(row)}


STACK: dict[str, tuple[Any, ...]] = {
    "layer_norm": get_args(NormPlacement),
    "positional_encoding": names("positional_encoding"),
    "activation": get_args(FeedForwardActivation),
    "tie_output_embeddings": YES_NO,
    "layers": (1, 2),
}


def transformer_stack(row: Row) -> dict[str, Any]:
    chosen = {option: row[option] for option in ("layer_norm", "positional_encoding", "activation", "layers")}
    return {"name": "transformer", "hidden_size": SIZE, "heads": 2, "ff_size": 5, **chosen}


def transformer_model(row: Row) -> dict[str, Any]:
    if row["encoder"] == "transformer":
        encoder = {**transformer_stack(row), "hidden_size": row["encoder_size"]}
    else:
        encoder = {"name": row["encoder"], "hidden_size": row["encoder_size"]}
    return {
        "type": "encoder_decoder",
        "source_embedder": {"name": "tokens", "embedding_size": 3, "reverse": row["reverse"]},
        "encoder": encoder,
        "bridge": row["bridge"],
        "decoder": transformer_stack(row),
        "output": output(row),
    }


def transformer_language_model(row: Row) -> dict[str, Any]:
    return {"type": "language_model", "decoder": transformer_stack(row), "output": output(row)}


NO_STATE = [Rule(("bridge",), lambda b: not bridge_reads(b), "use bridge 'none'")]


class Family:
    """A kind of model: its factors, and rules for what is refused, what leaves parts unused and what applies."""

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
        return build_model(self.describe(row), sizes={"source": V, "target": V}, hidden_size=SIZE)

    @cache  # noqa: B019
    def rows(self) -> list[Row]:
        """The covering, with the options of every part distributed over the rows that have it."""
        rows = covering(self.factors, self.rules)
        seen: dict[tuple[str, str], int] = {}
        for row in rows:
            for factor in ("cell", "encoder_cell", "score", "normalizer"):
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
        STACK | {key: ENCODER[key] for key in ("encoder", "bridge", "encoder_size", "reverse")},
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
