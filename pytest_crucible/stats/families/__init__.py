"""Many questions, one error rate: corrections, gatekeeping."""
