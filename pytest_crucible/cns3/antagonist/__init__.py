"""The Antagonist: rules that say why a sample deserves a second look, and how grave that is."""

from pytest_crucible.cns3.antagonist.findings import Finding, findings, flags, severity_counts
from pytest_crucible.cns3.antagonist.rules import DEFAULT_RULES, Rule, read_rules

__all__ = ["DEFAULT_RULES", "Finding", "Rule", "findings", "flags", "read_rules", "severity_counts"]
