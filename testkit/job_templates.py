"""Renders the Jinja templates in the configurations of the operators' BigQuery jobs, as Airflow does."""

from __future__ import annotations

import functools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2

from dedup_clone.contract.records import to_plain

SQL = Path(__file__).parents[1] / "sql"
# All feeds share this environment and the cache of templates, so that Jinja compiles each template only once.
_TEMPLATES = jinja2.Environment(loader=jinja2.FileSystemLoader(SQL), undefined=jinja2.StrictUndefined)
_template = functools.cache(_TEMPLATES.from_string)


def render_configuration(value: Any, **context: Any) -> Any:
    """The job configuration `value` with its templates rendered.

    `context`: the variables `names` and `options` of the templates, and `swap`, the SwapSpec that their calls of
    `ti.xcom_pull` return.
    """
    ti = SimpleNamespace(xcom_pull=lambda task_ids: to_plain(context["swap"]))

    def render(item: Any) -> Any:
        if isinstance(item, str):
            return _template(item).render(names=context["names"], options=context["options"], ti=ti)
        if isinstance(item, dict):
            return {key: render(inner) for key, inner in item.items()}
        return [render(inner) for inner in item] if isinstance(item, list) else item

    return render(value)
