"""Constrained decoding in words: what an output must start with, contain and avoid."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, PositiveInt

from seqloom.batch import UNK
from seqloom.data.tokenizers import Tokenizer
from seqloom.decode.constraints import Grammar, TokenConstraints
from seqloom.errors import ConfigError, SentenceError, ShapeError
from seqloom.predictor.grammar import TextGrammar, token_grammar
from seqloom.registry import get_class, parts

Phrases = str | Sequence[str]


class Constraints:
    """What an output must start with, contain and avoid.

    Words and phrases are tokenized like any other text, and the constraints apply to these tokens: a model can still
    generate a forbidden word with another tokenization.

    prefix: text that the output starts with: one for all sources, or a list with one per source ("": none).
    forbid: words or phrases that must not occur in the output.
    require: lexical constraints: words or phrases that must occur in the output: a list for all sources, or a list of
        lists with one per source; beam search only.
    no_repeat_ngram_size: size of n-grams that must not occur twice in the output.
    repetition_penalty: penalty for tokens that the output already contains: above 1 they become less likely, 1
        disables it (Keskar et al. 2019).
    grammar: grammar of the output: the name of a task that has one, like ``dates``; a ``TextGrammar``, an automaton
        over characters; or a function of the tokens so far, for all rows at once.
    """

    def __init__(
        self,
        *,
        prefix: Phrases = "",
        forbid: Phrases = (),
        require: Phrases | Sequence[Sequence[str]] = (),
        no_repeat_ngram_size: PositiveInt | None = None,
        repetition_penalty: Annotated[float, Field(gt=0)] = 1.0,
        grammar: str | TextGrammar | Grammar | None = None,
    ) -> None:
        self.prefix = prefix or ""
        self.forbid = [forbid] if isinstance(forbid, str) else list(forbid)
        phrases = [require] if isinstance(require, str) else list(require)
        self.require = [phrase for phrase in phrases if isinstance(phrase, str)]
        self.require_by_source = [list(own) for own in phrases if not isinstance(own, str)]
        self.no_repeat_ngram_size = no_repeat_ngram_size
        self.repetition_penalty = repetition_penalty
        self.grammar = _task_grammar(grammar) if isinstance(grammar, str) else grammar

    def check_sources(self, count: int) -> None:
        """Raise an error if a list with one entry per source has the wrong length."""
        lists = {"prefix": [] if isinstance(self.prefix, str) else self.prefix, "require": self.require_by_source}
        for name, entries in lists.items():
            if entries and len(entries) != count:
                raise ShapeError(
                    f"{name} has {len(entries)} entries for {count} sources: give one per source, or one for all"
                )

    def to_tokens(self, rows: Sequence[int], tokenizer: Tokenizer) -> TokenConstraints:
        """These constraints as token ids of the target tokenizer, for the sources with these indices."""
        prefixes = [self.prefix if isinstance(self.prefix, str) else self.prefix[row] for row in rows]
        required = [self.require_by_source[row] if self.require_by_source else self.require for row in rows]
        forbidden = [ids for ids in tokenizer.encode(self.forbid) if UNK not in ids]
        return TokenConstraints(
            prefix=_encode("prefix", prefixes, tokenizer, None if isinstance(self.prefix, str) else rows),
            forbidden=forbidden,  # without out-of-vocabulary phrases, which the model can't generate anyway
            no_repeat_ngram_size=self.no_repeat_ngram_size,
            repetition_penalty=self.repetition_penalty,
            grammar=token_grammar(self.grammar, tokenizer) if isinstance(self.grammar, TextGrammar) else self.grammar,
            required=[
                _encode("require", phrases, tokenizer, [row] * len(phrases) if self.require_by_source else None)
                for row, phrases in zip(rows, required, strict=True)
            ],
            numbers=rows,
        )


def _task_grammar(task: str) -> TextGrammar:
    """The grammar of a task's targets."""
    grammar = getattr(get_class("task", task), "grammar", None)
    if not isinstance(grammar, TextGrammar):
        names = [name for name, cls in parts("task").items() if hasattr(cls, "grammar")]
        raise ConfigError(f"task {task!r} has no grammar; tasks with a grammar: {', '.join(names)}")
    return grammar


def _encode(
    option: str, texts: Sequence[str], tokenizer: Tokenizer, numbers: Sequence[int] | None
) -> list[list[int]]:
    """The tokens of texts that the output must contain; raises an error for out-of-vocabulary tokens.

    numbers: the index of the source that each text is for, for the error message; None: they are for all sources.
    """
    encoded = tokenizer.encode(texts)
    for n, (text, ids) in enumerate(zip(texts, encoded, strict=True)):
        number = None if numbers is None else numbers[n]
        if UNK in ids:
            raise SentenceError(
                f"{option}={text!r} can't be generated by this model: a part of it is not in the target vocabulary",
                number,
            )
        if option == "require" and not ids:
            raise SentenceError(f"require={text!r} contains no token: remove it", number)
    return encoded
