"""``seqloom predict``."""

import sys
from typing import Annotated, Any

import typer

from seqloom.cli.options import (
    Device,
    Engine,
    EnsembleMode,
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
    input: Annotated[str, typer.Option(help="Input file, one source per line; - is standard input.")] = "-",  # noqa: A002
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="Input format: lines, or jsonl with source, prefix, require and other inputs; default: from the "
            "file name.",
        ),
    ] = None,
    search: Search = None,
    n_best: Annotated[
        int | None, typer.Option(help="Number of hypotheses to print per source, with their scores.")
    ] = None,
    prefix: Prefix = None,
    forbid: Forbid = None,
    require: Require = None,
    no_repeat_ngram_size: NoRepeat = None,
    repetition_penalty: RepetitionPenalty = None,
    grammar: Grammar = None,
    scores: Annotated[bool, typer.Option("--scores", help="Print the score of each output.")] = False,
    align: Annotated[
        bool, typer.Option("--align", help="Print the alignment as source-target pairs: 0-0 1-2.")
    ] = False,
    words: Annotated[bool, typer.Option("--words", help="Align words instead of tokens.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per source, with all fields.")
    ] = False,
    ensemble_mode: EnsembleMode = None,
    device: Device = "auto",
    engine: Engine = None,
    imports: Imports = None,
) -> None:
    """Generate one output line per input line, in order; blank lines stay blank.

    Several runs form an ensemble.
    """
    from seqloom.api import load
    from seqloom.cli.output_format import OutputFormat
    from seqloom.cli.requests import batches_as_available, read_requests
    from seqloom.cli.search_options import search_options
    from seqloom.cli.values import parse_yaml
    from seqloom.errors import InputError, SentenceError
    from seqloom.metrics.report import truncation

    output = OutputFormat(as_json=as_json, scores=scores, align=align, words=words)
    constraints = constraints_given(prefix, forbid, require, no_repeat_ngram_size, repetition_penalty, grammar)
    options = search_options(context) | constraints | ({} if n_best is None else {"n_best": n_best})
    model = load(runs, ensemble_mode=ensemble_mode, device=device, engine=engine)
    spec = None if search is None else parse_yaml(search)
    resolved, _ = model.resolve_search(spec, options)  # reports invalid options before any input is read

    count = truncated = 0
    for batch in batches_as_available(read_requests(input, form)):
        per_source: dict[str, Any] = {}
        if any(request.prefix is not None for request in batch):
            per_source["prefix"] = [prefix or "" if r.prefix is None else r.prefix for r in batch]
        if any(request.require is not None for request in batch):
            per_source["require"] = [require or [] if r.require is None else r.require for r in batch]
        examples = [request.example for request in batch]
        try:
            generated = model.generate(
                examples, search=spec, return_attention=output.needs_attention, **options | per_source
            )
        except SentenceError as error:
            if error.sentence is None:
                raise
            raise InputError(f"{batch[error.sentence].location}: {error.problem}") from None
        for number, (request, predictions) in enumerate(zip(batch, generated, strict=True), count):
            for line in output.lines(number, request, predictions, n_best=resolved.n_best > 1):
                sys.stdout.write(line + "\n")
        sys.stdout.flush()
        count += len(batch)
        truncated += sum(predictions[0].truncated for predictions in generated)
    if truncated:
        print(f"seqloom: {truncation(truncated, count)}", file=sys.stderr)
