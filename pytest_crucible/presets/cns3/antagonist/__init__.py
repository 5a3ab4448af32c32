"""The Antagonist: rules that flag samples worth a second look, each with a severity."""

from pytest_crucible.presets.cns3.antagonist.findings import Finding, findings, flag_records, severity_counts
from pytest_crucible.presets.cns3.antagonist.rules import DEFAULT_RULES, Rule, read_rules

__all__ = ["DEFAULT_RULES", "Finding", "Rule", "findings", "flag_records", "read_rules", "severity_counts"]
