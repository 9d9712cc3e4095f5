"""Runs the generator: spec in, generated files out, or a comparison of both (``python -m tools.generate``)."""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools.contract.corpus import build, dump
from tools.contract.package import Package, load_package
from tools.docs.chinese import OVERLAY, check_guides, chinese, translations
from tools.docs.older import older
from tools.docs.publish import dumped, published
from tools.docs.table import table
from tools.docs.wording import ENGLISH
from tools.generate.client import FOLDER as CLIENT
from tools.generate.client import client_files
from tools.generate.config import config_files
from tools.generate.document import Finding, SpecError
from tools.generate.fields import defaults_source, fields_source
from tools.generate.lint import check_behaviour, check_fields
from tools.generate.load import load
from tools.generate.models import models_source
from tools.generate.operations import operations_source, routes_source
from tools.generate.rules import rules_source
from tools.generate.shapes import Contract, inside, read
from tools.generate.write import drift, formatted, render, write

ROOT = Path(__file__).resolve().parent.parent.parent
SPEC = ROOT / "spec" / "openapi.yaml"
OUT = ROOT / "generated"
CONFIG_SCHEMA = "config.schema.yaml"
"""The schema of the server's own configuration, where it lies beside the spec."""


@dataclass(frozen=True)
class Output:
    """The text of every file that a spec gives, by name."""

    files: dict[str, str]
    """Those of ``generated/``."""
    beside: dict[str, str]
    """Tables for readers, which belong beside the spec."""
    client: dict[str, str]
    """Those of mindspec_client."""


def generate(spec_path: Path) -> dict[str, str]:
    """The text of every file of ``generated/`` that the spec gives, by name; nothing is written.

    Raises:
        SpecError: the spec is wrong; carries all findings.
    """
    return generate_all(spec_path).files


def generate_all(spec_path: Path) -> Output:
    """All that the spec gives; nothing is written.

    Where a ``config.schema.yaml`` lies beside it, the files of that are among them; where a ``guide.md`` does, the
    published documents.

    Raises:
        SpecError: the spec is wrong; carries all findings.
    """
    document = load(spec_path)
    contract = read(document)
    check_fields(contract)
    if document.blocked:
        raise SpecError(document.path, document.findings)
    files = {name: formatted(text, name) for name, text in python_files(contract).items()}
    files["routes.yaml"] = routes_source(contract)
    with tempfile.TemporaryDirectory() as folder:
        write(files, Path(folder))
        package = load_package(Path(folder))
    check_behaviour(contract, package)
    if document.findings:
        raise SpecError(document.path, document.findings)
    cases, wrong = build(contract, package)
    if wrong:
        raise SpecError(document.path, [Finding(1, f"the models do not follow the spec: {line}") for line in wrong])
    files["corpus.json"] = dump(cases, str(document.data["info"].get("version", "0")))
    client, beside, schema = client_files(files, contract), {}, spec_path.parent / CONFIG_SCHEMA
    if schema.is_file():
        more, beside["config.md"] = config_files(schema, files)
        files.update(more)
    if (spec_path.parent / ENGLISH.guide).is_file():
        files |= _for_readers(contract, package, spec_path.parent)
        beside["parameters.md"] = table(contract)
    return Output(files, beside, client)


def _for_readers(contract: Contract, package: Package, folder: Path) -> dict[str, str]:
    document = published(contract, package, folder)
    check_guides(folder, ENGLISH.guide)
    translated = published(contract, package, folder, chinese(translations(contract.document, folder / OVERLAY)))
    return {
        "openapi.json": dumped(document),
        "openapi.zh.json": dumped(translated),
        "openapi-3.0.json": dumped(older(document)),
    }


def python_files(contract: Contract) -> dict[str, str]:
    """The Python files of the generated package by name, not yet formatted."""
    models = [contract.models[name] for name in contract.reach(contract.requests)]
    nested = {model.name: tuple(key for key, m in model.members.items() if inside(m.shape)) for model in models}
    free, nested = sorted(m.name for m in models if m.free_form), {name: keys for name, keys in nested.items() if keys}
    return {
        "__init__.py": render("init.py.j2"),
        "base.py": render("base.py.j2", free_form=free, nested=nested),
        "models.py": models_source(contract),
        "rules.py": rules_source(contract),
        "fields.py": fields_source(contract),
        "problems.py": render("problems.py.j2"),
        "defaults.py": defaults_source(contract),
        "operations.py": operations_source(contract),
    }


def run(spec_path: Path | str = SPEC, out_dir: Path | str = OUT, check: bool = False) -> int:
    """Write generated files from a spec, or with ``check`` compare them byte by byte. Returns the exit status.

    0: written, or nothing differs. 1: ``check`` found a difference (a diff is printed), or the spec is wrong (every
    finding is printed with its line).
    """
    out = Path(out_dir)
    try:
        made = generate_all(Path(spec_path))
    except SpecError as error:
        count = f"{len(error.findings)} finding{'s' * (len(error.findings) != 1)}"
        print(f"{error}\n{count}; nothing was written", file=sys.stderr)
        return 1
    rooms = [(made.files, out), (made.beside, Path(spec_path).parent)]
    client = out.parent / CLIENT
    rooms += [(made.client, client)] if client.parent.is_dir() else []  # a spec elsewhere has no client package
    if not check:
        written = [name for files, folder in rooms for name in write(files, folder)]
        print(f"{out}: {', '.join(dict.fromkeys(written)) or 'nothing to change'}")
        return 0
    difference = "\n".join(filter(None, (drift(files, folder) for files, folder in rooms)))
    if difference:
        print(difference)
        print(f"{out} does not match {spec_path}; run `mindspec generate`", file=sys.stderr)
    return 1 if difference else 0


def main(arguments: list[str] | None = None) -> int:
    """The command line of the generator alone."""
    parser = argparse.ArgumentParser(prog="python -m tools.generate", description="Generate code from the spec.")
    parser.add_argument("--spec", type=Path, default=SPEC, help="the OpenAPI 3.1 document")
    parser.add_argument("--out", type=Path, default=OUT, help="the folder to write to or to compare with")
    parser.add_argument("--check", action="store_true", help="write nothing; print a diff and exit 1 on any difference")
    options = parser.parse_args(arguments)
    return run(options.spec, options.out, options.check)


if __name__ == "__main__":
    sys.exit(main())
