"""Scripts and styles of the tabs as text to put into one offline page.

A browser loads no module from a file:// address. Therefore the modules of ``web/static`` are joined into one classic
script: imports first, each module once, as a function that returns its exports. A test keeps the modules to imports by
name from siblings, without renaming, and to exports by declaration.
"""

from __future__ import annotations

import re
from importlib import resources
from importlib.resources.abc import Traversable

ENTRY = "report.js"
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.-]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|const|let|class) (\w+)", re.MULTILINE)


def _static() -> Traversable:
    return resources.files("locust_realism").joinpath("web", "static")


def module_order(entry: str = ENTRY) -> list[str]:
    """Return the file names of an entry and of the modules that it needs, each after its own imports.

    >>> module_order("hints.js")
    ['dom.js', 'terms.js', 'hints.js']
    """
    order: list[str] = []

    def visit(name: str, *path: str) -> None:
        if name in path:
            raise ValueError(f"modules import each other in a circle: {' <- '.join((name, *path))}")
        if name not in order:
            for match in _IMPORT.finditer(_static().joinpath(name).read_text("utf-8")):
                visit(match[2], name, *path)
            order.append(name)

    visit(entry)
    return order


def report_script(entry: str = ENTRY) -> str:
    """Return a renderer as one classic script that defines ``window.renderReport(root, data)``; safe inside <script>.

    ``entry`` is the module that exports ``renderReport``.
    """
    body = "\n".join(_as_function(name) for name in module_order(entry))
    return _embeddable(
        f'(() => {{\n"use strict";\nconst modules = {{}};\n{body}\n'
        f'window.renderReport = modules["{entry}"].renderReport;\n}})();\n'
    )


def _as_function(name: str) -> str:
    """Return one module as an entry of the table ``modules``: the result of a function."""
    source = _static().joinpath(name).read_text("utf-8")
    exported = ", ".join(match[2] for match in _EXPORT.finditer(source))
    body = _IMPORT.sub(lambda match: f'const {{{match[1]}}} = modules["{match[2]}"];\n', source)
    body = _EXPORT.sub(r"\1 \2", body)
    return f'modules["{name}"] = (() => {{\n{body}return {{ {exported} }};\n}})();\n'


def report_style() -> str:
    """Return the stylesheet of the tabs, the report and the help page."""
    return _static().joinpath("realism.css").read_text("utf-8")


def charts_script() -> str:
    """Return ECharts as one classic script, its licence comment included."""
    return _embeddable(_static().joinpath("vendor", "echarts", "echarts.common.min.js").read_text("utf-8"))


def _embeddable(script: str) -> str:
    # An end tag ends a script even inside a string; our code needs those letters in strings only.
    return re.sub(r"</(script)", r"<\\/\1", script, flags=re.IGNORECASE).replace("<!--", "<\\!--")
