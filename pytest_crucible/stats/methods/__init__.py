"""The methods of the decision table with two signatures: one returns an interval, one a bound."""
