"""Emits the generated part of mindspec_client: the contract's modules, spec and corpus, and the tools that read them.

A client team installs neither this server nor a reader of YAML or CEL. So the models and rules go over as they are, the
spec as JSON, what CEL says about each rule as a table, and the modules that search in the contract with their imports
turned to that folder.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from tools.generate.cel import compile_rule
from tools.generate.shapes import Contract
from tools.generate.write import formatted, render

FOLDER: Final = Path("tools") / "client" / "mindspec_client" / "contract"
"""Where these files belong, below the folder that ``generated`` is in."""
GENERATED: Final = ("__init__.py", "base.py", "models.py", "rules.py", "fields.py", "problems.py", "defaults.py",
                    "operations.py", "corpus.json")  # fmt: skip
_ROOT: Final = Path(__file__).resolve().parent.parent.parent
_CARRIED: Final = (
    "tools/generate/document.py",
    "tools/generate/shapes.py",
    "tools/contract/package.py",
    "tools/contract/values.py",
    "tools/contract/search.py",
    "tools/contract/corpus.py",
    "tools/contract/strategy.py",
    "tools/contract/invalid.py",
    "tools/laws/breach.py",
    "tools/laws/repair.py",
    "tools/laws/bodies.py",
)
_OURS: Final = re.compile(r"^(\s*from )(?:tools\.(?:generate|contract|laws)|generated)\.(\w+)( import )", re.MULTILINE)
_LEFT: Final = re.compile(r"^\s*(?:from|import) (?:tools|generated|handlers|engine)\b.*", re.MULTILINE)


def client_files(files: dict[str, str], contract: Contract) -> dict[str, str]:
    """The text of every generated file of mindspec_client, by name.

    Args:
        files: the files of ``generated/``.
        contract: what they were made from.

    Raises:
        RuntimeError: a module that is carried over needs one that is not.
    """
    found = {name: files[name] for name in GENERATED}
    for source in _CARRIED:
        found[Path(source).name] = carried((_ROOT / source).read_text(encoding="utf-8"), source)
    rules = {
        (model.name, rule.cel): compile_rule(rule.cel, contract, model.name)
        for model in contract.models.values()
        for rule in model.rules
    }
    found["cel.py"] = formatted(render("client_cel.py.j2", rules=rules), "cel.py")
    found["committed.py"] = formatted(render("client_committed.py.j2"), "committed.py")
    found["spec.json"] = json.dumps(contract.document.data, ensure_ascii=False, indent=1) + "\n"
    found["corpus.schema.json"] = corpus_schema(contract)
    return found


def carried(text: str, source: str) -> str:
    """A module with its imports of our packages made relative.

    Raises:
        RuntimeError: an import of ours is left.
    """
    turned = _OURS.sub(r"\1.\2\3", text).replace("from generated import ", "from . import ")
    left = _LEFT.search(turned)
    if left is not None:
        raise RuntimeError(f"{source} cannot go to mindspec_client: {left[0].strip()}")
    return f"# Written by `mindspec generate` from {source}; do not edit.\n{turned}"


def corpus_schema(contract: Contract) -> str:
    """The JSON Schema of corpus.json."""
    operations = [operation.id for operation in contract.operations if operation.request]
    return render("corpus.schema.json.j2", operations=json.dumps(operations))
