"""Scripts and styles of the tabs as text to put into one offline page.

The browser loads no module from a file:// address, so the modules of ``web/static`` are joined into one classic script:
imports first, each module once, in a function of its own that returns what it exports. They keep to what this needs
(a test holds them to it): imports by name from siblings, without renaming, and exports by declaration.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

ENTRY = "report.js"
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.-]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|const|let|class) (\w+)", re.MULTILINE)


def _static() -> Any:
    return resources.files("locust_realism").joinpath("web", "static")


def module_order(entry: str = ENTRY) -> list[str]:
    """File names of the modules that an entry needs, each after those that it imports.

    >>> module_order("hints.js")
    ['dom.js', 'terms.js', 'hints.js']
    """
    order: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise ValueError(f"modules import each other in a ring: {' -> '.join((*path, name))}")
        if name in order:
            return
        for match in _IMPORT.finditer(_static().joinpath(name).read_text("utf-8")):
            visit(match[2], (*path, name))
        order.append(name)

    visit(entry, ())
    return order


def report_script(entry: str = ENTRY) -> str:
    """A renderer as one classic script that defines ``window.renderReport(root, data)``; safe inside <script>.

    ``entry`` is the module that exports ``renderReport``.
    """
    body = "\n".join(_as_function(name) for name in module_order(entry))
    return _embeddable(
        f'(() => {{\n"use strict";\nconst modules = {{}};\n{body}\n'
        f'window.renderReport = modules["{entry}"].renderReport;\n}})();\n'
    )


def _as_function(name: str) -> str:
    """One module as a function's result in the table ``modules``."""
    source = _static().joinpath(name).read_text("utf-8")
    exported = ", ".join(match[2] for match in _EXPORT.finditer(source))
    body = _IMPORT.sub(lambda match: f'const {{{match[1]}}} = modules["{match[2]}"];\n', source)
    body = _EXPORT.sub(r"\1 \2", body)
    return f'modules["{name}"] = (() => {{\n{body}return {{ {exported} }};\n}})();\n'


def report_style() -> str:
    """The stylesheet of the tabs, the report and the help page."""
    style: str = _static().joinpath("realism.css").read_text("utf-8")
    return style


def charts_script() -> str:
    """ECharts as one classic script, its licence comment included."""
    return _embeddable(_static().joinpath("vendor", "echarts", "echarts.common.min.js").read_text("utf-8"))


def _embeddable(script: str) -> str:
    # The end tag of a script ends it even inside a string; no code of ours needs those letters any other way.
    return re.sub(r"</(script)", r"<\\/\1", script, flags=re.IGNORECASE).replace("<!--", "<\\!--")
