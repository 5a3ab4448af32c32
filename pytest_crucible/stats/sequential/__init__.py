"""Looking early: confidence sequences and e-values that hold at every look."""
