"""The notebooks of examples/ run from top to bottom, and are stored without what they showed.

They are run here and not in a kernel, which would bring thirty packages with it: a notebook is a list of cells of
Python, of which the value of a last expression is shown. So they may not use what only IPython knows: `!command`.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any, Dict, List

import pytest

EXAMPLES = Path(__file__).parent.parent.parent.parent / "examples"


def cells(name: str) -> List[Dict[str, Any]]:
    notebook = json.loads((EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["metadata"]["kernelspec"]["language"]) == (4, "python")
    found: List[Dict[str, Any]] = notebook["cells"]
    return found


def run(name: str, names: Dict[str, Any]) -> List[str]:
    """What the cells of a notebook show."""
    shown = []
    for cell in cells(name):
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]), f"{name}.ipynb")
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"{name}.ipynb", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"{name}.ipynb", "eval"), names)
            if value is not None:
                shown.append(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))
    return shown


@pytest.fixture(autouse=True)
def here(binary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ALMANAC_BINARY", str(Path(binary).absolute()))


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_what_it_showed(path: Path) -> None:
    code = [cell for cell in cells(path.stem) if cell["cell_type"] == "code"]
    assert code and all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert len({cell["id"] for cell in cells(path.stem)}) == len(cells(path.stem))


def test_there_are_tests_of_all_notebooks() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.ipynb")) == ["compare", "log", "watch"]


def test_log_runs() -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    names: Dict[str, Any] = {}
    shown = run("log", names)
    (row,) = names["whole"].to_dict("records")
    assert (row["predictions"], row["labelled"]) == (6_000, 6_000) and 0.6 < row["auc"] < 0.9
    assert shown[0] == "(6000, 30)"
    assert sum("<polyline" in text for text in shown) == 1
    assert "stored=100" in shown[-1]


def test_watch_runs() -> None:
    pytest.importorskip("polars")
    names: Dict[str, Any] = {}
    shown = run("watch", names)
    # As docs/querying.md has it.
    assert [row["labelled"] for row in names["then"].to_dicts()] == [881, 19]
    assert names["worst"]["accuracy"].is_sorted() and names["worst"].height == 3
    assert sum("<polyline" in text for text in shown) == 3 and "late-arrival" in shown[0]


def test_compare_runs() -> None:
    pytest.importorskip("polars")
    names: Dict[str, Any] = {}
    shown = run("compare", names)
    v1, v2 = names["july"].sort("release").to_dicts()
    assert v1["auc"] < v2["auc"]
    assert all(row["auc_low"] < row["auc"] < row["auc_high"] for row in names["first_day"].to_dicts())
    assert names["by_airport"].height == 6
    assert sum("<polyline" in text for text in shown) == 2
