"""The README is true: its Python runs as it stands, from top to bottom, and prints what is shown."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

import almanac_ml as al

README = Path(__file__).parent.parent / "README.md"
ADDRESS = "http://127.0.0.1:7171"


def test_the_readme_runs(
    binary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert [kind for kind, _ in blocks] == ["sh", "python", "python", "text", "python", "text"]
    with al.open(tmp_path / "data", binary=binary) as client:
        names: "dict[str, object]" = {}
        printed = ""
        for kind, text in blocks:
            if kind == "python":
                out = StringIO()
                with redirect_stdout(out):
                    exec(compile(text.replace(ADDRESS, client.transport.url), str(README), "exec"), names)
                printed = out.getvalue()
            elif kind == "text":
                assert printed == text
        (row,) = client.workspace("credit/prod").evaluations(
            "2026-06-01", "2026-06-30", period="all", frames="rows", columns=["predictions", "labelled", "tp", "fp"]
        )
        assert row == {"predictions": 2, "labelled": 2, "tp": 0, "fp": 1}, "loan-1 was corrected by the logger"


def test_the_service_is_that_of_the_client() -> None:
    project = (README.parent / "pyproject.toml").read_text(encoding="utf-8")
    assert f'server = ["almanac-ml-server=={al.__version__}"]' in project
