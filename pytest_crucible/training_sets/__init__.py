"""Training sets from stored runs: which replies become rows, in which file format, and the card that says where they come from.

Rows are supervised (`sft`), preferences (`dpo`) or judged replies (`kto`); formats are those of TRL, OpenAI, tinker-cookbook and
Axolotl.
"""
