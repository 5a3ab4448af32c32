"""Writes inspect-*.eval and inspect-*.json with inspect_ai and its mock model, which sends nothing: python make_inspect.py."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from inspect_ai import Epochs, Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, read_eval_log, write_eval_log
from inspect_ai.model import ChatMessageUser, GenerateConfig, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, accuracy, grouped, match, mean, scorer, stderr
from inspect_ai.solver import generate, solver, system_message

HERE = Path(__file__).parent
SAMPLES = [Sample(id=f"sum-{k}", input=f"What is {k} + {k}?", target=str(2 * k)) for k in range(1, 13)]


@scorer(metrics=[accuracy()])
def graded():
    """Correct, partial or incorrect, as a judge would say it; nothing on the last sample."""

    async def score(state, target):
        if state.sample_id == "sum-12":
            return Score.unscored()
        completion = state.output.completion
        return Score(
            value="C" if completion == target.text else "P" if target.text in completion else "I", explanation="by hand"
        )

    return score


@scorer(metrics={"length": [mean()], "digits": [mean()]})
def shape():
    """Two numbers at once."""

    async def score(state, target):
        completion = state.output.completion
        return Score(value={"length": float(len(completion)), "digits": sum(entry.isdigit() for entry in completion)})

    return score


def model(name: str, wrong: int):
    """The first `wrong` samples get a wrong answer, sample 10 a wordy one, and sample 11 of v2 an error."""

    def answer(messages, tools, tool_choice, config):
        k = int(messages[-1].text.split()[2])
        if k == 11 and name == "v2" and wrong == 1:
            raise RuntimeError("the model server went away")
        values = "a thousand" if k <= wrong else f"It is {2 * k}, I think" if k == 10 else str(2 * k)
        output = ModelOutput.from_content(name, values)
        output.usage = ModelUsage(
            input_tokens=9, output_tokens=len(values.split()), total_tokens=9 + len(values.split())
        )
        return output

    return get_model(f"mockllm/{name}", custom_outputs=answer, memoize=False)


@scorer(metrics=[accuracy(), stderr(cluster="doc")])
def found():
    """Right or wrong; ten questions on one document are one cluster."""

    async def score(state, target):
        return Score(value="C" if target.text in state.output.completion else "I")

    return score


@scorer(metrics=[])
def spans():
    """A list, which is not a score."""

    async def score(state, target):
        return Score(value=[1.0, 2.0])

    return score


@scorer(metrics=[])
def comment():
    """A text that is not a grade."""

    async def score(state, target):
        return Score(value=f"answered {state.sample_id}")

    return score


@scorer(metrics={"right": [accuracy()], "length": [mean()], "part_*": [grouped(accuracy(), "doc")]})
def values():
    """Numbers, of which the log averages two as accuracies."""

    async def score(state, target):
        completion = state.output.completion
        is_right = int(completion == target.text)
        return Score(value={"right": is_right, "length": len(completion), "part_a": is_right})

    return score


@scorer(metrics=[grouped(stderr(cluster="doc"), "topic")])
def nested():
    """A number whose cluster is inside another metric."""

    async def score(state, target):
        return Score(value=int(state.output.completion == target.text))

    return score


def make_values(folder: str) -> None:
    """Four samples of two documents with scorers of several values."""
    samples = [
        Sample(id=f"q{k}", input=f"What is {k} + {k}?", target=str(2 * k), metadata={"doc": f"d{k // 2}", "topic": "x"})
        for k in range(4)
    ]
    task = Task(dataset=samples, solver=generate(), scorer=[values(), nested()], name="values")
    log = eval(task, model=model("v1", 1), log_dir=folder, display="none", log_format="eval")[0]
    write_eval_log(lean(read_eval_log(log.location)), str(HERE / "inspect-values.eval"))


def make_clusters(folder: str) -> None:
    """Six documents with ten questions each; v2 is right on one document more than v1."""
    samples = [
        Sample(id=f"q{k}", input=f"What is {k} + {k}?", target=str(2 * k), metadata={"doc": f"doc-{k // 10}"})
        for k in range(60)
    ]
    task = Task(dataset=samples, solver=generate(), scorer=[found(), spans(), comment()], name="documents")
    for name, wrong in (("v1", 20), ("v2", 10)):
        options = {"log_dir": folder, "display": "none", "log_format": "eval"}
        log = lean(read_eval_log(eval(task, model=model(name, wrong - 1), **options)[0].location))
        write_eval_log(log, str(HERE / f"inspect-clusters-{name}.eval"))


def make_reduced(folder: str) -> None:
    """Four epochs of ten samples, of which the best counts: v2 is right once on each sample, v1 always on four of them."""
    right = {"v2": lambda k, epoch: epoch == k % 4, "v1": lambda k, epoch: k <= 4}
    for name, efforts in (("v2", "low"), ("v1", "high")):
        counts = Counter()

        def answer(messages, tools, tool_choice, config, name=name, counts=counts):
            k = int(messages[-1].text.split()[2])
            counts[k] += 1
            is_right = right[name](k, counts[k] - 1)
            output = ModelOutput.from_content(
                name, str(2 * k) if is_right else "no idea", "max_tokens" if k == 3 else "stop"
            )
            output.usage = ModelUsage(input_tokens=9, output_tokens=2, total_tokens=11)
            return output

        config = GenerateConfig(max_tokens=64, reasoning_effort=efforts)
        model = get_model(f"mockllm/{name}", custom_outputs=answer, memoize=False, config=config)
        solver = [system_message("Answer with a number."), generate(temperature=0.5)]
        task = Task(dataset=SAMPLES[:10], solver=solver, scorer=match(), name="best", epochs=Epochs(4, "max"))
        options = {"log_dir": folder, "display": "none", "log_format": "eval", "max_connections": 1}
        log = read_eval_log(eval(task, model=model, **options)[0].location)
        write_eval_log(lean(log, events=("model",)), str(HERE / f"inspect-best-{name}.eval"))
        if name == "v2":
            log.samples = None
            write_eval_log(log, str(HERE / "inspect-unlogged.eval"))


def make_conversation(folder: str) -> None:
    """Three drafts, one of which is cut, and their revisions with settings of their own, by a newer model."""

    def answer(messages, tools, tool_choice, config):
        k = int(messages[-1].text.split()[2]) if "What" in messages[-1].text else 0
        output = ModelOutput.from_content(
            "v2-0613" if k else "v2-1106", str(2 * k or 2), "max_tokens" if k == 2 else "stop"
        )
        output.usage = ModelUsage(input_tokens=9, output_tokens=2, total_tokens=11)
        return output

    @solver
    def revise():
        async def solve(state, generate):
            state = await generate(state, temperature=0.0, max_tokens=4)
            state.messages.append(ChatMessageUser(content="Are you sure?"))
            return await generate(state, temperature=1.0, max_tokens=4)

        return solve

    model = get_model("mockllm/v2", custom_outputs=answer, memoize=False)
    task = Task(dataset=SAMPLES[:3], solver=revise(), scorer=match(), name="conversation")
    log = read_eval_log(eval(task, model=model, log_dir=folder, display="none", log_format="eval")[0].location)
    write_eval_log(lean(log, events=("model",)), str(HERE / "inspect-conversation.eval"))


def lean(log: EvalLog, events: tuple[str, ...] = ()) -> EvalLog:
    """Without transcripts, but events of these kinds, and without traces of the machine that it was written on."""
    log.eval.revision = None
    for sample in log.samples:
        sample.events, sample.attachments = [event for event in sample.events if event.event in events], {}
        if sample.error:
            sample.error.traceback = sample.error.traceback_ansi = ""
    return log


def make() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, wrong in (("v1", 6), ("v2", 1)):
            scorers = [match(), graded(), shape()]
            task = Task(dataset=SAMPLES, solver=generate(), scorer=scorers, name="sums", epochs=Epochs(2, "mean"))
            options = {"log_dir": folder, "display": "none", "fail_on_error": False, "log_format": "eval"}
            log = lean(read_eval_log(eval(task, model=model(name, wrong), **options)[0].location))
            for ending in ("eval", "json"):
                write_eval_log(log, str(HERE / f"inspect-{name}.{ending}"))
        make_clusters(folder)
        make_values(folder)
        make_reduced(folder)
        make_conversation(folder)
    (HERE / "inspect-v2.json").unlink()


if __name__ == "__main__":
    make()
