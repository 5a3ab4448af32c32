"""Writes opencompass-*/ with OpenCompass and a model that calls no server: python make_opencompass.py."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
MODEL = """
import re
import numpy
from opencompass.models.base_api import BaseAPIModel

class Sums(BaseAPIModel):
    def __init__(self, wrong, path='sums', max_seq_len=2048, **settings):
        super().__init__(path=path, max_seq_len=max_seq_len)
        self.wrong = wrong

    def generate(self, inputs, max_out_len=8, **settings):
        return [self.answer(str(prompt)) for prompt in inputs]

    def answer(self, prompt):
        k = int(re.findall(r'What is (\\d+)', prompt)[-1])
        return 'a thousand' if k <= self.wrong else str(2 * k)

    def get_ppl(self, inputs, mask_length=None):
        return numpy.array([float(not str(prompt).endswith('= ' + self.answer(str(prompt)))) for prompt in inputs])

    def get_token_len(self, prompt):
        return len(prompt.split())
"""
CONFIG = """
from opencompass.datasets.custom import CustomDataset
from opencompass.openicl.icl_evaluator import AccEvaluator, EMEvaluator
from opencompass.openicl.icl_inferencer import GenInferencer, PPLInferencer
from opencompass.openicl.icl_prompt_template import PromptTemplate
from opencompass.openicl.icl_retriever import ZeroRetriever
from sums_model import Sums

def dataset(abbr, evaluator, column, **settings):
    template = dict(round=[dict(role='HUMAN', prompt='{question}'), dict(role='BOT', prompt='')])
    return dict(
        abbr=abbr, type=CustomDataset, path='sums.jsonl', local_mode=True, **settings,
        reader_cfg=dict(input_columns=['question'], output_column=column),
        infer_cfg=dict(
            prompt_template=dict(type=PromptTemplate, template=template),
            retriever=dict(type=ZeroRetriever),
            inferencer=dict(type=GenInferencer, max_out_len=8),
        ),
        eval_cfg=dict(evaluator=dict(type=evaluator)),
    )

def choice():
    of_choices = dataset('sums_choice', AccEvaluator, 'answer')
    template = {str(k): dict(round=[dict(role='HUMAN', prompt='{question} = ' + str(k))]) for k in range(2, 17, 2)}
    of_choices['infer_cfg'].update(
        prompt_template=dict(type=PromptTemplate, template=template), inferencer=dict(type=PPLInferencer)
    )
    return of_choices

datasets = [
    choice(),
    dataset('sums', EMEvaluator, 'answers'),
    dataset('sums_twice', EMEvaluator, 'answers', n=2, k=1),
    dataset('sums_accuracy', AccEvaluator, 'answer'),
]
models = [
    dict(abbr=name, type=Sums, wrong=wrong, batch_size=1, max_out_len=8, run_cfg=dict(num_gpus=0))
    for name, wrong in (('v2', 1), ('v1', 4))
]
del dataset, choice
"""


def make() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sums_model.py").write_text(MODEL)
        (folder / "config.py").write_text(CONFIG)
        rows = [{"question": f"What is {k} + {k}?", "answer": str(2 * k), "answers": [str(2 * k)]} for k in range(1, 9)]
        (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        command = [sys.executable, "-m", "opencompass.cli.main", "config.py", "-w", "out", "--debug"]
        quiet = {"PYTHONPATH": name, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_EVALUATE_OFFLINE": "1"}
        subprocess.run(command, cwd=folder, env={**os.environ, **quiet}, check=True)
        (run,) = (folder / "out").iterdir()
        for dataset in ("sums_choice", "sums_accuracy"):
            for path in run.glob(f"predictions/*/{dataset}.json"):
                path.unlink()
        for arm in ("v1", "v2"):
            for kind in ("predictions", "results"):
                shutil.copytree(run / kind / arm, HERE / "opencompass" / kind / arm, dirs_exist_ok=True)


if __name__ == "__main__":
    make()
