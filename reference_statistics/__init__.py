"""How the frozen reference statistics of CNS3's chirality came to be. Not part of the package."""
