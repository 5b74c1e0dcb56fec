"""Pairwise covering: a small set of combinations with every pair of values that can occur together."""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

Row = dict[str, Any]
Domains = Mapping[str, Sequence[Any]]


class Rule(NamedTuple):
    """A condition on the values of some factors, and the message that is expected if it does not hold."""

    factors: tuple[str, ...]
    holds: Callable[..., bool]
    message: str = ""


def propagate(domains: Domains, tables: list[tuple[tuple[str, ...], list[tuple[Any, ...]]]]) -> tuple[Any, Any]:
    """Constraint propagation: remove values and table rows that no rule allows, until nothing changes."""
    while True:
        allowed = [
            (fs, [t for t in rows if all(v in domains[f] for f, v in zip(fs, t, strict=True))]) for fs, rows in tables
        ]
        narrowed = dict(domains)
        for fs, rows in allowed:
            for n, f in enumerate(fs):
                possible = {t[n] for t in rows}
                narrowed[f] = [v for v in narrowed[f] if v in possible]
        if narrowed == domains:
            return narrowed, allowed
        domains, tables = narrowed, allowed


def complete(
    domains: Domains, tables: list[Any], priority: Callable[[Row, str, Any], int] = lambda row, factor, value: 0
) -> Row | None:
    """A row that satisfies the rules, with values of high priority tried first; None if there is no such row."""
    domains, tables = propagate(domains, tables)
    row = {f: values[0] for f, values in domains.items() if len(values) == 1}
    if not all(domains.values()) or len(row) == len(domains):
        return row if all(domains.values()) else None
    factor = next(f for f in domains if f not in row)
    for value in sorted(domains[factor], key=lambda value: -priority(row, factor, value)):
        completed = complete({**domains, factor: [value]}, tables, priority)
        if completed is not None:
            return completed
    return None


def allowed_values(domains: Domains, rules: Sequence[Rule]) -> list[tuple[tuple[str, ...], list[tuple[Any, ...]]]]:
    """For every rule, the tuples of values that satisfy it."""
    return [(r.factors, [t for t in product(*(domains[f] for f in r.factors)) if r.holds(*t)]) for r in rules]


def covering(factors: Domains, rules: Sequence[Rule] = ()) -> list[Row]:
    """Rows that satisfy the rules and contain every pair of values that occurs in any such row."""
    domains, tables = propagate({f: list(values) for f, values in factors.items()}, allowed_values(factors, rules))
    pairs = [((f, v), (g, w)) for f, g in combinations(domains, 2) for v in domains[f] for w in domains[g]]
    missing = dict.fromkeys(map(frozenset, pairs))
    rows: list[Row] = []

    def missing_pairs(row: Row, factor: str, value: Any) -> int:
        return sum(frozenset(((factor, value), other)) in missing for other in row.items())

    while missing:
        pair = next(iter(missing))
        row = complete({**domains, **{f: [v] for f, v in pair}}, tables, missing_pairs)
        missing.pop(pair)
        if row is not None:
            rows.append(row)
            for two in combinations(row.items(), 2):
                missing.pop(frozenset(two), None)
    return rows
