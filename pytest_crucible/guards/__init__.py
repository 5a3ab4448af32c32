"""Guards: what flags a text, configured by name in `[guards]`. Each kind is one module and one row of `guards.kinds`."""
