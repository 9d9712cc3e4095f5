"""The files of tools/deploy, read."""

from __future__ import annotations

import configparser
import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "tools" / "deploy"
DOCKERFILE = DEPLOY / "Dockerfile"
UNIT = DEPLOY / "mindspec.service"
MANIFEST = DEPLOY / "kubernetes.yaml"


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, each a word and the rest on one line."""
    text = re.sub(r"\\\n\s*", "", DOCKERFILE.read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def last_of(word: str) -> str:
    """What the last instruction of a kind says."""
    return [rest for kind, rest in instructions() if kind == word][-1]


def unit() -> configparser.SectionProxy:
    """The [Service] section of the systemd unit."""
    parser = configparser.RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys keep their letters
    parser.read(UNIT, encoding="utf-8")
    return parser["Service"]


def resources() -> dict[str, Any]:
    """The Kubernetes resources by kind."""
    found = list(yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8")))
    return {resource["kind"]: resource for resource in found}


def container() -> dict[str, Any]:
    """The Deployment's only container."""
    (only,) = resources()["Deployment"]["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = only
    return found
