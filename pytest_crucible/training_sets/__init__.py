"""Training sets from stored runs: the replies that become rows, the file formats, and the card with their origin.

Rows are supervised (`sft`), preferences (`dpo`) or judged replies (`kto`); formats are those of TRL, OpenAI, tinker-cookbook and
Axolotl.
"""
