"""The variants of an experiment's attacks: the twins of each draw, the controls, and the names that brackets accept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_crucible.adversary.twins import find_text
from pytest_crucible.records import NoTwin, Sample, Twin, Variant, VariantGroup
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.robustness import CONTROL, LATE, WORST
from pytest_crucible.session.attack_runs import PERTURB, AttackRun, Subject, draw_name


def attacked_variants(runs: Sequence[AttackRun], subject: Subject) -> Iterator[Variant]:
    """Yield a variant for each draw. Where the test function attacks a text itself, twins have the sample's input."""
    samples, in_test = subject.samples, PERTURB in subject.injected
    ruled = [(name, draw) for run in runs if run.late is None for name, draw in run.named_draws]
    # Sample by sample, because all attacks look at the same words.
    twins: dict[str, dict[str, Twin | NoTwin]] = {name: {} for name, _ in ruled}
    for sample in samples if not in_test else ():
        for name, draw in ruled:
            twins[name][sample.id] = draw.twin(sample)
    for run in runs:
        for name, draw in run.named_draws:
            if run.late is not None:
                yield late_variant(name, run.late(draw).key, samples)
                continue
            of_variant = same_samples(samples) if in_test else twins[name]
            if all(isinstance(twin, NoTwin) for twin in of_variant.values()):
                reason = next(twin.reason for twin in of_variant.values() if isinstance(twin, NoTwin))
                raise SpecError(
                    f"attack {run.label!r} can change none of {len(of_variant)} samples ({reason}): remove it"
                )
            yield Variant(name=name, twins=of_variant, key=draw.key)


def late_variant(name: str, key: str, samples: Sequence[Sample]) -> Variant:
    """Return a variant whose texts are made while the experiment runs."""
    missing = NoTwin("its input is neither a text nor a list of messages with one of the user")
    twins = {
        sample.id: missing if find_text(sample.input) is None else Twin(input=sample.input, facts={LATE: True})
        for sample in samples
    }
    return Variant(name=name, twins=twins, key=key)


def same_samples(samples: Sequence[Sample]) -> dict[str, Twin | NoTwin]:
    """Return twins equal to their samples."""
    return {sample.id: Twin(input=sample.input) for sample in samples}


def control_names(attacked: Sequence[str], judged: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the controls: one, or as many as attacked variants where the worst of these is judged."""
    count = len(attacked) if any(f"[{WORST}]" in name for name in judged) else min(len(attacked), 1)
    return tuple(draw_name(CONTROL, number) for number in range(count))


def variant_groups(
    runs: Sequence[AttackRun], controls: tuple[str, ...], not_run: Mapping[str, str]
) -> tuple[dict[str, VariantGroup], dict[str, str]]:
    """Return the names that brackets accept, and those that are not run; without an attack also the control."""
    groups = {run.label: VariantGroup(name=run.label, variants=run.names) for run in runs}
    if not controls:
        reason = next(iter(not_run.values()), "no attack is run")
        return groups, {**not_run, CONTROL: reason, WORST: reason}
    attacked = tuple(name for run in runs for name in run.names)
    groups[CONTROL] = VariantGroup(name=CONTROL, variants=controls)
    groups[WORST] = VariantGroup(name=WORST, variants=attacked, is_worst=True)
    return groups, dict(not_run)
