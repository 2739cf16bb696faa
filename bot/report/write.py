"""The report's folder: ``report.md``, ``results.json`` and one folder per finding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bot.atomic_file import write_atomically
from bot.programs.program import ProgramError
from bot.report.bundle import FindingBundle
from bot.report.finding_folder import write_finding
from bot.report.markdown import MAX_SCRIPT_CHARACTERS, render_report
from bot.report.results import FindingRow, Results, write_results
from bot.report.rows import clip, finding_row, note_rows


@dataclass(frozen=True)
class WrittenReport:
    """What was written: ``report.md``'s path, what ``results.json`` holds, and fingerprint -> script's source.

    A script that is too long to show is cut one character over MAX_SCRIPT_CHARACTERS; the folder has the whole.
    """

    path: Path
    results: Results
    scripts: Mapping[str, str]


def write_report(out: Path, results: Results, bundles: Iterable[FindingBundle]) -> WrittenReport:
    """Write everything below ``out``; writing again replaces what was written.

    ``results.findings`` is replaced by the bundles' findings, each with its folder, and with the ``ignored`` of the
    finding of that fingerprint. A bundle whose blob is no program is reported without a folder, and a note says so;
    with an empty one it is reported without a folder.
    ``bundles`` is consumed one by one, so it may be a generator.
    """
    rows: list[FindingRow] = []
    scripts: dict[str, str] = {}
    notes = list(results.notes)
    for bundle in bundles:
        if not bundle.blob:
            rows.append(finding_row(bundle.finding))
            continue
        try:
            written = write_finding(out, bundle, results.targets, results.run)
        except ProgramError as error:
            rows.append(finding_row(bundle.finding))
            notes.append(clip(f"{bundle.finding.op}: no folder was written: {error}"))
            continue
        rows.append(written.row)
        if written.script:
            shown = written.script[: MAX_SCRIPT_CHARACTERS + 1]
            scripts[bundle.finding.fingerprint] = shown
    ignored = {row.fingerprint: row.ignored for row in results.findings}
    rows = [row.model_copy(update={"ignored": ignored.get(row.fingerprint)}) for row in rows]
    full = results.model_copy(update={"findings": tuple(rows), "notes": note_rows(notes)})
    write_results(out / "results.json", full)
    report = out / "report.md"
    write_atomically(report, render_report(full, scripts).encode("utf-8", "backslashreplace"))
    return WrittenReport(report, full, scripts)
