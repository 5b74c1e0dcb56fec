"""``seqloom predict``."""

import sys
from typing import Annotated, Any

import typer

from seqloom.cli.options import (
    Average,
    Device,
    Engine,
    Forbid,
    Grammar,
    Imports,
    NoRepeat,
    Prefix,
    RepetitionPenalty,
    Require,
    Runs,
    Search,
    constraints_given,
)


def predict(
    context: typer.Context,
    runs: Runs,
    input: Annotated[str, typer.Option(help="One source a line; -: standard input.")] = "-",  # noqa: A002
    form: Annotated[
        str | None,
        typer.Option(
            "--format", help="lines, or jsonl: {source, prefix, require, further inputs}. Else by --input's name."
        ),
    ] = None,
    search: Search = None,
    n_best: Annotated[int | None, typer.Option(help="How many answers to each source, with their values.")] = None,
    prefix: Prefix = None,
    forbid: Forbid = None,
    require: Require = None,
    no_repeat: NoRepeat = None,
    repetition_penalty: RepetitionPenalty = None,
    grammar: Grammar = None,
    scores: Annotated[bool, typer.Option("--scores", help="With the value that the search compared.")] = False,
    align: Annotated[bool, typer.Option("--align", help="With the alignment: 0-0 1-2, source first.")] = False,
    words: Annotated[bool, typer.Option("--words", help="Alignment of words instead of tokens.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Everything, one JSON object for each source.")] = False,
    average: Average = None,
    device: Device = "auto",
    engine: Engine = None,
    imports: Imports = None,
) -> None:
    """Answer every line of the input by a line of output, in order; blank lines stay blank.

    Several runs answer together, as an ensemble.
    """
    from seqloom.api import load
    from seqloom.cli.layout import Layout
    from seqloom.cli.requests import as_they_come, read_requests
    from seqloom.cli.search_options import search_options
    from seqloom.cli.values import parsed
    from seqloom.errors import InputError, SentenceError
    from seqloom.metrics.report import truncation

    layout = Layout(as_json=as_json, scores=scores, align=align, words=words)
    constraints = constraints_given(prefix, forbid, require, no_repeat, repetition_penalty, grammar)
    options = search_options(context) | constraints | ({} if n_best is None else {"n_best": n_best})
    model = load(runs, average=average, device=device, engine=engine)
    chosen = None if search is None else parsed(search)
    how, _ = model.asked(chosen, options)  # what makes no sense is refused before anything is read
    several = how.answers > 1

    count = cut = 0
    for group in as_they_come(read_requests(input, form)):
        of_each: dict[str, Any] = {}
        if any(request.prefix is not None for request in group):
            of_each["prefix"] = [prefix or "" if r.prefix is None else r.prefix for r in group]
        if any(request.require is not None for request in group):
            of_each["require"] = [require or [] if r.require is None else r.require for r in group]
        examples = [request.example for request in group]
        try:
            found = model.answers(examples, search=chosen, weights=layout.needs_weights, **options | of_each)
        except SentenceError as error:
            if error.sentence is None:
                raise
            raise InputError(f"{group[error.sentence].place}: {error.problem}") from None
        for number, (request, answers) in enumerate(zip(group, found, strict=True), count):
            for line in layout.lines(number, request, answers, several=several):
                sys.stdout.write(line + "\n")
        sys.stdout.flush()
        count += len(group)
        cut += sum(answers[0].truncated for answers in found)
    if cut:
        print(f"seqloom: {truncation(cut, count)}", file=sys.stderr)
