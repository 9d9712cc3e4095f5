"""The dashboard: its file is what the panels give, and no query asks for a metric that there is not."""

from __future__ import annotations

import json
import re

import pytest
from in_process import started
from prometheus_client.parser import text_string_to_metric_families

from engine.mock_front import MockFront
from handlers.service import Service
from handlers.settings import Settings
from tools.dashboard.__main__ import FILE, text
from tools.dashboard.panels import PANELS

QUERIES = [query.expression for panel in PANELS for query in panel.queries]
PROMQL = {"sum", "rate", "histogram_quantile", "by", "le", "status", "kind", "model_name"}


def test_the_file_is_what_the_panels_give() -> None:
    """`python -m tools.dashboard` writes it."""
    assert FILE.read_text(encoding="utf-8") == text()


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    """Grafana shows each in its own place."""
    panels = json.loads(text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)


@pytest.mark.parametrize("expression", QUERIES)
async def test_every_query_asks_for_metrics_that_there_are(expression: str) -> None:
    """By the names of the samples that a server shows."""
    async with started(Service(Settings("mock"), MockFront())) as client:
        shown = (await client.get("/metrics")).text
    names = {sample.name for family in text_string_to_metric_families(shown) for sample in family.samples}
    names.add("mindspec_requests_total")  # it has no samples before the first answer
    names |= {"mindspec_media_total", "mindspec_media_seconds_bucket"}  # where the model takes media
    asked = set(re.findall(r"[a-z_][a-z_0-9]+", re.sub(r"\{[^}]*\}|\[[^]]*\]", "", expression))) - PROMQL

    assert asked
    assert asked <= names
