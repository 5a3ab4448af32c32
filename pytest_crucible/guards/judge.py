"""An LLM judge as a guard: it answers a question about the text with yes or no."""

from __future__ import annotations

from pytest_crucible.guards.guard import ScoredText
from pytest_crucible.guards.kinds import Asks, GuardContext
from pytest_crucible.guards.settings import GuardSettings
from pytest_crucible.metrics.judges import DATA, NoVerdict, closing_lines, read_verdict, wrap_in_tags
from pytest_crucible.records.errors import BackendError

_ANSWERS = ("yes", "no")


class JudgeGuard:
    """Scores 1 where the judge answers yes. Its requests go through the wrappers of its adapter: cached and budgeted."""

    def __init__(self, judge: Asks, question: str) -> None:
        self._judge, self._question = judge, question
        self.identity = f"judge {judge.identity} {question!r}"

    async def score(self, text: str) -> ScoredText:
        """Raises BackendError if the judge gives no reply, or none that can be read."""
        reply = await self._judge.query(judge_prompt(self._question, text))
        try:
            return ScoredText(float(read_verdict(reply, _ANSWERS) == "yes"))
        except NoVerdict as error:
            raise BackendError(str(error)) from None


def judge_prompt(question: str, text: str) -> str:
    """Return the prompt: the question, and the text in a tag that it cannot close."""
    return "\n\n".join(
        [
            f"Answer a question about a text.\n\nQuestion: {question}",
            DATA,
            *wrap_in_tags([("text", text)]),
            closing_lines(_ANSWERS),
        ]
    )


def open_judge(settings: GuardSettings, context: GuardContext) -> JudgeGuard:
    """Return the guard of `adapter` and `question`. Raises SpecError for an adapter that cannot answer prompts."""
    return JudgeGuard(context.open_judge(settings.options["adapter"]), settings.options["question"])
