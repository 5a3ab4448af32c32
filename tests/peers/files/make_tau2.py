"""Writes tau2-*.json as `tau2 run` does: python make_tau2.py.

tau2 is not on PyPI (the package of this name is another one): the fields are those of its `Results`, `Info` and `SimulationRun`.
"""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).resolve().parent
REWARDS = {
    "v1": dict(enumerate("101 000 110 111 001 010 000 011".split(), start=1)),
    "v2": dict(enumerate("111 010 111 11x 001 110 100 111".split(), start=1)),
}


def simulation(arm: str, task: int, trial: int, outcome: str) -> dict:
    reward = None if outcome == "x" else {"reward": float(outcome), "reward_basis": ["DB"], "reward_breakdown": None}
    return {
        "id": f"{arm}-{task}-{trial}",
        "task_id": str(task),
        "timestamp": "2026-11-29T10:00:00",
        "start_time": "2026-11-29T10:00:00",
        "end_time": "2026-11-29T10:01:00",
        "duration": 60.0,
        "termination_reason": "infrastructure_error" if reward is None else "user_stop",
        "agent_cost": 0.01,
        "user_cost": 0.02,
        "reward_info": reward,
        "messages": [],
        "trial": trial,
        "seed": 300 + trial,
        "mode": "half_duplex",
    }


def make(arm: str) -> None:
    info = {
        "git_commit": "",
        "num_trials": 3,
        "max_steps": 200,
        "max_errors": 10,
        "user_info": {"implementation": "user_simulator", "llm": "user-model", "llm_args": {"temperature": 0.0}},
        "agent_info": {"implementation": "llm_agent", "llm": arm, "llm_args": {"temperature": 0.0}},
        "environment_info": {"domain_name": "sums", "policy": ""},
        "seed": 300,
    }
    simulations = [
        simulation(arm, task, trial, outcome)
        for task, outcomes in REWARDS[arm].items()
        for trial, outcome in enumerate(outcomes)
    ]
    tasks = [{"id": str(task), "user_scenario": {"instructions": f"task {task}"}} for task in REWARDS[arm]]
    document = {"timestamp": "2026-11-29T10:00:00", "info": info, "tasks": tasks, "simulations": simulations}
    (HERE / f"tau2-{arm}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


for name in REWARDS:
    make(name)
