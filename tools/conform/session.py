"""A run of `mindspec conform`: from its options to a report and an exit code."""

from __future__ import annotations

import argparse
import json
import os
import ssl
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

from generated.rules import Deployment
from tools.conform import report as reports
from tools.conform.asking import Ask, Target
from tools.conform.budget import Budget
from tools.conform.cases import Cases
from tools.conform.curl import CurlWriter
from tools.conform.errors import read_error
from tools.conform.law import Outcome
from tools.conform.registry import all_laws, chosen, listed
from tools.conform.runner import run as run_laws
from tools.conform.sides import CHAT
from tools.conform.wire import Address, Sent, Transport, Wire
from tools.server_options import MODEL_TYPES

FOUND: Final = 1
USAGE: Final = 2
_KEY_VARIABLE: Final = "MINDSPEC_KEY"
"""What curl commands read the key from where it was given on the command line."""


class CannotTest(Exception):
    """The server cannot be tested at all; the text says why and what to do."""


def run(given: argparse.Namespace, environment: Mapping[str, str] | None = None) -> int:
    """Run the laws; returns 0 where all are kept, 1 where one is broken, 2 where nothing could be tried."""
    if given.frozen_list:
        _write(given, listed(all_laws(Cases(_profiled(given.profile, openai_form=False)))) + "\n")
        return 0
    try:
        if given.url is None:
            raise CannotTest("URL is missing; for example http://127.0.0.1:1025")
        wire = _wire(given, os.environ if environment is None else environment)
        made = conform(given, wire, wire.address.url)
    except (CannotTest, ValueError) as error:
        print(f"mindspec: {error}", file=sys.stderr)
        return USAGE
    form = {"json": reports.as_json, "junit": reports.junit}.get(given.format)
    _write(given, form(made) if form is not None else reports.text(made, given.findings))
    return FOUND if made.broken else 0


def conform(given: argparse.Namespace, wire: Transport, url: str) -> reports.Report:
    """The report on a server behind any transport.

    Raises:
        CannotTest: no model was named and none is listed, or nobody answers.
        ValueError: an unknown law.
    """
    begun_s = time.monotonic()
    base = "/" + given.base_path.strip("/") if given.base_path.strip("/") else ""
    model = given.model or _first_model(wire, f"{base}/models")
    server = deployment_of(wire, base, given.profile)
    laws = chosen(all_laws(Cases(server)), given.only, given.skip)
    budget = Budget(given.requests, given.tokens)
    ask = Ask(wire, Target(model, base, server, given.seed), budget)
    outcomes = run_laws(ask, laws, given.concurrency, _Progress(len(laws)))
    variable = given.key_env or (_KEY_VARIABLE if given.key else None)
    curl = CurlWriter(url, variable, str(given.ca) if given.ca else None, given.timeout)
    seconds = time.monotonic() - begun_s
    return reports.Report(url + base, model, outcomes, curl, budget.requests, budget.tokens, seconds)


def _wire(given: argparse.Namespace, environment: Mapping[str, str]) -> Wire:
    if given.key and given.key_env:
        raise CannotTest("--key and --key-env both say the key; give one")
    if given.key_env and given.key_env not in environment:
        raise CannotTest(f"--key-env names {given.key_env}, which is not set")
    key = environment[given.key_env] if given.key_env else given.key
    try:
        return Wire(Address.of(given.url), timeout_s=given.timeout, key=key, ca=given.ca)
    except (OSError, ssl.SSLError) as error:
        raise CannotTest(f"--ca cannot be used: {error}") from None


def _first_model(wire: Transport, path: str) -> str:
    got = wire.exchange(Sent("GET", path, headers=())).got
    if not got.status:
        raise CannotTest(f"nobody answers GET {path} ({got.fault}); is the server running?")
    try:
        name = json.loads(got.body)["data"][0]["id"]
    except (ValueError, TypeError, LookupError, RecursionError):
        raise CannotTest(f"GET {path} ({got.status}) lists no model; name one with --model") from None
    if not isinstance(name, str):
        raise CannotTest(f"GET {path} lists a model without a name; name one with --model")
    return name


def deployment_of(wire: Transport, base: str, profile: Sequence[str]) -> Deployment:
    """What the contract may ask about the server: its profile, and the form of its errors, which it is asked for."""
    error = read_error(wire.exchange(Sent("POST", base + CHAT.path, b"{}")))
    return _profiled(profile, openai_form=error is not None and error.nested)


def _profiled(profile: Sequence[str], *, openai_form: bool) -> Deployment:
    features = frozenset(name for name in profile if name not in MODEL_TYPES)
    family = next((name for name in profile if name in MODEL_TYPES), "")
    return Deployment(features=features, model_type=family, openai_form=openai_form)


class _Progress:
    """Counts on the terminal, where there is one."""

    def __init__(self, laws: int) -> None:
        self._laws, self._done = laws, 0

    def __call__(self, outcome: Outcome) -> None:
        self._done += 1
        if sys.stderr.isatty():
            end = "\n" if self._done == self._laws else "\r"
            print(f"{self._done} of {self._laws} laws  {outcome.law.id:<60.60}", end=end, file=sys.stderr, flush=True)


def _write(given: argparse.Namespace, text: str) -> None:
    if given.output is not None:
        given.output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
