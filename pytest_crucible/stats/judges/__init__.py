"""How far graders agree, and what a grader that errs still says."""
