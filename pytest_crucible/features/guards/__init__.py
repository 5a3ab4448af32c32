"""Guards: detectors of attacks and personal data, as models, around models, and to redact what they find."""

from __future__ import annotations

from pytest_crucible.features.row import Feature, Option

FEATURE = Feature(
    "guards",
    options=(
        Option(
            "redact",
            "guard whose findings are removed from everything that is stored, logged, exported or reported, after scoring",
            key="string",
            metavar="GUARD",
            redacts=True,
        ),
    ),
    adapter_keys=("guard",),
    test_fixtures={
        "guards": (
            'The guards of the project: `guards["inj"](text)` returns a Detection; with `await` in an `async def` test.',
            "pytest_crucible.features.guards.project_guards:bind_guards",
        )
    },
    tables={
        "adapter_kinds": "pytest_crucible.features.guards.project_guards:ADAPTER_KINDS",
        "adapter_settings": "pytest_crucible.features.guards.project_guards:ADAPTER_SETTINGS",
        "wrappers": "pytest_crucible.features.guards.project_guards:WRAPPERS",
    },
)
