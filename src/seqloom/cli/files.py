"""Data files on the command line."""

from collections.abc import Sequence

FILE_OPTIONS = ("--train", "--dev", "--data")
CONFIG_SUFFIXES = (".yaml", ".yml")


def expand_file_args(arguments: Sequence[str]) -> list[str]:
    """``--train a.de a.en`` as ``--train a.de --train a.en``; shells expand ``--train a.{de,en}`` to the former.

    All words up to the next option are files, except a configuration (``.yaml``).
    """
    words: list[str] = []
    option: str | None = None
    for word in arguments:
        if word.startswith("-") and word != "-":
            name = word.partition("=")[0]
            option = name if name in FILE_OPTIONS else None
            words.append(word)
        elif option is None or word.endswith(CONFIG_SUFFIXES):
            words.append(word)
            option = None
        else:
            words += [word] if words[-1] == option else [option, word]
    return words
