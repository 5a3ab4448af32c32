"""The results of a finished run as a part of its page: verdicts, why each is as it is, and all that its report has.

As a program it reads the store and the run from its standard input, and writes HTML.
"""

from __future__ import annotations

import json
import sys

from pytest_crucible.features.view.site import Site
from pytest_crucible.report.html import page_values
from pytest_crucible.report.model import build_report
from pytest_crucible.report.sections import worst_first
from pytest_crucible.runs.load_run import load_run
from pytest_crucible.runs.plugins import program_plugins
from pytest_crucible.runs.report_facts import add_stored_facts
from pytest_crucible.runs.reporters import chapters
from pytest_crucible.runs.run_store import open_for_reading


def render_results(site: Site, run: str) -> str:
    """Return the results of a run as HTML. It is analysed, which takes seconds and much memory for a large run."""
    store = site.store
    loaded = add_stored_facts(worst_first(load_run(store, run)))
    views = program_plugins().hook.pytest_crucible_verdict_views(store=store, run=loaded) or {}
    numbers = {plan.nodeid: number for number, (_, plan, _) in enumerate(store.all_experiments(run), start=1)}
    with chapters(loaded) as chapters_of_run:
        values = page_values(build_report(loaded), chapters_of_run)
    return site.render("results.html.j2", run_id=run, whys=views, experiment_numbers=numbers, **values)


def main() -> None:
    """Write the results of the run that standard input names."""
    store, run = json.load(sys.stdin)
    with open_for_reading(store, "view") as opened:
        html = render_results(Site(opened), run)
    # A text may have half a surrogate pair, which UTF-8 cannot encode.
    sys.stdout.buffer.write(html.encode("utf-8", "backslashreplace"))


if __name__ == "__main__":
    main()
