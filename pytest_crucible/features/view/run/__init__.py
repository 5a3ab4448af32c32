"""The parts of a run's pages: results, requests and trainings."""
