"""A report as one self-contained HTML page: no file, font or script from anywhere else."""
