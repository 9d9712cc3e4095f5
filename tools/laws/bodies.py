"""Finds every breach of a request's body: all members at fault, and all rules that can be judged beside them.

It needs nothing but the generated package, since mindspec_client carries it too.
"""

from __future__ import annotations

import copy
from typing import Any, Final

from pydantic import ValidationError

from generated.base import ContractModel, unknown
from generated.operations import Wire
from generated.problems import SHOWN_CHARACTERS, Problem, broken_rule, explain, render_path
from generated.rules import NORMALISERS, Deployment, Path, Rule
from tools.laws.breach import Breach
from tools.laws.repair import put_accepted, take_out

MOST_BREACHES: Final = 100
"""Breaches that are told of one request; those after them are not looked for."""


def judge_body(wire: Wire, body: Any, server: Deployment) -> tuple[ContractModel | None, list[Breach]]:
    """The validated and normalised model of a parsed body, or every breach of it.

    Args:
        wire: the operation; ValueError where it takes no body.
        server: the deployment that the request goes to.
    """
    if wire.request is None:
        raise ValueError(f"{wire.operation_id} takes no body")
    try:
        return wire.request.model_validate(body, context=server), []
    except ValidationError:
        return None, _all(wire, wire.request, body, server)


def _all(wire: Wire, model: type[ContractModel], body: Any, server: Deployment) -> list[Breach]:
    """The members at fault one after the other, each taken out before the next look; then the rules."""
    found: list[Breach] = []
    faults: list[Path] = []
    whole = copy.deepcopy(body)
    fields_only = Deployment(openai_form=server.openai_form, fields_only=True)
    checked: ContractModel | None = None
    for _ in range(2 * MOST_BREACHES):
        try:
            checked = model.model_validate(whole, context=fields_only)
            break
        except ValidationError as error:
            problem = explain(error, whole, model.__name__, server)
        mended = problem.path in faults
        if not mended:
            found.append(_of_field(problem))
            faults.append(problem.path)
        if not problem.path or len(found) >= MOST_BREACHES:
            return found
        if mended or problem.code == "missing" or isinstance(problem.path[-1], int):
            if not put_accepted(whole, problem.path, wire.operation_id):
                return found
        else:
            take_out(whole, problem.path)
    if checked is None:
        return found
    found += _unknown(checked, server, MOST_BREACHES - len(found))
    return found + _rules(checked, server, faults, body, MOST_BREACHES - len(found))


def _unknown(checked: ContractModel, server: Deployment, most: int) -> list[Breach]:
    if not server.strict_unknown:
        return []
    names = [_cut(render_path(path)) for path, _ in zip(unknown(checked), range(most), strict=False)]
    return [Breach("unknown_field", name, f"{name} is not a field of this API", "Leave it out.") for name in names]


def _rules(checked: ContractModel, server: Deployment, faults: list[Path], body: Any, most: int) -> list[Breach]:
    """Broken rules that look at no member at fault, whose right value nobody knows."""
    if type(checked).__name__ in NORMALISERS:
        NORMALISERS[type(checked).__name__](checked, server)
    found: list[Breach] = []
    for rule, owner in checked.broken(server):
        relaxed = rule.relaxable and rule.id in server.relaxed_rules
        if len(found) < most and not relaxed and not any(_looks_at(rule, owner, fault) for fault in faults):
            path = (*owner, *rule.fields[0].split("."))
            problem = broken_rule(rule.id, rule.message, rule.fields, path, body)
            found.append(Breach(rule.id, problem.param, problem.message, _rule_remedy(rule)))
    return found


def _looks_at(rule: Rule, owner: Path, fault: Path) -> bool:
    """Whether a fault lies in what a rule looks at, or around it."""
    for member in rule.reads:
        seen: Path = (*owner, member)
        shared = min(len(seen), len(fault))
        if seen[:shared] == fault[:shared]:
            return True
    return False


def _of_field(problem: Problem) -> Breach:
    remedy = f"Send {problem.allowed}." if problem.allowed else "Leave it out."
    return Breach(problem.code, problem.param, problem.message, remedy)


def _rule_remedy(rule: Rule) -> str:
    names = rule.fields[0] if len(rule.fields) == 1 else f"{', '.join(rule.fields[:-1])} or {rule.fields[-1]}"
    example = f"; {rule.accepted} is accepted" if rule.accepted and '"repeat"' not in rule.accepted else ""
    return f"Change {names}{example}."


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."
