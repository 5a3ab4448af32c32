"""What will be measured: targets, adapters, arms and the design of an experiment, all settled before anything is asked."""
