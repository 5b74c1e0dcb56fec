"""A pairwise covering: few combinations in which every two values that can meet do meet."""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

Row = dict[str, Any]
Domains = Mapping[str, Sequence[Any]]


class Rule(NamedTuple):
    """What must hold of the values of some factors, and what is said where it does not."""

    factors: tuple[str, ...]
    holds: Callable[..., bool]
    says: str = ""


def narrowed(domains: Domains, tables: list[tuple[tuple[str, ...], list[tuple[Any, ...]]]]) -> tuple[Any, Any]:
    """What is left of every factor's values, and of every rule's table, once each rule has had its say."""
    while True:
        kept = [
            (fs, [t for t in rows if all(v in domains[f] for f, v in zip(fs, t, strict=True))]) for fs, rows in tables
        ]
        left = dict(domains)
        for fs, rows in kept:
            for n, f in enumerate(fs):
                there = {t[n] for t in rows}
                left[f] = [v for v in left[f] if v in there]
        if left == domains:
            return left, kept
        domains, tables = left, kept


def complete(
    domains: Domains, tables: list[Any], worth: Callable[[Row, str, Any], int] = lambda row, factor, value: 0
) -> Row | None:
    """One value for every factor, at each the worthiest that still leads somewhere; None where nothing does."""
    domains, tables = narrowed(domains, tables)
    row = {f: values[0] for f, values in domains.items() if len(values) == 1}
    if not all(domains.values()) or len(row) == len(domains):
        return row if all(domains.values()) else None
    factor = next(f for f in domains if f not in row)
    for value in sorted(domains[factor], key=lambda value: -worth(row, factor, value)):
        found = complete({**domains, factor: [value]}, tables, worth)
        if found is not None:
            return found
    return None


def tabled(domains: Domains, rules: Sequence[Rule]) -> list[tuple[tuple[str, ...], list[tuple[Any, ...]]]]:
    """For every rule, the values that keep it."""
    return [(r.factors, [t for t in product(*(domains[f] for f in r.factors)) if r.holds(*t)]) for r in rules]


def covering(factors: Domains, rules: Sequence[Rule] = ()) -> list[Row]:
    """Rows that keep the rules, and in which every pair of values occurs that occurs in any such row."""
    domains, tables = narrowed({f: list(values) for f, values in factors.items()}, tabled(factors, rules))
    pairs = [((f, v), (g, w)) for f, g in combinations(domains, 2) for v in domains[f] for w in domains[g]]
    missing = dict.fromkeys(map(frozenset, pairs))
    rows: list[Row] = []

    def worth(row: Row, factor: str, value: Any) -> int:
        return sum(frozenset(((factor, value), other)) in missing for other in row.items())

    while missing:
        pair = next(iter(missing))
        row = complete({**domains, **{f: [v] for f, v in pair}}, tables, worth)
        missing.pop(pair)
        if row is not None:
            rows.append(row)
            for two in combinations(row.items(), 2):
                missing.pop(frozenset(two), None)
    return rows
