"""Writes grafana.json from the panels: ``python -m tools.dashboard``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tools.dashboard.panels import PANELS, Panel

FILE: Final = Path(__file__).with_name("grafana.json")
_COLUMNS: Final = 3
_WIDTH: Final = 8
_HEIGHT: Final = 7
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    return {
        "title": "mindspec",
        "uid": "mindspec",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                {
                    "name": "model_name",
                    "label": "Model",
                    "type": "query",
                    "datasource": _SOURCE,
                    "query": {"query": "label_values(request_received_total, model_name)", "refId": "model_name"},
                    "refresh": 2,
                    "includeAll": True,
                    "allValue": ".*",
                    "multi": True,
                    "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }


def text() -> str:
    """What stands in the file."""
    return json.dumps(dashboard(), indent=1) + "\n"


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, _COLUMNS)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": {"h": _HEIGHT, "w": _WIDTH, "x": column * _WIDTH, "y": row * _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": _SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
                "range": True,
            }
            for place, query in enumerate(panel.queries)
        ],
    }


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
