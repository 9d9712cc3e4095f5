"""The published OpenAPI 3.1 document: the spec with facts, rules, guide and examples written into descriptions.

No tool for OpenAPI shows extensions, and those in JavaScript round integers beyond 2^53. So what a reader has to know
stands in text; the extensions stay for tools that read them, such as the page that tries requests.
"""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

from tools.contract.package import Package
from tools.docs.chinese import texts
from tools.docs.facts import facts
from tools.docs.rule_text import markdown, rule_texts
from tools.docs.table import folded
from tools.docs.wording import ENGLISH, Wording
from tools.generate.fields import words
from tools.generate.load import Where
from tools.generate.shapes import Contract, Shape, openai_shape

_INCLUDED = re.compile(r"^\{example: (\S+)\}$", re.MULTILINE)
_LANGUAGES = {".sh": "sh", ".py": "python"}
_RULE_PLACES = {"x-rules", "x-validations"}


def published(contract: Contract, package: Package, folder: Path, say: Wording = ENGLISH) -> dict[str, Any]:
    """The document as plain data; ``folder`` has the guide and the examples that it includes."""
    document: dict[str, Any] = copy.deepcopy(contract.document.data)
    for where, text in list(texts(document)):
        if not _RULE_PLACES & set(where):  # a rule's message is what the server says, in its own words
            _at(document, where[:-1])[str(where[-1])] = say.text(text)
    info = document["info"]
    info["description"] = f"{info['description'].rstrip()}\n\n{guide(folder, say)}"
    done: set[Where] = set()
    for operation in contract.operations:
        node = document["paths"][operation.path][operation.method]
        if operation.request is None:
            continue
        for _, _, shape in contract.walk(operation.request):
            _allow(contract, document, shape)
        rows = facts(contract, operation.request, say)
        rules = markdown(rule_texts(contract, package, operation.request), say)
        node["description"] = "\n\n".join(filter(None, [node["description"].rstrip(), folded(rows, say), rules]))
        for fact in rows:
            if fact.where not in done:
                done.add(fact.where)
                schema = _at(document, fact.where)
                schema["description"] = f"{schema.get('description', '').rstrip()}\n\n{fact.sentences(say)}".lstrip()
    return document


def guide(folder: Path, say: Wording = ENGLISH) -> str:
    """The guide with its examples in their places."""

    def included(found: re.Match[str]) -> str:
        path = folder / "examples" / found[1]
        return f"```{_LANGUAGES[path.suffix]}\n{path.read_text(encoding='utf-8').rstrip()}\n```"

    return _INCLUDED.sub(included, (folder / say.guide).read_text(encoding="utf-8")).rstrip() + "\n"


def dumped(document: dict[str, Any]) -> str:
    """The text of a document; integers keep all their digits."""
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def _allow(contract: Contract, document: dict[str, Any], shape: Shape) -> None:
    """Note in an extension what error messages say of a value, for the page that shows them."""
    _, where = contract.document.resolve(contract.document.at(shape.where), shape.where)
    schema = _at(document, where)
    schema["x-allowed"] = words(shape)
    if shape.openai_form:
        schema["x-allowed-openai"] = words(openai_shape(shape))


def _at(document: dict[str, Any], where: Where) -> dict[str, Any]:
    node: Any = document
    for key in where:
        node = node[key]
    found: dict[str, Any] = node
    return found
