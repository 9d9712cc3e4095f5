# Written by `mindspec generate` from tools/contract/invalid.py; do not edit.
"""Random requests that are invalid in one place: one field outside its shape, or one rule broken and no other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from hypothesis import assume, reject
from hypothesis import strategies as st

from .package import Package
from .search import ABSENT, Owner, Path, Search, concrete, get, render_path
from .strategy import search_of, valid_requests
from .values import SHORT, Value, base, boundary
from .shapes import Contract, Rule, openai_shape

MOST_WITNESSES: Final = 12
"""Ways to break a rule that are drawn from."""


@dataclass(frozen=True)
class Invalid:
    """A request that is refused, and why."""

    body: dict[str, Any]
    code: str
    """The id of the broken rule, or the code of a field at fault."""
    param: str | None
    """The path that the refusal names."""
    valid: dict[str, Any]
    """The accepted request that differs from it in this one point."""


def invalid_requests(
    operation: str, deployment: Any = None, *, contract: Contract | None = None, package: Package | None = None
) -> st.SearchStrategy[Invalid]:
    """Bodies that an operation refuses for exactly one reason under a deployment; arguments as of valid_requests."""
    search = search_of(operation, contract, package)
    bodies = valid_requests(operation, deployment, contract=search.contract, package=search.judge.package)
    faults: list[tuple[Path, list[Value], list[Any]]] = []
    for pattern, member, shape in search.contract.walk(search.judge.request):
        form = getattr(deployment, "openai_form", False) and shape.openai_form
        values = boundary(openai_shape(shape) if form else shape, search.contract)
        values += [Value(ABSENT, "missing")] if member.required and not pattern.endswith("[]") else []
        short = [value for value in values if len(str(value.value)) < SHORT]
        good = [value.value for value in short if not value.code and value.value is not None]
        faults.append((concrete(pattern), [value for value in short if value.code], good))
    witnesses = [found for owner in search.owners() for found in _witnesses(search, owner, deployment)]

    @st.composite
    def broken_field(draw: st.DrawFn) -> Invalid:
        path, wrong, good = draw(st.sampled_from(faults))
        value, valid = draw(st.sampled_from(wrong)), draw(bodies)
        if get(valid, path) is None:
            valid = _with_place(search, valid, path, draw(st.sampled_from(good)), deployment)
        bad = search.put(valid, path, value.value)
        return _checked(search, bad, valid, value.code, (*path, *value.below), deployment)

    @st.composite
    def broken_rule(draw: st.DrawFn) -> Invalid:
        owner, rule, breaking, obeying = draw(st.sampled_from(witnesses))
        drawn = draw(bodies)
        there = get(drawn, owner.path) if owner.path else drawn
        start = there if isinstance(there, dict) else base(owner.model, search.contract)
        names = search.compile(owner.model, rule).fields
        bad, valid = (_overlaid(search, drawn, owner, start, part, names) for part in (breaking, obeying))
        alone = search.judge.broken(bad, deployment) == [(rule.id, owner.path)]
        if not alone or search.judge.verdict(valid, deployment).code:
            smallest = base(owner.model, search.contract)
            bad, valid = (
                _overlaid(search, search.start(), owner, smallest, part, names) for part in (breaking, obeying)
            )
        return _checked(search, bad, valid, rule.id, (*owner.path, *rule.fields[0].split(".")), deployment)

    return st.one_of(broken_field(), broken_rule()) if witnesses else broken_field()


def _witnesses(
    search: Search, owner: Owner, deployment: Any
) -> list[tuple[Owner, Rule, dict[str, Any], dict[str, Any]]]:
    """For each rule of an owner, small objects that break it alone, each with one that obeys it."""
    found = []
    for rule in search.contract.models[owner.model].rules:
        breaking: list[dict[str, Any]] = []
        for _, changed in search.assignments(owner.model, rule, base(owner.model, search.contract)):
            body = search.put(search.start(), owner.path, changed)
            if len(str(changed)) < SHORT and search.judge.broken(body, deployment) == [(rule.id, owner.path)]:
                breaking.append(changed)
            if len(breaking) == MOST_WITNESSES:
                break
        obeying = base(owner.model, search.contract)
        found += [(owner, rule, changed, obeying) for changed in breaking]
    return found


def _overlaid(
    search: Search,
    body: dict[str, Any],
    owner: Owner,
    start: dict[str, Any],
    part: dict[str, Any],
    names: tuple[str, ...],
) -> dict[str, Any]:
    """The body with the members that a rule reads taken from ``part``; those that it lacks are left out."""
    kept = {name: value for name, value in start.items() if name not in names}
    taken = {name: value for name, value in part.items() if name in names}
    return search.put(body, owner.path, {**kept, **taken})


def _with_place(search: Search, body: dict[str, Any], path: Path, good: Any, deployment: Any) -> dict[str, Any]:
    """A valid body with a good value at the path: the given one changed, else the smallest."""
    for start in (body, search.start()):
        repaired = search.repair(search.put(start, path, good), path, deployment)
        if repaired is not None:
            return repaired
    return reject()


def _checked(
    search: Search, bad: dict[str, Any], valid: dict[str, Any], code: str, path: Path, deployment: Any
) -> Invalid:
    """The result, where the whole check says of both bodies what it should; else this draw is given up."""
    param = render_path(path) or None
    says = search.judge.verdict(bad, deployment)
    assume((says.code, says.param) == (code, param) and not search.judge.verdict(valid, deployment).code)
    return Invalid(bad, code, param, valid)
