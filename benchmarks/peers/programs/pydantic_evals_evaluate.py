"""Pydantic Evals, without its progress bar."""

from __future__ import annotations

import asyncio

from asking import CONCURRENCY, SAMPLES, ask, session
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import EqualsExpected


async def main() -> None:
    cases = [
        Case(name=str(number), inputs=f"question {number}", expected_output=f"question {number}")
        for number in range(SAMPLES)
    ]
    async with session() as client:

        async def task(question: str) -> str:
            return await ask(client, question)

        report = await Dataset(name="questions", cases=cases, evaluators=[EqualsExpected()]).evaluate(
            task, max_concurrency=CONCURRENCY, progress=False
        )
    assert len(report.cases) == SAMPLES
    assert all(case.assertions["EqualsExpected"].value for case in report.cases)


asyncio.run(main())
