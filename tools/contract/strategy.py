"""Random valid requests for Hypothesis: drawn member by member from the spec, then repaired until no rule is broken."""

from __future__ import annotations

from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from tools.contract.committed import PACKAGE, contract_of
from tools.contract.package import Judge, Package
from tools.contract.search import ABSENT, Path, Search
from tools.contract.values import SHORT, boundary
from tools.generate.shapes import Contract, Member, Shape, refused_values

MOST_REPAIRS = 20
"""Members that are changed in one drawn request before it is given up."""


def valid_requests(
    operation: str, deployment: Any = None, *, contract: Contract | None = None, package: Package | None = None
) -> st.SearchStrategy[dict[str, Any]]:
    """Bodies that an operation accepts under a deployment.

    Args:
        operation: the operation's id.
        deployment: a Deployment of the same generated package; None for one without any feature.
        contract: the spec, read; None for the committed one.
        package: the generated package that judges the bodies; None for the committed one.
    """
    search = search_of(operation, contract, package)
    bodies = _model(search, search.judge.request)

    @st.composite
    def repaired(draw: st.DrawFn) -> dict[str, Any]:
        body = _repaired(search, draw(bodies), deployment)
        assume(body is not None)
        return body or {}

    return repaired()


def search_of(operation: str, contract: Contract | None = None, package: Package | None = None) -> Search:
    """A search in an operation's requests; the committed contract and package where none are given.

    Raises:
        ValueError: there is no such operation, or it takes no body.
    """
    contract = contract or contract_of()
    request = next((known.request for known in contract.operations if known.id == operation), None)
    if request is None:
        raise ValueError(f"{operation} is no operation that takes a body")
    return Search(contract, Judge(package or PACKAGE, request))


def _model(search: Search, name: str) -> st.SearchStrategy[dict[str, Any]]:
    """An object with its required members and some of the others, sometimes null."""
    members = search.contract.models[name].members.values()
    required = st.fixed_dictionaries({m.name: _member(search, name, m) for m in members if m.required})
    others = {m.name: _member(search, name, m) for m in members if not m.required}
    some = st.lists(st.sampled_from(sorted(others)), unique=True, max_size=6) if others else st.just([])
    optional = some.flatmap(lambda names: st.fixed_dictionaries({key: others[key] for key in names}))
    return st.builds(lambda first, second: {**first, **second}, required, optional)


def _member(search: Search, model: str, member: Member) -> st.SearchStrategy[Any]:
    """A value of a member: a boundary, an example, what a rule's text suggests, or a random one.

    A string that has examples takes only those and the rules' texts: random text is no template and no role.
    """
    text = member.shape.of("string")
    rules = [rule for rule in search.contract.models[model].rules if member.name in search.compile(model, rule).fields]
    if text is not None and text.examples:
        suggested = [word for rule in rules for word in search.compile(model, rule).texts]
        return st.sampled_from([*text.examples, *suggested, *([] if member.required else [None])])
    known = [v.value for v in boundary(member.shape, search.contract) if not v.code and len(str(v.value)) < SHORT]
    known += [value for rule in rules for value in search.options(model, rule, member.name) if value is not ABSENT]
    return st.one_of(*([st.sampled_from(known)] if known else []), *_random(search, member.shape))


def _random(search: Search, shape: Shape) -> list[st.SearchStrategy[Any]]:
    """Strategies for the inside of each branch, where more than boundary values makes sense."""
    found: list[st.SearchStrategy[Any]] = []
    for branch in shape.branches:
        limits, least = branch.limits, int(branch.limits.get("minItems", branch.limits.get("minLength", 0)))
        low, high = limits.get("minimum", limits.get("exclusiveMinimum")), limits.get("maximum")
        items = _random(search, branch.items) if branch.items is not None else []
        if branch.model:
            found.append(_model(search, branch.model))
        elif branch.kind == "list" and items:
            found.append(st.lists(st.one_of(*items), min_size=least, max_size=least + 3))
        elif branch.kind == "integer":
            found.append(_without(st.integers(low, high), refused_values(limits)))
        elif branch.kind == "number":
            found.append(st.floats(low, high, exclude_min="exclusiveMinimum" in limits, allow_nan=False))
        elif branch.kind == "string" and not {"enum", "const", "pattern"} & set(limits):
            letters = st.characters(exclude_categories=["Cs"])
            found.append(
                st.text(letters, min_size=least, max_size=min(least + 20, limits.get("maxLength", least + 20)))
            )
    return found


def _without(numbers: st.SearchStrategy[int], refused: tuple[int, ...]) -> st.SearchStrategy[int]:
    return numbers.filter(lambda number: number not in refused) if refused else numbers


def _repaired(search: Search, body: dict[str, Any], deployment: Any) -> dict[str, Any] | None:
    """The body, one member after the other changed so that fewer rules are broken; None where that leads nowhere."""
    broken = search.judge.broken(body, deployment)
    if broken is None:
        return None
    for _ in range(MOST_REPAIRS):
        if not broken:
            return body
        best: tuple[int, dict[str, Any], list[tuple[str, Path]]] | None = None
        for changed in search.changes(body, *broken[0], (), None):
            left = search.judge.broken(changed, deployment)
            if left is not None and (best is None or len(left) < best[0]):
                best = len(left), changed, left
        if best is None or best[0] >= len(broken):
            return None
        _, body, broken = best
    return None
