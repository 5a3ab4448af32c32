"""How the embedded base model came to be: the text it read, and the run that trained it. Not part of the package."""
