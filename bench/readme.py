"""Tables in the README and in docs/speed.md: `python bench/readme.py`.

A table stands between two comments, `<!-- NAME -->` and `<!-- end of NAME -->`, and is replaced as
a whole, so that no number is typed. That of speed is made from what `fanin bench --json` printed:

    fanin bench --sizes 2^26 --json > bench/speed.json && python bench/readme.py
"""

from __future__ import annotations

import json
from pathlib import Path

from fanin.bench import report
from fanin.bench.results import Results

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
SPEED = ROOT / "bench" / "speed.json"
PLACES = {README: ["fills"], ROOT / "docs" / "speed.md": ["fills", "functions", "fresh"]}
"""Where the table of speed stands, and which of its sections."""


def write(path: Path, section: str, text: str) -> None:
    """Put the text between the comments of that name."""
    begin, end = f"<!-- {section} -->", f"<!-- end of {section} -->"
    before, _, rest = path.read_text().partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{path.name} has no {begin} ... {end}")
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def main() -> None:
    """Write the stored speeds to their places."""
    results = Results.from_json(json.loads(SPEED.read_text()))
    for path, sections in PLACES.items():
        write(path, "speed", report.text(results, sections))


if __name__ == "__main__":
    main()
