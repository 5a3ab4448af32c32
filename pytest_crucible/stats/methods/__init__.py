"""The methods of the decision table, brought to two shapes: one that gives an interval, one a bound."""
