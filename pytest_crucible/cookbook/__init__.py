"""What tinker-cookbook's recipes need on a machine without a network, and what they leave behind."""
