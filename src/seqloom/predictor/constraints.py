"""What a person wants an answer to begin with, to hold and to avoid: in words, for every search."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from seqloom.batch import UNKNOWN
from seqloom.data.tokenizers import Tokenizer
from seqloom.decode.masks import Grammar, Masks
from seqloom.errors import OptionError, SentenceError, SizeError
from seqloom.predictor.grammar import TextGrammar, for_tokens
from seqloom.registry import Count, find, parts

Phrases = str | Sequence[str]


class Constraints:
    """What an answer must begin with, hold and avoid.

    Words and phrases are cut into tokens as the tokenizer cuts any text, and it is these tokens that are forced or
    forbidden: a model that spells a word by other tokens than the tokenizer would is not seen through.

    prefix: what an answer begins with; one for all sources, or a list with one for each ("": none).
    forbid: words or phrases that are in no answer.
    require: words or phrases that are in every answer; a list of them for all sources, or a list of such lists with
        one for each. With beam search only.
    no_repeat: no sequence of this many tokens comes twice in an answer.
    repetition_penalty: above 1 it makes tokens less likely that an answer has already (Keskar et al. 2019).
    grammar: what may follow what: the name of a task that ships a grammar, as ``dates`` does; a ``TextGrammar``,
        which reads characters; or a function of the tokens so far, for all rows at once.
    """

    def __init__(
        self,
        *,
        prefix: Phrases = "",
        forbid: Phrases = (),
        require: Phrases | Sequence[Sequence[str]] = (),
        no_repeat: Count | None = None,
        repetition_penalty: Annotated[float, Field(gt=0)] = 1.0,
        grammar: str | TextGrammar | Grammar | None = None,
    ) -> None:
        self.prefix = prefix or ""
        self.forbid = [forbid] if isinstance(forbid, str) else list(forbid)
        phrases = [require] if isinstance(require, str) else list(require)
        self.require = [phrase for phrase in phrases if isinstance(phrase, str)]
        self.require_each = [list(own) for own in phrases if not isinstance(own, str)]
        self.no_repeat = no_repeat
        self.repetition_penalty = repetition_penalty
        self.grammar = _shipped(grammar) if isinstance(grammar, str) else grammar

    def check_sources(self, count: int) -> None:
        """Refuse a list with an entry for each source that has more or fewer than there are."""
        lists = {"prefix": [] if isinstance(self.prefix, str) else self.prefix, "require": self.require_each}
        for name, entries in lists.items():
            if entries and len(entries) != count:
                raise SizeError(f"{name} has {len(entries)} entries for {count} sources: give each one, or all one")

    def masks(self, rows: Sequence[int], writer: Tokenizer) -> Masks:
        """The same in tokens of ``writer``, for the sources with these numbers."""
        prefixes = [self.prefix if isinstance(self.prefix, str) else self.prefix[row] for row in rows]
        required = [self.require_each[row] if self.require_each else self.require for row in rows]
        forbidden = [ids for ids in writer.encode(self.forbid) if UNKNOWN not in ids]
        return Masks(
            prefix=_writable("prefix", prefixes, writer, None if isinstance(self.prefix, str) else rows),
            forbidden=forbidden,  # without what the model can't write anyway
            no_repeat=self.no_repeat,
            repetition_penalty=self.repetition_penalty,
            grammar=for_tokens(self.grammar, writer) if isinstance(self.grammar, TextGrammar) else self.grammar,
            required=[
                _writable("require", phrases, writer, [row] * len(phrases) if self.require_each else None)
                for row, phrases in zip(rows, required, strict=True)
            ],
            numbers=rows,
        )


def _shipped(task: str) -> TextGrammar:
    """The grammar of a task's answers."""
    grammar = getattr(find("task", task), "grammar", None)
    if not isinstance(grammar, TextGrammar):
        with_one = [name for name, cls in parts("task").items() if hasattr(cls, "grammar")]
        raise OptionError(f"task {task!r} ships no grammar; these do: {', '.join(with_one)}")
    return grammar


def _writable(option: str, texts: Sequence[str], writer: Tokenizer, numbers: Sequence[int] | None) -> list[list[int]]:
    """The tokens of texts that the model is to write; what it has no token for is refused.

    numbers: of the source that each text is for, for the error; None: they are for all.
    """
    encoded = writer.encode(texts)
    for n, (text, ids) in enumerate(zip(texts, encoded, strict=True)):
        number = None if numbers is None else numbers[n]
        if UNKNOWN in ids:
            raise SentenceError(
                f"{option}={text!r} can't be written by this model: it has no token for a part of it", number
            )
        if option == "require" and not ids:
            raise SentenceError(f"require={text!r} has no token, and every answer holds that: leave it out", number)
    return encoded
