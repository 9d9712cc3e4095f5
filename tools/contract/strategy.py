"""Random valid requests for Hypothesis: drawn member by member from the spec, then repaired until no rule is broken."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path as FilePath
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from tools.contract.package import Judge, Package
from tools.contract.search import ABSENT, Path, Search
from tools.contract.values import SHORT, boundary
from tools.generate.load import load
from tools.generate.shapes import Branch, Contract, Member, Shape, read

SPEC = FilePath(__file__).resolve().parent.parent.parent / "spec" / "openapi.yaml"
MOST_REPAIRS = 20
"""Members that are changed in one drawn request before it is given up."""


@lru_cache(maxsize=4)
def contract_of(spec: FilePath) -> Contract:
    """The contract of a spec file, read once."""
    return read(load(spec))


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
    contract = contract or contract_of(SPEC)
    request = next(known.request for known in contract.operations if known.id == operation)
    if request is None:
        raise ValueError(f"{operation} takes no body")
    search = Search(contract, Judge(package or Package("generated"), request))
    drawn = _Draw(search).model(request)

    @st.composite
    def repaired(draw: st.DrawFn) -> dict[str, Any]:
        body = _repaired(search, draw(drawn), deployment)
        assume(body is not None)
        return body or {}

    return repaired()


class _Draw:
    """Strategies for the schemas of one contract."""

    def __init__(self, search: Search) -> None:
        self.search, self.contract = search, search.contract

    def model(self, name: str) -> st.SearchStrategy[dict[str, Any]]:
        """An object with its required members and some of the others, sometimes null."""
        members = self.contract.models[name].members.values()
        required = {m.name: self.member(name, m) for m in members if m.required}
        others = {m.name: self.member(name, m) for m in members if not m.required}
        some = st.lists(st.sampled_from(sorted(others)), unique=True, max_size=6) if others else st.just([])
        optional = some.flatmap(lambda names: st.fixed_dictionaries({key: others[key] for key in names}))
        return st.builds(lambda first, second: {**first, **second}, st.fixed_dictionaries(required), optional)

    def member(self, model: str, member: Member) -> st.SearchStrategy[Any]:
        """A value of a member: a boundary, an example, what a rule's text suggests, or a random one.

        A string that has examples takes only those and the rules' texts: random text is no template and no role.
        """
        known = [v.value for v in boundary(member.shape, self.contract) if not v.code and len(str(v.value)) < SHORT]
        text = member.shape.of("string")
        if text is not None and text.examples:
            rules = [rule for rule in self.contract.models[model].rules]
            compiled = [self.search.compile(model, rule) for rule in rules]
            known = [*text.examples, *(word for one in compiled if member.name in one.fields for word in one.texts)]
            return st.sampled_from(known if member.required else [*known, None])
        for rule in self.contract.models[model].rules:
            if member.name in self.search.compile(model, rule).fields:
                known += [value for value in self.search.options(model, rule, member.name) if value is not ABSENT]
        return st.one_of(st.sampled_from(known), *self.random(member.shape))

    def random(self, shape: Shape) -> list[st.SearchStrategy[Any]]:
        """Strategies for the inside of each branch, where more than boundary values makes sense."""
        return [found for branch in shape.branches if (found := self.branch(branch)) is not None]

    def branch(self, branch: Branch) -> st.SearchStrategy[Any] | None:
        limits = branch.limits
        if branch.model:
            return self.model(branch.model)
        if branch.kind == "list" and branch.items is not None:
            item = self.random(branch.items)
            least = int(limits.get("minItems", 0))
            return st.lists(st.one_of(*item), min_size=least, max_size=least + 3) if item else None
        if branch.kind in ("integer", "number"):
            low, high = limits.get("minimum", limits.get("exclusiveMinimum")), limits.get("maximum")
            banned = limits.get("not", {}).get("const")
            if branch.kind == "integer":
                return st.integers(low, high).filter(lambda value: value != banned)
            return st.floats(low, high, exclude_min="exclusiveMinimum" in limits, allow_nan=False, allow_infinity=False)
        if branch.kind == "string" and not {"enum", "const", "pattern"} & set(limits):
            least = int(limits.get("minLength", 0))
            return st.text(st.characters(exclude_categories=["Cs"]), min_size=least, max_size=least + 20)
        return None


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
